"""Particles at temperature 0: a search for the model's most likely valid output."""

import itertools
import math
import random
import time

import pytest
import toy_model
from selected import assert_fails, distribution, poison, run, selected, selected_sequence, text_of

from compiler import compile_schema, compile_toolset
from compiler.errors import MatchingTooSlow
from runtime.inspection import Candidate, Cause, Inspection
from runtime.scheduling.sequence import SequenceStatus
from runtime.selection import Selection
from runtime.written_token import SampledToken, other_token
from toolspecs.tool import Tool

LETTERS = "abc"
WORDS = ["".join(letters) for length in (1, 2, 3) for letters in itertools.product(LETTERS, repeat=length)]
GRAMMAR = compile_schema({"enum": WORDS})


class RandomModel(toy_model.ToyModel):
    """A model whose distribution after every output is random, and the same each time.

    It likes some tokens that no grammar of letters allows.
    """

    def __init__(self, seed):
        super().__init__()
        self.seed = seed

    def next_probabilities(self, output):
        rng = random.Random(f"{self.seed} {bytes(i % 256 for i in output)}")
        ids = [*f'{LETTERS}"x'.encode(), toy_model.STOP]
        weights = [rng.random() ** 4 + 1e-3 for _ in ids]
        return {i: weight / sum(weights) for i, weight in zip(ids, weights, strict=True)}

    def log_probability(self, word):
        ids = [*f'"{word}"'.encode(), toy_model.STOP]
        return sum(math.log(self.next_probabilities(ids[:at])[i]) for at, i in enumerate(ids))

    def next_logits(self, output):
        return {token_id: math.log(p) for token_id, p in self.next_probabilities(output).items()}


def search(size, seed=1, **options):
    return selected_sequence(Selection("particles", size), seed, temperature=0.0, **options)


def found(model_seed, size, **settings):
    """The word that a search finds with a random model, and the model."""
    engine = toy_model.toy_engine(**settings)
    engine.runner = RandomModel(model_seed)
    (output,) = run(engine, [search(size, grammar=GRAMMAR)]).values()
    word = bytes(i for i in output.sequence.output_ids if i != toy_model.STOP).decode().strip('"')
    assert output.sequence.weight.log_likelihood == pytest.approx(
        engine.runner.log_probability(word), abs=1e-3
    )
    return word, output.sequence.selection, engine.runner


def test_the_most_likely_output_is_found_and_proven():
    """A mask that takes the best token at each step writes `aa`; the best text is `bb`."""
    assert max(toy_model.TEXTS, key=toy_model.probability) == "bb"
    outputs = selected(Selection("particles", 4), 8, temperature=0.0)
    assert distribution(outputs)["bb"] == 1
    for output in outputs:
        stats = output.sequence.selection
        assert (stats.strategy, stats.num_draws, stats.is_exact) == ("particles", 2, True)
        assert output.sequence.weight.log_likelihood == pytest.approx(
            math.log(toy_model.probability("bb")), abs=1e-4
        )


def greedy_word(model):
    """The word under a mask that takes the best token at each step."""
    word = ""
    while True:
        next_letters = {f'{each}"'[len(word)] for each in WORDS if each.startswith(word)}
        probabilities = model.next_probabilities([*f'"{word}'.encode()])
        letter = max(next_letters, key=lambda letter: probabilities[ord(letter)])
        if letter == '"':
            return word
        word += letter


@pytest.mark.parametrize("jumps", [True, False])
def test_what_is_proven_is_the_best_of_all(jumps):
    num_proven = num_better = 0
    for seed in range(60):
        word, stats, model = found(seed, 16, jumps=jumps)
        likelihoods = {each: model.log_probability(each) for each in WORDS}
        best, greedy = max(likelihoods.values()), likelihoods[greedy_word(model)]
        assert likelihoods[word] >= greedy - 1e-6
        assert stats.num_draws <= 16
        assert not stats.is_exact or likelihoods[word] == pytest.approx(best, abs=1e-3)
        num_proven += stats.is_exact
        num_better += likelihoods[word] > greedy
    assert num_proven > 50
    assert num_better > 15


def test_a_short_search_is_not_said_to_be_proven_if_it_is_not():
    for seed in range(60):
        word, stats, model = found(seed, 2)
        best = max(map(model.log_probability, WORDS))
        assert stats.num_draws <= 2
        assert not stats.is_exact or model.log_probability(word) == pytest.approx(best, abs=1e-3)


