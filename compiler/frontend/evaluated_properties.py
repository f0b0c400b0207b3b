"""Which keys and items are evaluated in draft 2019-09, where validators disagree.

A key is *evaluated* if a keyword of the same object, or of a schema applied to the same object, has looked at
it; `unevaluatedProperties` looks at the others. Python's `jsonschema` takes no key for evaluated by a schema
under `additionalProperties` or `unevaluatedProperties`, in draft 2019-09 alone. All other validators do.

So `unevaluatedProperties` is refused where such a keyword may evaluate a key for it. It is also refused below
a negation if it holds a schema itself: there Python takes the keywords of that schema for evaluated keys.

`unevaluatedItems` is refused where `contains` may evaluate an item for it: in this draft it evaluates none by
the specification and to ajv, but does to Python's `jsonschema` and to jsonschema-rs.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from compiler.errors import UnsupportedSchema
from compiler.frontend.dialect_dependent import NEGATIVE
from compiler.frontend.keywords import UNEVALUATED, inside
from compiler.frontend.reference_graph import applied_to_same_value
from toolspecs.json_pointer import child
from toolspecs.schemas.drafts import NEWEST_DRAFT, SchemaDraft, declared_draft

_EVALUATING = ("additionalProperties", "unevaluatedProperties")
_NEGATING = NEGATIVE - frozenset(UNEVALUATED)
_INSTEAD = f'Write "$schema": "{NEWEST_DRAFT.uri}".'


def check_evaluated_properties(document: Any, documents: Mapping[str, Any]) -> None:
    """Refuse `unevaluated*` of draft 2019-09 where validators disagree on what is evaluated.

    Raises:
        UnsupportedSchema: they do.
    """
    parts = (document, *documents.values())
    if declared_draft(document) != SchemaDraft.DRAFT_2019_09:
        return
    if not any(schema.keys() & UNEVALUATED for part in parts for schema in inside(part)):
        return
    has_negation = any(schema.keys() & _NEGATING for part in parts for schema in inside(part))
    for pointer, reached in applied_to_same_value(document, documents):
        for place, keyword in _disputed(pointer, reached, has_negation=has_negation):
            raise _refusal(child(place, keyword), keyword)


def _disputed(
    pointer: str, reached: Mapping[str, Mapping[str, Any]], *, has_negation: bool
) -> Iterator[tuple[str, str]]:
    """The places and keywords that validators disagree on for the schema at a pointer.

    Args:
        pointer: the pointer of the schema
        reached: the schemas, by pointer, that are applied to the same value, itself included
        has_negation: whether it may be below a negation
    """
    outer = reached[pointer]
    if "unevaluatedItems" in outer:
        yield from ((place, "contains") for place, schema in reached.items() if "contains" in schema)
    if "unevaluatedProperties" in outer:
        own = (pointer, "unevaluatedProperties")
        if has_negation and isinstance(outer["unevaluatedProperties"], dict):
            yield own
        for place, keyword in product(reached, _EVALUATING):
            if (place, keyword) != own and isinstance(reached[place].get(keyword), dict):
                yield place, keyword


def _refusal(pointer: str, keyword: str) -> UnsupportedSchema:
    members = "items" if keyword == "contains" else "keys"
    disagree = f"validators of draft 2019-09 disagree on whether the {members} that it admits are evaluated"
    reason = f"stands beside `unevaluated*`, and {disagree}"
    return UnsupportedSchema(pointer, keyword, reason, _INSTEAD)
