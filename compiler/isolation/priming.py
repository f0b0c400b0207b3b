"""Priming: a compiler that has seen the rules which most schemas share compiles the first like the next.

Every grammar has these rules anew in its text, but the back end keeps what it compiled by content. With Qwen
3's vocabulary priming takes some 5 s of processor time, most of it for host names.
"""

from collections.abc import Iterator
from typing import Any

from compiler.lowering.json_text import SPACED
from compiler.scalars.strings import SHORTEST_GUARDED
from compiler.schema import lower_schema
from compiler.vocabulary import Vocabulary

_FORMATS = ("date-time", "date", "time", "uuid", "uri", "uri-reference", "ipv4", "ipv6", "hostname", "email")
_BOUNDS = ({"maxLength": SHORTEST_GUARDED - 1}, {"minLength": 32})
"""The rules of each hold those of all lower bounds; higher upper ones are guarded."""
_INTERVALS = (
    {"minimum": 1},
    *({"minimum": low, "maximum": high} for low, high in ((0, 1), (0, 100), (1, 100))),
)
_TYPICAL = {
    "type": "object",
    "properties": {
        name: {"type": kind} for name, kind in (("a", "string"), ("b", "integer"), ("c", "string"))
    },
    "required": ["a"],
}
_KEYS = tuple("@HPX`hpx")
"""Undeclared keys are told from declared ones by blocks of characters; these keys need all the large ones."""


def prime(vocabulary: Vocabulary) -> None:
    """Have the vocabulary's compiler see the shared rules; takes seconds, mostly off the GIL."""
    for _ in priming(vocabulary):
        pass


def priming(vocabulary: Vocabulary) -> Iterator[None]:
    """`prime`, a step at a time."""
    for schema in _shared():
        vocabulary.backend.compile(lower_schema(schema, formatting=SPACED).grammar.ebnf)
        yield
    vocabulary.guarded.prepare()


def _shared() -> Iterator[Any]:
    # First, since what is kept of a rule is what its first grammar made of it.
    yield {**_TYPICAL, "additionalProperties": False}
    yield {"type": "object", "properties": {name: {"type": name} for name in ("string", "number", "integer")}}
    yield from ({"type": name} for name in ("string", "array", "object"))
    for key in _KEYS:
        yield {"type": "object", "properties": {key: {"type": "null"}}}
    values = [{"type": "string", **bound} for bound in _BOUNDS]
    values += [{"type": "string", "format": name} for name in _FORMATS]
    values += [{"type": "number", **interval} for interval in _INTERVALS]
    for value in values:  # in an object, where `,` or `}` is known to follow
        yield {"type": "object", "additionalProperties": False, "properties": {"value": value}}
