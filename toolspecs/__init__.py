"""Tools, toolsets and revisions, where they are stored, and the shapes they are read from.

A `Tool` is read from the shape of any API (`parse_tool`, `parse_tools`) and checked on the way; a `Catalog`
keeps `Toolset` values, tools and the documents they refer to, as numbered `Revision` values over a `Store`,
which `open_store` opens by its URL. Knows nothing of grammars, models or HTTP.
"""

from toolspecs.catalog import Catalog
from toolspecs.errors import (
    DamagedEntry,
    DeletedToolset,
    Fault,
    InvalidName,
    InvalidStoreURL,
    InvalidTools,
    LimitExceeded,
    LockTimeout,
    MissingExtra,
    NotACounter,
    StaleRevision,
    StoreError,
    StoreUnavailable,
    ToolspecsError,
    UnknownRevision,
    UnknownTool,
    UnknownToolset,
)
from toolspecs.json_value import Limits
from toolspecs.nearest import near_matches
from toolspecs.schema_check import check_documents
from toolspecs.shapes import Shape, check_tool, detect_shape, parse_tool, parse_tools, write_tool
from toolspecs.store import Store
from toolspecs.stores import SQLiteStore, open_store
from toolspecs.tool import ChoiceMode, Tool, ToolCall, ToolChoice
from toolspecs.toolset import Page, Revision, RevisionSummary, Toolset, ToolsetReference, etag_matches

__all__ = [
    "Catalog",
    "ChoiceMode",
    "DamagedEntry",
    "DeletedToolset",
    "Fault",
    "InvalidName",
    "InvalidStoreURL",
    "InvalidTools",
    "LimitExceeded",
    "Limits",
    "LockTimeout",
    "MissingExtra",
    "NotACounter",
    "Page",
    "Revision",
    "RevisionSummary",
    "SQLiteStore",
    "Shape",
    "StaleRevision",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "Toolset",
    "ToolsetReference",
    "ToolspecsError",
    "UnknownRevision",
    "UnknownTool",
    "UnknownToolset",
    "check_documents",
    "check_tool",
    "detect_shape",
    "etag_matches",
    "near_matches",
    "open_store",
    "parse_tool",
    "parse_tools",
    "write_tool",
]
