"""How deep a schema may be nested: what reads one recurs as deep."""

from typing import Any

from compiler.errors import UnsupportedSchema

MAX_DEPTH = 200


def check_depth(document: Any, most: int = MAX_DEPTH) -> None:
    """Refuse a document nested more than `most` levels deep.

    Raises:
        UnsupportedSchema: it is.
    """
    level = [document]
    for _ in range(most + 1):
        level = [
            child
            for value in level
            if isinstance(value, dict | list | tuple)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise too_deep(f"nested more than {most} levels deep")


def too_deep(reason: str = "the schema is nested too deeply") -> UnsupportedSchema:
    """The refusal of a schema whose nesting is out of bounds."""
    return UnsupportedSchema("", "", reason, "Flatten the schema, or use $defs and $ref.")
