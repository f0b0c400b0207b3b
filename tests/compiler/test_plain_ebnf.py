"""Grammars for an engine's own xgrammar: texts of strangers stay texts, and markers are those that are used."""

import numpy as np
import xgrammar as xgr
from hypothesis import example, given, settings
from hypothesis import strategies as st
from xgrammar_faults import mended_in_0_2_9

from compiler.grammar.grammar import ALLOWED_CHARACTERS, CharClass, Grammar, Literal, Repeat, Rule
from compiler.grammar.plain_ebnf import is_longer, to_plain_ebnf
from compiler.matcher import allocate_bitmask
from compiler.vocabulary import Vocabulary

MARKERS = {f"<m{i}>": 300 + i for i in range(50)}
VOCABULARY = Vocabulary.from_tokens(
    [*(bytes([i]) for i in range(256)), *[b""] * 100], markers=MARKERS, stop_ids=[256]
)
BYTES = xgr.GrammarCompiler(
    xgr.TokenizerInfo([*(bytes([i]) for i in range(256)), b"</s>"], stop_token_ids=[256])
)
TEXTS = st.text(
    st.characters(codec="utf-8").filter(
        lambda c: any(low <= ord(c) <= high for low, high in ALLOWED_CHARACTERS)
    )
)


@settings(max_examples=200)
@given(TEXTS)
@example('" | [a-z]* #')
@example('a"\nroot ::= "b')
@example('marker_300 ::= ""\n')
@example("Token(300)")
@example("\\")
@example("\\u0022")
@example("ßa0\x7fbÿF")
@example("\u2028\u0085😀")
def test_a_text_is_that_text_and_nothing_else(text):
    ebnf = to_plain_ebnf(Grammar({"root": Rule(Literal(f"<{text}>"))}), VOCABULARY)
    assert ebnf.count("\n") == 1
    matcher = xgr.GrammarMatcher(BYTES.compile_grammar(ebnf))
    for byte in f"<{text}>".encode():
        assert _allowed(matcher) == [byte]
        assert matcher.accept_token(byte)
    assert _allowed(matcher) == [256]
    assert matcher.accept_token(256)
    assert matcher.is_terminated()


def _allowed(matcher):
    bitmask = allocate_bitmask(1, 257)
    matcher.fill_next_token_bitmask(bitmask, 0)
    return np.flatnonzero(np.unpackbits(bitmask.view(np.uint8), bitorder="little")[:257]).tolist()


def test_only_markers_that_are_used_are_written():
    """A vocabulary may have thousands."""
    root = Rule(Literal(VOCABULARY.spell("<m1>marker_302<m11>")))
    assert to_plain_ebnf(Grammar({"root": root}), VOCABULARY) == (
        'root ::= marker_301 "marker_302" marker_311\n'
        "marker_301 ::= Token(301) | [^\\u0000-\\U0010ffff]{1301}\n"
        "marker_311 ::= Token(311) | [^\\u0000-\\U0010ffff]{1311}\n"
    )


def _first_masks(written):
    """The first mask of each grammar, by one compiler that caches rules, as an engine has one."""
    tokens = [*VOCABULARY.tokens[:256], b"</s>", *(b"<%d>" % i for i in range(257, 356))]
    compiler = xgr.GrammarCompiler(xgr.TokenizerInfo(tokens, stop_token_ids=[256]))
    for ebnf in written:
        bitmask = allocate_bitmask(1, len(tokens))
        xgr.GrammarMatcher(compiler.compile_grammar(ebnf)).fill_next_token_bitmask(bitmask, 0)
        yield np.flatnonzero(np.unpackbits(bitmask.view(np.uint8), bitorder="little")[: len(tokens)]).tolist()


def test_markers_of_many_grammars_keep_their_masks():
    names = sorted(MARKERS, key=MARKERS.get)
    grammars = (Grammar({"root": Rule(Literal(VOCABULARY.spell(f"{name}a")))}) for name in names)
    written = [to_plain_ebnf(grammar, VOCABULARY) for grammar in grammars]
    assert list(_first_masks(written)) == [[MARKERS[name]] for name in names]


@mended_in_0_2_9
def test_xgrammar_takes_one_token_for_another():
    """Without this fault, there need be no second choice of markers."""
    written = [f'root ::= marker "a"\nmarker ::= Token({token_id})\n' for token_id in (301, 302)]
    assert list(_first_masks(written)) == [[301], [301]]


@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(0, 40))
def test_what_is_longer_is_longer_when_it_is_written(texts, most):
    rules = {f"r{i}": Rule(Literal(text)) for i, text in enumerate(texts)}
    grammar = Grammar({"root": Rule(Repeat(CharClass.of("a", "c"))), **rules})
    if is_longer(grammar, most):
        assert len(to_plain_ebnf(grammar, VOCABULARY)) > most
    else:
        assert sum(map(len, texts)) <= most
