"""Patterns whose lengths a guard counts, and schemas around them."""

from compiler.schema import CompiledSchema

STRING = {"type": "string"}
PATTERNS = {
    "unanchored": "[a-c_-]+",
    "slug": "^[a-z]+(-[a-z]+)*$",
    "words": r"^\S+( \S+)*$",
    "lines": r"^\S+(\s\S+)*$",
    "steps": "^(?:ab{3}c?)+$",
    "quoted": r'^"?(?:[^"]*-)?$',
    "control": r"^(?:[a-z]|\n-|[\x00-\x07]--)*$",
    "far": "^x(?:[a-z]|-[0-9]{5})*$",
    "letters": "^(?:[a-zé中😀]+,?)*[a-z]$",
}


def in_array(string):
    return {"type": "array", "items": string, "minItems": 1}


def in_object(string):
    other = {**STRING, "maxLength": 9}
    return {
        "type": "object",
        "properties": {"k": string, "l": other},
        "required": ["k"],
        "additionalProperties": False,
    }


def bounds_of(compiled: CompiledSchema):
    return frozenset() if compiled.grammar.plan is None else compiled.grammar.plan.bounds
