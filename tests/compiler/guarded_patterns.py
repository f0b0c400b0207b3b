"""Patterns whose lengths a guard counts, schemas around them, and random decoding beside rules that count."""

import json
import random
from functools import cache

import jsonschema_rs
import numpy as np
from hypothesis import strategies as st
from random_decoding import Generation, mask_of
from vocabularies import with_tokens
from writers import Writer

from compiler.compiled_format import CompiledFormat
from compiler.frontend.canonical_form import canonical_form
from compiler.frontend.source_map import SourceMap
from compiler.guard.ambiguities import Ambiguities
from compiler.lowering.json_text import FLEXIBLE
from compiler.lowering.schema_lowering import SchemaLowering
from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary

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


_ATOMS = [
    "a", "b", "-", "é", "中", "😀", "[a-z]", "[^,]", r"\s", r"\S", ".", '"', r"\\", r"\n", r"[\x00-\x1f]", r"\x1f", "/",
]  # fmt: skip
_REPEATS = ["*", "+", "?", "{2}", "{1,3}", "{2,}"]


def made_up_patterns() -> st.SearchStrategy[str]:
    """Patterns of up to four characters and classes, one after another, repeated, or one of two."""
    return st.recursive(
        st.sampled_from(_ATOMS),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda parts: f"(?:{parts[0]}|{parts[1]})"),
            st.tuples(inner, st.sampled_from(_REPEATS)).map(lambda parts: f"(?:{parts[0]}){parts[1]}"),
        ),
        max_leaves=4,
    )


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


def bounds_of(compiled: CompiledFormat):
    return frozenset() if compiled.grammar.plan is None else compiled.grammar.plan.bounds


_TOKENS = (
    "ab", "-a", "a-", "--", "aaaa", "aaaaaaaaa", " a", "a ", "éa", "中", "\\n", "n-", "\\\\", "a\\", 'a\\"', '\\"a',
    "\\u00", "00", "u000a", "\\u000", "001f", "\\t\\", '"a', '"a-', '"aaaaaaaaaaaaa', '","', '": "a', 'a", "a', 'a"',
)  # fmt: skip


@cache
def made_up_vocabulary() -> Vocabulary:
    """Single bytes, and tokens that open, close, cross and split what a guard counts."""
    return with_tokens(*_TOKENS, b"\xa9a", b"a\xc3", b"\xe4\xb8", b"\xf0\x9f", b"\x98\x80")


def lowered_with(ambiguities: Ambiguities, schema, vocabulary: Vocabulary) -> CompiledFormat:
    """A schema of which rules, not a guard, enforce what is ambiguous at some places."""
    form = canonical_form(schema)
    lowering = SchemaLowering(
        form.schema,
        SourceMap(schema),
        form.dependent_keys,
        is_closed=False,
        formatting=FLEXIBLE,
        ambiguities=ambiguities,
    )
    return CompiledFormat(lowering.grammar(), lowering.reporter.report(), prepare(vocabulary))


def counted_by_rules(schema, vocabulary: Vocabulary) -> CompiledFormat:
    places = frozenset(("", "/items", "/properties/k"))
    return lowered_with(Ambiguities(counted=places), schema, vocabulary)


def compare(guarded: CompiledFormat, counting: CompiledFormat, schema, rng: random.Random) -> None:
    """Write, and see at every step that both allow the same tokens; go back now and then."""
    vocabulary, matcher, other = guarded.vocabulary, guarded.matcher(), counting.matcher()
    writer, text = Writer(rng.random(), vocabulary), b""
    for _ in range(60):
        allowed, expected = mask_of(matcher, vocabulary), mask_of(other, vocabulary)
        differing = [vocabulary.tokens[i] for i in np.flatnonzero(allowed != expected)[:5]]
        assert not differing, (schema, text)
        assert allowed.any(), (schema, text)
        if matcher.is_completed() and (rng.random() < 0.4 or allowed.sum() == 1):
            break
        allowed[list(vocabulary.stop_ids)] = False
        token_id = writer.choice(np.flatnonzero(allowed))
        for _ in range(1 + (rng.random() < 0.1)):
            assert matcher.accept(token_id)
            matcher.rollback(1)
        assert matcher.accept(token_id)
        assert other.accept(token_id)
        text += vocabulary.tokens[token_id]
    if matcher.is_completed():
        assert jsonschema_rs.is_valid(schema, json.loads(text)), (schema, text)


def close(guarded: CompiledFormat, schema, rng: random.Random, slack: int) -> None:
    """Write until the closer will have no more, and close."""
    budget = guarded.closer().minimum() + slack
    generation = Generation(guarded, budget, Writer(rng.random(), guarded.vocabulary))
    assert len(generation.ids) <= budget, (schema, generation.text)
    assert jsonschema_rs.is_valid(schema, json.loads(generation.spelled)), (schema, generation.text)
