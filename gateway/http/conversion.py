"""Converts JSON values to msgspec structs; errors say where the fault is and what is expected there.

>>> class Person(msgspec.Struct, forbid_unknown_fields=True):
...     name: str = ""
>>> convert({"nmae": "a"}, Person)
Traceback (most recent call last):
gateway.errors.UnknownField: nmae: there is no such field; did you mean 'name'?
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from gateway.errors import InvalidField, UnknownField
from gateway.http.plain_reasons import missing_field, plain
from toolspecs.nearest import MAX_NAME, instead, quoted_names, shorten
from toolspecs.resolved_types import resolved

T = TypeVar("T")

_MAX_PATH = 300
"""The longest path into a value; what is longer is a client's text that looks like a path."""
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]*)\]")


def convert(value: Any, shape: type[T]) -> T:
    """`value` as a msgspec struct.

    Raises:
        InvalidField: a field is unknown (UnknownField), missing or of the wrong type; its path is in
            `param`.
    """
    try:
        return msgspec.convert(value, resolved(shape))
    except UnicodeEncodeError as error:
        raise InvalidField("", "a key holds half a surrogate pair, which is not Unicode text") from error
    except msgspec.ValidationError as error:
        detail, path = _reason_and_path(str(error))
        actual = value_at(value, path)
        expected = expected_at(shape, path, value)
        if unknown := _UNKNOWN.fullmatch(detail):
            field = shorten(unknown["field"], MAX_NAME)
            is_beside = bool(path) and unknown["field"] in expected_at(shape, "", value).fields
            hint = f"; write it beside `{path}`" if is_beside else instead(unknown["field"], expected.fields)
            reason = f"there is no such field{hint}"
            raise UnknownField(f"{path}.{field}" if path else field, reason) from error
        if missing := missing_field(detail):
            tags = f"; it is one of {quoted_names(expected.tags)}" if missing == expected.tag_field else ""
            raise InvalidField(f"{path}.{missing}" if path else missing, f"it is required{tags}") from error
        if expected.texts and (
            isinstance(actual, str) or (type(actual) in {bool, int} and not expected.tags)
        ):
            shown = shorten(actual, MAX_NAME) if isinstance(actual, str) else actual
            reason = f"{shown!r} is not one of its values{instead(str(actual), expected.texts)}"
        else:
            reason = plain(detail) + (f"; expected {expected}" if str(expected) else "")
        raise InvalidField(_with_key(path, value), reason) from error


def _reason_and_path(message: str) -> tuple[str, str]:
    """The reason and the path in msgspec's message, which has the form `reason - at `$.path``.

    The reason may quote client text of any length, so this uses no regular expression that backtracks.
    """
    reason, mark, rest = message.rpartition(" - at `$")
    path = rest.removesuffix("`").lstrip(".")
    return (reason, path) if mark and len(path) <= _MAX_PATH else (message, "")


def _with_key(path: str, value: Any) -> str:
    """The path to an entry of a mapping of texts with its key, for which msgspec writes `[...]`."""
    of_mapping = path.removesuffix("[...]")
    mapping = value_at(value, of_mapping)
    if of_mapping == path or not isinstance(mapping, dict):
        return path
    keys = (key for key, content in mapping.items() if not isinstance(content, str))
    return f"{of_mapping}.{shorten(next(keys, '...'), MAX_NAME)}"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a msgspec type admits: texts, objects by their tags, and the fields of an object."""

    texts: tuple[str, ...]
    tags: tuple[str, ...]
    tag_field: str
    fields: tuple[str, ...]

    def __str__(self) -> str:
        """What the type admits, in words; empty if any text is admitted."""
        objects = (
            f"an object whose {self.tag_field!r} is one of {quoted_names(self.tags)}" if self.tags else ""
        )
        return " or ".join(filter(None, (quoted_names(self.texts), objects)))


def expected_at(shape: Any, path: str, value: Any) -> Expected:
    """What the msgspec type `shape`, of which `value` should be, admits at a path such as `messages[0].role`.

    Where the value has the tag of one alternative, only that one counts.
    """
    types = list(types_of(shape))
    for key, index in _steps(path):
        meant = struct_of(value, types)
        types = list(types_below(types if meant is None else (meant,), key))
        value = _inner(value, key, index)
    structs = [kind for kind in types if isinstance(kind, inspect.StructType)]
    literals = [literal for kind in types for literal in _values_of(kind)]
    tag_field = next((kind.tag_field for kind in structs if kind.tag_field), "")
    tag = value.get(tag_field) if isinstance(value, dict) else None
    meant_structs = [kind for kind in structs if not kind.tag_field or kind.tag == tag]
    fields = [tag_field, *(field.encode_name for kind in meant_structs for field in kind.fields)]
    return Expected(
        tuple(dict.fromkeys(map(str, literals))),
        tuple(dict.fromkeys(str(kind.tag) for kind in structs if kind.tag_field)),
        tag_field,
        tuple(dict.fromkeys(filter(None, fields))),
    )


def value_at(value: Any, path: str) -> Any:
    """The value at a path; None if there is none, or if the path does not name a single item.

    The path may contain client text and need not exist.
    """
    for key, index in _steps(path):
        value = _inner(value, key, index)
    return value


def _steps(path: str) -> Iterator[tuple[str | None, str | None]]:
    """The steps of a path: the key of each, or else its index."""
    yield from ((step[1], step[2]) for step in _STEP.finditer(path))


def _inner(value: Any, key: str | None, index: str | None) -> Any:
    """The value one step further, None if there is none."""
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and index and re.fullmatch("[0-9]+", index) and int(index) < len(value):
        return value[int(index)]
    return None


def types_of(shape: Any) -> Iterator[inspect.Type]:
    """The alternatives of a type, in msgspec's description."""
    return _alternatives(inspect.type_info(shape))


def types_below(types: Iterable[inspect.Type], name: str | None) -> Iterator[inspect.Type]:
    """The types of the field `name`; with None, of a list's items or a mapping's values."""
    for outer in types:
        yield from _below(outer, name)


def struct_of(value: Any, types: Iterable[inspect.Type]) -> inspect.StructType | None:
    """The struct among the types that matches the tag of `value`; None if none does."""
    if not isinstance(value, dict):
        return None
    structs = (struct for struct in types if isinstance(struct, inspect.StructType))
    return next(
        (struct for struct in structs if not struct.tag_field or value.get(struct.tag_field) == struct.tag),
        None,
    )


def _values_of(kind: inspect.Type) -> Iterable[Any]:
    """The values of a type that has few."""
    match kind:
        case inspect.LiteralType(values=values):
            return values
        case inspect.EnumType(cls=members):
            return [member.value for member in members]
        case _:
            return ()


def _below(outer: inspect.Type, name: str | None) -> Iterator[inspect.Type]:
    match outer:
        case inspect.StructType(fields=fields, tag_field=tag_field, tag=tag):
            for field in fields:
                if field.encode_name == name:
                    yield from _alternatives(field.type)
            if name is not None and name == tag_field:
                yield inspect.LiteralType((str(tag),))
        case (
            inspect.ListType(item_type=inner)
            | inspect.VarTupleType(item_type=inner)
            | inspect.DictType(value_type=inner)
        ) if name is None:
            yield from _alternatives(inner)


def _alternatives(kind: inspect.Type) -> Iterator[inspect.Type]:
    match kind:
        case inspect.UnionType(types=types):
            for alternative in types:
                yield from _alternatives(alternative)
        case inspect.Metadata(type=inner):
            yield from _alternatives(inner)
        case _:
            yield kind
