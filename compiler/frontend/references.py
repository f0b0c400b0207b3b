"""The schemas of a document, and where their references lead: to pointers, identifiers and anchors.

A pointer into another document is written as URI, `#` and pointer. Each reference has at most one target,
that of the specification. `reference_graph` has all the targets that validators may see.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from compiler.frontend.keywords import (
    DEFINITIONS,
    IN_PLACE,
    IN_PLACE_LISTS,
    IN_PLACE_MAPS,
    children,
    document_pointer,
    located,
    references_of,
    resolve,
    split_uri,
)
from toolspecs.json_pointer import child
from toolspecs.schemas.bundle import REFERENCES, absolute
from toolspecs.schemas.drafts import LAST_WITH_REF_ALONE, declared_draft, identifier_keyword

_DEFAULT_PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}


class References:
    """The references of a document, and of the `documents` by URI that it may refer to; it modifies neither.

    >>> references = References({"$defs": {"node": {"$anchor": "n"}}}, {})
    >>> references.target("/properties/a", "#n"), references.target("/properties/a", "#/$defs/node")
    ('/$defs/node', '/$defs/node')
    """

    def __init__(self, document: Any, documents: Mapping[str, Any]) -> None:
        self.document = document
        self.documents = documents
        self._values: dict[str, Any] = {}
        self._targets: dict[tuple[str, str], str | None] = {}

    def at(self, pointer: str) -> Any:
        """The value at a pointer, None where there is none."""
        if pointer not in self._values:
            self._values[pointer] = self._value(pointer)
        return self._values[pointer]

    def _value(self, pointer: str) -> Any:
        uri, inner = split_uri(pointer)
        parent, _, token = pointer.rpartition("/")
        if inner.startswith("/") and parent in self._values:  # mostly so; from the root, the path is long
            return resolve(self._values[parent], f"/{token}")
        return resolve(self.documents.get(uri) if uri else self.document, inner)

    def target(self, pointer: str, uri: str) -> str | None:
        """The pointer of the schema that a reference at `pointer` leads to, None if there is none."""
        if (pointer, uri) not in self._targets:
            self._targets[pointer, uri] = self._target(*absolute(self.base(pointer)[1], uri))
        return self._targets[pointer, uri]

    def base(self, pointer: str) -> tuple[str, str]:
        """The URI of the document that holds `pointer`, and the base URI of the references of its schema."""
        uri = split_uri(pointer)[0]
        return uri, self._bases.get(pointer) or self._bases.get(document_pointer(uri), uri)

    def has_resource(self, pointer: str, uri: str) -> bool:
        """Whether the URI of a reference at `pointer`, without its fragment, is known."""
        return absolute(self.base(pointer)[1], uri)[0] in self._names

    def is_ambiguous(self, pointer: str, uri: str) -> bool:
        """Whether different schemas have the name by which a reference at `pointer` leads to one."""
        if not self._ambiguous_names:
            return False
        resource, fragment = absolute(self.base(pointer)[1], uri)
        names = resource, f"{resource}#{fragment}"
        return not self._ambiguous_names.isdisjoint(map(_in_one_spelling, names))

    def is_hidden(self, pointer: str) -> bool:
        """Whether a pointer leads into a document whose URI is that of the schema, which goes before it."""
        uri = split_uri(pointer)[0]
        return uri != "" and uri == self._bases.get("")

    def _target(self, uri: str, fragment: str) -> str | None:
        is_anchor = fragment[:1] not in ("", "/")
        named = self._names.get(f"{uri}#{fragment}" if is_anchor else uri)
        if named is None:
            return None
        target = named[0] if is_anchor else named[0] + fragment
        return None if self.at(target) is None else target

    @cached_property
    def contents(self) -> Mapping[str, Any]:
        """The document, under "", and the others by URI."""
        return {"": self.document, **self.documents}

    @cached_property
    def subschemas(self) -> Mapping[str, Mapping[str, Any]]:
        """The schemas of the document by pointer, in its order, then those that only references lead to."""
        schemas: dict[str, Mapping[str, Any]] = {}
        starts = [""]
        while starts:
            if (start := starts.pop()) in schemas:
                continue
            for pointer, schema in located(self.at(start), start):
                if pointer not in schemas:
                    schemas[pointer] = schema
                    starts += [target for target in self.targets(pointer, schema) if target not in schemas]
        return schemas

    def owners(self) -> Mapping[str, list[tuple[str, str]]]:
        """By the pointer of each schema the keywords that hold it or refer to it, each with its pointer."""
        owners: dict[str, list[tuple[str, str]]] = {}
        for pointer, schema in self.subschemas.items():
            for keyword, value in schema.items():
                if keyword in REFERENCES and isinstance(value, str):
                    inner = self.in_place(pointer, keyword, value)
                elif keyword in DEFINITIONS:
                    continue
                else:
                    inner = (at for at, _ in children(pointer, {keyword: value}))
                for at in inner:
                    owners.setdefault(at, []).append((pointer, keyword))
        return owners

    def targets(self, pointer: str, schema: Mapping[str, Any]) -> list[str]:
        """The pointers of the schemas that a schema refers to."""
        targets = (self.target(pointer, uri) for _, uri in references_of(schema))
        return [target for target in targets if target is not None]

    def in_place(self, pointer: str, keyword: str, value: Any) -> Iterator[str]:
        """The schemas under a keyword that apply to the same value as the one at `pointer`."""
        if keyword in IN_PLACE:
            yield child(pointer, keyword)
        elif keyword in IN_PLACE_LISTS and isinstance(value, list):
            yield from (child(pointer, keyword, str(i)) for i in range(len(value)))
        elif keyword in IN_PLACE_MAPS and isinstance(value, dict):
            yield from (child(pointer, keyword, key) for key in value)
        elif keyword in REFERENCES and isinstance(value, str):
            target = self.target(pointer, value)
            yield from () if target is None else (target,)

    @cached_property
    def _bases(self) -> Mapping[str, str]:
        """The URI that the references of each schema are relative to, by its pointer."""
        bases: dict[str, str] = {}
        stack = [(document_pointer(uri), content, uri) for uri, content in self.contents.items()]
        while stack:
            pointer, schema, base = stack.pop()
            if isinstance(schema, dict):
                bases[pointer] = absolute(base, self._identifier(schema))[0]
                stack += [(at, inner, bases[pointer]) for at, inner in children(pointer, schema)]
        return bases

    @cached_property
    def _names(self) -> Mapping[str, list[str]]:
        """The pointers of all schemas with an identifier or an anchor, and of each document, by their URI."""
        names = {self._bases.get("", ""): [""]}
        for uri in self.documents:
            names.setdefault(uri, [document_pointer(uri)])
        for root, content in self.contents.items():
            for pointer, schema in located(content, document_pointer(root)):
                base, (uri, _, own_anchor) = self._bases[pointer], self._identifier(schema).partition("#")
                anchors = (own_anchor, schema.get("$anchor"), schema.get("$dynamicAnchor"))
                uris = [f"{base}#{anchor}" for anchor in anchors if isinstance(anchor, str) and anchor]
                has_own_name = (
                    bool(uri) and pointer != "" and (base, pointer) != (root, document_pointer(root))
                )
                for name in [base, *uris] if has_own_name else uris:
                    names.setdefault(name, []).append(pointer)
        return names

    @cached_property
    def _ambiguous_names(self) -> frozenset[str]:
        """The names, in one spelling, of different schemas; equal ones mean the same wherever they are."""
        named: dict[str, list[str]] = {}
        for name, places in self._names.items():
            named.setdefault(_in_one_spelling(name), []).extend(places)
        return frozenset(
            name
            for name, (first, *others) in named.items()
            if any(self._written(first) != self._written(other) for other in others)
        )

    def _written(self, pointer: str) -> str:
        """The schema at a pointer as text, in which 1 is not true."""
        return json.dumps(self.at(pointer), sort_keys=True)

    def _identifier(self, schema: Mapping[str, Any]) -> str:
        """A schema's identifier, "" if it has none with force; up to draft 7 it may be an anchor."""
        name = schema.get(identifier_keyword(self._outermost))
        if not isinstance(name, str) or (self._has_ref_alone and "$ref" in schema and name[:1] != "#"):
            return ""
        return name

    @cached_property
    def _has_ref_alone(self) -> bool:
        draft = declared_draft(self.document)
        return draft is not None and draft <= LAST_WITH_REF_ALONE

    @property
    def _outermost(self) -> Mapping[str, Any]:
        """The document, whose dialect all have; empty if it is a boolean."""
        return self.document if isinstance(self.document, dict) else {}


def _in_one_spelling(uri: str) -> str:
    """One of the URIs that `jsonschema_rs` takes for equal to this one; rarely also to another one.

    >>> _in_one_spelling("HTTPS://EXAMPLE.com:443/a/../b%7e#x")
    'https://example.com/b~#x'
    """
    try:
        parts = urlsplit(urljoin("https://relative.invalid/", unquote(uri)))
    except ValueError:
        return uri
    port = _DEFAULT_PORTS.get(parts.scheme, "")
    netloc = parts.netloc.lower().removesuffix(f":{port}").removesuffix(":")
    return parts._replace(netloc=netloc, path=urljoin("/", f"/.{parts.path}")).geturl()
