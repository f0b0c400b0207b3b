"""The engine's promises, with a small random model over bytes."""

from itertools import cycle
from unittest.mock import patch

import pytest
from scripted import Digits
from sequences import ENDLESS, PROMPTS, finish, make_sequence, written

from compiler.guard.guarded_tokens import GuardedTokens
from runtime.errors import Overloaded, PromptTooLong
from runtime.events import FinishReason
from runtime.request import Sampling
from runtime.scheduling.sequence import SequenceStatus
from runtime.scheduling.slow_grammars import SlowGrammars
from runtime.scheduling.weights import Weight


def test_what_guards_look_at_is_found_before_there_are_sequences(make_engine):
    """Else the first token under a guard would take a tenth of a second, and its client would count as slow."""
    with patch.object(GuardedTokens, "prepare") as prepare:
        make_engine()
    prepare.assert_called_once_with()


def test_chunked_prefill_writes_what_whole_prefill_writes(make_engine):
    whole, chunked = make_engine(max_batch_tokens=512), make_engine(max_batch_tokens=16)
    expected = written(whole, [make_sequence(p) for p in PROMPTS])
    assert written(chunked, [make_sequence(p) for p in PROMPTS]) == expected


def test_preemption_writes_the_same_tokens(make_engine):
    expected = written(make_engine(), [make_sequence(p, 40) for p in PROMPTS])
    tight = make_engine(num_pages=26)
    assert written(tight, [make_sequence(p, 40) for p in PROMPTS]) == expected
    assert tight.scheduler.num_preempted > 0


@pytest.mark.parametrize("settings", [{"max_batch": 4}, {"num_pages": 40}])
def test_preemption_between_clients_writes_the_same_tokens(make_engine, settings):
    expected = written(make_engine(), [make_sequence(p, 40) for p in PROMPTS])
    engine = make_engine(**settings)
    first = [make_sequence(p, 40, client_id="first") for p in PROMPTS]
    for sequence in first:
        engine.add(sequence)
    for _ in range(5):
        engine.step()
    second = [make_sequence(p, 40, client_id="second") for p in PROMPTS]
    finish(engine, *second)
    assert [s.output_ids for s in first] == [s.output_ids for s in second] == expected
    assert engine.scheduler.num_preempted > 0


@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_a_seeded_sequence_does_not_depend_on_its_company(make_engine, temperature):
    def seeded():
        return make_sequence("same", 30, temperature=temperature, seed=42)

    alone = seeded()
    finish(make_engine(), alone)
    crowded = seeded()
    others = [make_sequence(p, 25, temperature=1.0, seed=i) for i, p in enumerate(PROMPTS)]
    finish(make_engine(max_batch_tokens=16), *others[:2], crowded, *others[2:])
    assert crowded.output_ids == alone.output_ids


@pytest.mark.parametrize("weigh", [False, True])
def test_sequences_that_wait_for_time_write_the_same_tokens(make_engine, weigh):
    """A step with no time left fills no more masks: the last token of the others is computed again."""

    def sequences():
        made = [
            make_sequence(p, 25, temperature=1.0, seed=i, matcher=Digits()) for i, p in enumerate(PROMPTS)
        ]
        for sequence in made:
            sequence.weight = Weight(len(sequence.prompt_ids)) if weigh else None
        return made

    expected = sequences()
    finish(make_engine(), *expected)
    engine, waiting = make_engine(), sequences()
    with patch.object(SlowGrammars, "has_time", side_effect=cycle([True, True, False, False, True])):
        finish(engine, *waiting)
    assert [s.output_ids for s in waiting] == [s.output_ids for s in expected]
    assert engine.num_stepped_sequences > 1.3 * 25 * len(PROMPTS)
    if weigh:
        for sequence, other in zip(waiting, expected, strict=True):
            assert sequence.weight.log_product == pytest.approx(other.weight.log_product, abs=1e-4)


def test_seed_and_choice_both_change_the_noise(make_engine):
    variants = [
        make_sequence("x", 20, temperature=1.0, seed=seed, choice=choice)
        for seed, choice in [(1, 0), (1, 1), (2, 0)]
    ]
    finish(make_engine(), *variants)
    assert len({tuple(v.output_ids) for v in variants}) == 3


