"""Refuses references that validators follow to different schemas, or to one that is not looked at here.

Where two schemas have one name, Python's `jsonschema` takes the first, `jsonschema_rs` the last, ajv neither.
Equal schemas may have one name: generators often write a named type out wherever it is used.

A schema counts as found if keywords hold it, from the root of a document down, or if it is a boolean.
`contentSchema` is not such a keyword, since no validator applies it. But they find names in it.
"""

from collections.abc import Mapping
from typing import Any

from compiler.errors import UnsupportedSchema
from compiler.frontend.keywords import located, references_of
from compiler.frontend.references import References
from toolspecs.bundle import absolute
from toolspecs.drafts import draft_named
from toolspecs.json_pointer import child
from toolspecs.nearest import shorten

_MAX_SHOWN = 300
_RENAME = "Give each schema a name of its own."
_MOVE = "Move what it leads to under `$defs`, and refer to it there."


def check_reference_targets(document: Any, documents: Mapping[str, Any]) -> None:
    """Refuse a reference to one of several schemas, or to a place where no keyword holds schemas.

    >>> nodes = {"x": {"$anchor": "node", "minimum": 1}, "y": {"$anchor": "node"}}
    >>> check_reference_targets({"$ref": "#node", "$defs": nodes}, {})
    Traceback (most recent call last):
    compiler.errors.UnsupportedSchema: /$ref: refers to #node, but different schemas have this name. ...

    Raises:
        UnsupportedSchema: there is one, in the schema or in the `documents` by URI that it refers to.
    """
    references = References(document, documents)
    schemas = dict(located(document))
    for uri, content in documents.items():
        schemas |= located(content, f"{uri}#")
    has_hidden_names = any("contentSchema" in schema for schema in schemas.values())
    for pointer, schema in schemas.items():
        for keyword, uri in references_of(schema):
            target = references.target(pointer, uri)
            is_hidden = (
                target is not None and isinstance(references.at(target), dict) and target not in schemas
            )
            if target is None and has_hidden_names:
                is_hidden = draft_named(absolute(references.base(pointer)[1], uri)[0]) is None  # not built in
            if references.is_ambiguous(pointer, uri):
                raise _refusal(pointer, keyword, uri, "but different schemas have this name", _RENAME)
            if is_hidden:
                raise _refusal(pointer, keyword, uri, "where no keyword holds schemas", _MOVE)


def _refusal(pointer: str, keyword: str, uri: str, fault: str, suggestion: str) -> UnsupportedSchema:
    reason = f"refers to {shorten(uri, _MAX_SHOWN)}, {fault}"
    return UnsupportedSchema(child(pointer, keyword), keyword, reason, suggestion)
