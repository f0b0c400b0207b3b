"""The preconditions of writes, as in HTTP: If-Match and If-None-Match."""

from toolspecs.errors import StaleRevision
from toolspecs.toolset import Revision, etag_matches


def check_tool_precondition(
    revision: Revision, tool_name: str, *, if_match: str | None = None, if_none_match: bool = False
) -> None:
    """Raise `StaleRevision` if the precondition of a write of one tool does not hold at `revision`.

    `if_match` applies to the toolset; `if_none_match` requires that the toolset has no tool of this name.
    """
    name = revision.toolset.name
    check_precondition(name, revision.etag, if_match)
    if if_none_match and tool_name in revision.toolset:
        raise StaleRevision(name, f"that it has no tool {tool_name!r}", revision.etag)


def check_precondition(
    name: str, etag: str | None, if_match: str | None, *, if_none_match: bool = False
) -> None:
    """Raise `StaleRevision` if the precondition does not hold at `etag`; None: there is no such toolset."""
    if if_match is not None and not etag_matches(if_match, etag):
        raise StaleRevision(name, f"If-Match: {if_match}", etag)
    if if_none_match and etag is not None:
        raise StaleRevision(name, "that there is none", etag)
