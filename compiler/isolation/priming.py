"""Priming: what most schemas share is compiled ahead, so that first schemas compile as fast as later ones.

Every grammar repeats these rules in its text, but the back end caches what it compiled of a rule by content.
With Qwen 3's vocabulary priming takes some 4 s of processor time, most of it for counted strings.
"""

from collections.abc import Callable, Iterator
from typing import Any

from compiler.lowering.json_text import SPACED
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.regular.formats import COMPILED_AHEAD
from compiler.scalars.strings import SHORTEST_GUARDED
from compiler.schema import lower_schema

_BOUNDS = ({"maxLength": SHORTEST_GUARDED - 1}, {"minLength": 12})
"""The rules of each bound include those of all lower bounds; guards enforce higher upper bounds.

Of the lower bounds in JSONSchemaBench, 98% are at most 12; each further one takes 25 ms."""
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


def prime(prepared: PreparedVocabulary, is_unwanted: Callable[[], bool] = lambda: False) -> None:
    """Compile the shared rules for a vocabulary, and find the tokens that guards look at.

    This takes a second or two, mostly without the GIL. It ends early once `is_unwanted`.
    """
    for schema in _shared():
        if is_unwanted():
            return
        prepared.backend.compile_grammar(lower_schema(schema, formatting=SPACED).grammar)
    prepared.guarded.prepare()


def _shared() -> Iterator[Any]:
    # This comes first: of a rule the back end caches the form that the first grammar with it led to.
    yield {**_TYPICAL, "additionalProperties": False}
    yield {"type": "object", "properties": {name: {"type": name} for name in ("string", "number", "integer")}}
    yield from ({"type": name} for name in ("string", "array", "object"))
    values = [{"type": "string", **bound} for bound in _BOUNDS]
    values += [{"type": "string", "format": name} for name in COMPILED_AHEAD]
    values += [{"type": "number", **interval} for interval in _INTERVALS]
    for value in values:  # in an object, so that `,` or `}` is known to follow
        yield {"type": "object", "additionalProperties": False, "properties": {"value": value}}
    yield {"anyOf": [_bounded(1, {"maxLength": 400}), _bounded(2, {})]}


def _bounded(kind: int, bounds: Any) -> Any:
    """One of several objects whose strings have other bounds, so that rules count them and no guard can."""
    properties = {"value": {"type": "string", **bounds}, "kind": {"enum": [kind]}}
    return {"type": "object", "properties": properties, "required": ["kind"]}
