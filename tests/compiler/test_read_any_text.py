"""Any text may be asked about, also one that is no JSON: a guard's cursor reads only what the grammar admits."""

import random

import pytest

from compiler import compile_schema

OPEN = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 2}, "b": {"type": "integer"}}}
UNIQUE = {"type": "array", "uniqueItems": True, "items": OPEN}
VALID = ['{"a": "x", "c": 1}', '{"\\u0061": "x"}', '{"c\\ud83d\\ude00": [{"d": "\\\\"}], "b": 1}', "{}"]
PIECES = ["\\", '"', "\\u", "\\u00", "\\ud83d", "😀", "}", "]", "{", "[", ":", ",", "\x00", "e", "-", "tru"]


@pytest.mark.parametrize("schema", [OPEN, UNIQUE], ids=["open", "unique"])
def test_a_text_that_is_no_json_is_no_sentence(schema):
    compiled = compile_schema(schema)
    rng = random.Random(1)
    for _ in range(1500):
        text = rng.choice(VALID if schema is OPEN else [f"[{', '.join(rng.sample(VALID, 2))}]"])
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(PIECES) + text[at + rng.randrange(3) :]
        compiled.accepts(text)  # does not raise
    assert not compiled.accepts('{"\\😀": 1}')
