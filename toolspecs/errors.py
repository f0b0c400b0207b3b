"""What can go wrong with tools, toolsets and the stores that hold them.

ToolspecsError
├── InvalidName         a toolset or a reference cannot have that name; the rule
├── InvalidTools        every fault of a toolset's tools and documents, each with its JSON pointer
├── UnreadableSource    a document cannot be read, or is not of the kind that can be imported
├── LimitExceeded       the whole toolset is too large
├── TooManyValues       a JSON text holds more than is decoded
│   └── TooDeep         a JSON text is nested more deeply than is decoded
├── UnknownToolset      there is no such toolset; similar names, or some that exist
│   └── DeletedToolset  there was one; its last revision, to be restored
├── ForbiddenToolset    the client may not use toolsets of this name; those it may
├── UnknownTool         the toolset has no such tool; similar names
│   └── NoDifference    no source of the toolset offers another such tool
├── UnknownRevision     the toolset has no such revision; the latest one
│   └── DroppedRevision there was one; which are kept
├── QuotaExceeded       the client has stored as much as it may
├── StaleRevision       the precondition does not hold; the current ETag
├── ThreadsStopped      the process is ending, and its threads take no more work
└── StoreError
    ├── InvalidStoreURL     the URL does not name a store
    ├── StoreUnavailable    the store cannot be reached, or failed
    │   ├── StoreUnreachable it is away, or does not answer; later it may
    │   └── StoreFull       it has no room for a write; what it holds can be read
    ├── DamagedEntry        an entry of the store was altered, cut short or lost
    ├── LockTimeout         somebody else held the lease for the whole wait
    └── NotACounter         the value to increment is not an integer
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from toolspecs.nearest import near_matches, shorten, unknown


class ToolspecsError(Exception):
    """The root of this package's errors."""


class InvalidName(ToolspecsError):
    """`name` is not a `kind` ("toolset name", "reference to a toolset"); `rule` says what one looks like."""

    def __init__(self, kind: str, name: str, rule: str) -> None:
        self.kind = kind
        self.name = name
        self.rule = rule
        super().__init__(f"{shorten(repr(name), 100)} is not a {kind}: {rule}")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with one tool, or with a document that tools refer to (`tool` None).

    `tool` is its name, or its index where it has none. `pointer` is a JSON pointer into the submitted
    document, `keyword` the schema keyword or field at fault, `suggestion` what to do, if that is known.
    """

    tool: str | int | None
    pointer: str
    keyword: str
    message: str
    suggestion: str = ""

    def __str__(self) -> str:
        named = repr(shorten(self.tool, 100)) if isinstance(self.tool, str) else f"#{self.tool}"
        subject = () if self.tool is None else (f"tool {named}",)
        pointer = (f"at {self.pointer}",) if self.pointer else ()
        where = " ".join((*subject, *pointer))
        return f"{where}: {self.message}" + (f" ({self.suggestion})" if self.suggestion else "")


class InvalidTools(ToolspecsError):
    """Every fault of a toolset's tools and documents, in document order."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(map(str, self.faults)))


class UnreadableSource(ToolspecsError):
    """`source` is the file, the URL or the module that tools were to be imported from.

    `reason` is short, since a source may have written it: an error of an MCP server, for example.
    """

    def __init__(self, source: str, reason: str) -> None:
        self.source = source
        self.reason = shorten(reason, 1_000)
        super().__init__(f"{shorten(source, 300).removesuffix(':')}: {self.reason}")


class LimitExceeded(ToolspecsError):
    """`limit` names the field of `Limits`; `actual` is None where counting stopped at the limit."""

    def __init__(self, limit: str, maximum: int, actual: int | None = None) -> None:
        self.limit = limit
        self.maximum = maximum
        self.actual = actual
        amount = "" if actual is None else f", this one has {actual}"
        super().__init__(f"a toolset may have at most {maximum} {_LIMIT_NOUNS.get(limit, limit)}{amount}")


_LIMIT_NOUNS = {
    "num_tools": "tools",
    "num_documents": "documents",
    "num_sources": "sources of tools",
    "num_values": "JSON values in its tools and documents",
    "toolset_bytes": "bytes of tools and of the documents they refer to",
}


class TooManyValues(ToolspecsError):
    """A JSON text has more values than the limit for decoding."""


class TooDeep(TooManyValues):
    """A JSON text is nested more deeply than is decoded."""


