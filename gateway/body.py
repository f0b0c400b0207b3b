"""Reading JSON bodies, with errors that say where."""

import json
import re
from typing import Any, TypeVar

import msgspec

from gateway.errors import InvalidField, MalformedBody

T = TypeVar("T")

_PLACE = re.compile(r"^(?P<reason>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)


def read_json(raw: bytes) -> Any:
    """The value of a JSON text.

    Raises:
        MalformedBody: it is none; says where.
    """
    try:
        return msgspec.json.decode(raw)
    except UnicodeDecodeError as error:
        raise MalformedBody(f"byte {error.start} is not UTF-8") from error
    except RecursionError as error:
        raise MalformedBody("it is nested too deeply") from error
    except msgspec.MsgspecError as error:
        raise _located(raw, str(error)) from error


def convert(value: Any, shape: type[T]) -> T:
    """`value` as a msgspec struct.

    Raises:
        InvalidField: a field is unknown, missing or of the wrong type; its path is in `param`.
    """
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        place = _PLACE.match(str(error))
        assert place, "msgspec words its errors as `reason - at $.path`"
        path = (place["path"] or "").lstrip(".")
        if unknown := _UNKNOWN.fullmatch(place["reason"]):
            field = unknown["field"]
            raise InvalidField(f"{path}.{field}" if path else field, "there is no such field") from error
        raise InvalidField(path, place["reason"]) from error


def _located(raw: bytes, reason: str) -> MalformedBody:
    try:
        json.loads(raw)
    except json.JSONDecodeError as error:
        return MalformedBody(error.msg, error.lineno, error.colno)
    except (ValueError, RecursionError):
        pass
    # Python reads more than JSON allows: NaN, numbers out of range, escapes of lone surrogates.
    return MalformedBody(reason)
