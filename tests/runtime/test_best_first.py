"""Accept and particles at temperature 0: searches for the best valid output."""

import itertools
import json
import math
import random
import time
from collections import defaultdict

import pytest
import toy_model
from selected import assert_fails, distribution, poison, run, selected, selected_sequence, text_of

from compiler import compile_schema, compile_toolset
from compiler.errors import MatchingTooSlow
from runtime.errors import DeadlineExceeded
from runtime.events import FinishReason
from runtime.inspection import Candidate, Cause, Inspection
from runtime.scheduling.sequence import SequenceStatus
from runtime.selection import Selection
from runtime.written_token import SampledToken, other_token
from toolspecs.tool import Tool

LETTERS = "abc"
WORDS = ["".join(letters) for length in (1, 2, 3) for letters in itertools.product(LETTERS, repeat=length)]
GRAMMAR = compile_schema({"enum": WORDS})


def ids_of(word):
    return [*f'"{word}"'.encode(), toy_model.STOP]


NEXT_IDS = defaultdict(set)
"""The token ids that may follow the beginning of a word in quotes."""
for each in WORDS:
    for at, token_id in enumerate(ids_of(each)):
        NEXT_IDS[tuple(ids_of(each)[:at])].add(token_id)

SCORES = {"particles": "log_probability", "accept": "log_score"}
"""What each strategy looks for, as methods of `RandomModel`."""
LEAST_GAINS = {"particles": 0.0, "accept": math.log(1.25)}


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
        """The logarithm of the model's probability of a word in quotes."""
        ids = ids_of(word)
        return sum(math.log(self.next_probabilities(ids[:at])[i]) for at, i in enumerate(ids))

    def log_faithfulness(self, word):
        """How close a word in quotes is to what the model would write without a mask."""
        ids, total = ids_of(word), 0.0
        for at, token_id in enumerate(ids):
            probabilities = self.next_probabilities(ids[:at])
            allowed = [probabilities[i] for i in NEXT_IDS[tuple(ids[:at])]]
            total += math.log(sum(allowed)) + math.log(probabilities[token_id] / max(allowed))
        return total

    def log_score(self, word):
        """What `LikelyOrFaithful` looks for."""
        return max(self.log_probability(word), self.log_faithfulness(word) - math.log(5))

    def next_logits(self, output):
        return {token_id: math.log(p) for token_id, p in self.next_probabilities(output).items()}


def search(size, seed=1, strategy="particles", **options):
    return selected_sequence(Selection(strategy, size), seed, temperature=0.0, **options)


def word_of(sequence):
    """The text that a sequence has written, without its quotes."""
    return bytes(i for i in sequence.output_ids if i != toy_model.STOP).decode().strip('"')


def found(model_seed, size, strategy, **settings):
    """The word that a search finds with a random model, and the scores of all words."""
    engine = toy_model.toy_engine(**settings)
    engine.runner = RandomModel(model_seed)
    (output,) = run(engine, [search(size, strategy=strategy, grammar=GRAMMAR)]).values()
    word = word_of(output.sequence)
    scores = {each: getattr(engine.runner, SCORES[strategy])(each) for each in WORDS}
    weight = output.sequence.weight
    assert weight.log_likelihood == pytest.approx(engine.runner.log_probability(word), abs=1e-3)
    log_faithfulness = weight.log_product + weight.log_added
    assert log_faithfulness == pytest.approx(engine.runner.log_faithfulness(word), abs=1e-3)
    return word, output.sequence.selection, scores, engine.runner


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


class LetterModel(toy_model.ToyModel):
    """A model that ends a text at once with some probability; else it writes one of many long ones."""

    def __init__(self, ends_at_once=0.2):
        super().__init__()
        self.ends_at_once = ends_at_once

    def next_probabilities(self, output):
        written = bytes(i for i in output if i != toy_model.STOP)
        if not output:
            return {ord('"'): 1.0}
        if len(written) == 1:
            rest = 1 - self.ends_at_once
            letters = {ord(letter): rest / 16 for letter in "bcdefghi"}
            return {ord('"'): self.ends_at_once, ord("a"): rest / 2, **letters}
        if written.endswith(b'"'):
            return {toy_model.STOP: 1.0}
        if len(written) > 6:
            return {ord('"'): 1.0}
        return {ord(letter): 1 / 8 + (letter == "a") * 0.01 for letter in "abcdefgh"}

    def next_logits(self, output):
        return {token_id: math.log(p) for token_id, p in self.next_probabilities(output).items()}


