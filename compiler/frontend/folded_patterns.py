r"""Patterns of keys that canonicalization would take for the keys themselves.

It reads `patternProperties: {"^a$": S}` as `properties: {"a": S}`. To engines as Python's, `^a$` also matches
the key `a` with a line break after it, to which S applies then. A pattern is lowered so that such a key is
never written, but only if it is still a pattern. An empty group changes nothing in what a pattern matches,
and canonicalization leaves such a pattern alone.

Where no other keys are admitted and nothing is negated, no such key is either: there the keys may be known.

>>> without_folding({"patternProperties": {"^a$": True, "^[ab]$": False}})
{'patternProperties': {'^a(?:)$': True, '^[ab]$': False}}
>>> without_folding({"patternProperties": {"^a$": True}, "additionalProperties": False})
{'patternProperties': {'^a$': True}, 'additionalProperties': False}
"""

import re
from typing import Any

from compiler.frontend.dialect_dependent import NEGATIVE
from compiler.frontend.keywords import inside, transformed

_FOLDED = re.compile(r"\^\(?(?:[^\\^$.?*+()\[\]{}]|\\[^0-9A-Za-z])*\)?\$")
"""Texts between anchors, and alternatives of texts; also some that are not folded."""


def without_folding(document: Any) -> Any:
    """The document with patterns of keys that stay patterns in its canonical form; it admits the same."""
    has_negation = any(schema.keys() & NEGATIVE for schema in inside(document))

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        patterns = schema.get("patternProperties")
        is_closed = schema.get("additionalProperties") is False and not has_negation
        if is_closed or not isinstance(patterns, dict):
            return schema
        return {**schema, "patternProperties": {unfolded(text): inner for text, inner in patterns.items()}}

    return transformed(document, change)


def unfolded(pattern: str) -> str:
    """The pattern as its canonical form has it."""
    return f"{pattern[:-1]}(?:)$" if _FOLDED.fullmatch(pattern) else pattern
