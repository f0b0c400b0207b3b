"""The engine's promises, with a small random model over bytes."""

import math
from itertools import cycle
from unittest.mock import patch

import pytest
import torch
from scripted import Digits

from compiler.guard.guarded_tokens import GuardedTokens
from runtime import engine as engine_module
from runtime.decoding import step_sampler
from runtime.errors import DeadlineExceeded, GenerationFailed, Overloaded, PromptTooLong, Unforeseen
from runtime.events import FinishReason
from runtime.request import Sampling
from runtime.scheduling.sequence import SequenceStatus
from runtime.scheduling.slow_grammars import SlowGrammars
from runtime.scheduling.weights import Weight

PROMPTS = ["a", "the quick brown fox", "the quick brown dog jumps", "zzz" * 12]


def outputs_of(engine, finish, sequences):
    finish(engine, *sequences)
    return [sequence.output_ids for sequence in sequences]


def test_what_guards_look_at_is_found_before_there_are_sequences(make_engine):
    """It took a tenth of a second and more, as if a sequence's token had, so that its client was slow."""
    with patch.object(GuardedTokens, "prepare") as prepare:
        make_engine()
    prepare.assert_called_once_with()


def test_chunked_prefill_writes_what_whole_prefill_writes(make_engine, make_sequence, finish):
    whole, chunked = make_engine(max_batch_tokens=512), make_engine(max_batch_tokens=16)
    expected = outputs_of(whole, finish, [make_sequence(p) for p in PROMPTS])
    assert outputs_of(chunked, finish, [make_sequence(p) for p in PROMPTS]) == expected


def test_preemption_writes_the_same_tokens(make_engine, make_sequence, finish):
    expected = outputs_of(make_engine(), finish, [make_sequence(p, 40) for p in PROMPTS])
    tight = make_engine(num_pages=26)
    assert outputs_of(tight, finish, [make_sequence(p, 40) for p in PROMPTS]) == expected
    assert tight.scheduler.num_preempted > 0


@pytest.mark.parametrize("settings", [{"max_sequences": 4}, {"num_pages": 40}])
def test_preemption_between_clients_writes_the_same_tokens(make_engine, make_sequence, finish, settings):
    expected = outputs_of(make_engine(), finish, [make_sequence(p, 40) for p in PROMPTS])
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
def test_a_seeded_sequence_does_not_depend_on_its_company(make_engine, make_sequence, finish, temperature):
    def seeded():
        return make_sequence("same", 30, temperature=temperature, seed=42)

    alone = seeded()
    finish(make_engine(), alone)
    crowded = seeded()
    others = [make_sequence(p, 25, temperature=1.0, seed=i) for i, p in enumerate(PROMPTS)]
    finish(make_engine(max_batch_tokens=16), *others[:2], crowded, *others[2:])
    assert crowded.output_ids == alone.output_ids


@pytest.mark.parametrize("weigh", [False, True])
def test_sequences_that_wait_for_time_write_the_same_tokens(make_engine, make_sequence, finish, weigh):
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


def test_seed_and_choice_both_change_the_noise(make_engine, make_sequence, finish):
    variants = [
        make_sequence("x", 20, temperature=1.0, seed=seed, choice=choice)
        for seed, choice in [(1, 0), (1, 1), (2, 0)]
    ]
    finish(make_engine(), *variants)
    assert len({tuple(v.output_ids) for v in variants}) == 3


def test_a_prefix_is_computed_once(make_engine, make_sequence, finish):
    engine = make_engine()
    first = make_sequence("x" * 41)
    finish(engine, first)
    again, longer = make_sequence("x" * 41), make_sequence("x" * 41 + "yz")
    finish(engine, again, longer)
    assert (first.counters.num_cached, again.counters.num_cached, longer.counters.num_cached) == (0, 40, 40)
    assert again.output_ids == first.output_ids


def test_choices_share_a_prompt_in_their_first_step(make_engine, make_sequence, finish):
    alone = make_sequence("p" * 33)
    finish(make_engine(), alone)
    engine = make_engine()
    choices = [make_sequence("p" * 33, choice=i) for i in range(3)]
    finish(engine, *choices)
    assert [c.counters.num_cached for c in choices] == [0, 32, 32]
    assert all(c.output_ids == alone.output_ids for c in choices)


def test_a_whole_prompt_in_the_cache_still_gives_logits(make_engine, make_sequence, finish):
    engine = make_engine()
    first, again = make_sequence("x" * 40), make_sequence("x" * 40)
    finish(engine, first)
    finish(engine, again)
    assert again.counters.num_cached == 36
    assert again.output_ids == first.output_ids


def test_stopping_frees_every_page(make_engine, make_sequence):
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


def test_a_sequence_stopped_while_its_step_is_computed_gets_nothing(make_engine, make_sequence, finish):
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


def test_an_output_knows_whether_it_was_the_last(make_engine, make_sequence):
    engine, sequence = make_engine(), make_sequence("x", 2)
    engine.add(sequence)
    (first,), (second,) = engine.step(), engine.step()
    assert (first.is_last, second.is_last) == (False, True)