class UnknownToolset(ToolspecsError):
    """No toolset has that name; `near` are similar names, `known` some of the names that exist."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        known = tuple(known)
        self.near = near_matches(name, known)
        super().__init__(unknown("toolset", name, known, self.near))


class DeletedToolset(UnknownToolset):
    """The toolset was deleted at `deleted_at`; `latest` is its last revision, which can be restored."""

    def __init__(self, name: str, latest: int, deleted_at: datetime) -> None:
        self.name = name
        self.near = ()
        self.latest = latest
        self.deleted_at = deleted_at
        ToolspecsError.__init__(
            self,
            f"toolset {name!r} was deleted at {deleted_at:%Y-%m-%d %H:%M} UTC; its last revision is {latest}",
        )


class ForbiddenToolset(ToolspecsError):
    """The client may use only the toolsets `allowed`, whether there is one of the name `name` or not."""

    def __init__(self, name: str, allowed: Iterable[str]) -> None:
        self.name = name
        self.allowed = sorted(allowed)
        shown = ", ".join(map(repr, self.allowed[:8])) + (", …" if len(self.allowed) > 8 else "")
        super().__init__(f"this client may not use the toolset {shorten(repr(name), 100)}, only {shown}")


class UnknownTool(ToolspecsError):
    """The toolset has no tool of that name; `near` are similar names."""

    kind = "tool"

    def __init__(self, toolset: str, name: str, known: Iterable[str]) -> None:
        self.toolset = toolset
        self.name = name
        known = tuple(known)
        self.near = near_matches(name, known)
        super().__init__(f"toolset {toolset!r} has {unknown(self.kind, name, known, self.near)}")


class NoDifference(UnknownTool):
    """No source of the toolset offers a tool of that name that differs; `known` are those that do."""

    kind = "differing tool"


class UnknownRevision(ToolspecsError):
    """The toolset exists, but not this revision of it; `latest` is its highest number."""

    def __init__(self, toolset: str, number: int, latest: int) -> None:
        self.toolset = toolset
        self.number = number
        self.latest = latest
        super().__init__(f"toolset {toolset!r} has no revision {number}; the latest is {latest}")


class DroppedRevision(UnknownRevision):
    """The revision was removed with others that were too old; those from `before` on are all kept."""

    def __init__(self, toolset: str, number: int, latest: int, before: int) -> None:
        super().__init__(toolset, number, latest)
        self.before = before
        kept = "none is kept" if before > latest else f"those from {before} on are kept"
        self.args = (f"revision {number} of toolset {toolset!r} was dropped as too old; {kept}",)


class QuotaExceeded(ToolspecsError):
    """The writes of one client would store more than it may; `limit` is `quota_bytes` or `quota_toolsets`."""

    def __init__(self, limit: str, maximum: int) -> None:
        self.limit = limit
        self.maximum = maximum
        noun = "bytes of revisions" if limit == "quota_bytes" else "toolsets"
        super().__init__(
            f"this client may store {maximum} {noun}, and this write would exceed that: delete toolsets, and"
            f" wait until the gateway collects what is old, or ask the operator to raise {limit}"
        )


class StaleRevision(ToolspecsError):
    """`expected` is what the writer required; `current_etag` is None if there is no such toolset."""

    def __init__(self, toolset: str, expected: str, current_etag: str | None) -> None:
        self.toolset = toolset
        self.expected = expected
        self.current_etag = current_etag
        state = f"is at {current_etag}" if current_etag else "does not exist"
        super().__init__(f"toolset {toolset!r} {state}, but the request requires {shorten(expected, 100)}")


class ThreadsStopped(ToolspecsError):
    """The process is ending, and its threads take no more work; another process may do it."""

    def __init__(self) -> None:
        super().__init__(
            "the process is ending, and takes no more work; send it to another one, or again later"
        )


class StoreError(ToolspecsError):
    """The root of the errors of stores."""


class InvalidStoreURL(StoreError):
    """The URL does not name a store; the message never contains the URL's password."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"{reason}; a store is sqlite:///absolute/path, sqlite://relative/path, redis://host:port/number"
            " or redis+sentinel://host:port,host:port/master"
        )


class StoreUnavailable(StoreError):
    """The store cannot be reached, or failed; whether the operation took effect is unknown."""

    def __init__(self, store: str, reason: str) -> None:
        self.store = store
        self.reason = reason
        super().__init__(f"store {store}: {reason}")


class StoreUnreachable(StoreUnavailable):
    """The store's server is not there, or does not answer; later it may."""


class StoreFull(StoreUnavailable):
    """The store has no room for a write. What was registered before is there, and can be read."""


class DamagedEntry(StoreError):
    """The entry at `key` was altered, cut short, lost, or written by another program; others can be used."""

    def __init__(self, key: str, reason: str) -> None:
        self.key = key
        self.reason = reason
        super().__init__(f"the store's entry {key!r} cannot be used: {reason}")


class LockTimeout(StoreError):
    """Somebody else held the lease of `key` for all of `wait_s` seconds."""

    def __init__(self, key: str, wait_s: float) -> None:
        self.key = key
        self.wait_s = wait_s
        super().__init__(f"{key!r} is still locked by somebody else after {wait_s:g} s")


class NotACounter(StoreError):
    """The value at `key` is not a 64-bit integer."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the value at {key!r} is not a 64-bit integer")
