"""The registry's values as JSON."""

from collections.abc import Iterable
from typing import Any

from compiler.report import ToolReport
from gateway.registry import Check, Written
from toolspecs.shapes import Shape, write_tool
from toolspecs.tool import Tool
from toolspecs.toolset import Revision, RevisionSummary

JSON = dict[str, Any]


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


def written_json(written: Written) -> JSON:
    """A revision that was written, without its tools."""
    return summary_json(written.revision.summary) | {"warnings": _warnings(written.reports)}


def revision_json(revision: Revision, shape: Shape) -> JSON:
    """A revision with its tools and documents, which a `PUT` takes back as they are."""
    return summary_json(revision.summary) | {
        "tools": [tool_json(tool, shape) for tool in revision.toolset],
        "documents": revision.toolset.documents,
    }


def tool_json(tool: Tool, shape: Shape) -> JSON:
    """One tool."""
    return write_tool(tool, shape)


def report_json(report: ToolReport) -> JSON:
    """How one tool is enforced."""
    return {
        "name": report.name,
        "digest": report.digest,
        "grammar_bytes": report.grammar_bytes,
        "compile_ms": round(report.compile_ms, 3),
        "entries": [
            {"pointer": e.pointer, "keyword": e.keyword, "verdict": e.verdict.value, "note": e.note}
            for e in report.report
        ],
    }


def check_json(check: Check) -> JSON:
    """A dry run: the change and the report of every tool, removed ones last; the change of every document."""
    current = check.current
    return {
        "current": summary_json(current.summary) if current else None,
        "changes": {name: change.value for name, change in check.changes.items()},
        "documents": {uri: change.value for uri, change in check.document_changes.items()},
        "tools": [report_json(report) for report in check.reports],
        "warnings": _warnings(check.reports),
    }


def _warnings(reports: Iterable[ToolReport]) -> list[JSON]:
    """What of the schemas nobody upholds, most likely by a slip."""
    return [
        {"tool": report.name, "pointer": entry.pointer, "keyword": entry.keyword, "note": entry.note}
        for report in reports
        for entry in report.report.ignored
    ]
