"""The preconditions of writes, as in HTTP: If-Match and If-None-Match."""

from dataclasses import dataclass

from toolspecs.errors import StaleRevision
from toolspecs.toolset import Revision, etag_matches


@dataclass(frozen=True, slots=True)
class Precondition:
    """What must be so when a write happens; otherwise nothing is written.

    `if_match` is the value of an If-Match header: one of its ETags is that of the toolset. `if_none_match`
    stands for `If-None-Match: *`: there is no such toolset or, for a write of one tool, no such tool in it.
    """

    if_match: str | None = None
    if_none_match: bool = False

    def check(self, name: str, etag: str | None) -> None:
        """Raise `StaleRevision` unless a toolset with this ETag (None: there is none) may be written."""
        self._check_match(name, etag)
        if self.if_none_match and etag is not None:
            raise StaleRevision(name, "that there is none", etag)

    def check_tool(self, revision: Revision, tool_name: str) -> None:
        """Raise `StaleRevision` unless this tool of a toolset may be written."""
        name = revision.toolset.name
        self._check_match(name, revision.etag)
        if self.if_none_match and tool_name in revision.toolset:
            raise StaleRevision(name, f"that it has no tool {tool_name!r}", revision.etag)

    def _check_match(self, name: str, etag: str | None) -> None:
        if self.if_match is not None and not etag_matches(self.if_match, etag):
            raise StaleRevision(name, f"If-Match: {self.if_match}", etag)


UNCONDITIONAL = Precondition()
"""The precondition that always holds."""