def test_a_prefix_is_computed_once(make_engine):
    engine = make_engine()
    first = make_sequence("x" * 41)
    finish(engine, first)
    again, longer = make_sequence("x" * 41), make_sequence("x" * 41 + "yz")
    finish(engine, again, longer)
    assert (first.counters.num_cached, again.counters.num_cached, longer.counters.num_cached) == (0, 40, 40)
    assert again.output_ids == first.output_ids


def test_choices_share_a_prompt_in_their_first_step(make_engine):
    alone = make_sequence("p" * 33)
    finish(make_engine(), alone)
    engine = make_engine()
    choices = [make_sequence("p" * 33, choice=i) for i in range(3)]
    finish(engine, *choices)
    assert [c.counters.num_cached for c in choices] == [0, 32, 32]
    assert all(c.output_ids == alone.output_ids for c in choices)


def test_a_whole_prompt_in_the_cache_still_gives_logits(make_engine):
    engine = make_engine()
    first, again = make_sequence("x" * 40), make_sequence("x" * 40)
    finish(engine, first)
    finish(engine, again)
    assert again.counters.num_cached == 36
    assert again.output_ids == first.output_ids


def test_stopping_frees_every_page(make_engine):
    engine = make_engine(max_batch_tokens=16)
    sequences = [make_sequence(p, 100) for p in PROMPTS]
    for sequence in sequences:
        engine.add(sequence)
    for _ in range(3):
        engine.step()
    for sequence in sequences:
        engine.stop(sequence)
        engine.check_integrity()
    assert not engine.has_work
    assert engine.pool.num_free == engine.pool.num_usable


def test_a_sequence_stopped_while_its_step_is_computed_gets_nothing(make_engine):
    expected = make_sequence("stays", 20)
    finish(make_engine(), expected)
    engine = make_engine()
    goes, stays = make_sequence("goes", 20), make_sequence("stays", 20)
    engine.add(goes)
    engine.add(stays)
    engine.step()
    outputs = engine.step(meanwhile=lambda: engine.stop(goes))
    assert [output.sequence for output in outputs] == [stays]
    assert goes.num_output == 1
    engine.check_integrity()
    finish(engine)
    assert stays.output_ids == expected.output_ids


def test_an_output_knows_whether_it_was_the_last(make_engine):
    engine, sequence = make_engine(), make_sequence("x", 2)
    engine.add(sequence)
    (first,), (second,) = engine.step(), engine.step()
    assert (first.is_last, second.is_last) == (False, True)


def test_the_queue_is_bounded(make_engine):
    engine = make_engine(max_waiting=2)
    engine.add(make_sequence())
    engine.add(make_sequence())
    with pytest.raises(Overloaded):
        engine.add(make_sequence())


def test_a_prompt_that_fills_the_context_is_refused(make_engine):
    with pytest.raises(PromptTooLong, match="16"):
        make_engine(context_length=16).add(make_sequence("x" * 16))
    with pytest.raises(PromptTooLong, match="28"):  # seven pages of four
        make_engine(num_pages=8).add(make_sequence("x" * 28))


def test_the_context_bounds_the_output(make_engine):
    sequence = make_sequence("x" * 10, 1000)
    finish(make_engine(context_length=16), sequence)
    assert sequence.num_output <= 6
    assert sequence.finish_reason is FinishReason.LENGTH or sequence.output_ids[-1] == 256


def test_a_stop_token_ends(make_engine):
    sequence = make_sequence("x", 7, sampling=Sampling(temperature=0, logit_bias={256: 1000.0}))
    finish(make_engine(), sequence)
    assert sequence.output_ids == [256]
    assert sequence.finish_reason is FinishReason.STOP


def test_running_sequences_go_on_while_a_long_prompt_is_computed(make_engine):
    engine = make_engine(max_batch_tokens=16)
    running = make_sequence("x", 50, sampling=ENDLESS)
    engine.add(running)
    engine.step()
    engine.add(make_sequence("y" * 100))
    before = running.num_output
    for _ in range(5):
        engine.step()
    assert running.num_output == before + 5
    assert running.status is SequenceStatus.RUNNING
