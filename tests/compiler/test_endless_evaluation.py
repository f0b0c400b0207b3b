"""`unevaluated*` that canonicalization would never come to an end with is refused, and only that.

Each schema is compiled in a process of its own: where the check failed, the process would end.
"""

import json
import subprocess
import sys

import pytest

REF = {"$ref": "#/$defs/d"}
CLOSED = {"unevaluatedProperties": False}
TEXT = {"type": "string"}


def referring(definition, **others):
    return {**REF, "$defs": {"d": definition, **others}}


def with_left(schema):
    return {"type": "object", "properties": {"left": schema}}


ENDLESS = [
    referring({"anyOf": [TEXT, with_left({**REF, **CLOSED})]}),
    referring({"oneOf": [with_left({**REF, **CLOSED}), {"type": "array"}]}),
    referring({"anyOf": [TEXT, {"type": "array", "items": {**REF, "unevaluatedItems": False}}]}),
    referring({"anyOf": [TEXT, with_left({"allOf": [REF], **CLOSED})]}),
    referring({"anyOf": [TEXT, with_left({**REF, "unevaluatedProperties": TEXT})]}),
    referring({"if": TEXT, "then": {"minLength": 1}, "else": with_left({**REF, **CLOSED})}),
    referring({"dependentSchemas": {"x": with_left({**REF, **CLOSED})}}),
    referring(
        {"anyOf": [TEXT, with_left({"$ref": "#/$defs/e", **CLOSED})]},
        e={"anyOf": [{"type": "null"}, with_left({**REF, **CLOSED})]},
    ),
    {"anyOf": [TEXT, with_left({"$ref": "#", **CLOSED})]},
]
ENDING = [
    referring(with_left({**REF, **CLOSED})),
    referring({"anyOf": [TEXT, with_left(REF)], **CLOSED}),
    referring({"anyOf": [TEXT, with_left(REF)]}) | CLOSED,
    referring({"anyOf": [TEXT, {**with_left(REF), **CLOSED}]}),
    referring({"anyOf": [TEXT, with_left({**REF, "unevaluatedProperties": True})]}),
    referring({"anyOf": [TEXT, with_left({"$ref": "#/$defs/e"})]}, e={**REF, **CLOSED}),
]
COMPILE = """
import json, sys
from compiler import UnsupportedSchema, compile_schema
try:
    compile_schema(json.load(sys.stdin))
except UnsupportedSchema as refusal:
    print(refusal.pointer, refusal)
"""


def compiled(schema):
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        input=json.dumps(schema),
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-500:] or f"ended by signal {-done.returncode}"
    return done.stdout


@pytest.mark.parametrize("schema", ENDLESS, ids=json.dumps)
def test_what_has_no_end_is_refused(schema):
    refusal = compiled(schema)
    assert "what it says has no end" in refusal
    assert refusal.split()[0].rpartition("/")[2].startswith("unevaluated")


@pytest.mark.parametrize("schema", ENDING, ids=json.dumps)
def test_what_has_an_end_is_compiled(schema):
    assert compiled(schema) == ""
