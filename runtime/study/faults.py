"""What is wrong with an output: one kind each, the first that applies in the order of `OutputFault`."""

import json
import math
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NoReturn

import jsonschema_rs


class OutputFault(StrEnum):
    """The kinds, in order of precedence: how an output ended, what is around a call, its JSON, its values."""

    REFUSED = "refused"  # the strategy has no grammar for the tools
    TRUNCATED = "truncated"  # the limit came first
    BROKEN_UTF8 = "broken UTF-8"  # bytes that are no text
    NO_CALL = "no call"  # prose alone, or nothing
    INVENTED = "invented structure"  # something like a call, but not in the model's syntax
    PREFIX = "prose before it"
    SUFFIX = "prose behind it"  # or between calls
    COMMENT = "comment"
    TRAILING_COMMA = "trailing comma"
    QUOTING = "quoting"  # single quotes, or none, or one of a pair
    ESCAPING = "escaping"  # a bad escape, half a character, or a quote that lacks one
    BAD_LITERAL = "bad literal"  # NaN, None, True, 007, 19:11, or none at all
    RAW_NEWLINE = "raw newline"  # or another control character inside a string
    UNCLOSED = "unclosed"
    PUNCTUATION = "punctuation"  # a colon, comma or bracket too many, missing or in another's place
    REPEATED_KEY = "repeated key"
    UNKNOWN_TOOL = "unknown tool"
    MISSING_KEY = "missing key"
    EXTRA_KEY = "extra key"
    WRONG_TYPE = "wrong type"
    BAD_VALUE = "bad value"  # of the right type: enum, bounds, format, pattern, a combination


class BadLiteral(ValueError):
    """A word or number that Python's reader takes and JSON does not have."""


class RepeatedKey(ValueError):
    """An object has a key twice."""


class LoneSurrogate(ValueError):
    """A string has half a character: an escape for one surrogate without the other."""


def read_json(text: str, start: int = 0) -> tuple[Any, int]:
    """The JSON value at `start`, and where it ends.

    Raises:
        ValueError: there is none: `json.JSONDecodeError`, `BadLiteral`, `RepeatedKey` or `LoneSurrogate`.
        RecursionError: it is nested too deep.
    """
    value, end = _DECODER.raw_decode(text, start)
    if _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise LoneSurrogate("a string has a lone surrogate, which is no character")
    return value, end


def syntax_fault(text: str, start: int, error: ValueError | RecursionError) -> OutputFault:
    """The kind of an error of `read_json` at `start`, told by the place where reading stopped."""
    match error:
        case RepeatedKey():
            return OutputFault.REPEATED_KEY
        case LoneSurrogate():
            return OutputFault.ESCAPING
        case BadLiteral():
            return OutputFault.BAD_LITERAL
        case json.JSONDecodeError(msg=message, pos=at):
            return _fault_at(text[start:at], text[at:], message)
        case _:
            return OutputFault.UNCLOSED


def schema_fault(errors: Iterable[jsonschema_rs.ValidationError]) -> OutputFault | None:
    """The kind of what a validator finds, None if it finds nothing."""
    found = {_KEYWORDS.get(error.kind.name, OutputFault.BAD_VALUE) for error in errors}
    return next((fault for fault in OutputFault if fault in found), None)


_KEYWORDS = {
    "required": OutputFault.MISSING_KEY,
    "minProperties": OutputFault.MISSING_KEY,
    "additionalProperties": OutputFault.EXTRA_KEY,
    "unevaluatedProperties": OutputFault.EXTRA_KEY,
    "maxProperties": OutputFault.EXTRA_KEY,
    "propertyNames": OutputFault.EXTRA_KEY,
    "type": OutputFault.WRONG_TYPE,
}


def _fault_at(before: str, rest: str, message: str) -> OutputFault:
    rest = rest.lstrip()
    fitting = (
        fault
        for begin, behind, ahead, fault in _PLACES
        if message.startswith(begin) and re.search(behind, before) and re.match(ahead, rest)
    )
    fault = next(fitting, OutputFault.PUNCTUATION)
    is_stray = fault is OutputFault.UNCLOSED and rest[:1] == "]" and not _is_in_array(before)
    return OutputFault.PUNCTUATION if is_stray else fault


def _is_in_array(before: str) -> bool:
    """Whether more `[` than `]` stand outside the strings of a text."""
    bare = _STRING.sub("", before)
    return bare.count("[") > bare.count("]")


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SURROGATE = re.compile("[\ud800-\udfff]")
_LITERAL = r"[-+.]?(\d|\.\d|NaN\b|nan\b|Inf|inf)|(None|True|False|TRUE|FALSE|NULL|Null|undefined)\b|[,\]}]"
_BARE = r"[^\s\",:;=()\[\]{}]"
_PLACES = (
    ("Invalid control character", "", "", OutputFault.RAW_NEWLINE),
    ("Invalid \\", "", "", OutputFault.ESCAPING),
    ("Illegal trailing comma", "", "", OutputFault.TRAILING_COMMA),
    ("Unterminated string", "", "", OutputFault.UNCLOSED),
    ("", "", r"$", OutputFault.UNCLOSED),
    ("", "", r"//|/\*|#", OutputFault.COMMENT),
    ("", r",\s*$", r"[\]}]", OutputFault.TRAILING_COMMA),
    ("Expecting ',' delimiter", "", r"[\]}]", OutputFault.UNCLOSED),  # another bracket is open
    ("Expecting ',' delimiter", r'"\s*$', _BARE, OutputFault.ESCAPING),  # the string was meant to go on
    ("Expecting ',' delimiter", r"[\d.]$", r'"', OutputFault.QUOTING),  # 3"
    (
        "Expecting ',' delimiter",
        r"[\d.]\s*$",
        rf':?{_BARE}[^",;\[\]{{}}]*"',
        OutputFault.QUOTING,
    ),  # 3 metres"
    ("Expecting ',' delimiter", r"[\d.]\s*$", rf":?{_BARE}", OutputFault.BAD_LITERAL),
    ("Expecting ':' delimiter", r'"\s*$', _BARE, OutputFault.QUOTING),  # the key lacks its second quote
    ("Expecting value", "", _LITERAL, OutputFault.BAD_LITERAL),
    ("Expecting value", "", _BARE, OutputFault.QUOTING),
    ("Expecting property name", "", _BARE, OutputFault.QUOTING),
)
"""How a message of `json` begins, what stands before and behind the place, and what that is; first match."""


def _refuse(literal: str) -> NoReturn:
    raise BadLiteral(f"{literal} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise RepeatedKey("an object has a key twice")
    return members


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_distinct)
