"""Refuses `unevaluated*` where validators disagree on what it looks at, or canonicalization reads it wrongly.

A key or an item is *evaluated* if a keyword of the same object or array, or of a schema applied to the same
value, has looked at it; `unevaluated*` looks at the others.

- In draft 2019-09, Python's `jsonschema` takes no key for evaluated by a schema under `additionalProperties`
  or `unevaluatedProperties`. All other validators do. Below a negation it also takes the keywords of a schema
  under `unevaluatedProperties` for evaluated keys.
- In that draft, `contains` evaluates no item by the specification and to ajv, but does to Python's
  `jsonschema` and to jsonschema-rs.
- Canonicalization mistakes what the alternatives inside an `if` evaluate.
- It writes a schema with `unevaluated*` anew for each alternative of the schemas that are applied to the same
  value. If such an alternative holds the schema itself, that has no end, and the native stack overflows.
"""

from collections.abc import Iterator, Mapping
from itertools import chain, product
from typing import Any

from compiler.digraph import strongly_connected_components
from compiler.errors import UnsupportedSchema
from compiler.frontend.dialect_dependent import NEGATIVE
from compiler.frontend.keywords import IN_PLACE_APPLICATORS, UNEVALUATED, children, inside
from compiler.frontend.reference_graph import applied_to_same_value
from toolspecs.json_pointer import child
from toolspecs.schemas.drafts import NEWEST_DRAFT, SchemaDraft, declared_draft

_EVALUATING = ("additionalProperties", "unevaluatedProperties")
_NEGATING = NEGATIVE - frozenset(UNEVALUATED)
_DIVIDING = IN_PLACE_APPLICATORS - {"allOf", "not"}
"""Keywords that hold alternatives for one value."""

_Schemas = Mapping[str, Mapping[str, Any]]
"""Schemas by their pointers."""


def check_unevaluated(document: Any, documents: Mapping[str, Any]) -> None:
    """Refuse `unevaluated*` that is read differently, read wrongly, or never read to its end.

    >>> tree = {"anyOf": [{}, {"items": {"$ref": "#", "unevaluatedItems": False}}]}
    >>> check_unevaluated(tree, {})
    Traceback (most recent call last):
    compiler.errors.UnsupportedSchema: /anyOf/1/items/unevaluatedItems: ...

    Raises:
        UnsupportedSchema: there is one.
    """
    schemas = [schema for part in (document, *documents.values()) for schema in inside(part)]
    if not any(_unevaluated_keyword(schema) for schema in schemas):
        return
    applied = dict(applied_to_same_value(document, documents))
    if declared_draft(document) == SchemaDraft.DRAFT_2019_09:
        _check_agreement(applied, has_negation=any(schema.keys() & _NEGATING for schema in schemas))
    _check_conditions(applied)
    _check_end(applied)


def _unevaluated_keyword(schema: Mapping[str, Any]) -> str | None:
    """The keyword that looks at what is not evaluated, None if it admits all of that."""
    return next((keyword for keyword in UNEVALUATED if schema.get(keyword, True) is not True), None)


def _check_agreement(applied: Mapping[str, _Schemas], *, has_negation: bool) -> None:
    """Refuse what validators of draft 2019-09 take for evaluated differently.

    Args:
        applied: for each schema, those that are applied to the same value, itself included
        has_negation: whether schemas may be below a negation
    """
    for pointer, reached in applied.items():
        for place, keyword in _disputed(pointer, reached, has_negation=has_negation):
            members = "items" if keyword == "contains" else "keys"
            reason = (
                "stands beside `unevaluated*`, and validators of draft 2019-09 disagree on whether the "
                f"{members} that it admits are evaluated"
            )
            suggestion = f'Write "$schema": "{NEWEST_DRAFT.uri}".'
            raise UnsupportedSchema(child(place, keyword), keyword, reason, suggestion)


def _disputed(pointer: str, reached: _Schemas, *, has_negation: bool) -> Iterator[tuple[str, str]]:
    """The places and keywords that validators disagree on for the schema at a pointer."""
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


def _check_conditions(applied: Mapping[str, _Schemas]) -> None:
    """Refuse an `if` with alternatives, where `unevaluated*` depends on what it evaluates."""
    conditions = {pointer: child(pointer, "if") for pointer in applied}
    divided = {
        pointer: condition
        for pointer, condition in conditions.items()
        if any(schema.keys() & _DIVIDING for schema in applied.get(condition, {}).values())
    }
    for pointer, reached in applied.items():
        if _unevaluated_keyword(reached[pointer]) and (found := divided.keys() & reached.keys()):
            reason = "has alternatives inside, so that it is not known what it evaluates for `unevaluated*`"
            suggestion = "Write its cases as `anyOf`, or list the keys or items without `unevaluated*`."
            raise UnsupportedSchema(divided[min(found)], "if", reason, suggestion)


def _check_end(applied: Mapping[str, _Schemas]) -> None:
    """Refuse a schema with `unevaluated*` in an alternative of what it looks at, or so on in a cycle."""
    looking = {
        pointer: list(chain.from_iterable(_divided(place, schema) for place, schema in reached.items()))
        for pointer, reached in applied.items()
        if _unevaluated_keyword(reached[pointer])
    }
    inside_of: dict[str, list[str]] = {}
    for pointer in looking:
        for around in _around(pointer):
            inside_of.setdefault(around, []).append(pointer)
    successors = {
        pointer: [inner for place in alternatives for inner in inside_of.get(place, ())]
        for pointer, alternatives in looking.items()
    }
    for component in strongly_connected_components(successors):
        pointer = min(component)
        if len(component) > 1 or pointer in successors[pointer]:
            keyword = _unevaluated_keyword(applied[pointer][pointer]) or ""
            reason = "is inside an alternative of the schema that it looks at, so what it says has no end"
            suggestion = "Write it beside the keywords that it looks at, not beside a reference."
            raise UnsupportedSchema(child(pointer, keyword), keyword, reason, suggestion)


def _divided(pointer: str, schema: Mapping[str, Any]) -> Iterator[str]:
    """The alternatives that the schema at a pointer holds."""
    dividing = {keyword: value for keyword, value in schema.items() if keyword in _DIVIDING}
    return (at for at, _ in children(pointer, dividing))


def _around(pointer: str) -> Iterator[str]:
    """The pointer and those of all that is around it."""
    end = len(pointer)
    while end > 0:
        yield pointer[:end]
        end = pointer.rfind("/", 0, end)