def test_the_queue_is_bounded(make_engine, make_sequence):
    engine = make_engine(max_waiting=2)
    engine.add(make_sequence())
    engine.add(make_sequence())
    with pytest.raises(Overloaded):
        engine.add(make_sequence())


def test_a_deadline_ends_a_sequence_within_a_step(make_engine, make_sequence, monkeypatch):
    """Running or waiting; its pages are free, and the others go on."""
    now = 100.0
    monkeypatch.setattr(engine_module.time, "monotonic", lambda: now)
    engine = make_engine(max_sequences=2)
    endless = Sampling(temperature=0, logit_bias={256: -1000.0})
    running, late, waiting = (
        make_sequence(p, 50, sampling=endless, deadline=deadline)
        for p, deadline in (("x", math.inf), ("y" * 20, 101.0), ("z", 101.0))
    )
    for sequence in (running, late, waiting):
        engine.add(sequence)
    assert not any(output.error for _ in range(3) for output in engine.step())
    assert (late.num_output, waiting.status) == (3, SequenceStatus.WAITING)
    now = 101.0
    failed = {o.sequence: o.error for o in engine.step() if o.error}
    assert {*failed} == {late, waiting}
    assert all(isinstance(error, DeadlineExceeded) for error in failed.values())
    assert [*engine.scheduler] == [running]
    engine.check_integrity()
    engine.step()
    assert running.num_output == 4
    assert late.page_table == []


def test_a_deadline_that_passed_before_the_first_step_computes_nothing(make_engine, make_sequence):
    engine = make_engine()
    engine.add(make_sequence(deadline=0.0))
    engine.runner.run = None
    (output,) = engine.step()
    assert isinstance(output.error, DeadlineExceeded)
    assert not engine.has_work


def test_a_prompt_that_fills_the_context_is_refused(make_engine, make_sequence):
    with pytest.raises(PromptTooLong, match="16"):
        make_engine(context_length=16).add(make_sequence("x" * 16))
    with pytest.raises(PromptTooLong, match="28"):  # seven pages of four
        make_engine(num_pages=8).add(make_sequence("x" * 28))


def test_the_context_bounds_the_output(make_engine, make_sequence, finish):
    sequence = make_sequence("x" * 10, 1000)
    finish(make_engine(context_length=16), sequence)
    assert sequence.num_output <= 6
    assert sequence.finish_reason is FinishReason.LENGTH or sequence.output_ids[-1] == 256


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_broken_logits_end_their_own_sequence_only(make_engine, make_sequence, finish, value):
    expected = make_sequence("healthy", 20)
    finish(make_engine(), expected)
    engine = make_engine()
    healthy, broken = make_sequence("healthy", 20), make_sequence("broken", 20, sequence_id="broken")
    run = engine.runner.run

    def poisoned(batch):
        logits = run(batch)
        for row, sequence in enumerate(batch.sampled):
            if sequence.sequence_id == "broken" and sequence.num_output == 3:
                logits[row] = value
                for keys, _ in engine.runner.cache.layers.values():
                    keys[sequence.page_table[-1]] = math.nan
        return logits

    engine.runner.run = poisoned
    outputs = finish(engine, healthy, broken)
    assert [o.sequence for o in outputs if isinstance(o.error, GenerationFailed)] == [broken]
    assert healthy.output_ids == expected.output_ids
    assert not any(keys.isnan().any() for keys, _ in engine.runner.cache.layers.values())
    later = make_sequence("broken", 20)  # its prefix is not served from what the broken one left
    finish(engine, later)
    assert later.counters.num_cached == 0


def out_of_memory():
    raise torch.OutOfMemoryError("too many")


def out_of_memory_in_python():
    raise MemoryError


def out_of_memory_on_a_cpu():
    torch.empty(2**60, dtype=torch.uint8)


@pytest.mark.parametrize("fail", [out_of_memory, out_of_memory_in_python, out_of_memory_on_a_cpu])
def test_out_of_memory_preempts_and_goes_on(make_engine, make_sequence, finish, fail):
    expected = outputs_of(make_engine(), finish, [make_sequence(p) for p in PROMPTS])
    engine = make_engine()
    run = engine.runner.run

    def cramped(batch):
        if len(batch.chunks) > 2:
            fail()
        return run(batch)

    engine.runner.run = cramped
    assert outputs_of(engine, finish, [make_sequence(p) for p in PROMPTS]) == expected
    assert engine.scheduler.num_preempted >= 3


def test_memory_that_was_short_once_is_used_again(make_engine, make_sequence):
    engine = make_engine(max_sequences=4)
    endless = Sampling(temperature=0, logit_bias={256: -1000.0})
    for prompt in PROMPTS:
        engine.add(make_sequence(prompt, 450, sampling=endless))
    run = engine.runner.run

    def cramped_once(batch):
        engine.runner.run = run
        raise torch.OutOfMemoryError("too many")

    engine.runner.run = cramped_once
    engine.step()
    engine.step()
    assert len(engine.scheduler.running) == 2
    for _ in range(200):
        engine.step()
    assert len(engine.scheduler.running) == 4


