"""What requests are about: tools, formats and grammars, each with a judge of its own."""

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import jsonschema_rs
from fuzz.judging import is_schema
from fuzz.schemas import make_schema
from lark import Lark
from lark.exceptions import LarkError

STRING = {"type": "string"}
SCHEMAS: Mapping[str, dict[str, Any]] = {
    "get_weather": {
        "type": "object",
        "properties": {"place": {**STRING, "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
        "required": ["place"],
        "additionalProperties": False,
    },
    "now": {"type": "object", "properties": {}, "additionalProperties": False},
    "f": {"type": "object", "properties": {"a": STRING, "b": {"type": "boolean"}, "c": {"type": ["number", "null"]}}},
    "ff": {"type": "object"},
    "tag-it": {
        "type": "object",
        "properties": {
            "tags": {"type": "array", "items": {"enum": ["a", "ab", "b", 1]}, "uniqueItems": True, "minItems": 2},
            "note": {**STRING, "minLength": 18, "maxLength": 24},
        },
        "required": ["tags", "note"],
    },
    "book": {
        "type": "object",
        "properties": {
            "day": {**STRING, "format": "date"},
            "seat": {**STRING, "pattern": "^[A-F][0-9]{1,2}$"},
            "who": {
                "type": "object",
                "properties": {"name": {**STRING, "minLength": 1}, "age": {"type": "integer", "exclusiveMinimum": 17}},
                "required": ["name", "age"],
            },
        },
        "required": ["seat", "who"],
    },
    "open.map": {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "additionalProperties": {**STRING, "maxLength": 9},
        "minProperties": 1,
        "maxProperties": 3,
    },
    "tree": {
        "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2}}, "required": ["v"]}},
        "$ref": "#/$defs/node",
    },
    "either": {
        "type": "object",
        "properties": {"kind": {"enum": ["s", "n"]}, "value": {}},
        "required": ["kind", "value"],
        "oneOf": [
            {"properties": {"kind": {"const": "s"}, "value": STRING}},
            {"properties": {"kind": {"const": "n"}, "value": {"type": "number", "multipleOf": 0.5}}},
        ],
    },
    "set_color": {"type": "object", "properties": {"color": {"enum": ["red", "green", "<tool_call>", "</think>"]}}, "required": ["color"]},
}  # fmt: skip
"""Parameters by the names of functions."""

NUM_DRAWN = 400


@cache
def drawn_schema(number: int) -> dict[str, Any]:
    """A small schema of any draft that is made up at random; it may be refused."""
    for attempt in count():
        schema = make_schema(random.Random(f"{number} {attempt}"), only_objects=True)
        if len(json.dumps(schema)) < 350 and is_schema(schema):
            return schema
    raise AssertionError


PATTERNS = (
    "[0-9]{3}-[0-9]{4}",
    "(a|ab)(c|bcd)*",
    "[A-Z][a-z]{0,9}( [A-Z][a-z]{0,9})?",
    "x{0,5}",
    '"[^"\\\\\\x00-\\x1f\\x7f-\\uffff]*"',
)
"""Read alike by ECMA-262 and Python."""
LARK = {
    'start: "SELECT" NAME ("," NAME)* "FROM" NAME\nNAME: /[a-z]{1,8}/\n%ignore " "': "sql",
    'start: sum\nsum: NUMBER (("+" | "-") NUMBER)*\nNUMBER: /[0-9]{1,3}/': "sum",
    'start: "(" start* ")"': "brackets",
}
CUSTOM: Mapping[str, dict[str, Any] | None] = {
    "note": None,
    "say": {"type": "text"},
    "phone": {"type": "grammar", "grammar": {"syntax": "regex", "definition": PATTERNS[0]}},
    "quote": {"type": "grammar", "grammar": {"syntax": "regex", "definition": PATTERNS[4]}},
    **{
        name: {"type": "grammar", "grammar": {"syntax": "lark", "definition": text}}
        for text, name in LARK.items()
    },
}
"""Formats by the names of custom tools."""


@dataclass(frozen=True)
class Format:
    """A response format, and whether a text has it."""

    field: dict[str, Any]
    fits: Callable[[str], bool]


def _nested(text: str) -> bool:
    depth = (len(text) - 1) // 2
    return text == "(" * depth + "x" + ")" * depth


CHOICES = ["yes", "no", "yes, but", "<tool_call>", "ä\nö"]
TEXT_FORMATS = (
    *(Format({"type": "regex", "pattern": pattern}, lambda text, p=pattern: bool(re.fullmatch(p, text))) for pattern in PATTERNS),
    Format({"type": "choice", "choices": CHOICES}, lambda text: text in CHOICES),
    Format({"type": "grammar", "grammar": 'root ::= "x" | "(" root ")"'}, _nested),
    Format(
        {"type": "grammar", "grammar": 'root ::= "SELECT " col ("," col)* " FROM " name ";"\ncol ::= name | "count(" name ")"\nname ::= [a-z] [a-z_]{0,9}'},
        lambda text: bool(re.fullmatch(r"SELECT @(,@)* FROM %;".replace("@", r"(%|count\(%\))").replace("%", "[a-z][a-z_]{0,9}"), text)),
    ),
)  # fmt: skip
ANY_OBJECT = {"type": "object"}
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
"""An image."""


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose keys differ; for `json.loads`."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key comes twice")
    return value


@cache
def _validator(schema: str) -> Any:
    return jsonschema_rs.validator_for(json.loads(schema), validate_formats=True)


def json_fault(schema: Any, text: str) -> str:
    """Why a text is no JSON that is valid by a schema; empty if it is."""
    try:
        value = json.loads(text, object_pairs_hook=unique_keys)
    except ValueError as error:
        return f"no JSON: {error}"
    error = next(_validator(json.dumps(schema)).iter_errors(value), None)
    return "" if error is None else f"{error.message} at {error.instance_path}"


def undeclared_key(schema: Any, text: str) -> str:
    """A key of an object that declares some and says nothing of others, but not this one; empty if none."""
    if (
        not isinstance(schema, dict)
        or not schema.get("properties")
        or {"additionalProperties", "patternProperties"} & schema.keys()
    ):
        return ""
    return next((key for key in json.loads(text) if key not in schema["properties"]), "")


def order_fault(schema: Any, text: str) -> str:
    """The keys of an object, if they are not in the order in which they are declared."""
    declared = list(schema.get("properties", ())) if isinstance(schema, dict) else []
    keys = [key for key in json.loads(text) if key in declared]
    return "" if keys == sorted(keys, key=declared.index) else f"keys in the order {keys}"


def input_fault(format_field: dict[str, Any] | None, text: str) -> str:
    """Why a text is no input of a custom tool with this format; empty if it is."""
    if not format_field or format_field["type"] == "text":
        return ""
    grammar = format_field["grammar"]
    if grammar["syntax"] == "regex":
        return "" if re.fullmatch(grammar["definition"], text) else "does not match the pattern"
    try:
        _parser(grammar["definition"]).parse(text)
    except LarkError as error:
        return f"Lark: {error}"
    return ""


@cache
def _parser(definition: str) -> Lark:
    return Lark(definition)
