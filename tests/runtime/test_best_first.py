"""Accept and particles at temperature 0: searches for the best valid output."""

import math
from dataclasses import dataclass, replace

import pytest
import toy_model
from searches import (
    ANY_TEXT,
    GRAMMAR,
    LEAST_GAINS,
    LETTERS,
    SCORES,
    WORDS,
    ListedModel,
    LostModel,
    RandomModel,
    search,
    searched,
    word_of,
)
from selected import distribution, run, selected, selected_sequence
from toy_model import STOP, ToyModel, toy_engine, written

from compiler import compile_schema, compile_toolset
from runtime.inspection import Candidate, Cause, Inspection
from runtime.selection import Selection
from runtime.written_token import UNSAMPLED, SampledStep, SampledToken, other_token
from toolspecs.tool import Tool


def found(model_seed, size, strategy, **settings):
    """The word that a search finds with a random model, and the scores of all words."""
    model = RandomModel(model_seed)
    sequence = searched(model, size, strategy=strategy, grammar=GRAMMAR, settings=settings)
    word, weight = word_of(sequence), sequence.weight
    assert weight.log_likelihood == pytest.approx(model.log_probability(word), abs=1e-3)
    log_faithfulness = weight.log_product + weight.log_added
    assert log_faithfulness == pytest.approx(model.log_faithfulness(word), abs=1e-3)
    scores = {each: getattr(model, SCORES[strategy])(each) for each in WORDS}
    return word, sequence.selection, scores, model


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


@pytest.mark.parametrize("strategy", SCORES)
@pytest.mark.parametrize("jumps", [True, False])
def test_what_is_proven_is_the_best_of_all(jumps, strategy):
    num_proven = num_better = 0
    for seed in range(60):
        word, stats, scores, model = found(seed, 16, strategy, jumps=jumps)
        best, greedy = max(scores.values()), scores[greedy_word(model)]
        assert scores[word] >= greedy - 1e-6
        assert stats.num_draws <= 16
        assert not stats.is_exact or scores[word] > best - LEAST_GAINS[strategy] - 1e-3
        num_proven += stats.is_exact
        num_better += scores[word] > greedy
    assert num_proven > 50
    assert num_better > 15


@pytest.mark.parametrize("strategy", SCORES)
def test_a_short_search_is_not_said_to_be_proven_if_it_is_not(strategy):
    for seed in range(60):
        word, stats, scores, _ = found(seed, 2, strategy)
        assert stats.num_draws <= 2
        assert not stats.is_exact or scores[word] > max(scores.values()) - LEAST_GAINS[strategy] - 1e-3


@dataclass
class LetterModel(ToyModel):
    """A model that ends a text at once with some probability; else it writes one of many long ones."""

    ends_at_once: float = 0.2

    def next_probabilities(self, output):
        if len(output) == 1:
            rest = 1 - self.ends_at_once
            letters = {ord(letter): rest / 16 for letter in "bcdefghi"}
            return {ord('"'): self.ends_at_once, ord("a"): rest / 2, **letters}
        if written(output[1:]).endswith('"'):
            return {STOP: 1.0}
        if len(output) in {0, 7}:
            return {ord('"'): 1.0}
        return {ord(letter): 1 / 8 + (letter == "a") * 0.01 for letter in "abcdefgh"}


@pytest.mark.parametrize(
    ("strategy", "ends_at_once", "text"),
    [("accept", 0.2, "aaaaaa"), ("accept", 0.3, ""), ("particles", 0.2, "")],
)
def test_a_long_text_is_given_up_for_a_short_one_only_if_that_is_likely(strategy, ends_at_once, text):
    sequence = searched(LetterModel(ends_at_once), 16, strategy=strategy, grammar=ANY_TEXT)
    assert word_of(sequence) == text
    assert sequence.selection.is_exact