@pytest.mark.parametrize(
    ("strategy", "ends_at_once", "text"),
    [("accept", 0.2, "aaaaaa"), ("accept", 0.3, ""), ("particles", 0.2, "")],
)
def test_a_long_text_is_given_up_for_a_short_one_only_if_that_is_likely(strategy, ends_at_once, text):
    engine = toy_model.toy_engine()
    engine.runner = LetterModel(ends_at_once)
    grammar = compile_schema({"type": "string"})
    (output,) = run(engine, [search(16, strategy=strategy, grammar=grammar)]).values()
    assert word_of(output.sequence) == text
    assert output.sequence.selection.is_exact


def test_where_nothing_is_masked_one_output_is_written():
    engine = toy_model.toy_engine()
    engine.runner = LetterModel()
    sequence = search(16, strategy="accept", grammar=compile_schema({"type": "string"}))
    run(engine, [sequence])
    assert sequence.selection.num_draws == 1
    assert sequence.selection.num_written_tokens == sequence.num_output


class LostModel(toy_model.ToyModel):
    """A model that begins a text with `a` or `b`, and would then go on as no grammar of letters allows.

    After `a`, it does so at each of the next 40 letters, with the probability `lost`.
    """

    def __init__(self, lost, lost_b):
        super().__init__()
        self.lost = lost
        self.lost_b = lost_b

    def next_logits(self, output):
        written = bytes(i for i in output if i != toy_model.STOP).decode()
        if len(written) < 2:
            return {ord('"'): 0.0} if not written else {ord("a"): math.log(0.6), ord("b"): math.log(0.4)}
        if written.endswith('"'):
            return {toy_model.STOP: 0.0}
        if written[1] == "b":
            return {ord('"'): math.log(1 - self.lost_b), ord("\n"): math.log(self.lost_b)}
        following = ord("a") if len(written) < 41 else ord('"')
        return {following: math.log(1 - self.lost), ord("\n"): math.log(self.lost)}


@pytest.mark.parametrize("strategy", SCORES)
def test_an_output_that_gets_ever_worse_is_left_for_a_branch(strategy):
    engine = toy_model.toy_engine()
    engine.runner = LostModel(0.9, 0.1)
    grammar = compile_schema({"type": "string"})
    (output,) = run(engine, [search(4, strategy=strategy, grammar=grammar, max_tokens=60)]).values()
    assert word_of(output.sequence) == "b"
    assert output.sequence.selection.num_written_tokens < 15


@pytest.mark.parametrize("strategy", SCORES)
def test_an_output_that_was_left_goes_on_if_the_branches_are_worse(strategy):
    engine = toy_model.toy_engine(num_pages=24)
    engine.runner = LostModel(0.3, 0.99999999)
    grammar = compile_schema({"type": "string"})
    sequence = search(2, strategy=strategy, grammar=grammar, max_tokens=60)
    (output,) = run(engine, [sequence]).values()
    assert output.sequence is sequence
    assert word_of(sequence) == "a" * 40
    assert (sequence.selection.num_draws, sequence.selection.is_exact) == (2, True)
    assert engine.pool.num_free == engine.pool.num_usable


class LongWindedModel(toy_model.ToyModel):
    """A model that begins a text with `a`, and is then lost; after `b`, it never ends the text."""

    BEGINNING = b'{"a": "'

    def next_logits(self, output):
        written = bytes(output)
        if len(written) < len(self.BEGINNING):
            return {self.BEGINNING[len(written)]: 0.0}
        if len(written) == len(self.BEGINNING):
            return {ord("a"): math.log(0.5), ord("b"): math.log(0.3), ord("c"): math.log(0.2)}
        if written[len(self.BEGINNING)] == ord("b"):
            return {ord("b"): 0.0}
        return {ord("a"): math.log(0.1), ord("\n"): math.log(0.9)}


LONG_ENDING = compile_schema(
    {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"const": "x" * 300}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
)
"""The budget closer needs several steps to end it, so a branch that it ends is given up before its end."""