def test_an_output_does_not_depend_on_its_company_or_on_memory():
    def words(**settings):
        engine = toy_model.toy_engine(**settings)
        engine.runner = RandomModel(7)
        sequences = [search(8, seed, grammar=GRAMMAR, prompt=b"a prompt") for seed in range(6)]
        sequences += [selected_sequence(Selection("accept", 4), 9, grammar=GRAMMAR, prompt=b"a prompt")]
        return [output.sequence.output_ids for output in run(engine, sequences).values()]

    together = words(max_sequences=64)
    assert len(set(map(tuple, together[:6]))) == 1  # no seed matters
    assert words(num_pages=24, max_sequences=2) == together
    assert words(max_sequences=1) == together


def test_only_what_may_be_the_best_is_written():
    """All that is written beside the first output is what came before a branch could no longer win."""
    engine = toy_model.toy_engine()
    (output,) = run(engine, [search(16)]).values()
    assert output.sequence.selection.num_draws == 2
    assert output.sequence.selection.num_written_tokens < 2 * output.sequence.num_output
    for member in output.sequence.population.members:
        assert member is output.sequence or member.matcher is None  # released


def test_a_branch_that_does_not_fit_the_budget_is_left():
    """A word of three letters takes five tokens with its quotes."""
    for budget, longest in ((3, 1), (4, 2), (5, 3)):
        for seed in range(20):
            engine = toy_model.toy_engine()
            engine.runner = RandomModel(seed)
            (output,) = run(engine, [search(16, grammar=GRAMMAR, max_tokens=budget)]).values()
            text = bytes(i for i in output.sequence.output_ids if i != toy_model.STOP).decode()
            assert text.strip('"') in WORDS
            assert len(text) - 2 <= longest


class CallingModel(toy_model.ToyModel):
    """A model that begins a call, and would go on with `y` or `z`, or end, if it may not."""

    BEGINNING = b"<tool_call>"

    def next_logits(self, output):
        if len(output) < len(self.BEGINNING) - 1:
            return {self.BEGINNING[len(output)]: 0.0}
        others = {ord("z"): -1.0, ord("y"): -2.0, toy_model.STOP: -1.5}
        return {ord(">"): 0.0, **others} if bytes(output) == self.BEGINNING[:-1] else others


def test_no_output_is_written_twice_after_a_token_that_does_not_fit_the_budget():
    """Its place in a text is sampled again, so that the branches there were kept a second time."""
    tool = Tool("f", "", {"type": "object", "properties": {"a": {"const": "x" * 40}}, "required": ["a"]})
    grammar = compile_toolset((tool,), tokenizer=toy_model.VOCABULARY, syntax="hermes", tool_choice="auto")
    engine = toy_model.toy_engine()
    engine.runner = CallingModel()
    sequence = search(16, grammar=grammar, max_tokens=14)
    run(engine, [sequence])
    members = sequence.population.members
    written = [tuple(member.output_ids) for member in members if member.num_written]
    assert len(set(written)) == len(written)
    outputs = [member.selection for member in members if member.selection]
    assert [stats.is_exact for stats in outputs] == [True]


def test_once_half_of_the_time_has_passed_the_best_so_far_is_selected(monkeypatch):
    engine = toy_model.toy_engine()
    sequence = search(16, deadline=time.monotonic() + 7200)
    engine.add(sequence)
    monkeypatch.setattr("runtime.decoding.members.time.monotonic", lambda: sequence.deadline - 1)
    outputs = [output for _ in range(20) for output in engine.step()]
    assert [bytes(output.sequence.output_ids[1:3]) for output in outputs] == [b"aa"]
    assert (outputs[0].sequence.selection.num_draws, outputs[0].sequence.selection.is_exact) == (1, False)
    assert engine.pool.num_free == engine.pool.num_usable


def test_a_likely_branch_that_is_left_for_want_of_time_is_no_proof(monkeypatch):
    engine = toy_model.toy_engine()
    sequence = search(16, deadline=time.monotonic() + 7200)
    engine.add(sequence)
    while sequence.status is not SequenceStatus.FINISHED:
        engine.step()
    monkeypatch.setattr("runtime.decoding.members.time.monotonic", lambda: sequence.deadline - 1)
    outputs = [output for _ in range(20) for output in engine.step()]
    assert [bytes(output.sequence.output_ids[1:3]) for output in outputs] == [b"aa"]
    assert (outputs[0].sequence.selection.num_draws, outputs[0].sequence.selection.is_exact) == (2, False)


