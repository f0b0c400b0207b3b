"""The region: free text at one place of an output, and where it leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compiler.free_text import FreeText
    from compiler.junction import Junction


class Region:
    """Free text; where it ends in a call's trigger or a message's end, `exit` goes on from there.

    `exit` is set once the junction exists: messages lead back to where they came from.
    """

    def __init__(self) -> None:
        self.exit: Junction | None = None
        self._text: FreeText | None = None

    @property
    def text(self) -> FreeText:
        """What may be written here."""
        assert self._text is not None, "a region is complete before it is used"
        return self._text

    def set(self, text: FreeText, exit: Junction | None) -> None:  # noqa: A002 - its name
        """Complete the region, once."""
        assert self._text is None, "a region is completed once"
        self._text, self.exit = text, exit

    def fits(self, rest: bytes) -> bool:
        """Whether some output goes on with `rest` from the region's beginning."""
        _, after = self.text.step(0, rest)
        return after is None or (self.exit is not None and self.text.allows(after))
