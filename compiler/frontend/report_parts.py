"""What the lowering tells of one value, which holds wherever that value stands."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from compiler.frontend.alike_locations import MovedPointers
from compiler.frontend.source_map import SchemaLocation
from compiler.report import Verdict


class PlacedNote(NamedTuple):
    """A verdict on a keyword of the schema at a pointer, and its reason."""

    pointer: str
    keyword: str
    verdict: Verdict
    text: str


@dataclass(eq=False)
class ReportPart:
    """What the lowering told while it lowered one value at a location; it holds wherever that value stands.

    `lowered` are the pointers that it vouched for. `uses` are the values inside, each with the location where
    it stands, which may be another one than that where it was lowered.
    """

    location: SchemaLocation
    notes: dict[PlacedNote, None] = field(default_factory=dict)
    lowered: set[str] = field(default_factory=set)
    uses: dict[tuple["ReportPart", SchemaLocation], None] = field(default_factory=dict)

    def moved_uses(self) -> Iterator[tuple["ReportPart", SchemaLocation]]:
        """The values inside that were lowered at another location than the one where they stand."""
        return ((part, location) for part, location in self.uses if part.location != location)

    def moved(self, location: SchemaLocation) -> "ReportPart":
        """What holds of the value at an alike location."""
        moved = MovedPointers(self.location, location)
        return ReportPart(
            location,
            {note._replace(pointer=moved.pointer(note.pointer)): None for note in self.notes},
            set(map(moved.pointer, self.lowered)),
            {(part, moved.location(place)): None for part, place in self.uses},
        )