def test_where_nothing_is_masked_one_output_is_written():
    sequence = searched(LetterModel(), 16, strategy="accept", grammar=ANY_TEXT)
    assert sequence.selection.num_draws == 1
    assert sequence.selection.num_written_tokens == sequence.num_output


@pytest.mark.parametrize("strategy", SCORES)
def test_an_output_that_gets_ever_worse_is_left_for_a_branch(strategy):
    sequence = searched(LostModel(0.9, 0.1), 4, strategy=strategy, grammar=ANY_TEXT, max_tokens=60)
    assert word_of(sequence) == "b"
    assert sequence.selection.num_written_tokens < 15


@pytest.mark.parametrize("strategy", SCORES)
def test_an_output_that_was_left_goes_on_if_the_branches_are_worse(strategy):
    model, settings = LostModel(0.3, 0.99999999), {"num_pages": 24}
    sequence = searched(model, 2, strategy=strategy, grammar=ANY_TEXT, max_tokens=60, settings=settings)
    assert sequence is sequence.first
    assert word_of(sequence) == "a" * 40
    assert (sequence.selection.num_draws, sequence.selection.is_exact) == (2, True)


LONG_WORDS = [first + "abb" * 130 + last for first in LETTERS for last in LETTERS]
"""Between the first and the last letter, more is forced than is written in one step."""


@pytest.mark.parametrize("strategy", SCORES)
def test_an_output_does_not_depend_on_the_steps_in_which_forced_tokens_are_computed(strategy):
    grammar = compile_schema({"enum": LONG_WORDS})

    def words(**settings):
        engine = toy_engine(RandomModel(2), **settings)
        sequences = [search(4, seed, strategy, grammar=grammar, max_tokens=400) for seed in range(2)]
        return [output.sequence.output_ids for output in run(engine, sequences).values()]

    together = words()
    assert together[0] == together[1]
    assert words(max_batch_tokens=16) == together


@dataclass
class ProseModel(ToyModel):
    """A model with two nearly equal letters at each of 60 places, where it would also break the line."""

    lost: float

    def next_probabilities(self, output):
        if len(output) in {0, 61}:
            return {ord('"'): 1.0}
        if len(output) > 61:
            return {STOP: 1.0}
        rest = 1 - self.lost
        return {ord("a"): 0.51 * rest, ord("b"): 0.49 * rest, ord("\n"): self.lost}


def prose_stats(strategy, lost):
    sequence = searched(ProseModel(lost), 16, strategy=strategy, grammar=ANY_TEXT, max_tokens=1000)
    assert set(word_of(sequence)) <= {"a", "b"}
    return sequence.selection


@pytest.mark.parametrize("strategy", SCORES)
def test_a_search_begins_no_more_once_it_has_written_two_outputs_and_some(strategy):
    stats = prose_stats(strategy, lost=0.2)
    assert stats.num_draws > 2
    assert stats.num_written_tokens <= 3 * 63 + 64


def test_texts_that_would_be_a_little_better_are_not_written():
    assert prose_stats("accept", lost=0.001).num_written_tokens < 63 + 20


@pytest.mark.parametrize("strategy", SCORES)
def test_an_output_does_not_depend_on_its_company_or_on_memory(strategy):
    def words(**settings):
        engine = toy_engine(RandomModel(7), **settings)
        sequences = [search(8, seed, strategy, grammar=GRAMMAR, prompt=b"a prompt") for seed in range(6)]
        sequences += [selected_sequence(Selection("accept", 4), 9, grammar=GRAMMAR, prompt=b"a prompt")]
        return [output.sequence.output_ids for output in run(engine, sequences).values()]

    together = words(max_batch=64)
    assert len(set(map(tuple, together[:6]))) == 1  # no seed matters
    assert words(num_pages=24, max_batch=2) == together
    assert words(max_batch=1) == together


def test_only_what_may_be_the_best_is_written():
    """All that is written beside the first output is what came before a branch could no longer win."""
    sequence = searched(ToyModel(), 16)
    assert sequence.selection.num_draws == 2
    assert sequence.selection.num_written_tokens < 2 * sequence.num_output
    for member in sequence.population.members:
        assert member is sequence or member.matcher is None  # released


