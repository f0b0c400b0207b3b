"""A linked grammar allows, bit for bit, what one grammar of the whole language allows."""

import random
from functools import cache

import numpy as np
import pytest
import xgrammar as xgr
from monolith import monolith, sample_outputs, toolbox
from vocabularies import named_vocabulary

from compiler.linker.inner_positions import InUnit
from compiler.linker.linked_matcher import LinkedMatcher
from compiler.linker.linker import link
from compiler.matcher import allocate_bitmask
from compiler.prepared_vocabulary import prepare
from compiler.syntaxes import SYNTAXES, Syntax, find_syntax
from compiler.units.unit import Unit, compile_unit
from compiler.vocabulary import Vocabulary
from toolspecs.tool import ChoiceMode, ToolChoice

VOCABULARIES = ("qwen3", "mistral-v3")
CHOICES = [
    (ChoiceMode.REQUIRED, True),
    (ChoiceMode.REQUIRED, False),
    (ChoiceMode.AUTO, True),
    (ChoiceMode.AUTO, False),
    (ChoiceMode.NONE, True),
]


@pytest.fixture(scope="session", params=VOCABULARIES)
def vocabulary(request) -> Vocabulary:
    return named_vocabulary(request.param)


@cache
def _unit(vocabulary: Vocabulary, syntax: Syntax, name: str) -> Unit:
    return compile_unit(toolbox(100, syntax, vocabulary)[name], syntax, prepare(vocabulary))


@cache
def _ids_by_spelling(vocabulary: Vocabulary) -> dict[bytes, tuple[int, ...]]:
    index = prepare(vocabulary).index
    return dict(zip(index.spellings, index.ids, strict=True))


class Comparison:
    """Both matchers side by side, along random tokens that lean towards the syntax's own text."""

    def __init__(self, linked: LinkedMatcher, reference: xgr.GrammarMatcher, vocabulary, texts, seed):
        self.linked = linked
        self.reference = reference
        self.vocabulary = vocabulary
        self.random = random.Random(seed)
        self.ids_of = _ids_by_spelling(vocabulary)
        trigger = vocabulary.spell(texts["trigger"]).encode()
        is_lead = {
            i: bool(trigger) and trigger.startswith(vocabulary.tokens[i]) for i in vocabulary.marker_ids
        }
        markers = [i for i in vocabulary.marker_ids if not is_lead[i]]
        self.foreign = np.array(markers, dtype=np.intp)
        self.bitmask = allocate_bitmask(2, vocabulary.width)
        self.num_steps = 0
        self.num_units = 0
        self.guides = texts["guides"]
        self.output = b""

    def allowed(self) -> np.ndarray:
        """Boolean [width] of the linked matcher, checked against the reference."""
        self.bitmask[0] = self.random.randrange(2**31)  # a fill must not depend on what was there
        self.linked.fill_bitmask(self.bitmask, 0)
        self.reference.fill_next_token_bitmask(self.bitmask, 1)
        ours, theirs = np.unpackbits(self.bitmask.view(np.uint8), axis=1, bitorder="little").astype(bool)
        assert not ours[self.vocabulary.width :].any()
        theirs[self.vocabulary.width :] = False  # a TagDispatch sets the last word's unused bits
        if theirs[list(self.vocabulary.stop_ids)].any():
            theirs[self.foreign] = False  # free text: xgrammar knows no markers
        if (ours != theirs).any():
            self._explain(ours, theirs)
        assert self.linked.is_completed() == ours[list(self.vocabulary.stop_ids)].all()
        self.num_steps += 1
        return ours

    def _explain(self, ours, theirs):
        tokens = self.vocabulary.tokens
        extra = [tokens[i] for i in np.flatnonzero(ours & ~theirs)[:20]]
        missing = [tokens[i] for i in np.flatnonzero(theirs & ~ours)[:20]]
        pytest.fail(f"at {self.linked._position!r}: extra {extra}, missing {missing}")

    def run(self, max_tokens: int) -> None:
        stack, outputs = [], []
        for _ in range(max_tokens):
            allowed = self.allowed()
            stack.append(allowed)
            self._reject_one(allowed)
            token_id = self._choose(allowed)
            was_in_unit = isinstance(self.linked._position, InUnit)
            assert self.linked.accept(token_id)
            self.num_units += was_in_unit and not isinstance(self.linked._position, InUnit)
            outputs.append(self.output)
            self.output += self.vocabulary.tokens[token_id]
            assert self.reference.accept_token(token_id)
            if token_id in self.vocabulary.stop_ids:
                assert self.linked.is_terminated()
                return
            if self.random.random() < 0.05:
                count = self.random.randint(1, min(len(stack), 9))
                self.linked.rollback(count)
                self.reference.rollback(count)
                expected = stack[-count]
                del stack[-count:]
                self.output = outputs[-count]
                del outputs[-count:]
                assert (self.allowed() == expected).all()

    def _choose(self, allowed: np.ndarray) -> int:
        """A token that leads on along a sample output, mostly; anything allowed, otherwise."""
        if self.guides and self.random.random() < 0.85:
            onward = self._onward(self.random.choice(self.guides))
            options = [i for end in range(1, 40) for i in self.ids_of.get(onward[:end], ()) if allowed[i]]
            if options:
                return self.random.choice(options[-2:])
        return int(self.random.choice(np.flatnonzero(allowed)))

    def _onward(self, guide: bytes) -> bytes:
        """What follows in `guide` after the longest end of the output that it contains."""
        for length in range(min(24, len(self.output)), 0, -1):
            at = guide.find(self.output[-length:])
            if at >= 0:
                return guide[at + length :]
        return guide

    def _reject_one(self, allowed: np.ndarray) -> None:
        token_id = self.random.randrange(-2, self.vocabulary.width + 2)
        if not 0 <= token_id < len(allowed) or not allowed[token_id]:
            assert not self.linked.accept(token_id)


