"""What a msgspec type admits at a path: what an error lists beside a value that is none of it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import inspect

from toolspecs.nearest import listed

_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class Expected:
    """The texts that a value may be, an object's tags and their field, and its other fields."""

    texts: tuple[str, ...]
    tags: tuple[str, ...]
    tag_field: str
    fields: tuple[str, ...]

    def __str__(self) -> str:
        """In words, nothing where any text will do."""
        objects = f"an object whose {self.tag_field!r} is one of {listed(self.tags)}" if self.tags else ""
        return " or ".join(filter(None, (listed(self.texts), objects)))


def expected_at(shape: Any, path: str, value: Any) -> Expected:
    """What a value of the type `shape` admits at `path`, such as `messages[0].role`, given what is there."""
    types = list(_alternatives(inspect.type_info(shape)))
    for step in _STEP.finditer(path):
        types = [inner for outer in types for inner in _below(outer, step[1])]
    structs = [each for each in types if isinstance(each, inspect.StructType)]
    literals = [each for each in types if isinstance(each, inspect.LiteralType)]
    tag_field = next((each.tag_field for each in structs if each.tag_field), "")
    tag = value.get(tag_field) if isinstance(value, dict) else None
    meant = [each for each in structs if not each.tag_field or each.tag == tag]
    fields = [tag_field, *(field.encode_name for each in meant for field in each.fields)]
    return Expected(
        tuple(str(text) for each in literals for text in each.values),
        tuple(str(each.tag) for each in structs if each.tag_field),
        tag_field,
        tuple(dict.fromkeys(filter(None, fields))),
    )


def value_at(value: Any, path: str) -> Any:
    """What is at a path; None where there is nothing, or it does not say which item."""
    for step in _STEP.finditer(path):
        if isinstance(value, dict):
            value = value.get(step[1])
        elif isinstance(value, list) and step[2].isdigit():
            value = value[int(step[2])]
        else:
            return None
    return value


def _below(outer: inspect.Type, name: str | None) -> Iterator[inspect.Type]:
    """The types of a field, or (None) of an item or a value."""
    match outer:
        case inspect.StructType(fields=fields, tag_field=tag_field, tag=tag):
            for field in fields:
                if field.encode_name == name:
                    yield from _alternatives(field.type)
            if name is not None and name == tag_field:
                yield inspect.LiteralType((str(tag),))
        case inspect.ListType(item_type=inner) | inspect.DictType(value_type=inner) if name is None:
            yield from _alternatives(inner)


def _alternatives(found: inspect.Type) -> Iterator[inspect.Type]:
    match found:
        case inspect.UnionType(types=types):
            for each in types:
                yield from _alternatives(each)
        case inspect.Metadata(type=inner):
            yield from _alternatives(inner)
        case _:
            yield found