@pytest.mark.parametrize("strategy", SCORES)
def test_the_deadline_ends_a_choice_of_which_all_that_has_ended_was_given_up(strategy, monkeypatch):
    """The engine waited forever for an answer, and computed nothing for anybody."""
    engine = toy_model.toy_engine()
    engine.runner = LongWindedModel()
    deadline = time.monotonic() + 7200
    first = search(3, strategy=strategy, grammar=LONG_ENDING, max_tokens=360, deadline=deadline)
    engine.add(first)
    while not any(member.finish_reason for member in first.population.members):
        assert engine.step() == []
    assert first.finish_reason is None
    monkeypatch.setattr("runtime.engine.time.monotonic", lambda: deadline + 1)
    outputs = [output for _ in range(20) for output in engine.step()]
    assert [type(output.error) for output in outputs] == [DeadlineExceeded]
    assert not engine.has_work
    assert engine.pool.num_free == engine.pool.num_usable


@pytest.mark.parametrize("strategy", SCORES)
def test_no_further_output_is_begun_when_it_is_late_even_if_none_is_whole(strategy, monkeypatch):
    engine = toy_model.toy_engine()
    engine.runner = LongWindedModel()
    deadline = time.monotonic() + 7200
    first = search(8, strategy=strategy, grammar=LONG_ENDING, max_tokens=360, deadline=deadline)
    engine.add(first)
    while first.status is not SequenceStatus.PARKED:
        assert engine.step() == []
    monkeypatch.setattr("runtime.decoding.members.time.monotonic", lambda: deadline - 1)
    outputs = [output for _ in range(400) for output in engine.step()]
    assert [(output.sequence, output.error) for output in outputs] == [(first, None)]
    assert first.selection.num_draws == 2


LONG_WORDS = [first + "abb" * 130 + last for first in LETTERS for last in LETTERS]
"""Between the first and the last letter, more is forced than is written in one step."""


@pytest.mark.parametrize("strategy", SCORES)
def test_an_output_does_not_depend_on_the_steps_in_which_forced_tokens_are_computed(strategy):
    grammar = compile_schema({"enum": LONG_WORDS})

    def words(**settings):
        engine = toy_model.toy_engine(**settings)
        engine.runner = RandomModel(2)
        sequences = [search(4, seed, strategy, grammar=grammar, max_tokens=400) for seed in range(2)]
        return [output.sequence.output_ids for output in run(engine, sequences).values()]

    together = words()
    assert together[0] == together[1]
    assert words(max_batch_tokens=16) == together


class ProseModel(toy_model.ToyModel):
    """A model with two nearly equal letters at each of 60 places, where it would also break the line."""

    def __init__(self, lost):
        super().__init__()
        self.lost = lost

    def next_logits(self, output):
        written = bytes(i for i in output if i != toy_model.STOP).decode()
        if len(written) in {0, 61}:
            return {ord('"'): 0.0}
        if len(written) > 61:
            return {toy_model.STOP: 0.0}
        rest = 1 - self.lost
        return {
            ord("a"): math.log(0.51 * rest),
            ord("b"): math.log(0.49 * rest),
            ord("\n"): math.log(self.lost),
        }


def prose_stats(strategy, lost):
    engine = toy_model.toy_engine()
    engine.runner = ProseModel(lost)
    grammar = compile_schema({"type": "string"})
    (output,) = run(engine, [search(16, strategy=strategy, grammar=grammar, max_tokens=1000)]).values()
    assert set(word_of(output.sequence)) <= {"a", "b"}
    return output.sequence.selection


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
        engine = toy_model.toy_engine(**settings)
        engine.runner = RandomModel(7)
        sequences = [search(8, seed, strategy, grammar=GRAMMAR, prompt=b"a prompt") for seed in range(6)]
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
            word = word_of(output.sequence)
            assert word in WORDS
            assert len(word) <= longest


@pytest.mark.parametrize(("strategy", "temperature"), [("accept", 0.0), ("particles", 0.0), ("accept", 1.0)])
def test_an_output_that_leaves_no_room_for_a_stop_token_is_complete(strategy, temperature):
    """A plain mask needs none; a selected output was said to have been cut off."""
    sequence = selected_sequence(Selection(strategy, 8), 1, temperature=temperature, max_tokens=4)
    (output,) = run(toy_model.toy_engine(), [sequence]).values()
    assert word_of(output.sequence) in toy_model.TEXTS
    assert (output.sequence.finish_reason, output.sequence.closed_by) == (FinishReason.STOP, None)


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


