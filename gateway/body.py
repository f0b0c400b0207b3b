"""Reading JSON bodies, with errors that say where."""

import json
import re
from codecs import BOM_UTF8
from typing import Any, TypeVar

import msgspec

from gateway.errors import DeepBody, InvalidField, MalformedBody
from gateway.expected import expected_at, value_at
from toolspecs.nearest import MAX_NAME, instead, shorten

T = TypeVar("T")

_PLACE = re.compile(r"^(?P<reason>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*+"|[^\s"\[\]{},:]+')
_WHOLE_ESCAPES = re.compile(
    r"(?:[^\\]|\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\(?!u[dD][89a-fA-F]).)*+"
)
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]')
_DEEP = 500
"""Levels that are always read; Python's stack allows for some more."""
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)


def read_json(raw: bytes, *, keeps_surrogates: bool = False) -> Any:
    """The value of a JSON text.

    A byte order mark before it is ignored, as RFC 8259 allows. An escape of half a surrogate pair is no text,
    and the body malformed, unless `keeps_surrogates`: for readers that name the place.

    Raises:
        MalformedBody: it is none, or (DeepBody) nested too deeply to be read; says where.
    """
    try:
        return msgspec.json.decode(raw.removeprefix(BOM_UTF8))
    except RecursionError as error:
        raise _too_deep(raw.removeprefix(BOM_UTF8).decode(errors="replace")) from error
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        if keeps_surrogates and (value := _with_surrogates(raw)) is not None:
            return value
        raise _located(raw.removeprefix(BOM_UTF8), str(error)) from error


def convert(value: Any, shape: type[T]) -> T:
    """`value` as a msgspec struct.

    Raises:
        InvalidField: a field is unknown, missing or of the wrong type; its path is in `param`.
    """
    try:
        return msgspec.convert(value, shape)
    except UnicodeEncodeError as error:
        raise InvalidField("", "a key is half a surrogate pair, which is no Unicode text") from error
    except msgspec.ValidationError as error:
        place = _PLACE.match(str(error))
        assert place, "msgspec words its errors as `reason - at $.path`"
        path = (place["path"] or "").lstrip(".")
        found = value_at(value, path)
        expected = expected_at(shape, path, found)
        if unknown := _UNKNOWN.fullmatch(place["reason"]):
            field = shorten(unknown["field"], MAX_NAME)
            reason = f"there is no such field{instead(unknown['field'], expected.fields)}"
            raise InvalidField(f"{path}.{field}" if path else field, reason) from error
        if isinstance(found, str) and expected.texts:
            reason = f"{shorten(found, MAX_NAME)!r} is none of its values{instead(found, expected.texts)}"
        else:
            reason = place["reason"] + (f"; expected {expected}" if str(expected) else "")
        raise InvalidField(path, reason) from error


def _with_surrogates(raw: bytes) -> Any:
    """The value of a text that is JSON but for such escapes; None if it is none."""
    try:
        return json.loads(raw, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _located(raw: bytes, reason: str) -> MalformedBody:
    """The error of a body that is no JSON, with its place, as msgspec tells that of some faults only."""
    try:
        text = raw.decode()
        json.loads(text, parse_int=str, parse_float=str)
    except UnicodeDecodeError as error:
        return _malformed(raw[: error.start].decode(), "a byte that is not UTF-8")
    except json.JSONDecodeError as error:
        return MalformedBody(error.msg, error.lineno, error.colno)
    except RecursionError:
        return MalformedBody(reason)
    # Python reads more than JSON allows: NaN, numbers out of range, escapes of lone surrogates.
    for scalar in _SCALAR.finditer(text):
        try:
            msgspec.json.decode(scalar[0])
        except msgspec.MsgspecError:
            at, why = _flaw(scalar[0])
            return _malformed(text[: scalar.start() + at], why)
    return MalformedBody(reason)


def _flaw(scalar: str) -> tuple[int, str]:
    """Where in a scalar of Python's JSON, and why, it is none of JSON's."""
    if scalar.startswith('"'):
        half = _WHOLE_ESCAPES.match(scalar)
        return half.end() if half else 0, "an escape of half a surrogate pair, which is no text"
    if scalar[-1].isdigit():
        return 0, "a number larger than any double"
    return 0, f"{scalar} is no JSON value"


def _too_deep(text: str) -> DeepBody:
    """The error of a text that Python's stack is too small for."""
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > _DEEP:
            return DeepBody(f"nested more than {_DEEP} deep", *_place(text[: found.start()]))
    return DeepBody("nested too deeply")


def _malformed(before: str, reason: str) -> MalformedBody:
    """The error of what stands behind `before`."""
    return MalformedBody(reason, *_place(before))


def _place(before: str) -> tuple[int, int]:
    """Line and column, from 1, of what stands behind `before`."""
    return before.count("\n") + 1, len(before) - before.rfind("\n")
