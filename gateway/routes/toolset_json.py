"""The JSON of toolsets, revisions, tools and reports in the registry's answers."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from compiler.report import ToolReport
from gateway.toolsets.registry import DryRun, Registration, RevisionChanges
from gateway.toolsets.tool_changes import Change
from gateway.toolsets.tool_imports import Difference, ImportOutcome
from toolspecs.json_value import JSON
from toolspecs.nearest import shorten
from toolspecs.pinned_source import PinnedSource
from toolspecs.shapes import Shape, write_tool
from toolspecs.tool import Tool, ToolSearch
from toolspecs.toolset import Revision, RevisionSummary

MAX_LISTED_DESCRIPTION = 300
"""Characters of a tool's description in a list; the tool itself has all of it."""
LISTED_TOOL_BYTES = 400
"""What one tool of a list takes, at most as a rule."""

DIFFERENCE_BYTES = 1_000
"""What one difference takes, as a rule: a tool as it is served, and as it is offered."""

MAX_REPORT = 16_000_000
"""Characters of the reports of one answer. Real tools have some hundred keywords of a hundred characters."""

_REPORT_ENTRY_BYTES = 200
"""What an entry of a report usually takes."""

MAX_WARNINGS = 10_000


def summary_json(summary: RevisionSummary) -> JSON:
    """A revision without its tools."""
    return {
        "name": summary.name,
        "revision": summary.number,
        "digest": summary.digest,
        "etag": summary.etag,
        "created_at": summary.created_at.isoformat(),
        "num_tools": summary.num_tools,
    }


def registration_json(registration: Registration) -> JSON:
    """A revision that was written: its summary, and warnings."""
    return summary_json(registration.revision.summary) | {"warnings": _warnings(registration.reports)}


def revision_json(revision: Revision, shape: Shape) -> JSON:
    """A revision with its tools and options, in the form that `PUT` takes, and its sources."""
    return summary_json(revision.summary) | {
        "tools": [tool_json(tool, shape) for tool in revision.toolset],
        "documents": revision.toolset.documents,
        "prompt_tools": revision.toolset.prompt_tools,
        "tool_search": search_json(revision.toolset.tool_search),
        "sources": [_source_json(source) for source in revision.toolset.sources],
    }


def search_json(search: ToolSearch | None) -> JSON | None:
    """How the tools of a toolset are searched, in the form that `PUT` takes."""
    return {"limit": search.limit, "always": list(search.always)} if search else None


def tool_json(tool: Tool, shape: Shape) -> JSON:
    """One tool."""
    return write_tool(tool, shape)


def listed_tool_json(tool: Tool) -> JSON:
    """One tool in a list."""
    return {"name": tool.name, "description": shorten(tool.description, MAX_LISTED_DESCRIPTION)}


def reports_json(reports: Iterable[ToolReport]) -> list[JSON]:
    """How tools are enforced; the entries of tools that do not fit into one answer are null."""
    documents, num_left = [], MAX_REPORT
    for report in reports:
        num_left -= report.report.num_characters
        documents.append(_report_json(report, has_entries=num_left >= 0))
    return documents


def reports_size(reports: Iterable[ToolReport]) -> int:
    """About how many bytes `reports_json` has."""
    return _REPORT_ENTRY_BYTES * sum(1 + len(report.report.entries) for report in reports)


def _report_json(report: ToolReport, *, has_entries: bool) -> JSON:
    entries = [
        {"pointer": e.pointer, "keyword": e.keyword, "verdict": e.verdict.value, "note": e.note}
        for e in (report.report if has_entries else ())
    ]
    return {
        "name": report.name,
        "digest": report.digest,
        "grammar_bytes": report.grammar_bytes,
        "compile_ms": None if report.compile_ms is None else round(report.compile_ms, 3),
        "entries": entries if has_entries else None,
    }


def dry_run_json(dry_run: DryRun) -> JSON:
    """A dry run: the changes of tools (removed ones last) and documents, and the reports of all tools."""
    current = dry_run.current
    return {
        "current": summary_json(current.summary) if current else None,
        "changes": {name: change.value for name, change in dry_run.changes.items()},
        "documents": {uri: change.value for uri, change in dry_run.document_changes.items()},
        "tools": reports_json(dry_run.reports),
        "warnings": _warnings(dry_run.reports),
    }


def revision_changes_json(changes: RevisionChanges) -> JSON:
    """What differs between two revisions."""
    return {
        "revision": changes.revision.number,
        "since": changes.since,
        "changes": _different(changes.changes),
        "documents": _different(changes.document_changes),
    }


def import_json(outcome: ImportOutcome) -> JSON:
    """What an import found, and the current revision."""
    revision = outcome.revision
    return {
        "toolset": summary_json(revision.summary) if revision else None,
        "source": outcome.source_id,
        "created": outcome.is_created,
        **_differences_json(outcome.differences),
        "refused": [
            {"tool": f.tool, "pointer": f.pointer, "keyword": f.keyword, "reason": f.message}
            | {"suggestion": f.suggestion}
            for f in outcome.refused
        ],
        "warnings": _warnings(outcome.reports),
    }


def differences_json(revision: Revision, differences: Iterable[Difference]) -> JSON:
    """The differences between a revision and its sources."""
    return summary_json(revision.summary) | _differences_json(tuple(differences))


def _differences_json(differences: Sequence[Difference]) -> JSON:
    """The differences to decide on, and those that were declined."""
    return {
        "differences": [
            _difference_json(difference) for difference in differences if not difference.is_declined
        ],
        "declined": [_difference_json(difference) for difference in differences if difference.is_declined],
    }


def _difference_json(difference: Difference) -> JSON:
    """A tool that differs at its source, in full: as it is served and as it is offered."""
    served, offered = (
        write_tool(tool, Shape.MCP, all_extras=True) if tool else None
        for tool in (difference.served, difference.offered)
    )
    texts = [tool["description"] for tool in (served, offered) if tool]
    return {
        "tool": difference.name,
        "source": difference.source_id,
        "change": difference.change.value,
        "description": texts if len(set(texts)) == 2 else None,
        "served": served,
        "offered": offered,
    }


def _source_json(source: PinnedSource) -> JSON:
    """A source without its tools; `differing` counts those that are neither as accepted nor declined."""
    return {
        "source": source.source_id,
        "kind": source.kind,
        "location": source.location,
        "selection": source.selection,
        "accepted": list(source.accepted),
        "differing": list(source.differing),
        "declined": list(source.declined),
    }


def _different(changes: Mapping[str, Change]) -> JSON:
    return {name: change.value for name, change in changes.items() if change is not Change.UNCHANGED}


def _warnings(reports: Iterable[ToolReport]) -> list[JSON]:
    """Warnings: parts of schemas that are not enforced, most likely by mistake, and undeclared dialects.

    At most `MAX_WARNINGS` of them.
    """
    warnings = (
        {"tool": report.name, "pointer": entry.pointer, "keyword": entry.keyword, "note": entry.note}
        for report in reports
        for entry in report.report.warnings
    )
    return list(islice(warnings, MAX_WARNINGS))