def test_a_token_that_is_too_unlikely_for_float32_is_no_proof():
    """`b` has the probability 1e-46, which is more than that of `aaa`."""
    engine = toy_model.toy_engine()
    after = {
        '"': {"a": 2e-18, "b": 1e-46, "x": 1.0},
        '"a': {"a": 2e-19, "x": 1.0},
        '"aa': {"a": 1e-19, "x": 1.0},
    }
    ending = {'"': 1.0, chr(toy_model.STOP): 1.0}
    engine.runner.next_logits = lambda output: {
        ord(name): math.log(p) for name, p in after.get(bytes(output).decode(), ending).items()
    }
    sequence = search(16, grammar=compile_schema({"enum": ["aaa", "b"]}))
    run(engine, [sequence])
    assert word_of(sequence) == "aaa"
    assert not sequence.selection.is_exact


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


@pytest.mark.parametrize("strategy", SCORES)
def test_an_output_that_was_left_is_the_answer_if_the_branch_fails(strategy):
    engine = toy_model.toy_engine()
    engine.runner = LostModel(0.3, 0.999)
    sequence = search(2, strategy=strategy, grammar=compile_schema({"type": "string"}), max_tokens=60)
    poison(engine, lambda other: other is not sequence)
    (output,) = run(engine, [sequence]).values()
    assert (output.sequence, output.error, word_of(sequence)) == (sequence, None, "a" * 40)
    assert (sequence.selection.num_draws, sequence.selection.is_exact) == (2, False)


@pytest.mark.parametrize("strategy", SCORES)
def test_a_search_ends_with_an_error_if_an_output_that_was_left_fails_too(strategy):
    engine = toy_model.toy_engine()
    engine.runner = LostModel(0.3, 0.999)
    sequence = search(2, strategy=strategy, grammar=compile_schema({"type": "string"}), max_tokens=60)
    assert_fails(engine, sequence, lambda other: other is not sequence or other.num_output > 20)
    assert len(sequence.population.members) == 2


class EndlessModel(toy_model.ToyModel):
    """A model that begins the text of an object with `a` or `b`, and repeats it or breaks the line."""

    BEGINNING = b'{"t": "'

    def next_logits(self, output):
        place = len(self.BEGINNING)
        if len(output) < place:
            return {self.BEGINNING[len(output)]: 0.0}
        if len(output) == place:
            return {ord("a"): math.log(0.6), ord("b"): math.log(0.4)}
        lost = 0.3 if output[place] == ord("a") else 0.7
        return {output[place]: math.log(1 - lost), ord("\n"): math.log(lost)}


@pytest.mark.parametrize("strategy", SCORES)
def test_an_output_that_the_budget_closes_is_the_answer_if_no_other_is_left(strategy):
    """It takes several steps to complete. The search gave it up there, and had no answer."""
    engine = toy_model.toy_engine()
    engine.runner = EndlessModel()
    properties = {"t": {"type": "string"}, "c": {"const": "x" * 300}}
    grammar = compile_schema({"type": "object", "properties": properties, "required": ["t", "c"]})
    sequence = search(2, strategy=strategy, grammar=grammar, max_tokens=370)
    poison(engine, lambda other: other is sequence and other.num_output > 25)
    (output,) = run(engine, [sequence]).values()
    assert output.error is None
    assert output.sequence.closed_by == "budget"
    assert json.loads(word_of(output.sequence))["t"].startswith("bbbb")


def test_the_token_of_a_branch_is_told_in_the_same_detail():
    inspection = Inspection(Cause.FREE, (Candidate(1, 0.5, is_removed=False),), mass_removed=0.2)
    token = SampledToken(1, -0.1, ((1, -0.1), (2, -2.0)), inspection)
    other = other_token(token, 2, -2.0, allowed_mass=0.8)
    assert (other.token_id, other.logprob, other.top) == (2, -2.0, token.top)
    assert [c.token_id for c in other.inspection.candidates] == [1, 2]
    assert other.inspection.candidates[1].probability == pytest.approx(0.8 * math.exp(-2))
    assert other_token(SampledToken(1), 2, -2.0, 1.0) == SampledToken(2)
