"""The source_map of a schema document: which schema objects speak about one place of an instance.

Canonicalization sorts properties and forgets where things were written. The source_map walks the source
beside the canonical form and gives back the declared order of keys, the keys that were declared without a
constraint, and the JSON pointers that a report or a refusal names. It never decides what is valid: a wrong
source_map costs order and wording, not soundness.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from compiler.frontend.keywords import IN_PLACE, IN_PLACE_LISTS, IN_PLACE_MAPS, child, children, resolve
from toolspecs.bundle import KEYWORDS as REFERENCES
from toolspecs.bundle import absolute

_ALWAYS = ("allOf", *IN_PLACE, *REFERENCES)
_MAX_VISITS = 2_000

Branches = tuple[str, ...]
"""The pointers of the alternatives in which a schema stands, outermost first."""


@dataclass(frozen=True, slots=True)
class SchemaLocation:
    """The pointers of every schema object that speaks about one place of an instance.

    They stand in the order in which a reader meets their `properties`; `pointer` is the one for messages.
    """

    pointers: tuple[str, ...] = ()
    pointer: str = ""


class SourceMap:
    """The source_map of one document, and of the `documents` by URI that it may refer to; none is modified.

    A pointer into another document is its URI, `#` and the pointer proper.
    """

    def __init__(self, document: Any, documents: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.document = document
        self.documents = documents
        self._values: dict[str, Any] = {}
        self._items: dict[tuple[SchemaLocation, int | None], SchemaLocation] = {}
        self._locations: dict[tuple[str, ...], SchemaLocation] = {}
        self._branches: dict[SchemaLocation, Mapping[str, tuple[Branches, ...]]] = {}

    @property
    def root(self) -> SchemaLocation:
        """The place of the whole instance."""
        return self._location(("",))

    def schemas(self, location: SchemaLocation) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The schema objects of a place, with their pointers."""
        for pointer in location.pointers:
            schema = self.at(pointer)
            if isinstance(schema, dict):
                yield pointer, schema

    def at(self, pointer: str) -> Any:
        """The value at a pointer, None where there is none."""
        if pointer not in self._values:
            uri, _, inside = ("", "", pointer) if pointer[:1] in ("", "/") else pointer.partition("#")
            self._values[pointer] = resolve(self.documents.get(uri) if uri else self.document, inside)
        return self._values[pointer]

    def declared(self, location: SchemaLocation) -> tuple[str, ...]:
        """Every key that `properties` declares at a place, in the order of first appearance."""
        keys: dict[str, None] = {}
        for _, schema in self.schemas(location):
            properties = schema.get("properties")
            if isinstance(properties, dict):
                keys.update(dict.fromkeys(properties))
        return tuple(keys)

    def mentioned(self, location: SchemaLocation) -> tuple[str, ...]:
        """Every key that a place names, declared ones first, in the order of first appearance."""
        keys = dict.fromkeys(self.declared(location))
        for _, schema in self.schemas(location):
            names = schema.get("propertyNames")
            for listed in (schema.get("required"), names.get("enum") if isinstance(names, dict) else None):
                if isinstance(listed, list):
                    keys.update(dict.fromkeys(key for key in listed if isinstance(key, str)))
        return tuple(keys)

    def is_map(self, location: SchemaLocation) -> bool:
        """Whether no key is declared at a place, or undeclared ones are admitted in so many words."""
        explicit = any(
            schema.get(keyword, False) is not False
            for _, schema in self.schemas(location)
            for keyword in ("additionalProperties", "unevaluatedProperties", "patternProperties")
        )
        return explicit or not (self.declared(location) or self._takes_no_arguments(location))

    def _takes_no_arguments(self, location: SchemaLocation) -> bool:
        """Whether a place is the whole instance, and its `properties` are spelled and empty.

        That is how tools without arguments are written. Further in it is written for maps, as of Helm values.
        """
        spelled = {keyword for _, schema in self.schemas(location) for keyword in schema}
        keys_told = spelled & {"propertyNames", "minProperties"}
        return location == self.root and "properties" in spelled and not keys_told

    def property(self, location: SchemaLocation, key: str) -> SchemaLocation:
        """The place of the value under `key`."""
        found: list[str] = []
        for pointer, schema in self.schemas(location):
            properties = schema.get("properties")
            if isinstance(properties, dict) and key in properties:
                found.append(child(pointer, "properties", key))
            elif isinstance(schema.get("additionalProperties"), dict):
                found.append(child(pointer, "additionalProperties"))
        return self._location(tuple(found))

    def undeclared(self, location: SchemaLocation, patterns: tuple[str, ...]) -> SchemaLocation:
        """The place of the values under undeclared keys that match `patterns`."""
        found: list[str] = []
        for pointer, schema in self.schemas(location):
            spelled = schema.get("patternProperties") or {}
            found += [child(pointer, "patternProperties", p) for p in spelled if p in patterns]
            if not patterns and isinstance(schema.get("additionalProperties"), dict):
                found.append(child(pointer, "additionalProperties"))
        return self._location(tuple(found))

    def item(self, location: SchemaLocation, index: int | None) -> SchemaLocation:
        """The place of the item at `index`, or (None) of the items after any prefix."""
        if (location, index) not in self._items:
            self._items[location, index] = self._item(location, index)
        return self._items[location, index]

    def _item(self, location: SchemaLocation, index: int | None) -> SchemaLocation:
        found: list[str] = []
        for pointer, schema in self.schemas(location):
            for keyword in ("prefixItems", "items"):
                items = schema.get(keyword)
                if isinstance(items, list):
                    if index is not None and index < len(items):
                        found.append(child(pointer, keyword, str(index)))
                elif isinstance(items, dict):
                    found.append(child(pointer, keyword))
        return self._location(tuple(found))

    def subschemas(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Every schema object of the document in document order, then what it refers to in other places."""
        seen: set[str] = set()
        starts = [""]
        while starts:
            if (start := starts.pop()) in seen:
                continue
            for pointer, schema in self._below(start):
                if pointer not in seen:
                    seen.add(pointer)
                    yield pointer, schema
                    starts += [place for place in self._referred(pointer, schema) if place not in seen]

    def _below(self, start: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        stack = [(start, self.at(start))]
        while stack:
            pointer, schema = stack.pop()
            if isinstance(schema, dict):
                yield pointer, schema
                stack += reversed(list(children(pointer, schema)))

    def _referred(self, pointer: str, schema: Mapping[str, Any]) -> list[str]:
        """The places that a schema refers to."""
        spelled = (schema.get(keyword) for keyword in REFERENCES)
        found = (self._referent(pointer, uri) for uri in spelled if isinstance(uri, str))
        return [place for place in found if place is not None]

    def _referent(self, pointer: str, uri: str) -> str | None:
        """The place that a reference at `pointer` leads to."""
        return self._elsewhere(pointer, uri) or self._target(uri)

    def _location(self, starts: tuple[str, ...]) -> SchemaLocation:
        if starts not in self._locations:
            found: dict[str, dict[Branches, None]] = {}
            visits: set[tuple[str, Branches]] = set()
            for pointer in starts:
                self._collect(pointer, (), found, visits)
            location = SchemaLocation(tuple(found), starts[0] if starts else "")
            self._locations[starts] = location
            self._branches[location] = {pointer: tuple(paths) for pointer, paths in found.items()}
        return self._locations[starts]

    def _collect(
        self,
        pointer: str,
        branches: Branches,
        found: dict[str, dict[Branches, None]],
        visits: set[tuple[str, Branches]],
    ) -> None:
        """Add a schema, where its `properties` stand among the schemas that speak about the same place."""
        visit = (pointer, branches if len(visits) < _MAX_VISITS else ())
        if visit in visits:
            return
        visits.add(visit)
        schema = self.at(pointer)
        if isinstance(schema, dict):
            for keyword, value in schema.items():
                if keyword == "properties":
                    found.setdefault(pointer, {})[branches] = None
                for inner in self._in_place(pointer, keyword, value):
                    within = branches if keyword in _ALWAYS or inner in branches else (*branches, inner)
                    self._collect(inner, within, found, visits)
        found.setdefault(pointer, {})[branches] = None

    def reordered(
        self, location: SchemaLocation, fits: Callable[[Mapping[str, Any]], bool]
    ) -> SchemaLocation:
        """The place with the schemas last that stand in alternatives of which some schema does not fit."""
        paths_of = self._branches.get(location)
        if paths_of is None:
            return location
        dead = {
            paths[0][-1]
            for pointer, paths in paths_of.items()
            if len(paths) == 1
            and paths[0]
            and isinstance(schema := self.at(pointer), dict)
            and not fits(schema)
        }
        if not dead:
            return location
        last = [
            pointer
            for pointer, paths in paths_of.items()
            if all(not dead.isdisjoint(branches) for branches in paths)
        ]
        first = [pointer for pointer in paths_of if pointer not in last]
        return SchemaLocation((*first, *last), location.pointer)

    def _in_place(self, pointer: str, keyword: str, value: Any) -> Iterator[str]:
        """The schemas under a keyword that speak about the same place as the one at `pointer`."""
        if keyword in IN_PLACE:
            yield child(pointer, keyword)
        elif keyword in IN_PLACE_LISTS and isinstance(value, list):
            yield from (child(pointer, keyword, str(i)) for i in range(len(value)))
        elif keyword in IN_PLACE_MAPS and isinstance(value, dict):
            yield from (child(pointer, keyword, key) for key in value)
        elif keyword in REFERENCES and isinstance(value, str):
            target = self._referent(pointer, value)
            yield from () if target is None else (target,)

    def _elsewhere(self, pointer: str, uri: str) -> str | None:
        """The target of a reference that stands at or leads into another document."""
        base = "" if pointer[:1] in ("", "/") else pointer.partition("#")[0]
        target, fragment = absolute(base or self._base, uri)
        if target not in self.documents or target == self._base:
            return None
        found = f"{target}#{fragment}"
        return found if self.at(found) is not None else None

    @cached_property
    def _base(self) -> str:
        identity = self.document.get("$id", "") if isinstance(self.document, dict) else ""
        return identity if isinstance(identity, str) else ""

    def _target(self, uri: str) -> str | None:
        """The target of a reference inside the document."""
        base, _, fragment = uri.partition("#")
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._names.get(uri, self._names.get(f"#{fragment}"))
        start = self._names.get(base) if base else ""
        if start is None or resolve(self.document, start + fragment) is None:
            return None
        return start + fragment

    @cached_property
    def _names(self) -> Mapping[str, str]:
        """Pointers of the schemas that name themselves."""
        names: dict[str, str] = {}
        for pointer, schema in self._below(""):
            for keyword, prefix in (("$anchor", "#"), ("$dynamicAnchor", "#"), ("$id", ""), ("id", "")):
                name = schema.get(keyword)
                if isinstance(name, str):
                    names.setdefault(prefix + name.removesuffix("#"), pointer)
        return names