LIKE_OTHERS = {"deepseek_v4", "deepseek_v4_1", "exaone", "glm_4_5", "mimo", "minimax"}
"""Rows that differ from another in their texts alone: one tool choice will do."""
CASES = [
    pytest.param(name, row, mode, parallel, id=f"{name}-{row.name}-{mode}-{parallel}")
    for name in VOCABULARIES
    for row in SYNTAXES.values()
    for mode, parallel in CHOICES
    if (name == "qwen3" and row.name not in LIKE_OTHERS) or (mode, parallel) == (ChoiceMode.AUTO, True)
]


@pytest.mark.parametrize(("name", "syntax", "mode", "parallel"), CASES)
def test_masks_equal_those_of_one_grammar(name, syntax, mode, parallel):
    _compare(named_vocabulary(name), syntax, mode, parallel=parallel, num_tools=8, num_steps=300)


@pytest.mark.parametrize("name", ["hermes+think", "glm_4_7+think"])
def test_masks_equal_where_a_model_thinks_first(vocabulary, name):
    row = find_syntax(name)
    _compare(vocabulary, row, ChoiceMode.REQUIRED, parallel=True, num_tools=3, num_steps=300)


@pytest.mark.parametrize("num_tools", [1, 3, 32])
def test_masks_equal_at_any_number_of_tools(vocabulary, num_tools):
    _compare(
        vocabulary, SYNTAXES["hermes"], ChoiceMode.AUTO, parallel=True, num_tools=num_tools, num_steps=200
    )
    _compare(
        vocabulary, SYNTAXES["json"], ChoiceMode.REQUIRED, parallel=True, num_tools=num_tools, num_steps=200
    )


def _compare(vocabulary, syntax, mode, *, parallel, num_tools, num_steps):
    grammars = toolbox(num_tools, syntax, vocabulary)
    units = {name: _unit(vocabulary, syntax, name) for name in grammars}
    linked = link(units, syntax, prepare(vocabulary), ToolChoice(mode), is_parallel=parallel)
    shown = {} if mode is ChoiceMode.NONE else grammars
    whole = prepare(vocabulary).backend.compile(monolith(shown, syntax, vocabulary, mode, parallel=parallel))
    guides = [vocabulary.spell(text).encode() for text in sample_outputs(shown, syntax)]
    texts = {"trigger": syntax.trigger if shown else "", "guides": guides}
    num_done, num_units, seed = 0, 0, 0
    while num_done < num_steps or (num_units == 0 and seed < 20 and shown):
        comparison = Comparison(linked.matcher(), xgr.GrammarMatcher(whole), vocabulary, texts, seed)
        comparison.run(400)
        num_done, num_units, seed = (
            num_done + comparison.num_steps,
            num_units + comparison.num_units,
            seed + 1,
        )
    assert num_units > 0 or mode is ChoiceMode.NONE, "no output came through a call"
