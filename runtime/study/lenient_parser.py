"""Parses a whole output the way a lenient server does, and says what is wrong with it.

Under a grammar, the matcher knows where calls are. An output that was written without one deserves the parse
that keeps most of it: any blanks may stand between the fixed texts of the call syntax. Each output has at
most one fault, the first kind of `OutputFault` that applies.

    >>> from compiler.syntaxes import find_syntax
    >>> parse_output('<tool_call>{"name": "add", "arguments": {"n": 3,}}</tool_call>', find_syntax("hermes"))
    ParsedOutput(calls=(ParsedCall(name='add', ..., fault=<OutputFault.TRAILING_COMMA: 'trailing comma'>, ...
"""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, NoReturn

import jsonschema_rs

from compiler.syntax import Syntax


class OutputFault(StrEnum):
    """Kinds of faults in order: how an output ended, what surrounds a call, its JSON, its values."""

    REFUSED = "refused"  # the strategy has no grammar for the tools
    TRUNCATED = "truncated"  # at the limit of tokens
    BROKEN_UTF8 = "broken UTF-8"
    NO_CALL = "no call"  # prose alone, or nothing
    INVENTED = "invented structure"  # like a call, but not in the model's syntax
    PREFIX = "prose before it"
    SUFFIX = "prose after it"  # or between calls
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
    """A word or number that Python's JSON decoder accepts and JSON does not have."""


class RepeatedKey(ValueError):
    """An object has a key twice."""


class LoneSurrogate(ValueError):
    """A string has the escape of one surrogate without the other: half a character."""


def read_json(text: str, start: int = 0) -> tuple[Any, int]:
    """The JSON value at `start`, and the position after it.

    Raises:
        ValueError: there is none; `json.JSONDecodeError`, `BadLiteral`, `RepeatedKey` or `LoneSurrogate`.
        RecursionError: it is nested too deep.
    """
    value, end = _DECODER.raw_decode(text, start)
    if _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise LoneSurrogate("a string has a lone surrogate, which is no character")
    return value, end


