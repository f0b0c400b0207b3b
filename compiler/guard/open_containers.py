"""The objects and arrays that a text is inside of, and what is left to write of the elements that they hold.

*Elements* are the keys of an object and the items of an array. They are compared in their canonical spelling:
without blanks, and with each character of a string as `compiler.guard.json_characters` says. The lowering
gives each item that must differ from others only one such spelling
(`compiler.lowering.constraints.Context.is_distinct`).
"""

from collections.abc import Iterator
from typing import NamedTuple

from compiler.guard.growing_text import GrowingText
from compiler.guard.json_characters import CANONICAL_CHARACTER, escapes_of
from compiler.guard.plan import PathStates
from compiler.guard.seen_values import SeenValues


class SeenElement(NamedTuple):
    """What is left to write of an element that the container holds already; completing it would repeat it."""

    rest: bytes
    """In the canonical spelling; from a comma on if the element has not begun."""
    can_run_out: bool
    """The elements of the container can run out (see `PathState.can_run_out`)."""
    is_begun: bool
    """The text is inside an element, or must begin one: the container cannot end here."""

    def after_escape(self, escape: bytes) -> Iterator["SeenElement"]:
        r"""What is left if its first character has begun as `escape`, for every escape that begins so.

        With `rest` `a"` and `escape` `\u00`, there is one: `61"`.
        """
        char = CANONICAL_CHARACTER.match(self.rest)
        if char is not None:
            for spelling in escapes_of(char.group()):
                if spelling.startswith(escape):
                    yield self._replace(rest=spelling[len(escape) :] + self.rest[char.end() :])


class OpenContainer(NamedTuple):
    """An object or array that the text is inside of; a value."""

    parent: "OpenContainer | None"
    states: PathStates
    is_object: bool
    forbids_repeats: bool
    """It may not repeat an element: `seen` holds them."""
    can_run_out: bool
    """Its elements can run out (see `PathState.can_run_out`)."""
    marked_keys: frozenset[bytes]
    """After these keys the grammar must read a mark (see `compiler.guard.key_marks`)."""
    is_recorded: bool
    """It is inside an item that must be distinct, so `text` collects its canonical spelling."""
    seen: SeenValues = SeenValues()
    item_index: int = 0
    """The index of the item that the text is at."""
    text: GrowingText = GrowingText()
    """The canonical spelling from the beginning of the outermost container that is recorded."""
    key: bytes = b""
    """The last key, with its quotes."""

    @property
    def records_values(self) -> bool:
        """Whether the canonical spelling of the values in it is needed."""
        return self.is_recorded or self.has_distinct_items

    @property
    def has_distinct_items(self) -> bool:
        """Whether it is an array that may not repeat an item."""
        return self.forbids_repeats and not self.is_object

    @property
    def and_around(self) -> Iterator["OpenContainer"]:
        """This container and those around it, outwards."""
        container: OpenContainer | None = self
        while container is not None:
            yield container
            container = container.parent
