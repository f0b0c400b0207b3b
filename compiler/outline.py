"""The outline of a schema document: which schema objects speak about one place of an instance.

Canonicalization sorts properties and forgets where things were written. The outline walks the source
beside the canonical form and gives back the declared order of keys, the keys that were declared without a
constraint, and the JSON pointers that a report or a refusal names. It never decides what is valid: a wrong
outline costs order and wording, not soundness.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from compiler.pointer import child, escape, resolve

_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("if", "then", "else")
_IN_PLACE_MAPS = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_SUBSCHEMA = (
    *_IN_PLACE,
    "not",
    "items",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
)
_SUBSCHEMA_LISTS = (*_IN_PLACE_LISTS, "prefixItems", "items")
_SUBSCHEMA_MAPS = (*_IN_PLACE_MAPS, "properties", "patternProperties", "$defs", "definitions")


@dataclass(frozen=True, slots=True)
class Site:
    """The pointers of every schema object that speaks about one place of an instance.

    They stand in the order in which a reader meets their `properties`; `pointer` is the one for messages.
    """

    pointers: tuple[str, ...] = ()
    pointer: str = ""


class Outline:
    """The outline of one document; `document` is not modified."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self._sites: dict[tuple[str, ...], Site] = {}

    @property
    def root(self) -> Site:
        """The place of the whole instance."""
        return self._site(("",))

    def schemas(self, site: Site) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The schema objects of a place, with their pointers."""
        for pointer in site.pointers:
            schema = resolve(self.document, pointer)
            if isinstance(schema, dict):
                yield pointer, schema

    def declared(self, site: Site) -> tuple[str, ...]:
        """Every key that `properties` declares at a place, in the order of first appearance."""
        keys: dict[str, None] = {}
        for _, schema in self.schemas(site):
            properties = schema.get("properties")
            if isinstance(properties, dict):
                keys.update(dict.fromkeys(properties))
        return tuple(keys)

    def mentioned(self, site: Site) -> tuple[str, ...]:
        """Every key that a place names, declared ones first, in the order of first appearance."""
        keys = dict.fromkeys(self.declared(site))
        for _, schema in self.schemas(site):
            names = schema.get("propertyNames")
            for listed in (schema.get("required"), names.get("enum") if isinstance(names, dict) else None):
                if isinstance(listed, list):
                    keys.update(dict.fromkeys(key for key in listed if isinstance(key, str)))
        return tuple(keys)

    def is_map(self, site: Site) -> bool:
        """Whether no key is declared at a place, or undeclared ones are admitted in so many words."""
        explicit = any(
            schema.get(keyword, False) is not False
            for _, schema in self.schemas(site)
            for keyword in ("additionalProperties", "unevaluatedProperties", "patternProperties")
        )
        return explicit or not self.declared(site)

    def property(self, site: Site, key: str) -> Site:
        """The place of the value under `key`."""
        found: list[str] = []
        for pointer, schema in self.schemas(site):
            properties = schema.get("properties")
            if isinstance(properties, dict) and key in properties:
                found.append(child(pointer, "properties", key))
            elif isinstance(schema.get("additionalProperties"), dict):
                found.append(child(pointer, "additionalProperties"))
        return self._site(tuple(found))

    def undeclared(self, site: Site, patterns: tuple[str, ...]) -> Site:
        """The place of the values under undeclared keys that match `patterns`."""
        found: list[str] = []
        for pointer, schema in self.schemas(site):
            spelled = schema.get("patternProperties") or {}
            found += [child(pointer, "patternProperties", p) for p in patterns if p in spelled]
            if not patterns and isinstance(schema.get("additionalProperties"), dict):
                found.append(child(pointer, "additionalProperties"))
        return self._site(tuple(found))

    def item(self, site: Site, index: int | None) -> Site:
        """The place of the item at `index`, or (None) of the items after any prefix."""
        found: list[str] = []
        for pointer, schema in self.schemas(site):
            for keyword in ("prefixItems", "items"):
                items = schema.get(keyword)
                if isinstance(items, list):
                    if index is not None and index < len(items):
                        found.append(child(pointer, keyword, str(index)))
                elif isinstance(items, dict):
                    found.append(child(pointer, keyword))
        return self._site(tuple(found))

    def subschemas(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Every schema object of the document, in document order."""
        stack = [("", self.document)]
        while stack:
            pointer, schema = stack.pop()
            if isinstance(schema, dict):
                yield pointer, schema
                stack += reversed(list(_children(pointer, schema)))

    def _site(self, starts: tuple[str, ...]) -> Site:
        if starts not in self._sites:
            found: dict[str, None] = {}
            open_pointers: set[str] = set()
            for pointer in starts:
                self._collect(pointer, found, open_pointers)
            self._sites[starts] = Site(tuple(found), starts[0] if starts else "")
        return self._sites[starts]

    def _collect(self, pointer: str, found: dict[str, None], open_pointers: set[str]) -> None:
        """Add a schema, where its `properties` stand among the schemas that speak about the same place."""
        if pointer in open_pointers:
            return
        open_pointers.add(pointer)
        schema = resolve(self.document, pointer)
        if isinstance(schema, dict):
            for keyword, value in schema.items():
                if keyword == "properties":
                    found[pointer] = None
                for inner in self._in_place(pointer, keyword, value):
                    self._collect(inner, found, open_pointers)
        found.setdefault(pointer, None)

    def _in_place(self, pointer: str, keyword: str, value: Any) -> Iterator[str]:
        """The schemas under a keyword that speak about the same place as the one at `pointer`."""
        if keyword in _IN_PLACE:
            yield child(pointer, keyword)
        elif keyword in _IN_PLACE_LISTS and isinstance(value, list):
            yield from (child(pointer, keyword, str(i)) for i in range(len(value)))
        elif keyword in _IN_PLACE_MAPS and isinstance(value, dict):
            yield from (child(pointer, keyword, key) for key in value)
        elif keyword in _REFERENCES and isinstance(value, str):
            target = self._target(value)
            if target is not None:
                yield target

    def _target(self, uri: str) -> str | None:
        base, _, fragment = uri.partition("#")
        if fragment.startswith("/") and not base:
            pointer = unquote(fragment)
            return pointer if resolve(self.document, pointer) is not None else None
        if not fragment and not base:
            return ""
        return self._names.get(uri) or self._names.get(f"#{fragment}" if fragment else base)

    @cached_property
    def _names(self) -> Mapping[str, str]:
        """Pointers of the schemas that name themselves."""
        names: dict[str, str] = {}
        for pointer, schema in self.subschemas():
            for keyword, prefix in (("$anchor", "#"), ("$dynamicAnchor", "#"), ("$id", ""), ("id", "")):
                name = schema.get(keyword)
                if isinstance(name, str):
                    names.setdefault(prefix + name, pointer)
        return names


def _children(pointer: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for keyword, value in schema.items():
        if keyword in _SUBSCHEMA_MAPS and isinstance(value, dict):
            yield from ((f"{pointer}/{escape(keyword)}/{escape(key)}", sub) for key, sub in value.items())
        elif keyword in _SUBSCHEMA_LISTS and isinstance(value, list):
            yield from ((f"{pointer}/{escape(keyword)}/{i}", sub) for i, sub in enumerate(value))
        elif keyword in _SUBSCHEMA:
            yield f"{pointer}/{escape(keyword)}", value
