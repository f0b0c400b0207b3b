r"""Patterns of keys that canonicalization would take for the keys themselves.

It reads `patternProperties: {"^a$": S}` as `properties: {"a": S}`. To engines as Python's, `^a$` also matches
the key `a` with a line break after it, to which S applies then. A pattern is lowered so that such a key is
never written, but only if it is still a pattern. An empty group changes nothing in what a pattern matches,
and canonicalization leaves such a pattern alone.

The keys may be known where that admits less: where no other keys are admitted, not even by another pattern,
and below one negation where all others are.

>>> without_folding({"patternProperties": {"^a$": True, "^[ab]$": False}}, is_referred=False)
{'patternProperties': {'^a(?:)$': True, '^[ab]$': False}}
>>> without_folding({"patternProperties": {"^a$": True}, "additionalProperties": False}, is_referred=False)
{'patternProperties': {'^a$': True}, 'additionalProperties': False}
"""

import re
from typing import Any

from compiler.frontend.keywords import DEFINITIONS, LISTS, MAPS, SINGLE, UNEVALUATED, inside
from toolspecs.schemas.bundle import REFERENCES

_EITHER = frozenset({"oneOf", "if", "contains", *DEFINITIONS})
"""Keywords whose subschemas may be asserted or negated."""
_OF_UNKNOWN_SIGN = frozenset({*REFERENCES, *UNEVALUATED})
"""In documents with these, so may all schemas, or what they evaluate counts."""
_FOLDED = re.compile(r"\^\(?(?:[^\\^$.?*+()\[\]{}]|\\[^0-9A-Za-z])*\)?\$")
"""Texts between anchors, and alternatives of texts; also some that are not folded."""


def without_folding(document: Any, *, is_referred: bool) -> Any:
    """The document with patterns of keys that stay patterns in its canonical form; it admits the same.

    `is_referred`: a schema refers to the document, perhaps below a negation.
    """
    is_unknown = is_referred or any(schema.keys() & _OF_UNKNOWN_SIGN for schema in inside(document))
    return _changed(document, 0 if is_unknown else 1)


def _changed(schema: Any, sign: int) -> Any:
    """The schema without folding; `sign` is 1 if it is asserted, -1 if it is negated, 0 if it may be both."""
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        inner = -sign if keyword == "not" else 0 if keyword in _EITHER else sign
        if keyword in MAPS and isinstance(value, dict):
            result[keyword] = {key: _changed(part, inner) for key, part in value.items()}
        elif keyword in LISTS and isinstance(value, list):
            result[keyword] = [_changed(part, inner) for part in value]
        else:
            result[keyword] = _changed(value, inner) if keyword in SINGLE else value
    if isinstance(patterns := result.get("patternProperties"), dict) and not _admits_less(schema, sign):
        result["patternProperties"] = _unfolded(patterns)
    return result


def _admits_less(schema: dict[str, Any], sign: int) -> bool:
    """Whether patterns that are read as their keys admit fewer values, whatever stands beside them."""
    others = schema.get("additionalProperties", True)
    if sign > 0:  # a key with a line break is refused then; declared ones are refused where literals are read
        return others is False and all(map(_FOLDED.fullmatch, schema["patternProperties"]))
    return sign < 0 and others is True


def _unfolded(patterns: dict[str, Any]) -> dict[str, Any]:
    """The patterns as patterns that are not folded, in their order and each in a spelling of its own."""
    result: dict[str, Any] = {}
    for pattern, schema in patterns.items():
        text = unfolded(pattern)
        while text != pattern and (text in patterns or text in result):
            text = f"{text[:-1]}(?:)$"
        result[text] = schema
    return result


def unfolded(pattern: str) -> str:
    """The pattern as its canonical form has it, mostly: two spellings of one pattern get different ones."""
    return f"{pattern[:-1]}(?:)$" if _FOLDED.fullmatch(pattern) else pattern
