"""`unevaluated*` that canonicalization would never come to an end with is refused, and only that.

The schemas are compiled in a process of their own: where the check failed, the process would end.
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
for line in sys.stdin:
    try:
        compile_schema(json.loads(line))
    except UnsupportedSchema as refusal:
        print(json.dumps([refusal.pointer, str(refusal)]), flush=True)
    else:
        print("null", flush=True)
"""


@pytest.fixture(scope="module")
def refusals():
    """What became of each schema: pointer and message of its refusal, or None; it ends where the process did."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        input="".join(f"{json.dumps(schema)}\n" for schema in (*ENDLESS, *ENDING)),
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode <= 0, done.stderr[-500:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("number", range(len(ENDLESS)), ids=map(json.dumps, ENDLESS))
def test_what_has_no_end_is_refused(refusals, number):
    assert number < len(refusals), "the process ended"
    pointer, message = refusals[number]
    assert "what it says has no end" in message
    assert pointer.rpartition("/")[2].startswith("unevaluated")


@pytest.mark.parametrize("number", range(len(ENDING)), ids=map(json.dumps, ENDING))
def test_what_has_an_end_is_compiled(refusals, number):
    assert refusals[len(ENDLESS) :][number] is None
