"""Reads JSON bodies, within limits; errors say where the fault is.

>>> read_json(b'{"name": "a", "name": "b"}')
Traceback (most recent call last):
gateway.errors.InvalidField: the object at / has the key 'name' twice; write one
"""

import json
import math
import re
from codecs import BOM_UTF8
from typing import Any, NamedTuple

import msgspec

from gateway.errors import InvalidField, MalformedBody, UnreadableBody
from toolspecs.errors import TooDeep, TooManyValues
from toolspecs.json_scan import ContentLimits, count_keys, has_repeated_key, repeated_key, scan
from toolspecs.nearest import MAX_NAME, shorten

DEFAULT_LIMITS = ContentLimits()
"""What a body may hold, unless the settings say otherwise; `scan` counts it before it is decoded."""
INNER_LIMITS = ContentLimits(num_values=20_000, depth=200, num_long_numbers=1_000)
"""What the arguments of one call, a JSON text inside a body, may hold; chat templates recurse into them."""

MAX_SEARCHED = 1_000_000
"""Bytes of a text in which the place of a repeated key is looked for; other threads wait meanwhile."""
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*+"|[^\s"\[\]{},:]+')
_WHOLE_ESCAPES = re.compile(
    r"(?:[^\\]|\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\(?!u[dD][89a-fA-F]).)*+"
)
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]')


class JsonBody(NamedTuple):
    """A body that was read: its text, its value, and the number of values in it, or a little more."""

    raw: bytes
    value: Any
    num_values: int


def read_json(
    raw: bytes,
    *,
    keeps_surrogates: bool = False,
    is_optional: bool = False,
    limits: ContentLimits = DEFAULT_LIMITS,
) -> JsonBody:
    """A body whose text is JSON.

    A byte order mark at the start is ignored, as RFC 8259 allows. A body with half a surrogate pair as an
    escape is malformed. With `keeps_surrogates` it is read nevertheless, so that the caller can name the
    field; so is a number that no double holds, as infinity. The caller must refuse both. If it `is_optional`,
    an empty text is an object without fields.

    Raises:
        MalformedBody: the text is not JSON, or (UnreadableBody) exceeds `limits`; with line and column.
        InvalidField: an object has a key twice. The value has only the last one, so the other would be lost
            without a word, such as a keyword of a schema.
    """
    text = raw.removeprefix(BOM_UTF8)
    if is_optional and not text.strip():
        return JsonBody(raw, {}, 1)
    try:
        num_values, num_keys = scan(text, limits)
        value = _decoded(text, keeps_surrogates=keeps_surrogates)
    except TooDeep as error:
        raise _too_deep(text.decode(errors="replace"), limits.depth) from error
    except TooManyValues as error:
        raise UnreadableBody(str(error)) from error
    if num_keys > count_keys(value):
        raise _repeated(text)
    return JsonBody(raw, value, num_values)


def check_keys(text: bytes, value: Any, param: str = "") -> None:
    """Raise InvalidField if an object of a JSON text has a key twice: its `value` has only the last one.

    `param` is the field that contains the text.
    """
    if has_repeated_key(text, value):
        raise _repeated(text, param)


def _repeated(text: bytes, param: str = "") -> InvalidField:
    """The error for a text in which an object has a key twice."""
    found = repeated_key(text) if len(text) <= MAX_SEARCHED else None
    return InvalidField(param, str(found or "an object of the body has a key twice; write each key once"))


def read_inner_json(text: str) -> Any:
    """The value of a JSON text inside a body; raises ValueError and TooManyValues.

    Python also reads what is not JSON, does not fit into a double, or is no Unicode text: NaN, Infinity,
    1e999 and halves of surrogate pairs are refused.
    """
    scan(text.encode("utf-8", "surrogatepass"), INNER_LIMITS)
    value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    if not _WHOLE_ESCAPES.fullmatch(text):
        raise ValueError("it holds half a surrogate pair, which is not Unicode text")
    return value


def _decoded(text: bytes, *, keeps_surrogates: bool) -> Any:
    """The value of a text; raises MalformedBody."""
    try:
        return msgspec.json.decode(text)
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        if keeps_surrogates and (value := _with_surrogates(text)) is not None:
            return value
        raise _located(text, str(error)) from error


def _with_surrogates(raw: bytes) -> Any:
    """The value of a text that is JSON except for half surrogate pairs; None if it is not JSON otherwise."""
    try:
        # Decoded here, because `json` would read bytes as UTF-16 if they look like it, and `scan` did not.
        return json.loads(raw.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{shorten(digits, MAX_NAME)} is out of range")
    return value


def _located(raw: bytes, reason: str) -> MalformedBody:
    """The error for a body that is not JSON, with line and column, which msgspec does not always give."""
    if not raw.strip():
        return MalformedBody("it is empty", 1, 1)
    try:
        text = raw.decode()
        json.loads(text, parse_int=str, parse_float=str)
    except UnicodeDecodeError as error:
        return _malformed(raw[: error.start].decode(), "a byte that is not UTF-8")
    except json.JSONDecodeError as error:
        return MalformedBody(error.msg, error.lineno, error.colno)
    except RecursionError:
        return MalformedBody(reason)
    # Python also reads what JSON does not allow: NaN, numbers out of range, escapes of half surrogate pairs.
    for scalar in _SCALAR.finditer(text):
        try:
            msgspec.json.decode(scalar[0])
        except msgspec.MsgspecError:
            at, why = _flaw(scalar[0])
            return _malformed(text[: scalar.start() + at], why)
    return MalformedBody(reason)


def _flaw(scalar: str) -> tuple[int, str]:
    """Where and why a scalar that Python accepts is not JSON."""
    if scalar.startswith('"'):
        half = _WHOLE_ESCAPES.match(scalar)
        return half.end() if half else 0, "an escape of half a surrogate pair, which is not text"
    if scalar[-1].isdigit():
        return 0, "a number larger than any double"
    return 0, f"{scalar} is not a JSON value"


def _too_deep(text: str, limit: int) -> UnreadableBody:
    """The error for a text that is nested more than `limit` deep."""
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(bracket[0], 0)
        if depth > limit:
            return UnreadableBody(
                f"it is nested more than {limit} deep", *position_after(text[: bracket.start()])
            )
    return UnreadableBody("it is nested too deeply")


def _malformed(before: str, reason: str) -> MalformedBody:
    """The error for whatever follows `before`."""
    return MalformedBody(reason, *position_after(before))


def position_after(before: str) -> tuple[int, int]:
    """The line and column, counted from 1, right after `before`."""
    return before.count("\n") + 1, len(before) - before.rfind("\n")
