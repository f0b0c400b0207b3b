"""Hard schemas: those of a question said another way, or more tightly, with the wanted call still valid.

Every kind of property is rewritten by the table of `_property`; objects get a `dependentRequired` and,
where they have a choice, a `oneOf` of its cases. Nothing that was forbidden becomes allowed.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from runtime.study.questions import MISSING, Question
from toolspecs.tool import Tool

Schema = dict[str, Any]


def harden(question: Question) -> Question:
    """The same request with every tool's schema rewritten; the first accepted values stay valid."""
    wanted = {key: values[0] for key, values in question.accepted.items() if values[0] is not MISSING}
    tools = tuple(_hard_tool(tool, wanted if tool.name == question.name else None) for tool in question.tools)
    return replace(question, tools=tools)


def _hard_tool(tool: Tool, wanted: Mapping[str, Any] | None) -> Tool:
    rng = Random(tool.name)  # noqa: S311 - no secret
    return replace(tool, parameters=_object(rng, dict(tool.parameters), wanted))


def _object(rng: Random, schema: Schema, wanted: Mapping[str, Any] | None) -> Schema:
    """An object's members, and how they depend on each other."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return schema
    hard = schema | {
        "properties": {
            name: _property(rng, dict(inner), (wanted or {}).get(name, MISSING))
            for name, inner in properties.items()
        }
    }
    hard |= _dependencies(rng, schema, wanted)
    hard |= _cases(schema, wanted)
    return hard


def _property(rng: Random, schema: Schema, value: Any) -> Schema:  # noqa: PLR0911 - one case per kind
    """One property; `value` is what must stay valid, MISSING if anything may."""
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
            return _object(rng, schema, value if isinstance(value, dict) else None)
        case _:
            return schema


def _list_limits(rng: Random, items: Schema, value: Any) -> Schema:
    values = value if isinstance(value, list) else [MISSING]
    inner = _shared(items, values) if len(values) > 1 else _property(rng, items, next(iter(values), MISSING))
    return {"items": inner, "allOf": [{"minItems": min(1, len(values))}, {"maxItems": max(8, len(values))}]}


def _shared(items: Schema, values: list[Any]) -> Schema:
    """Items of several wanted values: the longest, and the largest, decide."""
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
    """Lengths and a pattern; where the value is open, those of some text."""
    text = value if isinstance(value, str) else "x" * rng.randint(2, 30)
    if "format" in schema:
        return [{"minLength": min(8, len(text)), "maxLength": max(40, len(text))}]
    if "pattern" in schema:
        return _lengths(len(text), len(text)) if isinstance(value, str) else [{"maxLength": 40}]
    pattern = next(pattern for pattern, fits in _PATTERNS if fits(text))
    return [*_lengths(len(text), len(text)), {"pattern": pattern}]


def _lengths(shortest: int, longest: int) -> list[Schema]:
    """Bounds a little wider than what must fit."""
    return [{"minLength": min(2, shortest)}, {"maxLength": -(-(longest + 1) // 8) * 8}]


def _is_code(text: str) -> bool:
    return bool(text) and text.isascii() and all(char.isalnum() or char in "#/_-" for char in text)


_PATTERNS = (
    (r"^[A-Za-z0-9#/_-]+$", _is_code),
    (r"^[^\s].*$", lambda text: bool(text) and not text[0].isspace() and "\n" not in text),
    (r"", lambda _: True),
)
"""Patterns, the tightest first, and which texts match."""

_STEP = 0.01


def _number_limits(rng: Random, kind: str, value: Any) -> list[Schema]:
    number = value if _is_number(value) else rng.randint(1, 999)
    bound = _bound(abs(number))
    limits: list[Schema] = [{"minimum": -bound if number < 0 else 0}, {"exclusiveMaximum": bound}]
    steps = (5, 2, 1) if kind == "integer" else (_STEP,)
    step = next((step for step in steps if _fits([number], step)), None)
    return limits if step is None else [*limits, {"multipleOf": step}]


def _bound(number: float) -> int:
    """A power of ten above."""
    return int(10 ** len(str(int(number))))


def _fits(values: list[Any], step: float) -> bool:
    """Whether all are multiples, as decimals have it."""
    return all(round(value / step) == round(value / step, 6) for value in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _dependencies(rng: Random, schema: Schema, wanted: Mapping[str, Any] | None) -> Schema:
    """One optional member that another one needs, as the wanted call has it."""
    required = schema.get("required", [])
    optional = [name for name in schema["properties"] if name not in required]
    pairs = [
        (name, other)
        for name in optional
        for other in optional
        if name != other and (wanted is None or name not in wanted or other in wanted)
    ]
    if not pairs or "dependentRequired" in schema:
        return {}
    name, other = rng.choice(pairs)
    return {"dependentRequired": {name: [other]}}


def _cases(schema: Schema, wanted: Mapping[str, Any] | None) -> Schema:
    """A case for every value of a choice that is required; the first one needs another member, too."""
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
            if wanted is None or choice != wanted.get(chosen)
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
