"""Where the references of a schema lead: `$ref` to pointers, identifiers and anchors, in it and elsewhere.

A pointer into another document is written as URI, `#` and pointer. Each reference has at most one target,
that of the specification. `reference_graph` has all the targets that validators may see.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from compiler.frontend.keywords import children, located, resolve, split_uri
from toolspecs.bundle import absolute
from toolspecs.drafts import identifier_keyword


class SchemaDocuments:
    """A document, and the `documents` by URI that it may refer to; values in them by pointer."""

    def __init__(self, document: Any, documents: Mapping[str, Any]) -> None:
        self.document = document
        self.documents = documents
        self._values: dict[str, Any] = {}

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


class References(SchemaDocuments):
    """The references of a document, and of the `documents` by URI that it may refer to; it modifies neither.

    >>> references = References({"$defs": {"node": {"$anchor": "n"}}}, {})
    >>> references.target("/properties/a", "#n"), references.target("/properties/a", "#/$defs/node")
    ('/$defs/node', '/$defs/node')
    """

    def __init__(self, document: Any, documents: Mapping[str, Any]) -> None:
        super().__init__(document, documents)
        self._targets: dict[tuple[str, str], str | None] = {}

    def target(self, pointer: str, uri: str) -> str | None:
        """The pointer of the schema that a reference at `pointer` leads to, None if there is none."""
        if (pointer, uri) not in self._targets:
            target = self._target_elsewhere(pointer, uri) or self._target_inside(pointer, uri)
            self._targets[pointer, uri] = target
        return self._targets[pointer, uri]

    def base(self, pointer: str) -> tuple[str, str]:
        """The URI of the document that holds `pointer`, and the base URI of the references of its schema."""
        return split_uri(pointer)[0], self._bases.get(pointer, self._base)

    def _target_elsewhere(self, pointer: str, uri: str) -> str | None:
        """The target of a reference from or into another document."""
        target, fragment = absolute(split_uri(pointer)[0] or self._base, uri)
        if target not in self.documents or target == self._base:
            return None
        location = f"{target}#{fragment}"
        return location if self.at(location) is not None else None

    @cached_property
    def _base(self) -> str:
        return self._bases.get("", "")

    def _target_inside(self, pointer: str, uri: str) -> str | None:
        """The target of a reference inside the document."""
        target, fragment = absolute(self._bases.get(pointer, self._base), uri)
        if fragment and not fragment.startswith("/"):
            return self._names.get(f"{target}#{fragment}")
        start = self._names.get(target)
        if start is None or resolve(self.document, start + fragment) is None:
            return None
        return start + fragment

    @cached_property
    def _bases(self) -> Mapping[str, str]:
        """The URI that the references of each schema of the document are relative to, by its pointer."""
        bases: dict[str, str] = {}
        stack = [("", self.document, "")]
        while stack:
            pointer, schema, base = stack.pop()
            if isinstance(schema, dict):
                bases[pointer] = absolute(base, self._identifier(schema))[0]
                stack += [(at, inner, bases[pointer]) for at, inner in children(pointer, schema)]
        return bases

    @cached_property
    def _names(self) -> Mapping[str, str]:
        """The pointer of each schema with an identifier or an anchor, and of the document, by its URI."""
        names = {self._base: ""}
        for pointer, schema in located(self.document):
            base, (uri, _, own_anchor) = self._bases[pointer], self._identifier(schema).partition("#")
            if uri:
                names.setdefault(base, pointer)
            for anchor in (own_anchor, schema.get("$anchor"), schema.get("$dynamicAnchor")):
                if isinstance(anchor, str) and anchor:
                    names.setdefault(f"{base}#{anchor}", pointer)
        return names

    def _identifier(self, schema: Mapping[str, Any]) -> str:
        """A schema's identifier, "" if it has none; up to draft 7 it may be an anchor."""
        name = schema.get(identifier_keyword(self.document))
        return name if isinstance(name, str) else ""
