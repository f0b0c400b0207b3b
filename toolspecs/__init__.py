"""Tools, toolsets and their revisions: how they are read, checked and stored.

`parse_tools` reads each `Tool` from the shape of any API and checks it. A `Toolset` is tools and the
documents that they refer to. A `Catalog` keeps toolsets as numbered `Revision` values in a `Store`, which
`open_store` opens by its URL:

>>> [send] = parse_tools([{"name": "send", "inputSchema": {"type": "object"}}])
>>> catalog = Catalog(open_store("sqlite://:memory:"))
>>> revision = await catalog.put(Toolset("mail", (send,)))
>>> revision.number, revision.toolset.tool_names
(1, ('send',))

This package knows nothing of grammars or models. Of HTTP it has only ETags and the preconditions of writes.
"""

from toolspecs.errors import (
    DamagedEntry,
    DeletedToolset,
    DroppedRevision,
    Fault,
    ForbiddenToolset,
    InvalidName,
    InvalidStoreURL,
    InvalidTools,
    LimitExceeded,
    LockTimeout,
    NoDifference,
    NotACounter,
    QuotaExceeded,
    StaleRevision,
    StoreError,
    StoreFull,
    StoreUnavailable,
    StoreUnreachable,
    ThreadsStopped,
    TooDeep,
    ToolspecsError,
    TooManyValues,
    UnknownRevision,
    UnknownTool,
    UnknownToolset,
    UnreadableSource,
)
from toolspecs.json_value import Limits
from toolspecs.nearest import near_matches
from toolspecs.revisions.catalog import Catalog
from toolspecs.revisions.collector import Collected, Collector, Retention
from toolspecs.revisions.quota import Quota
from toolspecs.schemas.schema_check import check_documents
from toolspecs.shapes import Shape, detect_shape, write_tool
from toolspecs.store import Store
from toolspecs.stores import SQLiteStore, open_store
from toolspecs.tool import ChoiceMode, Tool, ToolCall, ToolChoice
from toolspecs.tool_parser import check_tool, parse_tools
from toolspecs.toolset import Page, Revision, RevisionSummary, Toolset, ToolsetReference, etag_matches

__all__ = [
    "Catalog",
    "ChoiceMode",
    "Collected",
    "Collector",
    "DamagedEntry",
    "DeletedToolset",
    "DroppedRevision",
    "Fault",
    "ForbiddenToolset",
    "InvalidName",
    "InvalidStoreURL",
    "InvalidTools",
    "LimitExceeded",
    "Limits",
    "LockTimeout",
    "NoDifference",
    "NotACounter",
    "Page",
    "Quota",
    "QuotaExceeded",
    "Retention",
    "Revision",
    "RevisionSummary",
    "SQLiteStore",
    "Shape",
    "StaleRevision",
    "Store",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "StoreUnreachable",
    "ThreadsStopped",
    "TooDeep",
    "TooManyValues",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "Toolset",
    "ToolsetReference",
    "ToolspecsError",
    "UnknownRevision",
    "UnknownTool",
    "UnknownToolset",
    "UnreadableSource",
    "check_documents",
    "check_tool",
    "detect_shape",
    "etag_matches",
    "near_matches",
    "open_store",
    "parse_tools",
    "write_tool",
]