def test_a_whole_output_is_the_answer_if_the_deadline_finds_a_branch_waiting(monkeypatch):
    """The choice failed, although its answer had been there for long."""
    engine = toy_model.toy_engine()
    sequence = search(16, deadline=time.monotonic() + 7200)
    engine.add(sequence)
    while sequence.status is not SequenceStatus.FINISHED:
        engine.step()
    assert engine.step() == []  # the branch writes its first token, and then waits
    assert engine.scheduler.waiting
    monkeypatch.setattr("runtime.engine.time.monotonic", lambda: sequence.deadline + 1)
    (output,) = engine.step()
    assert (output.sequence, output.error, output.is_last) == (sequence, None, True)
    assert not engine.has_work
    assert engine.pool.num_free == engine.pool.num_usable


UNLIKELY = {
    "": {'"': 0.0},
    '"': {"a": -0.5, "b": -1.0},
    '"a': {"a": -80.0, "x": 0.0},
    '"b': {"b": -60.0, "x": 0.0},
    '"aa': {'"': 0.0},
    '"bb': {'"': 0.0},
}
"""The logits after each output."""


class UnlikelyModel(toy_model.ToyModel):
    """A model that hardly ever writes a word of the grammar."""

    def next_logits(self, output):
        named = UNLIKELY.get(bytes(output).decode())
        return {toy_model.STOP: 0.0} if named is None else {ord(name): value for name, value in named.items()}


@pytest.mark.parametrize("jumps", [True, False])
def test_what_counts_as_more_likely_than_it_is_proves_nothing(jumps):
    """No factor counts as less than `MIN_MASS`: `aa` seems to be the most likely word, but `bb` is."""
    engine = toy_model.toy_engine(jumps=jumps)
    engine.runner = UnlikelyModel()
    (output,) = run(engine, [search(16, grammar=compile_schema({"enum": ["aa", "bb"]}))]).values()
    assert not output.sequence.selection.is_exact


def test_truncation_does_not_keep_the_best_output_from_being_found():
    """At temperature 0, a mask finds all tokens too; a model's authors often recommend to leave some out."""
    (output,) = selected(Selection("particles", 16), 1, temperature=0.0, top_k=1, top_p=0.5, min_p=0.5)
    assert bytes(output.sequence.output_ids[1:3]) == b"bb"
    assert output.sequence.selection.is_exact


def test_a_search_whose_first_output_fails_has_no_answer():
    engine = toy_model.toy_engine()
    sequence = search(4)
    assert_fails(engine, sequence, where=lambda other: other is sequence)


def fill_with_nan(engine, sequence):
    poison(engine, lambda other: other is not sequence)


def write_too_slowly(engine, sequence):
    write = engine.writer.write_sampled

    def write_slowly(other, token):
        if other is not sequence:
            raise MatchingTooSlow(0.5)
        return write(other, token)

    engine.writer.write_sampled = write_slowly


@pytest.mark.parametrize("fail", [fill_with_nan, write_too_slowly])
def test_a_whole_output_is_the_answer_if_a_branch_fails(fail):
    """The choice ended with the error of the branch, which is the more likely one here."""
    engine = toy_model.toy_engine()
    sequence = search(4)
    fail(engine, sequence)
    (output,) = run(engine, [sequence]).values()
    assert (output.sequence, text_of(output)) == (sequence, "aa")
    assert (output.sequence.selection.num_draws, output.sequence.selection.is_exact) == (2, False)


def test_the_token_of_a_branch_is_told_in_the_same_detail():
    inspection = Inspection(Cause.FREE, (Candidate(1, 0.5, is_removed=False),), mass_removed=0.2)
    token = SampledToken(1, -0.1, ((1, -0.1), (2, -2.0)), inspection)
    other = other_token(token, 2, -2.0, allowed_mass=0.8)
    assert (other.token_id, other.logprob, other.top) == (2, -2.0, token.top)
    assert [c.token_id for c in other.inspection.candidates] == [1, 2]
    assert other.inspection.candidates[1].probability == pytest.approx(0.8 * math.exp(-2))
    assert other_token(SampledToken(1), 2, -2.0, 1.0) == SampledToken(2)
