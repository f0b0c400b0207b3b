"""The mask inside a string, kept while that is written on: the same may follow any of its characters."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compiler.guard.cursor import Cursor, Scope
    from compiler.token_index import Row


class KeptMask:
    """The last mask of one matcher inside a plain string, by the string's scope; lengths are no matter here.

    Every value has a scope object of its own, so that a rollback cannot lead to another string under it.
    """

    def __init__(self) -> None:
        self._scope: Scope | None = None
        self._row: Row | None = None

    def fill(self, row: "Row", cursor: "Cursor") -> bool:
        """Overwrite the row if its mask is the one kept; whether it is."""
        if not cursor.is_settled or self._row is None or cursor.scope is not self._scope:
            return False
        row[:] = self._row
        return True

    def keep(self, row: "Row", cursor: "Cursor") -> None:
        """Keep the row if it is a plain string's."""
        if cursor.is_settled and cursor.is_in_plain_string:
            self._scope, self._row = cursor.scope, row.copy()
