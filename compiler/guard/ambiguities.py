"""What a guard cannot tell apart, so that rules must; a schema that has it is lowered again."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Ambiguities:
    """What a guard cannot tell apart, so that rules must; by the pointers of the schemas.

    At the pointers `counted`, a guard was to count a string, but other strings may be at the same place. At
    those in `separated`, it was to mark keys, but listed objects may be there. `marked_beside` has the keys
    that a guard marks in other objects at the same place.
    """

    counted: frozenset[str] = frozenset()
    separated: frozenset[str] = frozenset()
    marked_beside: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.counted or self.separated or self.marked_beside)

    def __or__(self, other: "Ambiguities") -> "Ambiguities":
        none = frozenset[str]()
        pointers = self.marked_beside.keys() | other.marked_beside.keys()
        return Ambiguities(
            self.counted | other.counted,
            self.separated | other.separated,
            {p: self.marked_beside.get(p, none) | other.marked_beside.get(p, none) for p in pointers},
        )


class AmbiguousPaths(Exception):
    """A schema must be lowered again, so that rules tell apart what a guard cannot."""

    def __init__(self, ambiguities: Ambiguities) -> None:
        self.ambiguities = ambiguities
        super().__init__(ambiguities)
