"""Reads a whole output the way a lenient server does: whitespace between the fixed texts is free.

The runtime's own parser follows the text that a grammar guarantees, character for character. What was
written without one deserves the reading that keeps most of it.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from compiler.syntax import Syntax
from runtime.study.faults import Fault, RepeatedKey, read_json, syntax_fault


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call; `arguments` only if `fault` is None. `reason` says the fault in words."""

    name: str
    arguments: Any
    fault: Fault | None = None
    reason: str = ""

    @property
    def is_json(self) -> bool:
        """Whether the call is whole and its arguments are JSON; a repeated key is."""
        return self.fault in {None, Fault.REPEATED_KEY}


@dataclass(frozen=True, slots=True)
class Reading:
    """The calls of an output and whether there was anything but calls; `fault` if that is the first fault."""

    calls: tuple[ReadCall, ...]
    fault: Fault | None = None
    reason: str = ""

    @property
    def is_json(self) -> bool:
        """Whether this is calls and nothing else, each with arguments that are JSON."""
        return self.fault is None and all(call.is_json for call in self.calls)


def can_be_read(syntax: Syntax) -> bool:
    """Whether arguments are JSON and calls stand between fixed texts."""
    return syntax.tags is None and not syntax.messages and syntax.after_number is None


def read(text: str, syntax: Syntax) -> Reading:
    """The calls in an output, behind its thought."""
    if syntax.thought is not None:
        text = text.rpartition(syntax.thought.end)[2]
    shape = _shape(syntax)
    found = shape.first.search(text)
    if found is None:
        return _without_call(text, syntax)
    prose = text[: found.start()]
    calls: list[ReadCall] = []
    end = 0
    while found is not None:
        call, end = _read_call(text, found, shape)
        calls.append(call)
        found = shape.next.match(text, end) if shape.next is not None else None
    closing = shape.closing.match(text, end)
    prose += text[closing.end() if closing else end :]
    if prose.strip():
        is_broken = _begins_call(prose, syntax) and shape.first.search(prose) is None
        return Reading(tuple(calls), Fault.INVENTED if is_broken else Fault.PROSE, "there is more than calls")
    if closing is None:
        return Reading(tuple(calls), Fault.UNCLOSED, "the list of calls is not closed")
    return Reading(tuple(calls))


@dataclass(frozen=True, slots=True)
class _Shape:
    """The fixed texts of a syntax with free whitespace; `tail` is what of a call's end is no JSON."""

    first: re.Pattern[str]
    next: re.Pattern[str] | None
    end: re.Pattern[str]
    tail: str
    closing: re.Pattern[str]


_NAME = "\0"
_PIECES = re.compile(r'"[^"]*"|\0|[{}\[\]:,"]|[^\s{}\[\]:,"\0]+')


@cache
def _shape(syntax: Syntax) -> _Shape:
    assert can_be_read(syntax), "a syntax whose calls stand between fixed texts"
    name = r"([^\s<>\[\]{}\"]+)" if syntax.has_plain_names else r'((?:[^"\\\n]|\\.)*)'
    header = syntax.begin + _NAME + syntax.after_name

    def free(fixed: str) -> re.Pattern[str]:
        escaped = (re.escape(piece) for piece in _PIECES.findall(fixed))
        return re.compile(r"\s*" + r"\s*".join(escaped).replace(re.escape(_NAME), name))

    following = None if syntax.separator is None else free(syntax.separator + header)
    tail = syntax.end.strip().lstrip("}").lstrip()
    return _Shape(free(syntax.opening + header), following, free(syntax.end), tail, free(syntax.closing))


def _read_call(text: str, header: re.Match[str], shape: _Shape) -> tuple[ReadCall, int]:
    """A call, and where the text goes on."""
    name, start = _unescaped(header[1]), _skip_blanks(text, header.end())
    try:
        arguments, at = read_json(text, start)
    except (ValueError, RecursionError) as error:
        at, end = _end_of(text, start, shape)
        return _broken(name, text[:at], start, error), end
    if (found := shape.end.match(text, at)) is not None:
        return ReadCall(name, arguments), found.end()
    body, end = _end_of(text, at, shape)
    fault = Fault.INVENTED if text[at:body].strip(" \n}") else Fault.UNCLOSED
    return ReadCall(name, None, fault, "the call is not closed"), end


def _end_of(text: str, start: int, shape: _Shape) -> tuple[int, int]:
    """Where the end of a call begins and ends; without one, both where the text ends."""
    if found := shape.end.search(text, start):
        return found.span()
    at = text.find(shape.tail, start) if shape.tail else -1
    return (at, at + len(shape.tail)) if at >= 0 else (len(text), len(text))


def _broken(name: str, body: str, start: int, error: ValueError | RecursionError) -> ReadCall:
    """The body alone decides, so that what follows a call is not taken for a part of it."""
    if not isinstance(error, RepeatedKey):
        try:
            read_json(body, start)
        except (ValueError, RecursionError) as own:
            error = own
    return ReadCall(name, None, syntax_fault(body, error), f"the arguments are not JSON: {error}")


def _without_call(text: str, syntax: Syntax) -> Reading:
    is_like_a_call = bool(re.search(r"[{\[]", text)) or bool(
        syntax.trigger and syntax.trigger.strip() in text
    )
    if is_like_a_call:
        return Reading((), Fault.INVENTED, "the call is not in the format asked for")
    return Reading((), Fault.NO_CALL, "there is no call")


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
