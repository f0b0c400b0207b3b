"""The source map: which schemas of the document apply to one location of an instance.

A canonical form has its properties sorted and does not say where in the document it was written. The source
map is read beside it and gives back the declared order of keys, the keys that were declared without a
constraint, and the JSON pointers for reports and refusals. It never decides what is valid: a wrong source map
costs order and wording, not soundness.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import jsonschema_rs

from compiler.frontend.folded_patterns import unfolded
from compiler.frontend.keywords import (
    IN_PLACE,
    TYPES,
    have_references,
    listed_values,
    may_have_type,
)
from compiler.frontend.references import References
from toolspecs.json_pointer import child
from toolspecs.schemas.bundle import REFERENCES

_DEMANDING = ("allOf", *REFERENCES)
"""In-place applicators of schemas that every valid value satisfies."""
_NO_BRANCH = (*_DEMANDING, *IN_PLACE)
"""In-place applicators that are not alternatives."""
_OF_PARTS = {
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "required",
    "items",
    "prefixItems",
}
"""Keywords that say which keys or items a value has, or in which order."""
_OF_OTHER_KEYS = ("additionalProperties", "unevaluatedProperties")
"""Keywords of keys that match neither `properties` nor `patternProperties`."""
_MAX_VISITS = 2_000

_LocatedSchema = tuple[str, Mapping[str, Any]]
"""A schema after its pointer."""
Branches = tuple[str, ...]
"""The pointers of the alternatives that contain a schema, the outermost first."""


@dataclass(frozen=True, slots=True)
class SchemaLocation:
    """The pointers of all schemas that apply to one location of an instance.

    They are in the order in which a reader meets their `properties`; `pointer` is the one for messages: the
    first of them or, where no schema of the document applies, that of the location around it. The object
    that is lowered stems from none of the schemas `aside`. `is_anywhere`: the rules of values there are
    shared by all values that nothing constrains.
    """

    pointers: tuple[str, ...] = ()
    pointer: str = ""
    aside: frozenset[str] = frozenset()
    is_anywhere: bool = False
    _hash: int = field(init=False, repr=False, compare=False)
    """Computed once: many tables are by location, and a location may have hundreds of pointers."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.pointers, self.pointer, self.aside, self.is_anywhere)))

    def __hash__(self) -> int:
        return self._hash


ANYWHERE = SchemaLocation(is_anywhere=True)
"""The location of values that nothing constrains, wherever they are."""


