"""Vocabularies dense in overlaps: every token that one grammar accepts is allowed, and no other."""

import random

import numpy as np
import pytest
import xgrammar as xgr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from monolith import TOOLS, monolith, sample_outputs, toolbox

from compiler.linker.inner_positions import InUnit
from compiler.linker.linker import link
from compiler.linker.outer_positions import InText
from compiler.matcher import allocate_bitmask
from compiler.prepared_vocabulary import prepare
from compiler.syntaxes import SYNTAXES
from compiler.units.unit import compile_unit
from compiler.vocabulary import Vocabulary
from toolspecs.tool import ChoiceMode, ToolChoice

NAMES = ("pay", "pay_all", "p", "pay.all", "many", "größe")


@st.composite
def vocabularies(draw, syntax):
    """All bytes, and pieces of outputs: wherever one call's text meets the next, some token straddles."""
    rng = draw(st.randoms(use_true_random=False))
    outputs = sample_outputs(NAMES, syntax)
    pieces = []
    for _ in range(draw(st.integers(20, 160))):
        text = rng.choice(outputs).encode()
        start = rng.randrange(len(text))
        pieces.append(text[start : start + rng.choice((2, 3, 5, 8, 13, 30, 90))])
    tokens = [bytes([byte]) for byte in range(256)] + pieces
    texts = [syntax.trigger, syntax.end[-8:], "<other>", *syntax.tag_texts[:1]]
    texts += ["<|end|>", "<|message|>"] if syntax.messages else []
    markers = {text: len(tokens) + at for at, text in enumerate(texts) if text and draw(st.booleans())}
    if any(text != syntax.trigger and text in syntax.trigger for text in markers):
        markers.pop(syntax.end[-8:], None)
    tokens += [b"?"] * len(texts)
    return Vocabulary.from_tokens(tokens, markers=markers, stop_ids=[len(tokens)], width=len(tokens) + 7)


@pytest.mark.parametrize("syntax", SYNTAXES.values(), ids=lambda row: row.name)
@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_token_that_one_grammar_accepts_and_no_other(syntax, data):
    vocabulary = data.draw(vocabularies(syntax))
    mode = data.draw(st.sampled_from([ChoiceMode.REQUIRED, ChoiceMode.AUTO]))
    parallel = data.draw(st.booleans())
    tools = toolbox(len(TOOLS), syntax, vocabulary)
    grammars = {name: tools[name] for name in data.draw(st.sets(st.sampled_from(NAMES), min_size=1))}
    units = {name: compile_unit(grammar, syntax, prepare(vocabulary)) for name, grammar in grammars.items()}
    linked = link(units, syntax, prepare(vocabulary), ToolChoice(mode), is_parallel=parallel).matcher()
    whole = prepare(vocabulary).backend.compile(
        monolith(grammars, syntax, vocabulary, mode, parallel=parallel)
    )
    _decode(linked, xgr.GrammarMatcher(whole), vocabulary, random.Random(data.draw(st.integers())))


def _decode(linked, reference, vocabulary, rng):
    bitmask = allocate_bitmask(1, vocabulary.width)
    ids = [i for i, token in enumerate(vocabulary.tokens) if token]
    for _ in range(25):
        linked.fill_bitmask(bitmask, 0)
        allowed = np.unpackbits(bitmask.view(np.uint8), bitorder="little").astype(bool)
        in_text, in_unit = (isinstance(linked._position, kind) for kind in (InText, InUnit))
        expected = {i for i in ids if _accepts(reference, i)}
        if in_text:
            expected -= vocabulary.marker_ids - {linked._position.text.marker_id}
        ours = set(np.flatnonzero(allowed).tolist()) - set(vocabulary.stop_ids)
        assert not (ours - expected), [vocabulary.tokens[i] for i in ours - expected]
        missing = expected - ours
        if in_unit:  # xgrammar's mask may leave out what its matcher accepts
            missing = {i for i in missing if not _accepts(linked._position.matcher, i)}
        assert not missing, [vocabulary.tokens[i] for i in missing]
        assert allowed[vocabulary.stop_ids[0]] == reference.is_completed() == linked.is_completed()
        for i in ids:
            assert linked.accept(i) == (i in expected), vocabulary.tokens[i]
            if i in expected:
                linked.rollback(1)
        if not expected:
            return
        pieces = [i for i in expected if 1 < len(vocabulary.tokens[i]) < 40]
        token_id = rng.choice(pieces if pieces and rng.random() < 0.7 else sorted(expected))
        assert linked.accept(token_id)
        assert reference.accept_token(token_id)


def _accepts(reference: xgr.GrammarMatcher, token_id: int) -> bool:
    is_accepted = reference.accept_token(token_id)
    if is_accepted:
        reference.rollback(1)
    return is_accepted
