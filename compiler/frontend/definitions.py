"""Schemas at places where no keyword holds schemas, written as definitions, and references as URIs.

A reference by pointer may lead anywhere: `{"$ref": "#/components/schemas/pet"}` is common, though no draft
knows `components`. Code that goes through all subschemas of a document must find such a schema, or it would
read the schema as data. So before anything else is done, the schema is copied to the definitions, and the
references lead to the copy. So do those to patterns of keys that canonicalization gets in another spelling.

Many generators write names of types into references as they are: `#/$defs/Page<User>`. Most validators read
that, but it is no URI, and `jsonschema_rs` refuses it. So such characters are percent-encoded, and no others.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from compiler.errors import UnsupportedSchema
from compiler.frontend.folded_patterns import unfolded
from compiler.frontend.keywords import (
    IDENTIFIERS,
    document_pointer,
    have_references,
    inside,
    located,
    located_in_all,
    references_of,
    split_uri,
)
from compiler.frontend.references import References
from toolspecs.json_pointer import child, pointer_keys
from toolspecs.schemas.bundle import REFERENCES

_NAMES = (*IDENTIFIERS, "$anchor", "$dynamicAnchor")
_DEFS = "$defs"
_UNQUOTED = "/~!$&'()*+,;=:@"
"""Characters of fragments that need no percent sign (RFC 3986)."""
_MOVE = "Move what it leads to under `$defs`, and refer to it there."


@dataclass(frozen=True)
class DefinedSchema:
    """A document and those that it refers to, where all references by pointer lead to places of schemas.

    The fragments of these references have only characters that URIs may have.

    `written_at` has, by the pointer of each added definition, the pointer where the schema was written.
    """

    document: Any
    documents: Mapping[str, Any]
    written_at: Mapping[str, str] = field(default_factory=dict)

    def original(self, pointer: str) -> str:
        """Where the schema at a pointer was written.

        >>> schema = {"$ref": "#/refs/a", "refs": {"a": {"items": {}}}}
        >>> with_definitions(schema, {}).original("/$defs/refs~1a/items")
        '/refs/a/items'
        """
        for definition, place in self.written_at.items():
            if pointer == definition or pointer.startswith(f"{definition}/"):
                return place + pointer.removeprefix(definition)
        return pointer


def with_definitions(document: Any, documents: Mapping[str, Any]) -> DefinedSchema:
    """The schema, with definitions for schemas that references reach elsewhere, and with valid references.

    It admits the same instances: a copy is read as what is copied, since no reference is relative to anything
    but the root of a document.

    >>> with_definitions({"$ref": "#/refs/a", "refs": {"a": {"type": "null"}}}, {}).document["$defs"]
    {'refs/a': {'type': 'null'}}
    >>> with_definitions({"$ref": "#/$defs/a b", "$defs": {"a b": {}}}, {}).document["$ref"]
    '#/$defs/a%20b'

    Raises:
        UnsupportedSchema: a reference leads to such a schema, and some are relative to one below a root.
    """
    if not have_references((document, *documents.values())):
        return DefinedSchema(document, documents)
    return _with_valid_references(_with_moved_schemas(document, documents))


class _Link(NamedTuple):
    """A reference by pointer: where the schema is that has it, its keyword, and the pointer of its target."""

    pointer: str
    keyword: str
    target: str


@dataclass(frozen=True)
class _ReachedSchemas:
    """The schemas by pointer that keywords hold or references reach, and the references between them.

    `placed` are the pointers at which keywords hold schemas, and `moved` those that become definitions.
    """

    schemas: Mapping[str, Mapping[str, Any]]
    links: Sequence[_Link]
    placed: Collection[str]
    moved: Sequence[str]

    @classmethod
    def of(cls, references: References) -> "_ReachedSchemas":
        """Those of some documents: what references reach may refer to more."""
        schemas = dict(located_in_all(references.document, references.documents))
        placed = frozenset(schemas)
        links: list[_Link] = []
        moved: dict[str, None] = {}
        pending = list(schemas.items())
        while pending:
            for link in _links_of(references, *pending.pop()):
                links.append(link)
                if (renamed := _renamed_place(link.target)) in placed:
                    moved[renamed] = None
                elif link.target not in schemas and isinstance(references.at(link.target), dict):
                    moved[link.target] = None
                    reached = dict(located(references.at(link.target), link.target))
                    pending += [(at, inner) for at, inner in reached.items() if at not in schemas]
                    schemas |= reached
        return cls(schemas, links, placed, list(moved))


def _with_moved_schemas(document: Any, documents: Mapping[str, Any]) -> DefinedSchema:
    linked = _ReachedSchemas.of(References(document, documents))
    if not linked.moved or not all(map(_can_hold_definitions, (document, *documents.values()))):
        return DefinedSchema(document, documents)
    _check_bases(linked, roots={"", *map(document_pointer, documents)})
    return _defined(document, documents, linked)


def _check_bases(linked: _ReachedSchemas, roots: Collection[str]) -> None:
    """Refuse to move schemas within a document where some references are relative to one below the root."""
    moved_in = {split_uri(place)[0]: place for place in linked.moved}
    for pointer, schema in linked.schemas.items():
        place = moved_in.get(split_uri(pointer)[0])
        if place is not None and pointer not in roots and _is_base(schema):
            refused = next(link for link in linked.links if link.target == place)
            reason = f"leads to a place where no keyword holds schemas, but {pointer} has an `$id` of its own"
            at = child(refused.pointer, refused.keyword)
            raise UnsupportedSchema(at, refused.keyword, reason, _MOVE)


def _renamed_place(pointer: str) -> str | None:
    """The outermost place around a pointer that canonicalization is given under another key, or None.

    >>> _renamed_place("/patternProperties/^a$/items")
    '/patternProperties/^a$'
    """
    uri, inner = split_uri(pointer)
    keys = pointer_keys(inner)
    for index, (keyword, pattern) in enumerate(pairwise(keys)):
        if keyword == "patternProperties" and unfolded(pattern) != pattern:
            return child(document_pointer(uri), *keys[: index + 2])
    return None


def _with_valid_references(defined: DefinedSchema) -> DefinedSchema:
    contents = (defined.document, *defined.documents.values())
    if not any(True for content in contents for _ in _invalid_references(content)):
        return defined
    document, documents = deepcopy(defined.document), deepcopy(dict(defined.documents))
    for content in (document, *documents.values()):
        for schema, keyword, uri in _invalid_references(content):
            schema[keyword] = uri
    return replace(defined, document=document, documents=documents)


def _invalid_references(content: Any) -> Iterator[tuple[dict[str, Any], str, str]]:
    """The schemas that refer by a pointer in another spelling; its keyword; and the URI in ours."""
    for schema in inside(content):
        for keyword, uri in references_of(schema):
            document, _, fragment = uri.partition("#")
            with suppress(UnicodeDecodeError):
                pointer = unquote(fragment, errors="strict")
                valid = f"{document}#{quote(pointer, safe=_UNQUOTED)}"
                if pointer.startswith("/") and valid != uri:
                    yield schema, keyword, valid


def _links_of(references: References, pointer: str, schema: Mapping[str, Any]) -> Iterator[_Link]:
    """The references by pointer of one schema."""
    for keyword, uri in references_of(schema):
        is_pointer = unquote(uri.partition("#")[2]).startswith("/")
        if is_pointer and (target := references.target(pointer, uri)) is not None:
            other, inner = split_uri(target)
            yield _Link(pointer, keyword, child(document_pointer(other), *pointer_keys(inner)))


def _defined(document: Any, documents: Mapping[str, Any], linked: _ReachedSchemas) -> DefinedSchema:
    """The documents with definitions for the schemas that are moved.

    References change only in the definitions, and in schemas that are `placed` where keywords hold schemas: a
    schema that is moved may also be data, such as a listed value.
    """
    document, documents = deepcopy(document), deepcopy(dict(documents))
    result, moving = References(document, documents), References(deepcopy(document), deepcopy(documents))
    written_at = _named(linked.moved, result)
    definitions = {place: definition for definition, place in written_at.items()}
    for pointer, keyword, target in linked.links:
        if (around := _place_of(target, definitions)) is not None:
            moved_target = definitions[around] + target.removeprefix(around)
            for documents_of in (result, moving) if pointer in linked.placed else (moving,):
                documents_of.at(pointer)[keyword] = _reference(result, pointer, moved_target)
    for definition, place in written_at.items():
        uri, inner = split_uri(definition)
        root_definitions = result.at(document_pointer(uri)).setdefault(_DEFS, {})
        root_definitions[pointer_keys(inner)[1]] = _unnamed(deepcopy(moving.at(place)))
    return DefinedSchema(document, documents, written_at)


def _unnamed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, from which names are removed: they lead to what was written, if to anything."""
    for part in inside(schema):
        for keyword in _NAMES:
            if isinstance(part.get(keyword), str):
                del part[keyword]
    return schema


