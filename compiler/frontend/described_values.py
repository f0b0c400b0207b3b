"""Arrays and objects in `enum` and `const`, described as schemas of their parts.

Canonicalization can negate such schemas, but not the values. A schema of parts evaluates them, so that
`unevaluatedItems` and `unevaluatedProperties` pass over them; a listed value evaluates nothing. Under `not`
nothing is evaluated either. So a description stands under two negations: these admit the same values as the
description and drop its annotations.
"""

from typing import Any

from compiler.frontend.dialect_dependent import has_other_dialects
from compiler.frontend.keywords import prefix_items_keyword, transformed, without
from toolspecs.schemas.drafts import FIRST_WITH_CONST, LAST_WITH_REF_ALONE


def with_described_values(document: Any, draft: int) -> Any:
    """The document with the listed arrays and objects described; as it is if it has parts in other dialects.

    The same instances are valid before and after:

    - A description admits the listed value alone: as many items or the same keys, each equal to its own.
    - `allOf` asserts it beside the other keywords, as `enum` and `const` are asserted. It is appended there,
      so that references into `allOf` lead where they led.
    - Neither form evaluates an item or a property, so `unevaluated*` sees the same.
    - Which keyword lists the first items depends on the dialect, and whether `const` has force. A part with
      a `$schema` of its own may be in another one, so no such document is changed.

    >>> with_described_values({"enum": [1, [2]]}, draft=20)["allOf"][0]["anyOf"][0]
    {'enum': [1]}
    """
    if has_other_dialects(document):
        return document

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        if draft <= LAST_WITH_REF_ALONE and "$ref" in schema:
            return schema
        has_const = draft >= FIRST_WITH_CONST
        given_values = {"enum": schema.get("enum"), **({"const": [schema.get("const")]} if has_const else {})}
        alternatives = {
            keyword: {"anyOf": [_equal_to(value, draft) for value in values]}
            for keyword, values in given_values.items()
            if keyword in schema and isinstance(values, list) and any(map(_is_composite, values))
        }
        if not alternatives:
            return schema
        others = without(schema, alternatives)
        return {**others, "allOf": [*others.get("allOf", []), *alternatives.values()]}

    return transformed(document, change)


def _equal_to(value: Any, draft: int) -> Any:
    """A schema that only this value satisfies, and that evaluates nothing."""
    return {"not": {"not": _described(value, draft)}} if _is_composite(value) else {"enum": [value]}


def _is_composite(value: Any) -> bool:
    return isinstance(value, list | dict) and len(value) > 0


def _described(value: Any, draft: int) -> Any:
    match value:
        case list() if value:
            items = [_described(item, draft) for item in value]
            length = len(value)
            prefix = prefix_items_keyword(draft)
            return {"type": "array", "minItems": length, "maxItems": length, prefix: items}
        case dict() if value:
            properties = {key: _described(item, draft) for key, item in value.items()}
            return {
                "type": "object",
                "required": list(value),
                "properties": properties,
                "additionalProperties": False,
            }
        case _:
            return {"enum": [value]}