def test_out_of_memory_while_sampling_preempts_and_goes_on(make_engine, make_sequence, finish, monkeypatch):
    expected = outputs_of(make_engine(), finish, [make_sequence(p) for p in PROMPTS])
    engine = make_engine()
    sample = step_sampler.sample

    def cramped(probabilities, sequences):
        if len(sequences) > 2:
            raise torch.OutOfMemoryError("too many")
        return sample(probabilities, sequences)

    monkeypatch.setattr(step_sampler, "sample", cramped)
    assert outputs_of(engine, finish, [make_sequence(p) for p in PROMPTS]) == expected
    assert engine.scheduler.num_preempted >= 3


@pytest.mark.parametrize("num_others", [0, 2])
def test_out_of_memory_after_a_sequence_was_stopped(
    make_engine, make_sequence, finish, monkeypatch, num_others
):
    others = [make_sequence(p) for p in PROMPTS[:num_others]]
    expected = outputs_of(make_engine(), finish, [make_sequence(p) for p in PROMPTS[:num_others]])
    engine = make_engine()
    sample = step_sampler.sample
    stopped = make_sequence("stopped by what it wrote a step before", 40)
    for sequence in (stopped, *others):
        engine.add(sequence)
    engine.step()
    written = stopped.output_ids

    def cramped(probabilities, sequences):
        monkeypatch.setattr(step_sampler, "sample", sample)
        raise torch.OutOfMemoryError("too many")

    monkeypatch.setattr(step_sampler, "sample", cramped)
    assert engine.step(meanwhile=lambda: engine.stop(stopped, FinishReason.TOOL_CALLS)) == []
    assert engine.scheduler.max_running == (engine.scheduler.settings.max_sequences if not others else 1)
    assert [o.error for o in finish(engine) if o.error] == []
    assert (stopped.output_ids, stopped.finish_reason) == (written, FinishReason.TOOL_CALLS)
    assert [sequence.output_ids for sequence in others] == expected


def test_a_sequence_that_breaks_its_batch_fails_alone(
    make_engine, make_sequence, finish, monkeypatch, caplog
):
    others = [make_sequence(p) for p in PROMPTS]
    expected = outputs_of(make_engine(), finish, [make_sequence(p) for p in PROMPTS])
    engine = make_engine(max_sequences=8)
    culprit = make_sequence("what torch has no number for", 40)
    sample = step_sampler.sample

    def broken(probabilities, sequences):
        if culprit in sequences and len(culprit.output_ids) == 2:
            raise OverflowError("int too big to convert")
        return sample(probabilities, sequences)

    monkeypatch.setattr(step_sampler, "sample", broken)
    (failed,) = [output for output in finish(engine, *others[:2], culprit, *others[2:]) if output.error]
    assert failed.sequence is culprit
    assert isinstance(failed.error, Unforeseen)
    assert "int too big to convert" in caplog.text
    assert [sequence.output_ids for sequence in others] == expected
    assert engine.scheduler.max_running == 8
    engine.check_integrity()


def test_an_engine_that_can_compute_nothing_stops(make_engine, make_sequence, finish):
    engine = make_engine()

    def broken(batch):
        raise RuntimeError("the device is gone")

    run, engine.runner.run = engine.runner.run, broken
    for _ in range(engine_module.MAX_FAILED_ALONE - 1):
        assert isinstance(finish(engine, make_sequence())[-1].error, Unforeseen)
    engine.runner.run = run
    assert finish(engine, make_sequence())[-1].error is None
    engine.runner.run = broken
    for _ in range(engine_module.MAX_FAILED_ALONE - 1):
        finish(engine, make_sequence())
    with pytest.raises(RuntimeError, match="gone"):
        finish(engine, make_sequence())


def test_a_sequence_too_large_for_memory_fails(make_engine, make_sequence, finish):
    engine = make_engine()

    def never(batch):
        raise torch.OutOfMemoryError("no")

    engine.runner.run = never
    outputs = finish(engine, make_sequence(), make_sequence("other"))
    assert len(outputs) == 2
    assert all("memory" in str(output.error) for output in outputs)


def test_a_stop_token_ends(make_engine, make_sequence, finish):
    sequence = make_sequence("x", 7, sampling=Sampling(temperature=0, logit_bias={256: 1000.0}))
    finish(make_engine(), sequence)
    assert sequence.output_ids == [256]
    assert sequence.finish_reason is FinishReason.STOP


def test_running_sequences_go_on_while_a_long_prompt_is_computed(make_engine, make_sequence):
    engine = make_engine(max_batch_tokens=16)
    running = make_sequence("x", 50, sampling=Sampling(temperature=0, logit_bias={256: -1000.0}))
    engine.add(running)
    engine.step()
    engine.add(make_sequence("y" * 100))
    before = running.num_output
    for _ in range(5):
        engine.step()
    assert running.num_output == before + 5
    assert running.status is SequenceStatus.RUNNING
