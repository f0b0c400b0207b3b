"""Decides on every field of a request: it is honoured, refused, or left out and named to the client.

Clients send fields that are meant for other servers: hints, and fields of another server's earlier answers.
Such a field is left out, and the header `X-Callgate-Ignored` of the answer names it. A field that would
change the answer is refused, and so is a field whose name is probably a typing error for one that exists.

>>> from msgspec import Struct
>>> reader = FieldReader()
>>> class Message(Struct, forbid_unknown_fields=True):
...     content: str = ""
>>> reader.convert({"content": "Hi", "cache_control": {"type": "ephemeral"}}, Message)
Message(content='Hi')
>>> reader.ignored
('cache_control',)
>>> reader.convert({"contnet": "Hi"}, Message)
Traceback (most recent call last):
gateway.errors.UnknownField: contnet: there is no such field; did you mean 'content'?
"""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, inspect

from gateway.errors import InvalidField
from gateway.http.conversion import convert, struct_of, types_below, types_of
from toolspecs.nearest import MAX_NAME, near_matches, shorten
from toolspecs.resolved_types import resolved

T = TypeVar("T")

MAX_IGNORED = 32
"""Different fields that one request may have ignored: comparing their names takes up to 0.1 ms each."""
MAX_SLIPS = 4
"""Slips that are looked for in one request; it is refused for the first of them."""

SLIP = 0.75
"""From this similarity on (`difflib`'s ratio), an unknown name is taken for a slip of a known one."""

FOREIGN = frozenset(
    {
        "allowed_callers",
        "annotations",
        "cache_control",
        "defer_loading",
        "eager_input_streaming",
        "extra_content",
        "input_examples",
        "logprobs",
        "parsed",
        "parsed_arguments",
        "provider_specific_fields",
        "reasoning",
        "reasoning_details",
        "refusal",
        "thinking_blocks",
        "token_ids",
    }
)
"""Fields of other servers and of clients. They are no slips, although some resemble fields of this one."""

Fixed = Mapping[str, tuple[tuple[Any, ...], str]]
"""Fields of which only some values are supported: these values, and why there are no others."""


@dataclass(frozen=True, slots=True)
class FieldRules:
    """The fields of a body that are not honoured.

    `silent` fields never change an answer. `hints` change nothing here, and the client is told so unless they
    have one of the listed values. `refused` has the reason for each refused field.
    """

    silent: frozenset[str] = frozenset()
    hints: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    fixed: Fixed = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.silent, *self.hints, *self.fixed, *self.refused)


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The request body of an API, for the API document: its fields, and those that are read separately.

    `parts` are structs that describe some of these fields in more detail. Unknown fields are left out at the
    top level and inside the fields `lenient`; inside other fields they are refused.
    """

    fields: type[Struct]
    lenient: tuple[type[Struct], ...]
    parts: tuple[type[Struct], ...]
    rules: FieldRules


class FieldReader:
    """Reads the objects of one request, and remembers which fields it left out.

    With `is_strict`, hints and unknown fields are refused instead.
    """

    def __init__(self, *, is_strict: bool = False) -> None:
        self._is_strict = is_strict
        self._ignored: dict[str, None] = {}
        self._num_slips = 0
        self._other_names: tuple[str, ...] = ()
        """Fields of the body that no struct holds."""

    @property
    def ignored(self) -> tuple[str, ...]:
        """The paths of the fields left out, in the order of their first appearance; `[]` is any index."""
        return tuple(self._ignored)

    def ignore(self, path: str, reason: str = "it has no effect here") -> None:
        """Leave out a field that was given. Raises InvalidField if the reader is strict."""
        if self._is_strict:
            raise InvalidField(path, f"{reason}; leave it out")
        self._ignored[shorten(path, 2 * MAX_NAME)] = None
        if len(self._ignored) > MAX_IGNORED:
            raise InvalidField(path, f"more than {MAX_IGNORED} different fields are unknown; leave them out")

    def apply_rules(self, rules: FieldRules, body: Any) -> dict[str, Any]:
        """Refuse or leave out the fields of a body that the rules name, and return the others.

        Raises:
            InvalidField: the body is not an object, a field is refused, or a `fixed` field has another value.
        """
        if not isinstance(body, dict):
            raise InvalidField("", "the body must be a JSON object")
        for name, (values, reason) in rules.fixed.items():
            if body.get(name) is not None and body[name] not in values:
                shown = shorten(json.dumps(body[name]), MAX_NAME)
                supported = " or ".join(map(json.dumps, values))
                raise InvalidField(
                    name, f"{shown} is not supported: {reason}; leave it out, or write {supported}"
                )
        for name, reason in rules.refused.items():
            if body.get(name) is not None:
                raise InvalidField(name, reason)
        for name, silent_values in rules.hints.items():
            if body.get(name) is not None and body[name] not in silent_values:
                self.ignore(name)
        self._other_names = rules.names
        handled = {*rules.names}
        return {name: value for name, value in body.items() if name not in handled}

    def convert(self, value: Any, shape: type[T]) -> T:
        """Convert a value to a msgspec struct, and leave out its unknown fields; raises InvalidField."""
        if self._is_strict:
            return convert(value, shape)
        with suppress(msgspec.ValidationError, UnicodeEncodeError):
            return msgspec.convert(value, resolved(shape))
        types = _alternatives(shape)  # type: ignore[arg-type]  # every class is hashable
        return convert(self._known(value, types, ""), shape)

    def ignore_unknown(self, name: str, value: Any, known: Collection[str], path: str) -> bool:
        """Leave out the unknown field at `path`; False, and nothing is done, if it must be refused.

        It must be if the reader is strict, if its name is probably a slip for one of the `known` names, or if
        it stands in our own `callgate`, where no other server's hints are.
        After some slips all are refused without a comparison: the request is refused in any case.
        """
        if value is None or shorten(path, 2 * MAX_NAME) in self._ignored:
            return True
        if self._is_strict or self._num_slips == MAX_SLIPS or path.startswith("callgate."):
            return False
        if name not in FOREIGN and near_matches(name, known, 1, cutoff=SLIP):
            self._num_slips += 1
            return False
        self.ignore(path)
        return True

    def _known(self, value: Any, types: tuple[inspect.Type, ...], path: str) -> Any:
        """A value without the unknown fields of its objects at any depth."""
        if isinstance(value, list):
            inner = tuple(types_below(types, None))
            return [self._known(item, inner, f"{path}[]") for item in value] if inner else value
        struct = struct_of(value, types)
        return value if struct is None else dict(self._known_fields(value, struct, path))

    def _known_fields(
        self, value: Mapping[str, Any], struct: inspect.StructType, path: str
    ) -> Iterator[tuple[str, Any]]:
        known = {field.encode_name for field in struct.fields} | {struct.tag_field or ""}
        similar = known if path else known.union(self._other_names)
        for name, inner in value.items():
            inner_path = f"{path}.{name}" if path else name
            if name in known:
                yield name, self._known(inner, tuple(types_below((struct,), name)), inner_path)
            elif not self.ignore_unknown(name, inner, similar, inner_path):
                yield name, inner


@cache
def _alternatives(shape: Any) -> tuple[inspect.Type, ...]:
    return tuple(types_of(shape))
