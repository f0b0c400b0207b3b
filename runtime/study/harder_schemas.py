"""Harder schemas for the tools of a question, whose right call stays valid.

`harden` rewrites schemas with harder keywords, or makes them stricter. Nothing that was invalid becomes
valid. `_hard_property` has a rule for each kind of property. Objects get a `dependentRequired`, and a `oneOf`
of their cases if they have a required choice.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from runtime.study.questions import MISSING, Question
from toolspecs.tool import Tool

Schema = dict[str, Any]


def harden(question: Question) -> Question:
    """The question with harder schemas; the first right value of each parameter stays valid."""
    right_values = {
        key: values[0] for key, values in question.right_values.items() if values[0] is not MISSING
    }
    tools = tuple(
        _hard_tool(tool, right_values if tool.name == question.name else None) for tool in question.tools
    )
    return replace(question, tools=tools)


def _hard_tool(tool: Tool, right_values: Mapping[str, Any] | None) -> Tool:
    rng = Random(tool.name)  # noqa: S311 - no secret
    return replace(tool, parameters=_hard_object(rng, dict(tool.parameters), right_values))


def _hard_object(rng: Random, schema: Schema, right_values: Mapping[str, Any] | None) -> Schema:
    """Rewrite an object's members, and add how they depend on each other."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return schema
    hard = schema | {
        "properties": {
            name: _hard_property(rng, dict(inner), (right_values or {}).get(name, MISSING))
            for name, inner in properties.items()
        }
    }
    hard |= _dependencies(rng, schema, right_values)
    hard |= _cases(schema, right_values)
    return hard


def _hard_property(rng: Random, schema: Schema, value: Any) -> Schema:  # noqa: PLR0911 - one case per kind
    """Rewrite one property; `value` must stay valid, unless it is MISSING."""
    match schema:
        case {"enum": [_, *_] as choices, **rest}:
            return rest | {"oneOf": [{"const": choice} for choice in choices]}
        case {"type": "string"}:
            return schema | {"allOf": _text_limits(rng, schema, value)}
        case {"type": "boolean"}:
            return schema | {"oneOf": [{"const": True}, {"const": False}]}
        case {"type": "integer" | "number" as kind}:
            return schema | {"allOf": _number_limits(rng, kind, value)}
        case {"type": "array", "items": dict() as items}:
            return schema | _list_limits(rng, items, value)
        case {"type": "object"}:
            return _hard_object(rng, schema, value if isinstance(value, dict) else None)
        case _:
            return schema


def _list_limits(rng: Random, items: Schema, value: Any) -> Schema:
    values = value if isinstance(value, list) else [MISSING]
    inner = (
        _common_limits(items, values)
        if len(values) > 1
        else _hard_property(rng, items, next(iter(values), MISSING))
    )
    return {"items": inner, "allOf": [{"minItems": min(1, len(values))}, {"maxItems": max(8, len(values))}]}


def _common_limits(items: Schema, values: list[Any]) -> Schema:
    """Item limits that several right values keep: those of the longest and of the largest one."""
    match items:
        case {"type": "string"} if all(isinstance(value, str) for value in values) and "enum" not in items:
            lengths = [len(value) for value in values]
            pattern = next(p for p, fits in _PATTERNS if all(map(fits, values)))
            return items | {"allOf": [*_lengths(min(lengths), max(lengths)), {"pattern": pattern}]}
        case {"type": "integer" | "number" as kind} if all(_is_number(value) for value in values):
            bound = _bound(max(map(abs, values)))
            step = 1 if kind == "integer" else _STEP
            limits = [{"minimum": -bound if min(values) < 0 else 0}, {"maximum": bound}]
            return items | {"allOf": [*limits, {"multipleOf": step}]} if _fits(values, step) else items
        case _:
            return items


def _text_limits(rng: Random, schema: Schema, value: Any) -> list[Schema]:
    """Lengths and a pattern that `value` keeps; if it is MISSING, those of a made-up text."""
    text = value if isinstance(value, str) else "x" * rng.randint(2, 30)
    if "format" in schema:
        return [{"minLength": min(8, len(text)), "maxLength": max(40, len(text))}]
    if "pattern" in schema:
        return _lengths(len(text), len(text)) if isinstance(value, str) else [{"maxLength": 40}]
    pattern = next(pattern for pattern, fits in _PATTERNS if fits(text))
    return [*_lengths(len(text), len(text)), {"pattern": pattern}]


def _lengths(shortest: int, longest: int) -> list[Schema]:
    """Bounds a little wider than the lengths that must fit."""
    return [{"minLength": min(2, shortest)}, {"maxLength": -(-(longest + 1) // 8) * 8}]


def _is_code(text: str) -> bool:
    return bool(text) and text.isascii() and all(char.isalnum() or char in "#/_-" for char in text)


_PATTERNS = (
    (r"^[A-Za-z0-9#/_-]+$", _is_code),
    (r"^[^\s].*$", lambda text: bool(text) and not text[0].isspace() and "\n" not in text),
    (r"", lambda _: True),
)
"""Patterns, the tightest first, and a test of whether a text matches."""

_STEP = 0.01


def _number_limits(rng: Random, kind: str, value: Any) -> list[Schema]:
    number = value if _is_number(value) else rng.randint(1, 999)
    bound = _bound(abs(number))
    limits: list[Schema] = [{"minimum": -bound if number < 0 else 0}, {"exclusiveMaximum": bound}]
    steps = (5, 2, 1) if kind == "integer" else (_STEP,)
    step = next((step for step in steps if _fits([number], step)), None)
    return limits if step is None else [*limits, {"multipleOf": step}]


def _bound(number: float) -> int:
    """The next power of ten above a number."""
    return int(10 ** len(str(int(number))))


def _fits(values: list[Any], step: float) -> bool:
    """Whether all values are multiples of `step`, in decimal arithmetic."""
    return all(round(value / step) == round(value / step, 6) for value in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _dependencies(rng: Random, schema: Schema, right_values: Mapping[str, Any] | None) -> Schema:
    """A `dependentRequired`: one optional member requires another, and the right call satisfies that."""
    required = schema.get("required", [])
    optional = [name for name in schema["properties"] if name not in required]
    pairs = [
        (name, other)
        for name in optional
        for other in optional
        if name != other and (right_values is None or name not in right_values or other in right_values)
    ]
    if not pairs or "dependentRequired" in schema:
        return {}
    name, other = rng.choice(pairs)
    return {"dependentRequired": {name: [other]}}


def _cases(schema: Schema, right_values: Mapping[str, Any] | None) -> Schema:
    """A `oneOf` with a case for each value of a required choice; a wrong one requires another member."""
    required = schema.get("required", [])
    chosen = next(
        (name for name, inner in schema["properties"].items() if _is_choice(name, inner, required)), None
    )
    if chosen is None or "oneOf" in schema:
        return {}
    choices = schema["properties"][chosen]["enum"]
    optional = [name for name in schema["properties"] if name not in required]
    cases: list[Schema] = [{"properties": {chosen: {"const": choice}}} for choice in choices]
    needing = next(
        (
            case
            for case, choice in zip(cases, choices, strict=True)
            if right_values is None or choice != right_values.get(chosen)
        ),
        None,
    )
    if optional and needing is not None:
        needing["required"] = [optional[0]]
    return {"oneOf": cases}


def _is_choice(name: str, schema: Any, required: list[str]) -> bool:
    choices = schema.get("enum") if isinstance(schema, dict) else None
    return (
        name in required
        and isinstance(choices, list)
        and len({repr(choice) for choice in choices}) == len(choices)
    )