def syntax_fault(text: str, start: int, error: ValueError | RecursionError) -> OutputFault:
    """The kind of an error of `read_json` at `start`, found by where the decoder stopped."""
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
    """The first kind of a validator's errors; None if there are no errors."""
    faults = {_KEYWORDS.get(error.kind.name, OutputFault.BAD_VALUE) for error in errors}
    return next((fault for fault in OutputFault if fault in faults), None)


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
        for begin, left, right, fault in _FAULT_RULES
        if message.startswith(begin) and re.search(left, before) and re.match(right, rest)
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
_FAULT_RULES = (
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
"""How a message of `json` begins, what stands before and after the position, and the fault; first match."""


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


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call; it has `arguments` only if `fault` is None. `reason` says the fault in words."""

    name: str
    arguments: Any
    fault: OutputFault | None = None
    reason: str = ""

    @property
    def is_json(self) -> bool:
        """Whether the call is complete and its arguments are JSON; keys may be repeated."""
        return self.fault in {None, OutputFault.REPEATED_KEY}


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """The calls of an output; `fault` if something besides the calls is the first fault."""

    calls: tuple[ParsedCall, ...]
    fault: OutputFault | None = None
    reason: str = ""

    @property
    def is_json(self) -> bool:
        """Whether there are only calls, each with arguments that are JSON."""
        return self.fault is None and all(call.is_json for call in self.calls)


def can_be_read(syntax: Syntax) -> bool:
    """Whether a syntax has JSON arguments, and calls between fixed texts."""
    return syntax.tags is None and not syntax.messages and syntax.after_number is None


def parse_output(text: str, syntax: Syntax) -> ParsedOutput:
    """Parse an output; a thought at its beginning is skipped."""
    if syntax.thought is not None:
        text = text.rpartition(syntax.thought.end)[2]
    shape = _shape(syntax)
    first = shape.first.search(text)
    if first is None:
        return _without_call(text, syntax)
    prefix = text[: first.start()]
    calls: list[ParsedCall] = []
    end = 0
    while first is not None:
        call, end = _read_call(text, first, shape)
        calls.append(call)
        first = shape.next.match(text, end) if shape.next is not None else None
    closing = shape.closing.match(text, end)
    suffix = text[closing.end() if closing else end :]
    if prose := (prefix + suffix).strip():
        is_broken = _begins_call(prose, syntax) and shape.first.search(prose) is None
        kind = OutputFault.PREFIX if prefix.strip() else OutputFault.SUFFIX
        return ParsedOutput(
            tuple(calls), OutputFault.INVENTED if is_broken else kind, "there is more than calls"
        )
    if closing is None:
        return ParsedOutput(tuple(calls), OutputFault.UNCLOSED, "the list of calls is not closed")
    return ParsedOutput(tuple(calls))


@dataclass(frozen=True, slots=True)
class _Shape:
    """The fixed texts of a syntax as patterns that allow any blanks.

    `tail` is the part of a call's end that is not JSON. `name` matches a name after the arguments: in a call
    that is a JSON object, the name may come last.
    """

    first: re.Pattern[str]
    next: re.Pattern[str] | None
    name: re.Pattern[str] | None
    end: re.Pattern[str]
    tail: str
    closing: re.Pattern[str]


_NAME = "\0"
_WRAPPER = re.compile(r'(.*\{)("name": ")(", )("\w+": )', re.DOTALL)
_CALL = re.compile(r"[{\[]\s*[\"']?[\w.]+[\"']?\s*[:=(]")
"""An object's first key, or a call as in Python."""
_PIECES = re.compile(r'"[^"]*"|\0|[{}\[\]:,"]|[^\s{}\[\]:,"\0]+')


@cache
def _shape(syntax: Syntax) -> _Shape:
    assert can_be_read(syntax), "a syntax whose calls stand between fixed texts"
    name = r"([^\s<>\[\]{}\"]+)" if syntax.has_plain_names else r'((?:[^"\\\n]|\\.)*)'
    headers = [syntax.begin + _NAME + syntax.after_name]
    name_after = None
    if wrapper := _WRAPPER.fullmatch(syntax.begin + syntax.after_name):
        before, name_key, comma, arguments_key = wrapper.groups()
        headers.append(before + arguments_key)
        name_after = comma.lstrip('"') + name_key + _NAME + '"'

    def free(*fixed: str) -> re.Pattern[str]:
        patterns = (r"\s*".join(map(re.escape, _PIECES.findall(text))) for text in fixed)
        return re.compile(rf"\s*(?:{'|'.join(patterns)})".replace(re.escape(_NAME), name))

    following = None
    if syntax.separator is not None:
        following = free(*(syntax.separator + header for header in headers))
    return _Shape(
        free(*(syntax.opening + header for header in headers)),
        following,
        free(name_after) if name_after else None,
        free(syntax.end),
        syntax.end.strip().lstrip("}").lstrip(),
        free(syntax.closing),
    )


def _read_call(text: str, header: re.Match[str], shape: _Shape) -> tuple[ParsedCall, int]:
    """A call, and the position after it."""
    name, start = _unescaped(header[1] or ""), _skip_blanks(text, header.end())
    try:
        arguments, at = read_json(text, start)
    except (ValueError, RecursionError) as error:
        at, end = _end_of(text, start, shape)
        return _broken(name, text[:at], start, error), end
    name_after = shape.name.match(text, at) if shape.name and header[1] is None else None
    if name_after is not None:
        name, at = _unescaped(name_after[1]), name_after.end()
    has_name = name_after is not None or header[1] is not None
    if has_name and (closing := shape.end.match(text, at)) is not None:
        return ParsedCall(name, arguments), closing.end()
    body, end = _end_of(text, at, shape)
    fault = _end_fault(text[at:body].strip(), has_end=shape.end.match(text, body) is not None)
    return ParsedCall(name, None, fault, "the call does not end after its arguments"), end


def _end_fault(rest: str, *, has_end: bool) -> OutputFault:
    """The fault of the text between arguments and a call's end; `has_end`: whether there is an end."""
    if re.match(r"//|/\*|#", rest):
        return OutputFault.COMMENT
    if not rest.strip("}") and not has_end:
        return OutputFault.UNCLOSED
    return OutputFault.PUNCTUATION if re.match(r'[:;"\]}]', rest) else OutputFault.INVENTED


def _end_of(text: str, start: int, shape: _Shape) -> tuple[int, int]:
    """The positions before and after a call's end; both are the text's end if it has none."""
    if end := shape.end.search(text, start):
        return end.span()
    at = text.find(shape.tail, start) if shape.tail else -1
    return (at, at + len(shape.tail)) if at >= 0 else (len(text), len(text))


def _broken(name: str, body: str, start: int, error: ValueError | RecursionError) -> ParsedCall:
    """The fault of arguments, found in the call's body alone, so that the text after it does not matter."""
    if not isinstance(error, RepeatedKey):
        try:
            read_json(body, start)
        except (ValueError, RecursionError) as own:
            error = own
    return ParsedCall(name, None, syntax_fault(body, start, error), f"the arguments are not JSON: {error}")


def _without_call(text: str, syntax: Syntax) -> ParsedOutput:
    marks = (syntax.trigger.strip(), _shape(syntax).tail)
    if _CALL.search(text) or any(mark and mark in text for mark in marks):
        return ParsedOutput((), OutputFault.INVENTED, "the call is not in the format asked for")
    return ParsedOutput((), OutputFault.NO_CALL, "there is no call")


def _begins_call(text: str, syntax: Syntax) -> bool:
    return bool(syntax.trigger) and syntax.trigger.strip() in text


def _skip_blanks(text: str, at: int) -> int:
    return len(text) - len(text[at:].lstrip())


def _unescaped(name: str) -> str:
    try:
        value, _ = read_json(f'"{name}"')
    except ValueError:
        return name
    return str(value)
