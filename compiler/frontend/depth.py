"""Documents that are refused before anything else: nested too deeply, or with what JSON cannot hold.

Code that reads a schema recurses as deep as it is nested.
"""

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

from compiler.errors import UnsupportedSchema
from toolspecs.json_pointer import child

MAX_DEPTH = 200


def check_contents(contents: Iterable[Any]) -> None:
    """Refuse documents that code cannot read.

    Raises:
        UnsupportedSchema: one is nested too deeply, or holds what JSON cannot hold.
    """
    for content in contents:
        check_depth(content)
        _check_text(content)


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


def _check_text(document: Any) -> None:
    """Refuse a document with half a surrogate pair, with no number, or with more digits than Python writes.

    Raises:
        UnsupportedSchema: it has.
    """
    try:
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise UnsupportedSchema("", "", "has a lone surrogate in a text", "Remove it.") from None
    except ValueError:
        for pointer in _not_finite(document, ""):
            reason = "has a number that JSON cannot hold: infinity or NaN"
            raise UnsupportedSchema(pointer, "", reason, "Write a finite number.") from None
        raise UnsupportedSchema("", "", "has a number with too many digits", "Shorten it.") from None


def _not_finite(value: Any, pointer: str) -> Iterator[str]:
    """The pointers to what is infinite or not a number."""
    if isinstance(value, float) and not math.isfinite(value):
        yield pointer
    elif isinstance(value, dict | list | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _not_finite(inner, child(pointer, str(key)))