def _named(places: Iterable[str], references: References) -> dict[str, str]:
    """The pointers of new definitions, each with the place of the schema that it is named for."""
    named: dict[str, str] = {}
    for place in places:
        uri, inner = split_uri(place)
        root, name = document_pointer(uri), inner.removeprefix("/")
        while name in references.at(root).get(_DEFS, {}) or child(root, _DEFS, name) in named:
            name += "'"
        named[child(root, _DEFS, name)] = place
    return named


def _reference(references: References, pointer: str, target: str) -> str:
    """How the schema at a pointer refers to the one at `target`."""
    uri, inner = split_uri(target)
    if not uri and split_uri(pointer)[0]:  # from another document back to the schema
        uri = references.base("")[1]
    return f"{uri}#{quote(inner, safe=_UNQUOTED)}"


def _place_of(pointer: str, places: Collection[str]) -> str | None:
    """The one of some places that a pointer leads to or into, None if there is none."""
    if pointer in places:
        return pointer
    return next((place for place in places if pointer.startswith(f"{place}/")), None)


def _is_base(schema: Mapping[str, Any]) -> bool:
    """Whether references inside a schema are relative to its own identifier."""
    identifiers = [schema.get(keyword) for keyword in IDENTIFIERS]
    if not any(isinstance(name, str) and name[:1] != "#" for name in identifiers):
        return False
    return any(keyword in part for part in inside(schema) for keyword in REFERENCES)


def _can_hold_definitions(content: Any) -> bool:
    return not isinstance(content, list) and (
        not isinstance(content, dict) or isinstance(content.get(_DEFS, {}), dict)
    )
