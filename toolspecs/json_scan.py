"""Measures what a JSON text contains before it is decoded, and finds the keys that decoding loses.

Decoding holds the interpreter's lock: 4 MB of `[]` stop every other request for a quarter of a second and
take 100 MB. So the text is scanned first for the number of its values, their depth, and the number of long
numbers. The scan takes milliseconds per megabyte and releases the lock between pieces.

The scan assumes that the text is JSON. If it is not, the decoder stops at the first error, and the scan is
exact up to there.

>>> scan(b'{"a": [1, "[[[", {}]}', ContentLimits())
Scanned(num_values=6, num_keys=1)
>>> scan(b"[" * 600, ContentLimits())
Traceback (most recent call last):
toolspecs.errors.TooDeep: it is nested more than 500 deep
"""

import json
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from toolspecs.errors import TooDeep, TooManyValues
from toolspecs.json_pointer import shown_pointer
from toolspecs.json_value import objects_in
from toolspecs.nearest import MAX_NAME, shorten

_MAX_PLACE = 1_000
"""Characters of a pointer that an error names."""
_PIECE = 1 << 18
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(set(range(256)) - _STEPS.keys())
_DIGITS_AS_ZERO = bytes.maketrans(b".123456789E", b"0" * 10 + b"e")
_SIGNS = b"+-"
_LONG_NUMBER = b"0" * 21
_LARGE_EXPONENT = b"e000"
"""A decoder takes microseconds instead of nanoseconds for a number this long, and ten of them for some
numbers with an exponent of three digits, even as short as 5e-324."""


@dataclass(frozen=True, slots=True)
class ContentLimits:
    """The most that a JSON text may contain. Python's stack allows somewhat more than `depth`."""

    num_values: int = 250_000
    depth: int = 500
    num_long_numbers: int = 4_000
    """Numbers of many digits, or with an exponent of three."""
    setting: str = ""
    """The setting that says how many values, for errors; empty if none does."""


class Scanned(NamedTuple):
    """What a JSON text holds: the number of its values, or a little more, and of the keys of its objects."""

    num_values: int
    num_keys: int


def scan(text: bytes, limits: ContentLimits) -> Scanned:
    """What a UTF-8 JSON text holds.

    Raises:
        TooManyValues, TooDeep: the text holds more than the limits allow.
    """
    num_values, num_keys, num_long, depth = 1, 0, 0, 0
    for piece in _outside_strings(text, max_strings=2 * limits.num_values):
        brackets = piece.translate(None, _NO_BRACKETS)
        num_opened = brackets.count(b"[") + brackets.count(b"{")
        # A bracket counts its first value too, whether there is one or not; commas count the others.
        num_values += num_opened + piece.count(b",")
        num_keys += piece.count(b":")
        digits = piece.translate(_DIGITS_AS_ZERO, _SIGNS)
        num_long += digits.count(_LONG_NUMBER) + digits.count(_LARGE_EXPONENT)
        if num_values > limits.num_values:
            by_setting = f", which is the limit of the setting {limits.setting}" if limits.setting else ""
            raise TooManyValues(f"it holds more than {limits.num_values} values{by_setting}")
        if num_long > limits.num_long_numbers:
            most, length = limits.num_long_numbers, len(_LONG_NUMBER)
            raise TooManyValues(f"it holds more than {most} numbers of {length} digits or a large exponent")
        depths = list(accumulate(map(_STEPS.__getitem__, brackets), initial=depth))
        if max(depths) > limits.depth:
            raise TooDeep(f"it is nested more than {limits.depth} deep")
        depth = depths[-1]
    return Scanned(num_values, num_keys)


class RepeatedMember(NamedTuple):
    """A key that an object has twice, and the path to the object; a decoder keeps only one of its values."""

    path: Sequence[str | int]
    key: str

    def __str__(self) -> str:
        place = shorten(shown_pointer("", self.path) or "/", _MAX_PLACE)
        return f"the object at {place} has the key {shorten(self.key, MAX_NAME)!r} twice; write one"


def has_repeated_key(text: bytes, value: Any) -> bool:
    """Whether an object of a JSON text has a key twice, of which its `value` has only one."""
    num_written = sum(piece.count(b":") for piece in _outside_strings(text, max_strings=len(text)))
    return num_written > count_keys(value)


def count_keys(value: Any) -> int:
    """The number of keys of the objects in a JSON value; a text of it with more has one of them twice."""
    return sum(map(len, objects_in(value)))


def repeated_key(text: bytes) -> RepeatedMember | None:
    """The first key of a JSON text that an object has twice, None if there is none."""
    path: list[str | int] = []
    key = _repeated_key(json.loads(text.removeprefix(BOM_UTF8), object_pairs_hook=_Members), path)
    return None if key is None else RepeatedMember(path, key)


class _Members(list[tuple[str, Any]]):
    """The members of an object as they are written."""


def _repeated_key(value: Any, path: list[str | int]) -> str | None:
    """A key that the first object with a repeated key has twice; `path` then leads to that object."""
    members: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, _Members):
        [(key, number)] = Counter(key for key, _ in value).most_common(1) or [("", 0)]
        if number > 1:
            return key
        members = value
    elif isinstance(value, list):
        members = enumerate(value)
    for step, inner in members:
        path.append(step)
        if (found := _repeated_key(inner, path)) is not None:
            return found
        path.pop()
    return None


def _outside_strings(text: bytes, max_strings: int) -> Iterator[bytes]:
    """The parts of the text outside strings, piece by piece; raises TooManyValues."""
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') // 2 > max_strings:
        raise TooManyValues(f"it holds more than {max_strings} strings")
    is_inside = 0
    for start in range(0, len(bare), _PIECE):
        parts = bare[start : start + _PIECE].split(b'"')
        yield b" ".join(parts[is_inside::2])
        is_inside ^= (len(parts) - 1) & 1
