"""The limit on how deep a schema is nested: code that reads a schema recurses as deep."""

from typing import Any

from compiler.errors import UnsupportedSchema

MAX_DEPTH = 200


def check_depth(document: Any, max_depth: int = MAX_DEPTH) -> None:
    """Refuse a document that is nested more than `max_depth` levels deep.

    Raises:
        UnsupportedSchema: it is.
    """
    level = [document]
    for _ in range(max_depth + 1):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list | tuple)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise too_deep(f"nested more than {max_depth} levels deep")


def too_deep(reason: str = "the schema is nested too deeply") -> UnsupportedSchema:
    """The refusal of a schema that is nested too deeply."""
    return UnsupportedSchema("", "", reason, "Flatten the schema, or use $defs and $ref.")
