"""A revision: the content a toolset had from one write to the next."""

from dataclasses import dataclass
from datetime import datetime

from toolspecs.toolset import Toolset


@dataclass(frozen=True)
class RevisionSummary:
    """A revision without its tools. Numbers count up from 1 by toolset name and are never used twice."""

    name: str
    number: int
    digest: str
    created_at: datetime
    num_tools: int

    @property
    def etag(self) -> str:
        """The strong HTTP entity tag, in its quotes."""
        return f'"{self.number}-{self.digest[:12]}"'


@dataclass(frozen=True)
class Revision:
    """An immutable toolset content; `digest` is the toolset's, so equal contents have equal digests."""

    toolset: Toolset
    number: int
    digest: str
    created_at: datetime

    @property
    def summary(self) -> RevisionSummary:
        """The revision without its tools."""
        return RevisionSummary(
            self.toolset.name, self.number, self.digest, self.created_at, len(self.toolset)
        )

    @property
    def etag(self) -> str:
        """The strong HTTP entity tag, in its quotes: revision number and the digest's beginning."""
        return self.summary.etag


def etag_matches(condition: str, etag: str | None) -> bool:
    """Whether an `If-Match` header holds for the current `etag` (None: there is no toolset).

    The condition is `*`, one entity tag or several with commas between them (RFC 9110, 13.1.1). Weak tags
    never match.
    """
    if etag is None:
        return False
    tags = [tag.strip() for tag in condition.split(",")]
    return tags == ["*"] or etag in tags
