"""Reads a whole output the way a lenient server does: whitespace between the fixed texts is free.

The runtime's own parser follows the text that a grammar guarantees, character for character. What was
written without one deserves the reading that keeps most of it.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from compiler.syntax import Syntax
from runtime.study.faults import OutputFault, RepeatedKey, read_json, syntax_fault


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call; `arguments` only if `fault` is None. `reason` says the fault in words."""

    name: str
    arguments: Any
    fault: OutputFault | None = None
    reason: str = ""

    @property
    def is_json(self) -> bool:
        """Whether the call is whole and its arguments are JSON; a repeated key is."""
        return self.fault in {None, OutputFault.REPEATED_KEY}


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """The calls of an output and whether there was anything but calls; `fault` if that is the first fault."""

    calls: tuple[ParsedCall, ...]
    fault: OutputFault | None = None
    reason: str = ""

    @property
    def is_json(self) -> bool:
        """Whether this is calls and nothing else, each with arguments that are JSON."""
        return self.fault is None and all(call.is_json for call in self.calls)


def can_be_read(syntax: Syntax) -> bool:
    """Whether arguments are JSON and calls stand between fixed texts."""
    return syntax.tags is None and not syntax.messages and syntax.after_number is None


def read(text: str, syntax: Syntax) -> ParsedOutput:
    """The calls in an output, behind its thought."""
    if syntax.thought is not None:
        text = text.rpartition(syntax.thought.end)[2]
    shape = _shape(syntax)
    found = shape.first.search(text)
    if found is None:
        return _without_call(text, syntax)
    prefix = text[: found.start()]
    calls: list[ParsedCall] = []
    end = 0
    while found is not None:
        call, end = _read_call(text, found, shape)
        calls.append(call)
        found = shape.next.match(text, end) if shape.next is not None else None
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
    """The fixed texts of a syntax with free whitespace; `tail` is what of a call's end is no JSON.

    `name`: what stands behind arguments that come before the name, where a call is an object.
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
    behind = None
    if wrapper := _WRAPPER.fullmatch(syntax.begin + syntax.after_name):
        before, name_key, comma, arguments_key = wrapper.groups()
        headers.append(before + arguments_key)
        behind = comma.lstrip('"') + name_key + _NAME + '"'

    def free(*fixed: str) -> re.Pattern[str]:
        spelled = (r"\s*".join(map(re.escape, _PIECES.findall(text))) for text in fixed)
        return re.compile(rf"\s*(?:{'|'.join(spelled)})".replace(re.escape(_NAME), name))

    following = None
    if syntax.separator is not None:
        following = free(*(syntax.separator + header for header in headers))
    return _Shape(
        free(*(syntax.opening + header for header in headers)),
        following,
        free(behind) if behind else None,
        free(syntax.end),
        syntax.end.strip().lstrip("}").lstrip(),
        free(syntax.closing),
    )


def _read_call(text: str, header: re.Match[str], shape: _Shape) -> tuple[ParsedCall, int]:
    """A call, and where the text goes on."""
    name, start = _unescaped(header[1] or ""), _skip_blanks(text, header.end())
    try:
        arguments, at = read_json(text, start)
    except (ValueError, RecursionError) as error:
        at, end = _end_of(text, start, shape)
        return _broken(name, text[:at], start, error), end
    behind = shape.name.match(text, at) if shape.name and header[1] is None else None
    if behind is not None:
        name, at = _unescaped(behind[1]), behind.end()
    has_name = behind is not None or header[1] is not None
    if has_name and (found := shape.end.match(text, at)) is not None:
        return ParsedCall(name, arguments), found.end()
    body, end = _end_of(text, at, shape)
    fault = _end_fault(text[at:body].strip(), has_end=shape.end.match(text, body) is not None)
    return ParsedCall(name, None, fault, "the call does not end behind its arguments"), end


def _end_fault(rest: str, *, has_end: bool) -> OutputFault:
    """The kind of what stands behind arguments where a call should end; `has_end`: it does so later."""
    if re.match(r"//|/\*|#", rest):
        return OutputFault.COMMENT
    if not rest.strip("}") and not has_end:
        return OutputFault.UNCLOSED
    return OutputFault.PUNCTUATION if re.match(r'[:;"\]}]', rest) else OutputFault.INVENTED


def _end_of(text: str, start: int, shape: _Shape) -> tuple[int, int]:
    """Where the end of a call begins and ends; without one, both where the text ends."""
    if found := shape.end.search(text, start):
        return found.span()
    at = text.find(shape.tail, start) if shape.tail else -1
    return (at, at + len(shape.tail)) if at >= 0 else (len(text), len(text))


def _broken(name: str, body: str, start: int, error: ValueError | RecursionError) -> ParsedCall:
    """The body alone decides, so that what follows a call is not taken for a part of it."""
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
