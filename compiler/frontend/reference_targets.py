"""Refuses references that validators follow to different schemas, or to one that is not looked at here.

Where two schemas have one name, Python's `jsonschema` takes the first, `jsonschema_rs` the last, ajv neither.
Equal schemas may have one name: generators often write a named type out wherever it is used.

`$dynamicRef` to a dynamic anchor leads to the outermost resource that has the same one, whatever it says.
`jsonschema_rs` and `jsonschema` also follow `$ref` like that, against the specification. `jsonschema` never
goes to the schema itself if that has no identifier. In other schemas that have the anchor and no identifier,
it mistakes what references are relative to.

`jsonschema_rs` takes some URIs for equal that are spelled differently, such as with a host in capitals. To
others they are different names, or lead nowhere, and cycles through them would not be seen here.

A schema counts as found if keywords hold it, from the root of a document down, or if it is a boolean.
`contentSchema` is not such a keyword, since no validator applies it. But validators find names in it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.errors import UnsupportedSchema
from compiler.frontend.diagnostics import REGISTER
from compiler.frontend.keywords import ignored_by_draft, inside, located_in_all, references_of
from compiler.frontend.references import References
from toolspecs.json_pointer import child
from toolspecs.nearest import shorten
from toolspecs.schemas.bundle import absolute
from toolspecs.schemas.drafts import NEWEST_DRAFT, declared_draft
from toolspecs.schemas.schema_check import BUILT_IN

_MAX_SHOWN = 300
_RECURSIVE_ANCHOR = ""
"""The name of the dynamic anchor of draft 2019-09, which has none."""
_NOWHERE = "but there is no such schema", REGISTER
_AMBIGUOUS = "but different schemas have this name", "Give each schema a name of its own."
_HIDDEN = (
    "in a document that has the URI of the schema itself, which goes before it",
    "Register the document under a URI of its own.",
)
_UNPLACED = (
    "where no keyword holds schemas",
    "Move what it leads to under `$defs`, and refer to it there.",
)
_DYNAMIC = (
    "a dynamic anchor that another resource has, too, to which validators go from here, against the draft",
    "Refer to it by a JSON pointer, or by `$dynamicRef`.",
)
_UNIDENTIFIED = (
    "a dynamic anchor that a schema without an identifier has, too, which validators read differently",
    "Give each schema with this anchor an `$id`.",
)


def check_reference_targets(document: Any, documents: Mapping[str, Any]) -> None:
    """Refuse a reference that validators follow differently, or to a place where no keyword holds schemas.

    >>> nodes = {"x": {"$anchor": "node", "minimum": 1}, "y": {"$anchor": "node"}}
    >>> check_reference_targets({"$ref": "#node", "$defs": nodes}, {})
    Traceback (most recent call last):
    compiler.errors.UnsupportedSchema: /$ref: refers to #node, but different schemas have this name. ...

    Raises:
        UnsupportedSchema: there is one, in the schema or in the `documents` by URI that it refers to.
    """
    targets = _Targets(document, documents)
    draft = declared_draft(document) or NEWEST_DRAFT
    for pointer, schema in targets.schemas.items():
        for keyword, uri in references_of(schema):
            if keyword in ignored_by_draft(schema, draft):
                continue
            for fault, suggestion in targets.faults(pointer, keyword, uri):
                resource = targets.resource(pointer, uri)
                shown = f"{uri} ({resource})" if "://" in resource and resource not in uri else uri
                reason = f"refers to {shorten(shown, _MAX_SHOWN)}, {fault}"
                raise UnsupportedSchema(child(pointer, keyword), keyword, reason, suggestion)


class _Targets:
    """The schemas of some documents, and what is wrong with references to them."""

    def __init__(self, document: Any, documents: Mapping[str, Any]) -> None:
        self._references = References(document, documents)
        self.schemas = dict(located_in_all(document, documents))
        self._has_hidden_names = any("contentSchema" in schema for schema in self.schemas.values())
        self._anchored: dict[str, list[str]] = {}
        """The pointers of the schemas that have each dynamic anchor."""
        for pointer, schema in self.schemas.items():
            if (anchor := _dynamic_anchor(schema)) is not None:
                self._anchored.setdefault(anchor, []).append(pointer)

    def faults(self, pointer: str, keyword: str, uri: str) -> Iterator[tuple[str, str]]:
        """What is wrong with a reference, each with a way out."""
        if self._references.is_ambiguous(pointer, uri):
            yield _AMBIGUOUS
        target = self._references.target(pointer, uri)
        if target is None:
            if self.resource(pointer, uri).partition("://")[2].startswith(f"{BUILT_IN}/"):
                return
            if self._has_hidden_names:
                yield _UNPLACED
            elif not self._references.has_resource(pointer, uri):
                yield _NOWHERE
        elif self._references.is_hidden(target):
            yield _HIDDEN
        elif target in self.schemas:
            yield from self._dynamic_faults(keyword, uri, target)
        elif isinstance(self._references.at(target), dict):
            yield _UNPLACED

    def _dynamic_faults(self, keyword: str, uri: str, target: str) -> Iterator[tuple[str, str]]:
        if (anchor := _dynamic_anchor(self.schemas[target])) is None:
            return
        resource = self.resource(target)
        others = [place for place in self._anchored[anchor] if self.resource(place) != resource]
        if keyword == "$ref":
            if others and uri.partition("#")[2] == anchor != _RECURSIVE_ANCHOR:
                yield _DYNAMIC
        elif not all(self._is_identified(place, anchor) for place in others):
            yield _UNIDENTIFIED

    def _is_identified(self, pointer: str, anchor: str) -> bool:
        """Whether all validators know what references in a schema with a dynamic anchor are relative to."""
        schema = self.schemas[pointer]
        if "$id" in schema or self.resource(pointer) == "":
            return "$id" in schema
        return anchor == _RECURSIVE_ANCHOR or not any(any(references_of(part)) for part in inside(schema))

    def resource(self, pointer: str, uri: str = "") -> str:
        """The URI of the resource to which a reference at a pointer leads, "" to the one around it."""
        return absolute(self._references.base(pointer)[1], uri)[0]


def _dynamic_anchor(schema: Mapping[str, Any]) -> str | None:
    """The name of a schema's dynamic anchor, None if it has none."""
    if schema.get("$recursiveAnchor") is True:
        return _RECURSIVE_ANCHOR
    return schema["$dynamicAnchor"] if isinstance(schema.get("$dynamicAnchor"), str) else None
