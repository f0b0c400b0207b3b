"""Formats whose lengths a guard keeps: what may be written is what rules would let be that keep them.

The formats are small ones, so that rules can: parts of nine characters instead of sixty-three.
"""

import random
from dataclasses import replace

import pytest
from guarded_patterns import (
    STRING,
    bounds_of,
    close,
    compare,
    counted_by_rules,
    in_array,
    in_object,
    made_up_vocabulary,
)
from vocabularies import named_vocabulary

from compiler import compile_schema
from compiler.regular.formats import FORMATS, WrittenTexts

NAME = r"[a-z](?:-?[a-z])*(?:\.[a-z](?:-?[a-z])*)*"
LENGTHS = r"(?:[^.]{1,9}\.)*[^.]{1,9}"
BEYOND = r"[a-zé中](?:-?[a-zé中])*(?:\.[a-zé中](?:-?[a-zé中])*)*"
SMALL = {
    "names": (NAME, LENGTHS, 14),
    "mailboxes": (rf"[a-z](?:\.?[a-z])*@{NAME}", rf"[^@]{{1,9}}@{LENGTHS}", 16),
    "beyond ASCII": (BEYOND, r"(?:(?:[a-z-]{1,11}|[^.]{1,9})\.)*(?:[a-z-]{1,11}|[^.]{1,9})", 14),
}


@pytest.mark.parametrize("wrap", [dict, in_array, in_object])
@pytest.mark.parametrize("name", SMALL)
def test_masks_are_those_of_rules_that_keep_the_lengths(monkeypatch, name, wrap):
    pattern, lengths, most = SMALL[name]
    counted = WrittenTexts(f"^{pattern}$", max_length=5)
    written = {"pattern": f"^{pattern}$", "lengths": f"^(?:{lengths})$", "max_length": most}
    monkeypatch.setitem(FORMATS, "hostname", replace(FORMATS["hostname"], **written, counted=counted))
    schema = wrap({**STRING, "format": "hostname"})
    exact = wrap({**STRING, "pattern": f"^(?=(?:{lengths})$){pattern}$", "maxLength": most})
    vocabulary, rng = made_up_vocabulary(), random.Random(name)
    guarded, counting = compile_schema(schema, tokenizer=vocabulary), counted_by_rules(exact, vocabulary)
    assert any(bound.enforces_pattern for bound in bounds_of(guarded))
    for _ in range(10):
        compare(guarded, counting, exact, rng)
    for slack in range(0, 20, 2):
        close(guarded, exact, rng, slack)


@pytest.mark.parametrize("name", ["email", "hostname", "idn-email", "idn-hostname"])
def test_a_real_vocabulary_closes_names_at_every_budget(name):
    schema, vocabulary = in_object({**STRING, "format": name}), named_vocabulary("qwen3")
    compiled = compile_schema(schema, tokenizer=vocabulary)
    for slack in range(0, 40, 8):
        close(compiled, schema, random.Random(slack), slack)
