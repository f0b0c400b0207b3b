"""Keys that must be written with others, taken out of a schema before canonicalization.

Canonicalization makes `no a, or b` of `{"dependentRequired": {"a": ["b"]}}`, and multiplies these out: n keys
with dependencies become 2**n schemas. Rules over the keys in their order need one state for each set of keys
that wait for others, mostly one or two of them (`compiler.lowering.member_choices`). So the lowering gets the
dependencies beside the canonical form of the schema without them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from compiler.frontend.conditional_cases import references_in
from compiler.frontend.keywords import is_definition
from toolspecs.schemas.drafts import FIRST_WITH_DEPENDENT_REQUIRED, LAST_WITH_REF_ALONE

MIN_TAKEN = 3
"""From fewer keys with dependencies, canonicalization makes at most four schemas."""


@dataclass(frozen=True, slots=True)
class DependentKeys:
    """For keys of an object, the keys that must be written with each; also for the objects under its keys.

    >>> keys = DependentKeys.of({"a": ["b"]}, {"address": DependentKeys.of({"street": ["city"]})})
    >>> keys.admits({"a": 1, "b": 2}), keys.admits({"a": 1}), keys.admits({"address": {"street": ""}})
    (True, False, False)
    """

    needed: tuple[tuple[str, frozenset[str]], ...] = ()
    inside: tuple[tuple[str, "DependentKeys"], ...] = ()

    @classmethod
    def of(
        cls, needed: Mapping[str, Iterable[str]], inside: Mapping[str, "DependentKeys"] | None = None
    ) -> "DependentKeys":
        """Dependencies by key; those of a key on itself say nothing."""
        others = ((key, frozenset(keys) - {key}) for key, keys in needed.items())
        return cls(
            tuple((key, keys) for key, keys in others if keys),
            tuple((key, inner) for key, inner in (inside or {}).items() if inner != NO_DEPENDENCIES),
        )

    @property
    def names(self) -> frozenset[str]:
        """Every key that is named."""
        return frozenset(key for key, _ in (*self.needed, *self.inside)).union(
            *(keys for _, keys in self.needed)
        )

    @property
    def num_needing(self) -> int:
        """How many keys need others, here and inside."""
        return len(self.needed) + sum(inner.num_needing for _, inner in self.inside)

    def under(self, key: str) -> "DependentKeys":
        """The dependencies of the object under a key."""
        return next((inner for name, inner in self.inside if name == key), NO_DEPENDENCIES)

    def and_of(self, other: "DependentKeys") -> "DependentKeys":
        """The dependencies of both."""
        needed: dict[str, frozenset[str]] = {}
        for key, keys in (*self.needed, *other.needed):
            needed[key] = needed.get(key, frozenset()) | keys
        inside: dict[str, DependentKeys] = {}
        for key, inner in (*self.inside, *other.inside):
            inside[key] = inside.get(key, NO_DEPENDENCIES).and_of(inner)
        return DependentKeys.of(needed, inside)

    def admits(self, value: Any) -> bool:
        """Whether a value satisfies all dependencies."""
        if not isinstance(value, dict):
            return True
        return all(keys <= value.keys() for key, keys in self.needed if key in value) and all(
            inner.admits(value[key]) for key, inner in self.inside if key in value
        )


NO_DEPENDENCIES = DependentKeys()


def take_dependent_keys(document: Any, documents: Mapping[str, Any], draft: int) -> tuple[Any, DependentKeys]:
    """The document without its dependencies between keys, and the dependencies; unchanged if it has few.

    Both together admit what the document admits:

    - Dependencies are taken from the schema itself, from members of its `allOf`, and in turn from what these
      say of a property. All of this applies to every instance, or to every value under that key.
    - They are asserted of every object there, whatever else the schema says of it. They evaluate nothing.
    - Nothing is taken if a reference leads to one of these schemas. Without `$id` and anchors, only a pointer
      can lead there, and all references must lead to definitions.
    """
    is_safe = all(map(_leads_to_definition, references_in((document, *documents.values()))))
    rest, dependencies = _Taker(draft).take(document) if is_safe else (document, NO_DEPENDENCIES)
    return (rest, dependencies) if dependencies.num_needing >= MIN_TAKEN else (document, NO_DEPENDENCIES)


def _leads_to_definition(reference: str) -> bool:
    uri, _, fragment = reference.partition("#")
    return not uri and is_definition(fragment)


class _Taker:
    """Takes the dependencies of one document in a draft."""

    def __init__(self, draft: int) -> None:
        self._has_ref_alone = draft <= LAST_WITH_REF_ALONE
        has_dependent_required = draft >= FIRST_WITH_DEPENDENT_REQUIRED
        self._keywords = ("dependencies", *(("dependentRequired",) if has_dependent_required else ()))

    def take(self, schema: Any) -> tuple[Any, DependentKeys]:
        """A schema without its dependencies, and the dependencies."""
        if not isinstance(schema, dict) or (self._has_ref_alone and "$ref" in schema):
            return schema, NO_DEPENDENCIES
        rest, dependencies = dict(schema), NO_DEPENDENCIES
        for keyword in self._keywords:
            if keyword in schema and isinstance(schema[keyword], dict):
                needed = {key: keys for key, keys in schema[keyword].items() if _is_list_of_keys(keys)}
                rest[keyword] = {key: value for key, value in schema[keyword].items() if key not in needed}
                dependencies = dependencies.and_of(DependentKeys.of(needed))
        if isinstance(schema.get("allOf"), list):
            parts = [self.take(member) for member in schema["allOf"]]
            rest["allOf"] = [part for part, _ in parts]
            for _, inner in parts:
                dependencies = dependencies.and_of(inner)
        if isinstance(schema.get("properties"), dict):
            inside = {key: self.take(inner) for key, inner in schema["properties"].items()}
            rest["properties"] = {key: part for key, (part, _) in inside.items()}
            dependencies = dependencies.and_of(
                DependentKeys.of({}, {key: inner for key, (_, inner) in inside.items()})
            )
        return rest, dependencies


def _is_list_of_keys(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(key, str) for key in value)