class SourceMap:
    """The source map of a document and of the `documents` by URI that it may refer to; it modifies neither.

    Its pointers are those of `References`.

    >>> source_map = SourceMap({"allOf": [{"properties": {"b": {}}}], "properties": {"a": {}}})
    >>> source_map.declared(source_map.root)
    ('b', 'a')
    >>> source_map.property(source_map.root, "b").pointer
    '/allOf/0/properties/b'
    """

    def __init__(self, document: Any, documents: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.references = References(document, documents)
        self._schemas: dict[SchemaLocation, tuple[_LocatedSchema, ...]] = {}
        self._concerned: dict[tuple[SchemaLocation, tuple[str, ...]], tuple[_LocatedSchema, ...]] = {}
        self._items: dict[tuple[SchemaLocation, int], SchemaLocation] = {}
        self._properties: dict[tuple[SchemaLocation, str], SchemaLocation] = {}
        self._locations: dict[tuple[str, ...], SchemaLocation] = {}
        self._branches: dict[SchemaLocation, Mapping[str, tuple[Branches, ...]]] = {}
        self._demanding: dict[str, set[str]] = {}
        """By the pointer of a schema, those whose `allOf` it is in or that refer to it."""
        self._listed: dict[str, list[Any] | None] = {}
        self._listed_by_key: dict[str, Mapping[str, list[Any]]] = {}
        self._patterns: dict[str, jsonschema_rs.Validator] = {}

    @property
    def root(self) -> SchemaLocation:
        """The location of the whole instance."""
        return self._location(("",), ANYWHERE)

    def schemas(self, location: SchemaLocation) -> Sequence[_LocatedSchema]:
        """The schemas of a location with their pointers, boolean ones left out."""
        if location not in self._schemas:
            schemas = ((pointer, self.at(pointer)) for pointer in location.pointers)
            self._schemas[location] = tuple(entry for entry in schemas if isinstance(entry[1], dict))
        return self._schemas[location]

    def concerned(self, location: SchemaLocation, types: Collection[str]) -> Sequence[_LocatedSchema]:
        """The schemas of a location that a value of one of the JSON types, or of any, may stem from.

        The alternatives that a schema is in must admit such values, too.
        """
        key = location, tuple(types or TYPES)
        if key not in self._concerned:
            self._concerned[key] = tuple(self._concerned_of(*key))
        return self._concerned[key]

    def _concerned_of(self, location: SchemaLocation, types: tuple[str, ...]) -> Iterator[_LocatedSchema]:
        paths_of = self.branches(location)
        for pointer, schema in self.schemas(location):
            if pointer in location.aside or not may_have_type(schema, types):
                continue
            paths = paths_of.get(pointer, ((),))
            if any(all(may_have_type(self.at(branch), types) for branch in branches) for branches in paths):
                yield pointer, schema

    def branches(self, location: SchemaLocation) -> Mapping[str, tuple[Branches, ...]]:
        """By the pointer of each schema of a location, the alternatives through which it applies there."""
        return self._branches.get(location, {})

    def at(self, pointer: str) -> Any:
        """The value at a pointer, None where there is none."""
        return self.references.at(pointer)

    def listed(self, pointer: str) -> list[Any] | None:
        """The values that a schema lists itself or by what it demands; None if it lists none."""
        if pointer not in self._listed:
            self._listed[pointer] = None  # for what demands itself
            self._listed[pointer] = self._find_listed(pointer)
        return self._listed[pointer]

    def _find_listed(self, pointer: str) -> list[Any] | None:
        schema = self.at(pointer)
        if not isinstance(schema, dict):
            return None
        if values := [value for _, value in listed_values(schema)]:
            return values
        demanded = (
            self.listed(inner)
            for keyword in _DEMANDING
            for inner in self.references.in_place(pointer, keyword, schema.get(keyword))
        )
        return next((values for values in demanded if values is not None), None)

    def listed_by_key(self, pointer: str) -> Mapping[str, list[Any]]:
        """The values that an object schema lists for each key for which it does."""
        if pointer not in self._listed_by_key:
            schema = self.at(pointer)
            properties = schema.get("properties") if isinstance(schema, dict) else None
            keys = properties if isinstance(properties, dict) else ()
            listed = ((key, self.listed(child(pointer, "properties", key))) for key in keys)
            self._listed_by_key[pointer] = {key: values for key, values in listed if values is not None}
        return self._listed_by_key[pointer]

    def location_at(self, pointer: str) -> SchemaLocation:
        """The location at which the schema at a pointer applies, and nothing else."""
        return self._location((pointer,), self.root)

    def declared(self, location: SchemaLocation) -> tuple[str, ...]:
        """Every key that `properties` declares at a location, in the order of first appearance."""
        keys: dict[str, None] = {}
        for _, schema in self.schemas(location):
            properties = schema.get("properties")
            if isinstance(properties, dict):
                keys.update(dict.fromkeys(properties))
        return tuple(keys)

    def mentioned(self, location: SchemaLocation) -> tuple[str, ...]:
        """Every key that the schemas of a location name, declared ones first, in order of appearance."""
        keys = dict.fromkeys(self.declared(location))
        for _, schema in self.schemas(location):
            names = schema.get("propertyNames")
            for listed in (schema.get("required"), names.get("enum") if isinstance(names, dict) else None):
                if isinstance(listed, list):
                    keys.update(dict.fromkeys(key for key in listed if isinstance(key, str)))
        return tuple(keys)

    def is_map(self, location: SchemaLocation) -> bool:
        """Whether no key is declared at a location, or a keyword explicitly admits undeclared ones."""
        explicit = self._admits_by(location, ("patternProperties", *_OF_OTHER_KEYS))
        return explicit or not (self.declared(location) or self._takes_no_arguments(location))

    def names_keys_by(self, location: SchemaLocation, patterns: Collection[str]) -> bool:
        """Whether these are all patterns of keys at a location, and no keyword admits other keys."""
        written = {p for _, schema in self.schemas(location) for p in schema.get("patternProperties") or ()}
        are_all = all(p in patterns or unfolded(p) in patterns for p in written)
        return are_all and bool(written) and not self._admits_by(location, _OF_OTHER_KEYS)

    def refers_by_patterns(self, location: SchemaLocation) -> bool:
        """Whether schemas under `patternProperties` of a location refer to others."""
        return any(
            have_references((schema.get("patternProperties") or {}).values())
            for _, schema in self.schemas(location)
        )

    def _admits_by(self, location: SchemaLocation, keywords: Sequence[str]) -> bool:
        """Whether a schema of a location has one of these keywords, and it is not false."""
        return any(
            schema.get(keyword, False) is not False
            for _, schema in self.schemas(location)
            for keyword in keywords
        )

    def _takes_no_arguments(self, location: SchemaLocation) -> bool:
        """Whether the location is the whole instance and its `properties` are empty.

        Tools without arguments are written like that. In inner objects, empty `properties` mean a map, as in
        Helm values.
        """
        used = {keyword for _, schema in self.schemas(location) for keyword in schema}
        constrains_keys = used & {"propertyNames", "minProperties"}
        return location == self.root and "properties" in used and not constrains_keys

    def referred(self, location: SchemaLocation, uri: str) -> SchemaLocation:
        """The location of values that have to satisfy only what `uri` refers to.

        That is the one of its target alone, so that values of one schema have one location: schemas of other
        alternatives say nothing of these values. A schema that applies to all of them, and could name keys or
        items, keeps them where they are; so do references to the whole document, since guards do more at its
        root than they can at other places.
        """
        target = self.references.target("", uri)
        if not target:
            return location
        target_location = self._location((target,), location)
        paths_of = self.branches(location)
        others = [pointer for pointer in location.pointers if pointer not in target_location.pointers]
        if any(() in paths_of.get(pointer, ((),)) and self._describes_parts(pointer) for pointer in others):
            return location
        return target_location

    def _describes_parts(self, pointer: str) -> bool:
        schema = self.at(pointer)
        return isinstance(schema, dict) and not _OF_PARTS.isdisjoint(schema)

    def property(self, location: SchemaLocation, key: str) -> SchemaLocation:
        """The location of the value under `key`."""
        if (location, key) not in self._properties:
            self._properties[location, key] = self._property(location, key)
        return self._properties[location, key]

    def _property(self, location: SchemaLocation, key: str) -> SchemaLocation:
        pointers: list[str] = []
        for pointer, schema in self.schemas(location):
            own = self._own_properties(pointer, schema, key)
            if not own and isinstance(schema.get("additionalProperties"), dict):
                own = [child(pointer, "additionalProperties")]
            pointers += own
        return self._location((*pointers, *self._all_under(location, "unevaluatedProperties")), location)

    def _own_properties(self, pointer: str, schema: Mapping[str, Any], key: str) -> list[str]:
        """What `properties` and `patternProperties` of one schema say of the value under a key."""
        properties, patterns = schema.get("properties"), schema.get("patternProperties")
        is_declared = isinstance(properties, dict) and key in properties
        matching = [p for p in patterns if self._matches(p, key)] if isinstance(patterns, dict) else []
        pointers = [child(pointer, "properties", key)] if is_declared else []
        return pointers + [child(pointer, "patternProperties", pattern) for pattern in matching]

    def _matches(self, pattern: str, key: str) -> bool:
        if pattern not in self._patterns:
            self._patterns[pattern] = jsonschema_rs.validator_for({"pattern": unfolded(pattern)})
        return self._patterns[pattern].is_valid(key)

    def undeclared(self, location: SchemaLocation, patterns: tuple[str, ...]) -> SchemaLocation:
        """The location of the values under undeclared keys that match `patterns`."""
        pointers: list[str] = []
        for pointer, schema in self.schemas(location):
            own = schema.get("patternProperties") or {}
            pointers += [
                child(pointer, "patternProperties", p) for p in own if {p, unfolded(p)} & {*patterns}
            ]
            if not patterns and isinstance(schema.get("additionalProperties"), dict):
                pointers.append(child(pointer, "additionalProperties"))
        return self._location((*pointers, *self._all_under(location, "unevaluatedProperties")), location)

    def names(self, location: SchemaLocation) -> SchemaLocation:
        """The location of the keys of an object, taken as strings."""
        return self._location(tuple(self._all_under(location, "propertyNames")), location)

    def item(self, location: SchemaLocation, index: int) -> SchemaLocation:
        """The location of the item at `index`."""
        if (location, index) not in self._items:
            self._items[location, index] = self._item(location, index)
        return self._items[location, index]

    def _item(self, location: SchemaLocation, index: int) -> SchemaLocation:
        pointers: list[str] = []
        for pointer, schema in self.schemas(location):
            for keyword in ("prefixItems", "items"):
                items = schema.get(keyword)
                if isinstance(items, dict):
                    pointers.append(child(pointer, keyword))
                elif isinstance(items, list) and index < len(items):
                    pointers.append(child(pointer, keyword, str(index)))
        others = ("additionalItems", "contains", "unevaluatedItems")
        return self._location((*pointers, *self._all_under(location, *others)), location)

    def _all_under(self, location: SchemaLocation, *keywords: str) -> Iterator[str]:
        """The schemas under keywords that may apply to any member or item."""
        for pointer, schema in self.schemas(location):
            yield from (
                child(pointer, keyword) for keyword in keywords if isinstance(schema.get(keyword), dict)
            )

    def _location(self, starts: tuple[str, ...], around: SchemaLocation) -> SchemaLocation:
        """The location at which the schemas `starts` apply, inside the location `around`."""
        if not starts:
            return replace(around, pointers=(), aside=frozenset())
        if starts not in self._locations:
            paths_of: dict[str, dict[Branches, None]] = {}
            visits: set[tuple[str, Branches]] = set()
            for pointer in starts:
                self._collect(pointer, (), paths_of, visits)
            location = SchemaLocation(tuple(paths_of), starts[0])
            self._locations[starts] = location
            self._branches[location] = {pointer: tuple(paths) for pointer, paths in paths_of.items()}
        return self._locations[starts]

    def _collect(
        self,
        pointer: str,
        branches: Branches,
        paths_of: dict[str, dict[Branches, None]],
        visits: set[tuple[str, Branches]],
    ) -> None:
        """Add a schema and those that apply in place, in the order of their `properties`."""
        visit = (pointer, branches if len(visits) < _MAX_VISITS else ())
        if visit in visits:
            return
        visits.add(visit)
        schema = self.at(pointer)
        if isinstance(schema, dict):
            for keyword, value in schema.items():
                if keyword == "properties":
                    paths_of.setdefault(pointer, {})[branches] = None
                for inner in self.references.in_place(pointer, keyword, value):
                    if keyword in _DEMANDING:
                        self._demanding.setdefault(inner, set()).add(pointer)
                    within = branches if keyword in _NO_BRANCH or inner in branches else (*branches, inner)
                    self._collect(inner, within, paths_of, visits)
        paths_of.setdefault(pointer, {})[branches] = None

    def reordered(self, location: SchemaLocation, fits: Callable[[str], bool]) -> SchemaLocation:
        """The location, with the schemas last that apply only through alternatives that do not fit.

        `fits` is asked with pointers.
        """
        paths_of = self._branches.get(location)
        if paths_of is None:
            return location
        unfit = {
            paths[0][-1]
            for pointer, paths in paths_of.items()
            if len(paths) == 1 and paths[0] and isinstance(self.at(pointer), dict) and not fits(pointer)
        }
        merged = {siblings for siblings in {*map(_parent, unfit)} if self._are_all_unfit(siblings, unfit)}
        unfit = {pointer for pointer in unfit if _parent(pointer) not in merged}
        if not unfit:
            return location
        last = [
            pointer
            for pointer, paths in paths_of.items()
            if all(not unfit.isdisjoint(branches) for branches in paths)
        ]
        first = [pointer for pointer in paths_of if pointer not in last]
        ordered = SchemaLocation((*first, *last), location.pointer, frozenset(last))
        self._branches[ordered] = paths_of
        return ordered

    def without_excluded(self, location: SchemaLocation, excludes: Callable[[str], bool]) -> SchemaLocation:
        """The location without what applies only through alternatives that an object cannot satisfy.

        So keys that another alternative declares are undeclared in this object. `excludes` tells by a pointer
        whether that is so.
        """
        paths_of = self.branches(location)
        alternatives = {branch for paths in paths_of.values() for branches in paths for branch in branches}
        excluded = alternatives & self._excluded(location, excludes) if alternatives else alternatives
        if not excluded:
            return location
        remaining = {p: tuple(filter(excluded.isdisjoint, paths_of[p])) for p in location.pointers}
        pointers = tuple(pointer for pointer, paths in remaining.items() if paths)
        kept = replace(location, pointers=pointers, aside=location.aside.intersection(pointers))
        self._branches[kept] = {pointer: remaining[pointer] for pointer in pointers}
        return kept

    def _excluded(self, location: SchemaLocation, excludes: Callable[[str], bool]) -> set[str]:
        """The schemas of a location that an object cannot satisfy, and those that demand one of them."""
        found = [pointer for pointer, _ in self.schemas(location) if excludes(pointer)]
        excluded: set[str] = set()
        while found:
            pointer = found.pop()
            if pointer not in excluded:
                excluded.add(pointer)
                found += self._demanding.get(pointer, ())
        return excluded

    def _are_all_unfit(self, siblings: str, unfit: Collection[str]) -> bool:
        """Whether no alternative in a list fits: then the form was merged from several of them."""
        listed = self.at(siblings)
        return isinstance(listed, list) and all(f"{siblings}/{i}" in unfit for i in range(len(listed)))


def _parent(pointer: str) -> str:
    """The pointer of what holds a schema: for an alternative, the list of alternatives."""
    return pointer.rpartition("/")[0]
