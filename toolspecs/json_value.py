"""Checks untrusted values: whether JSON can represent them, and whether they are within the limits.

Everything here is iterative. Encoders, validators and compilers are recursive, so they run only on values
that passed.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

JSON = dict[str, Any]
"""A JSON object."""

Path = tuple[str | int, ...]

_Items = Iterator[tuple[str | int, Any]]

MAX_INTEGER_BITS = 1024
"""An integer of more bits is larger than any double."""

TYPE_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large tools and toolsets may be. Sizes are bytes of compact JSON without escapes.

    The defaults admit every real tool that we know of.
    """

    num_tools: int = 2048
    tool_bytes: int = 1024 * 1024
    num_documents: int = 256
    num_sources: int = 64
    """Sources that a toolset's tools are imported from."""
    document_bytes: int = 4 * 1024 * 1024
    toolset_bytes: int = 16 * 1024 * 1024
    num_values: int = 250_000
    """In a toolset; decoding a million stops everything for half a second."""
    depth: int = 100
    """Nested objects and lists in one tool or document."""
    num_enum_values: int = 10_000
    tool_name_length: int = 128
    description_length: int = 32 * 1024
    num_faults_per_tool: int = 20
    """Faults that are reported."""
    num_faults: int = 200
    """Faults of all tools; no tool is read after them."""


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with a value, at `path` from its root."""

    path: Path
    keyword: str
    message: str
    suggestion: str = ""

    def inside(self, *path: str | int) -> "Flaw":
        """The flaw of a value that has this one's value at a path."""
        return replace(self, path=(*path, *self.path))


def type_name(value: Any) -> str:
    """What a message calls the type of a value: `a list`, or by Python's name if JSON has no such type."""
    return TYPE_NAMES.get(type(value), f"a {type(value).__name__}")


def find_flaw(value: Any, limits: Limits, *, is_document: bool = False) -> Flaw | None:
    """The first flaw in document order: something JSON cannot hold, or something beyond the limits.

    The limits are those of a tool, or with `is_document` those of a document that tools refer to.

    >>> find_flaw({"enum": [1, float("nan")]}, Limits())
    Flaw(path=('enum', 1), keyword='', message='JSON has no infinite numbers and no NaN', suggestion='')
    """
    noun, max_bytes = ("document", limits.document_bytes) if is_document else ("tool", limits.tool_bytes)
    num_bytes = 0
    path: list[str | int] = []
    levels: list[_Items] = []
    pending: _Items = iter([("", value)])
    while True:
        for key, item in pending:
            here = (*path, key) if levels else ()
            if levels and isinstance(key, str):
                num_bytes += _text_size(key)
            num_bytes += own_size(item)
            if num_bytes > max_bytes:
                return _too_large(here, noun, max_bytes)
            if flaw := _own_flaw(item, here, key, limits):
                return flaw
            if isinstance(item, dict | list):
                if len(here) >= limits.depth:
                    return _too_deep(here, limits)
                levels.append(pending)
                path = list(here)
                pending = iter(item.items() if isinstance(item, dict) else enumerate(item))
                break
        else:
            if not levels:
                return None
            pending = levels.pop()
            path = path[:-1]


def value_at(value: Any, path: Path) -> Any:
    """The value to which a path leads, which must be there.

    >>> value_at({"enum": [1, 2]}, ("enum", 1))
    2
    """
    for key in path:
        value = value[key]
    return value


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value, in no particular order."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack += item.values()
        elif isinstance(item, list):
            stack += item


def count_values(value: Any) -> int:
    """The number of JSON values in a value, including itself but not its keys.

    >>> count_values({"enum": [1, 2], "title": ""})
    5
    """
    num_values = 0
    pending = [value]
    while pending:
        item = pending.pop()
        num_values += 1
        if isinstance(item, Mapping):
            pending += item.values()
        elif isinstance(item, list):
            pending += item
    return num_values


def json_size(value: Any) -> int:
    """The size of a value within the limits, in bytes of compact JSON."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace"))


def own_size(item: Any) -> int:
    """The approximate size of an item in bytes of compact JSON, without its children."""
    if isinstance(item, str):
        return _text_size(item)
    if isinstance(item, int):
        return item.bit_length() // 3 + 2
    return 3


def _text_size(text: str) -> int:
    return 3 + (len(text) if text.isascii() else len(text.encode(errors="surrogatepass")))


def _own_flaw(item: Any, path: Path, key: object, limits: Limits) -> Flaw | None:
    keyword = key if isinstance(key, str) else ""
    if type(item) not in TYPE_NAMES:
        return Flaw(path, keyword, f"{type_name(item)} is not a JSON value")
    if isinstance(item, str):
        return _text_flaw(item, path, keyword)
    if isinstance(item, dict):
        return next((flaw for name in item if (flaw := _key_flaw(name, path))), None)
    if isinstance(item, list) and key == "enum" and len(item) > limits.num_enum_values:
        message = f"an enum of {len(item)} values; at most {limits.num_enum_values} are allowed"
        return Flaw(path, "enum", message, "describe the values by a pattern, or shorten the list")
    return _number_flaw(item, path, keyword)


def _number_flaw(item: Any, path: Path, keyword: str) -> Flaw | None:
    if isinstance(item, float) and not math.isfinite(item):
        return Flaw(path, keyword, "JSON has no infinite numbers and no NaN")
    if isinstance(item, int) and item.bit_length() > MAX_INTEGER_BITS:
        return Flaw(path, keyword, f"an integer of more than {MAX_INTEGER_BITS} bits")
    return None


def _key_flaw(name: object, path: Path) -> Flaw | None:
    if not isinstance(name, str):
        return Flaw(path, "", "the keys of a JSON object are strings")
    return _text_flaw(name, path, "")


def _text_flaw(text: str, path: Path, keyword: str) -> Flaw | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        message = "a string with half a surrogate pair is not Unicode text"
        return Flaw(path, keyword, message, "write both halves of the pair, or leave the character out")
    return None


def _too_large(path: Path, noun: str, max_bytes: int) -> Flaw:
    message = f"the {noun} is larger than {max_bytes} bytes; it exceeds them here"
    return Flaw(path[:8], "", message, f"split the {noun}, or shorten its schema")


def _too_deep(path: Path, limits: Limits) -> Flaw:
    message = f"objects and lists nested more than {limits.depth} deep"
    return Flaw(path, "", message, "flatten the schema, or use $defs and $ref")
