"""Locations of an instance that have equal schemas, so that equal values have equal rules there.

A schema that is written out at many places says the same at each of them, but for its pointers. Locations are
*alike* if their schemas are equal one by one, and are alternatives of one another in the same way. Then the
source map finds the same inside each of them, at other pointers. `MovedPointers` maps these.

Schemas are equal if they are written the same, with the same order of keys, and references in them lead to
the same places. A schema is only equal to itself if a reference leads to it or to a place inside it, since
values of references stay where these lead.
"""

from collections.abc import Hashable, Iterator, Mapping
from functools import cached_property
from typing import Any

from compiler.frontend.keywords import DESCRIPTIONS, LISTS, MAPS, SINGLE
from compiler.frontend.source_map import SchemaLocation, SourceMap
from toolspecs.json_pointer import child


class AlikeLocations:
    """Tells which locations of a source map are alike: those that have the same `form`.

    >>> source_map = SourceMap({"properties": {key: {"items": {"minimum": 1}} for key in "ab"}})
    >>> alike = AlikeLocations(source_map)
    >>> a, b = (source_map.property(source_map.root, key) for key in "ab")
    >>> alike.form(a) == alike.form(b), alike.form(a) == alike.form(source_map.item(a, 0))
    (True, False)
    """

    def __init__(self, source_map: SourceMap) -> None:
        self._source_map = source_map
        self._forms: dict[SchemaLocation, Hashable] = {}
        self._contents: dict[str, int] = {}
        self._numbers: dict[Hashable, int] = {}

    def form(self, location: SchemaLocation) -> Hashable:
        """Equal for locations that are alike."""
        if location not in self._forms:
            self._forms[location] = self._numbers.setdefault(self._form(location), len(self._numbers))
        return self._forms[location]

    def _form(self, location: SchemaLocation) -> Hashable:
        indices = {pointer: index for index, pointer in enumerate(location.pointers)}
        branches = tuple(
            (indices[pointer], tuple(tuple(indices[branch] for branch in path) for path in paths))
            for pointer, paths in self._source_map.branches(location).items()
        )
        return (
            tuple(map(self._content, location.pointers)),
            branches,
            frozenset(indices[pointer] for pointer in location.aside),
            location.is_anywhere,
        )

    def _content(self, pointer: str) -> int:
        """Equal for pointers of schemas that are equal."""
        if pointer not in self._contents:
            content: Hashable = pointer
            if pointer not in self._around_targets:
                base = self._source_map.references.base(pointer)
                content = base, tuple(self._parts(pointer, self._source_map.at(pointer)))
            self._contents[pointer] = self._numbers.setdefault(content, len(self._numbers))
        return self._contents[pointer]

    def _parts(self, pointer: str, schema: Any) -> Iterator[Hashable]:
        """What a schema says, keyword by keyword."""
        if not isinstance(schema, dict):
            yield repr(schema)
            return
        for keyword, value in schema.items():
            if keyword in DESCRIPTIONS:
                continue
            yield keyword
            if keyword in MAPS and isinstance(value, dict):
                yield tuple((key, self._content(child(pointer, keyword, key))) for key in value)
            elif keyword in LISTS and isinstance(value, list):
                yield tuple(self._content(child(pointer, keyword, str(i))) for i in range(len(value)))
            elif keyword in SINGLE:
                yield self._content(child(pointer, keyword))
            else:
                yield repr(value)

    @cached_property
    def _around_targets(self) -> set[str]:
        """The pointers of the places to which references lead, and of all that these are inside of."""
        pointers: set[str] = set()
        references = self._source_map.references
        for pointer, schema in references.subschemas.items():
            for target in references.targets(pointer, schema):
                around: str | None = target
                while around is not None and around not in pointers:
                    pointers.add(around)
                    around = around.rpartition("/")[0] if "/" in around else None
        return pointers


class MovedPointers:
    """Maps pointers of schemas inside one location to those inside another one that is alike.

    >>> moved = MovedPointers(SchemaLocation(("/items",), "/items"), SchemaLocation(("/not",), "/not"))
    >>> moved.pointer("/items/properties/a"), moved.pointer("/$defs/x")
    ('/not/properties/a', '/$defs/x')
    """

    def __init__(self, origin: SchemaLocation, target: SchemaLocation) -> None:
        self._targets: Mapping[str, str] = {
            origin.pointer: target.pointer,
            **dict(zip(origin.pointers, target.pointers, strict=True)),
        }

    def pointer(self, pointer: str) -> str:
        """The pointer to the same schema in the other location; others stay as they are."""
        around, rest = pointer, ""
        while around not in self._targets:
            if "/" not in around:
                return pointer
            around, _, token = around.rpartition("/")
            rest = f"/{token}{rest}"
        return self._targets[around] + rest

    def location(self, location: SchemaLocation) -> SchemaLocation:
        """The location with its pointers moved."""
        return SchemaLocation(
            tuple(map(self.pointer, location.pointers)),
            self.pointer(location.pointer),
            frozenset(map(self.pointer, location.aside)),
            location.is_anywhere,
        )
