"""Units: compiled, addressed by content, stored and read back."""

import numpy as np
import pytest
import xgrammar as xgr
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from monolith import SAMPLES, TOOLS, tool
from vocabularies import BYTES, with_tokens

from compiler.errors import CorruptUnit, UnsupportedGrammar
from compiler.grammar.grammar import CharClass, Choice, Concatenation, Grammar, Literal, Repeat, Rule, RuleRef
from compiler.grammar.json_form import grammar_from_json, grammar_to_json
from compiler.matcher import allocate_bitmask
from compiler.prepared_vocabulary import prepare
from compiler.syntaxes import SYNTAXES
from compiler.units.unit import Unit, compile_unit
from compiler.vocabulary import Vocabulary

HERMES = SYNTAXES["hermes"]
OTHER = Vocabulary((*BYTES.tokens[:65], b"AA", *BYTES.tokens[66:]), {}, BYTES.stop_ids)
"""A vocabulary of the same size."""


@pytest.mark.parametrize("name", TOOLS)
def test_a_unit_is_the_arguments_and_the_calls_end(name):
    unit = compile_unit(TOOLS[name], HERMES, prepare(BYTES))
    matcher = xgr.GrammarMatcher(unit.compiled)
    assert matcher.accept_string(SAMPLES[name])
    assert not matcher.is_completed()
    assert matcher.accept_string(HERMES.end)
    assert matcher.is_completed()


@pytest.mark.parametrize("name", TOOLS)
def test_a_stored_unit_comes_back_the_same(name):
    unit = compile_unit(TOOLS[name], HERMES, prepare(BYTES))
    again = Unit.from_bytes(unit.to_bytes(), prepare(BYTES))
    assert (again.digest, again.syntax, again.grammar) == (unit.digest, unit.syntax, unit.grammar)
    masks = allocate_bitmask(2, BYTES.width)
    for row, compiled in enumerate((unit.compiled, again.compiled)):
        xgr.GrammarMatcher(compiled).fill_next_token_bitmask(masks, row)
    assert (masks[0] == masks[1]).all()


def test_the_digest_covers_grammar_syntax_and_vocabulary():
    digests = [
        compile_unit(grammar, row, prepare(vocabulary)).digest
        for grammar in (TOOLS["pay"], TOOLS["pay_all"])
        for row in (HERMES, SYNTAXES["json"], SYNTAXES["mistral"])
        for vocabulary in (BYTES, OTHER)
    ]
    assert len(set(digests)) == len(digests)
    assert compile_unit(TOOLS["pay"], HERMES, prepare(BYTES)).digest == digests[0]


def test_bytes_of_another_vocabulary_are_refused_though_it_has_the_same_size():
    stored = compile_unit(TOOLS["pay"], HERMES, prepare(BYTES)).to_bytes()
    with pytest.raises(CorruptUnit, match="another vocabulary"):
        Unit.from_bytes(stored, prepare(OTHER))


def test_cut_or_foreign_bytes_are_refused():
    stored = compile_unit(TOOLS["pay"], HERMES, prepare(BYTES)).to_bytes()
    content = zstandard.ZstdDecompressor().decompress(stored)
    compress = zstandard.ZstdCompressor().compress
    bad = [
        b"",
        b"junk",
        stored[:-9],
        compress(b""),
        compress(b"\xff\n\n"),
        compress(b"[1]\n{}\n{}"),
        compress(content[:-40]),
    ]
    for data in bad:
        with pytest.raises(CorruptUnit):
            Unit.from_bytes(data, prepare(BYTES))


def test_a_claim_to_be_huge_is_refused_before_it_is_unpacked():
    bomb = zstandard.ZstdCompressor().compress(bytes(300 * 2**20))
    with pytest.raises(CorruptUnit, match="too much memory"):
        Unit.from_bytes(bomb, prepare(BYTES))


@pytest.mark.parametrize("grammar", [tool('["a"]'), tool(Choice((Literal("{}"), Literal("null"))))])
def test_arguments_that_may_be_no_object_are_refused(grammar):
    with pytest.raises(UnsupportedGrammar, match="must begin with"):
        compile_unit(grammar, HERMES, prepare(BYTES))


def test_what_xgrammar_refuses_is_an_error_of_ours():
    with pytest.raises(UnsupportedGrammar, match="nowhere"):
        prepare(BYTES).backend.compile("root ::= nowhere")


def test_markers_of_the_syntax_are_single_tokens_of_a_unit():
    vocabulary = with_tokens(markers=("<tool_call>", "</tool_call>"))
    matcher = xgr.GrammarMatcher(compile_unit(TOOLS["p"], HERMES, prepare(vocabulary)).compiled)
    assert matcher.accept_string("{}}\n")
    mask = allocate_bitmask(1, vocabulary.width)
    matcher.fill_next_token_bitmask(mask, 0)
    assert np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist() == [258]


literals = st.text(st.characters(codec="utf-8"), max_size=5).map(Literal)
classes = st.lists(st.integers(0x20, 0xD000), min_size=1, max_size=3).map(
    lambda codes: CharClass.of(*((code, code + 5) for code in codes))
)
expressions = st.recursive(
    literals
    | classes
    | st.builds(Repeat, classes, st.integers(0, 3), st.none() | st.integers(3, 9))
    | st.just(RuleRef("root")),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple).map(Concatenation)
        | st.lists(inner, min_size=1, max_size=3).map(tuple).map(Choice)
    ),
    max_leaves=8,
)


@given(body=expressions, other=expressions, lookahead=st.none() | classes)
def test_a_grammar_survives_its_json_form(body, other, lookahead):
    grammar = Grammar({"root": Rule(body), "other": Rule(other, lookahead)})
    assert grammar_from_json(grammar_to_json(grammar)) == grammar


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"root": "a", "rules": {"a": [["what"], null]}}', '{"root": "a", "rules": {"a": 1}}'],
)
def test_no_json_form_of_a_grammar(text):
    with pytest.raises(ValueError, match=r"."):
        grammar_from_json(text)
