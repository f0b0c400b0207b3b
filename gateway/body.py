"""Reading JSON bodies, with errors that say where."""

import json
import re
from codecs import BOM_UTF8
from typing import Any, TypeVar

import msgspec

from gateway.errors import InvalidField, MalformedBody
from gateway.expected import expected_at, value_at
from toolspecs.nearest import MAX_NAME, instead, shorten

T = TypeVar("T")

_PLACE = re.compile(r"^(?P<reason>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)


def read_json(raw: bytes, *, keeps_surrogates: bool = False) -> Any:
    """The value of a JSON text.

    A byte order mark before it is ignored, as RFC 8259 allows. An escape of half a surrogate pair is no text,
    and the body malformed, unless `keeps_surrogates`: for readers that name the place.

    Raises:
        MalformedBody: it is none; says where.
    """
    try:
        return msgspec.json.decode(raw.removeprefix(BOM_UTF8))
    except UnicodeDecodeError as error:
        raise MalformedBody(f"byte {error.start} is not UTF-8") from error
    except RecursionError as error:
        raise MalformedBody("it is nested too deeply") from error
    except msgspec.MsgspecError as error:
        if keeps_surrogates and (value := _with_surrogates(raw)) is not None:
            return value
        raise _located(raw, str(error)) from error


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
    try:
        json.loads(raw)
    except json.JSONDecodeError as error:
        return MalformedBody(error.msg, error.lineno, error.colno)
    except (ValueError, RecursionError):
        pass
    # Python reads more than JSON allows: NaN, numbers out of range, escapes of lone surrogates.
    return MalformedBody(reason)
