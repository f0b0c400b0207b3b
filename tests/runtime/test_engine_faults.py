"""What fails in the engine: deadlines, broken logits, memory that is short, and sequences that break their batch."""

import math

import pytest
import torch
from sequences import ENDLESS, PROMPTS, finish, make_sequence, written

from runtime import engine as engine_module
from runtime.decoding import step_sampler
from runtime.errors import DeadlineExceeded, GenerationFailed, Unforeseen
from runtime.events import FinishReason
from runtime.scheduling.sequence import SequenceStatus


def test_a_deadline_ends_a_sequence_within_a_step(make_engine, monkeypatch):
    """Running or waiting; its pages are free, and the others go on."""
    now = 100.0
    monkeypatch.setattr(engine_module.time, "monotonic", lambda: now)
    engine = make_engine(max_batch=2)
    running, late, waiting = (
        make_sequence(p, 50, sampling=ENDLESS, deadline=deadline)
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


def test_a_deadline_that_passed_before_the_first_step_computes_nothing(make_engine):
    engine = make_engine()
    engine.add(make_sequence(deadline=0.0))
    engine.runner.run = None
    (output,) = engine.step()
    assert isinstance(output.error, DeadlineExceeded)
    assert not engine.has_work


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_broken_logits_end_their_own_sequence_only(make_engine, value):
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
def test_out_of_memory_preempts_and_goes_on(make_engine, fail):
    expected = written(make_engine(), [make_sequence(p) for p in PROMPTS])
    engine = make_engine()
    run = engine.runner.run

    def cramped(batch):
        if len(batch.chunks) > 2:
            fail()
        return run(batch)

    engine.runner.run = cramped
    assert written(engine, [make_sequence(p) for p in PROMPTS]) == expected
    assert engine.scheduler.num_preempted >= 3


def test_memory_that_was_short_once_is_used_again(make_engine):
    engine = make_engine(max_batch=4)
    for prompt in PROMPTS:
        engine.add(make_sequence(prompt, 450, sampling=ENDLESS))
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


def test_out_of_memory_while_sampling_preempts_and_goes_on(make_engine, monkeypatch):
    expected = written(make_engine(), [make_sequence(p) for p in PROMPTS])
    engine = make_engine()
    sample = step_sampler.sample

    def cramped(masked, sequences):
        if len(sequences) > 2:
            raise torch.OutOfMemoryError("too many")
        return sample(masked, sequences)

    monkeypatch.setattr(step_sampler, "sample", cramped)
    assert written(engine, [make_sequence(p) for p in PROMPTS]) == expected
    assert engine.scheduler.num_preempted >= 3


@pytest.mark.parametrize("num_others", [0, 2])
def test_out_of_memory_after_a_sequence_was_stopped(make_engine, monkeypatch, num_others):
    others = [make_sequence(p) for p in PROMPTS[:num_others]]
    expected = written(make_engine(), [make_sequence(p) for p in PROMPTS[:num_others]])
    engine = make_engine()
    sample = step_sampler.sample
    stopped = make_sequence("stopped by what it wrote a step before", 40)
    for sequence in (stopped, *others):
        engine.add(sequence)
    engine.step()
    wrote = stopped.output_ids

    def cramped(masked, sequences):
        monkeypatch.setattr(step_sampler, "sample", sample)
        raise torch.OutOfMemoryError("too many")

    monkeypatch.setattr(step_sampler, "sample", cramped)
    assert engine.step(meanwhile=lambda: engine.stop(stopped)) == []
    assert engine.scheduler.max_running == (engine.scheduler.settings.max_batch if not others else 1)
    assert [o.error for o in finish(engine) if o.error] == []
    assert (stopped.output_ids, stopped.finish_reason) == (wrote, FinishReason.STOP)
    assert [sequence.output_ids for sequence in others] == expected


def test_a_sequence_that_breaks_its_batch_fails_alone(make_engine, monkeypatch, caplog):
    others = [make_sequence(p) for p in PROMPTS]
    expected = written(make_engine(), [make_sequence(p) for p in PROMPTS])
    engine = make_engine(max_batch=8)
    culprit = make_sequence("what torch has no number for", 40)
    sample = step_sampler.sample

    def broken(masked, sequences):
        if culprit in sequences and len(culprit.output_ids) == 2:
            raise OverflowError("int too big to convert")
        return sample(masked, sequences)

    monkeypatch.setattr(step_sampler, "sample", broken)
    (failed,) = [output for output in finish(engine, *others[:2], culprit, *others[2:]) if output.error]
    assert failed.sequence is culprit
    assert isinstance(failed.error, Unforeseen)
    assert "int too big to convert" in caplog.text
    assert [sequence.output_ids for sequence in others] == expected
    assert engine.scheduler.max_running == 8
    engine.check_integrity()


def test_an_engine_that_can_compute_nothing_stops(make_engine):
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


def test_a_sequence_too_large_for_memory_fails(make_engine):
    engine = make_engine()

    def never(batch):
        raise torch.OutOfMemoryError("no")

    engine.runner.run = never
    outputs = finish(engine, make_sequence(), make_sequence("other"))
    assert len(outputs) == 2
    assert all("memory" in str(output.error) for output in outputs)