@pytest.mark.parametrize("jumps", [True, False])
def test_what_counts_as_more_likely_than_it_is_proves_nothing(jumps):
    """No factor counts as less than `MIN_MASS`: `aa` seems to be the most likely word, but `bb` is."""
    hardly = ListedModel(
        {
            "": {'"': 0.0},
            '"': {"a": -0.5, "b": -1.0},
            '"a': {"a": -80.0, "x": 0.0},
            '"b': {"b": -60.0, "x": 0.0},
        }
    )
    grammar = compile_schema({"enum": ["aa", "bb"]})
    assert not searched(hardly, 16, grammar=grammar, settings={"jumps": jumps}).selection.is_exact


def test_a_token_that_is_too_unlikely_for_float32_is_no_proof():
    """`b` has the probability 1e-46, which is more than that of `aaa`."""
    model = ListedModel(
        {
            '"': {"a": math.log(2e-18), "b": math.log(1e-46), "x": 0.0},
            '"a': {"a": math.log(2e-19), "x": 0.0},
            '"aa': {"a": math.log(1e-19), "x": 0.0},
        }
    )
    sequence = searched(model, 16, grammar=compile_schema({"enum": ["aaa", "b"]}))
    assert word_of(sequence) == "aaa"
    assert not sequence.selection.is_exact


def test_truncation_does_not_keep_the_best_output_from_being_found():
    """At temperature 0, a mask finds all tokens too; a model's authors often recommend to leave some out."""
    (output,) = selected(Selection("particles", 16), 1, temperature=0.0, top_k=1, top_p=0.5, min_p=0.5)
    assert bytes(output.sequence.output_ids[1:3]) == b"bb"
    assert output.sequence.selection.is_exact


def test_the_token_of_a_branch_is_told_in_the_same_detail():
    inspection = Inspection(Cause.FREE, (Candidate(1, 0.5, is_removed=False),), mass_removed=0.2)
    token = SampledToken(1, -0.1, ((1, -0.1), (2, -2.0)), inspection, SampledStep(allowed_mass=0.8))
    other = other_token(token, 2, -2.0)
    assert (other.token_id, other.logprob, other.top) == (2, -2.0, token.top)
    assert [c.token_id for c in other.inspection.candidates] == [1, 2]
    assert other.inspection.candidates[1].probability == pytest.approx(0.8 * math.exp(-2))
    assert replace(other_token(SampledToken(1), 2, -2.0), step=UNSAMPLED) == SampledToken(2)


class ReluctantModel(ToyModel):
    """A model that begins a call with a probability of 0.89, and would break it off at each letter of a text."""

    CALL = '<tool_call>\n{"name": "note", "arguments": {"text": "aaaaaaaaaa"}}\n</tool_call>'

    def next_probabilities(self, output):
        begun = written(output)
        if not begun:
            return {ord("<"): 0.89, ord("N"): 0.11}
        text = self.CALL if begun.startswith("<") else "No"
        if begun == text:
            return {STOP: 1.0}
        if text[len(begun)] == "a" and '"text": "' in begun:
            return {ord("a"): 0.1, ord("\n"): 0.9}
        return {ord(text[len(begun)]): 1.0}


@pytest.mark.parametrize("strategy", SCORES)
def test_a_search_leaves_it_to_the_model_whether_it_begins_a_call(strategy):
    """Text is likelier than a call that is hard to write, and never masked."""
    parameters = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    grammar = compile_toolset([Tool("note", "", parameters)], tool_choice="auto", syntax="hermes")
    sequence = searched(ReluctantModel(), 8, strategy=strategy, grammar=grammar, max_tokens=200)
    assert written(sequence.output_ids) == ReluctantModel.CALL
    assert not sequence.selection.is_exact
