"""Decoding is fair between clients: how many steps a newcomer waits, and whose sequences give way."""

import numpy as np
import pytest
import torch
from dictation import Indifferent
from vocabularies import BYTES

from compiler.prepared_vocabulary import prepare
from runtime.decoding.sampling import adjust
from runtime.device import upload
from runtime.engine import Engine
from runtime.errors import Overloaded, TooManySequences
from runtime.request import Sampling
from runtime.scheduling.client_shares import TURN_TOKENS
from runtime.scheduling.sequence import Sequence, SequenceStatus
from runtime.settings import CPU_STEPPED_PER_CLIENT, EngineSettings

VOCABULARY = prepare(BYTES)


class NotedRunner(Indifferent):
    """It keeps what each step computed."""

    def __init__(self, settings):
        super().__init__(BYTES.width, num_pages=settings.num_pages, page_size=settings.page_size)
        self.batches = []

    def run(self, batch):
        assert all(
            len(chunk.sequence.page_table) * self.cache.page_size >= chunk.end for chunk in batch.chunks
        )
        self.batches.append({chunk.sequence: chunk.num_tokens for chunk in batch.chunks})
        return super().run(batch)


class Crowd:
    """An engine, and sequences of clients that write as many tokens as they are told."""

    def __init__(self, **settings):
        defaults = {"page_size": 4, "num_pages": 4096, "max_batch": 8, "max_batch_tokens": 64}
        chosen = EngineSettings(**(defaults | settings))
        self.runner = NotedRunner(chosen)
        self.engine = Engine(self.runner, VOCABULARY, chosen, context_length=4000)
        self.num_sequences = 0

    def add(self, client_id, num_tokens, prompt=4):
        self.num_sequences += 1  # prompts differ, so that no pages are shared
        prompt_ids = [self.num_sequences % 200, self.num_sequences // 200, *[1] * (prompt - 2)]
        never_stops = Sampling(temperature=0, logit_bias={256: -1000.0})
        sequence = Sequence(
            f"{client_id}/{self.num_sequences}", prompt_ids, num_tokens, never_stops, client_id=client_id
        )
        self.engine.add(sequence)
        return sequence

    def step(self, number=1):
        for _ in range(number):
            self.engine.step()
            self.engine.check_integrity()

    def steps_until_done(self, sequence, most=3000):
        for number in range(most):
            if sequence.status is SequenceStatus.FINISHED:
                return number
            self.step()
        raise AssertionError("it never ended")

    def running(self, client_id):
        return sum(sequence.client_id == client_id for sequence in self.engine.scheduler.running)


@pytest.mark.parametrize("num_attacking", [8, 100])
def test_ten_tokens_beside_a_full_batch_take_two_steps_more_than_alone(num_attacking):
    crowd = Crowd()
    for _ in range(num_attacking):
        crowd.add("attacker", 2000)
    crowd.step(20)
    assert crowd.steps_until_done(crowd.add("victim", 10)) <= 12


def test_places_are_divided_equally_and_taken_back():
    crowd = Crowd()
    for _ in range(20):
        crowd.add("first", 2000)
    crowd.step(5)
    assert crowd.running("first") == 8
    for _ in range(20):
        crowd.add("second", 100)
    crowd.step(10)
    assert (crowd.running("first"), crowd.running("second")) == (4, 4)
    num_preempted = crowd.engine.scheduler.num_preempted
    crowd.step(50)
    assert crowd.engine.scheduler.num_preempted == num_preempted  # nobody is preempted to and fro
    for sequence in [s for s in crowd.engine.scheduler if s.client_id == "second"]:
        crowd.engine.stop(sequence)
    crowd.step(5)
    assert crowd.running("first") == 8


@pytest.mark.parametrize(("device", "most"), [("cpu", CPU_STEPPED_PER_CLIENT), ("cuda", 39)])
def test_on_a_cpu_a_step_computes_some_sequences_of_a_client_in_turns_beside_another(device, most):
    crowd = Crowd(max_batch=40, device=device)
    first = [crowd.add("first", 2000) for _ in range(39)]
    crowd.step(5)
    assert len(crowd.runner.batches[-1]) == 39  # alone, it has whole steps
    second = crowd.add("second", 1000)
    crowd.step(3)
    before = [sequence.num_output for sequence in first]
    for _ in range(39):
        crowd.step()
        assert crowd.runner.batches[-1].keys() - {second} <= set(first)
        assert second in crowd.runner.batches[-1]
        assert len(crowd.runner.batches[-1]) == most + 1
    gained = [sequence.num_output - old for sequence, old in zip(first, before, strict=True)]
    assert max(gained) - min(gained) <= 1
    assert sum(gained) == 39 * most


def test_clients_take_turns_where_there_are_more_than_places():
    crowd = Crowd(max_batch=4)
    for number in range(40):
        crowd.add(f"attacker{number}", 2000)
    crowd.step(100)
    victim = crowd.add("victim", 10)
    assert crowd.steps_until_done(victim) < 40 / 4 * 3 * TURN_TOKENS  # not 40 / 4 * 2000


def test_what_a_preempted_sequence_wrote_stays_and_goes_on():
    alone = Crowd()
    expected = alone.add("first", 60)
    alone.steps_until_done(expected)
    crowd = Crowd()
    first = [crowd.add("first", 60) for _ in range(8)]
    crowd.step(10)
    for _ in range(4):
        crowd.add("second", 60)
    for sequence in first:
        crowd.steps_until_done(sequence)
        assert sequence.output_ids == expected.output_ids
    assert crowd.engine.scheduler.num_preempted > 0


def test_prompts_of_one_client_take_half_of_a_step_beside_those_of_another():
    crowd = Crowd(max_batch_tokens=64)
    for _ in range(8):
        crowd.add("attacker", 10, prompt=1000)
    crowd.step(3)
    victim = crowd.add("victim", 10, prompt=100)
    steps = crowd.steps_until_done(victim)
    assert steps <= 100 // (64 // 2 - 8) + 12
    with_both = next(batch for batch in crowd.runner.batches if victim in batch)
    assert (
        sum(number for sequence, number in with_both.items() if sequence.client_id == "attacker") <= 32 + 7
    )  # one for each that runs


def test_a_client_with_little_memory_does_not_give_it_to_one_with_much():
    crowd = Crowd(num_pages=129, max_batch=8)
    victim = crowd.add("victim", 40)
    crowd.step(2)
    for _ in range(8):
        crowd.add("attacker", 300, prompt=40)
    assert crowd.steps_until_done(victim) <= 45
    assert victim.num_charged == 43  # the last token was written, but never computed


def test_a_newcomer_gets_memory_that_one_client_holds():
    crowd = Crowd(num_pages=129, max_batch=8)
    for _ in range(4):
        crowd.add("attacker", 400, prompt=100)
    crowd.step(30)
    assert crowd.engine.pool.num_free < 25
    assert crowd.steps_until_done(crowd.add("victim", 10, prompt=100)) <= 20


def test_two_clients_that_need_all_memory_both_end():
    crowd = Crowd(num_pages=64, max_batch=8)
    both = [crowd.add("a", 150, prompt=60), crowd.add("b", 150, prompt=60)]
    for sequence in both:
        crowd.steps_until_done(sequence)
    assert crowd.engine.scheduler.num_preempted < 10


@pytest.mark.parametrize("num_later", [1, 6])
def test_a_prompt_of_many_steps_that_needs_nearly_all_pages_ends_beside_another_client(num_later):
    """If it gave its pages, it would start again at once, because its client has had fewer tokens."""
    crowd = Crowd(page_size=16, num_pages=18, max_batch=3, max_batch_tokens=8)
    long = crowd.add("first", 4, prompt=240)
    crowd.step(3)
    later = [crowd.add("second", 20, prompt=60) for _ in range(num_later)]
    assert crowd.steps_until_done(long, most=400) < 400
    for sequence in later:
        crowd.steps_until_done(sequence, most=400)
    assert crowd.engine.scheduler.num_preempted < 10


def test_a_client_that_had_least_keeps_nobody_from_the_places_of_another_that_had_most():
    """The client with most sequences may have had less than the waiting one; it gives a place nevertheless."""
    crowd = Crowd(max_batch=4, max_batch_tokens=512)
    crowd.add("least", 400)
    for client_id, prompt in (("middle", 300), ("most", 400)):
        crowd.add(client_id, 12, prompt)
    crowd.step(8)
    keeps_present = [crowd.add(client_id, 400) for client_id in ("least", "least", "most")]
    assert keeps_present
    crowd.step(8)
    assert crowd.running("most") + crowd.running("least") == 4
    waiting = crowd.add("middle", 4)
    crowd.step(2)
    assert waiting.has_run


def test_one_client_has_a_bounded_number_of_sequences():
    crowd = Crowd(max_sequences_per_client=20)
    for _ in range(20):
        crowd.add("attacker", 100)
    with pytest.raises(TooManySequences, match="this client has 20 answers"):
        crowd.add("attacker", 100)
    crowd.add("victim", 10)
    crowd.engine.stop(crowd.engine.scheduler.waiting[0])
    crowd.add("attacker", 100)


def test_a_full_queue_has_room_for_a_client_with_less():
    crowd = Crowd(max_waiting=10, max_batch=4)
    for _ in range(4):
        crowd.add("attacker", 2000)
    crowd.step(3)
    waiting = [crowd.add("attacker", 2000) for _ in range(10)]
    with pytest.raises(Overloaded):
        crowd.add("attacker", 10)
    victim = crowd.add("victim", 10)
    (dropped,) = crowd.engine.step()
    assert dropped.sequence is waiting[-1]
    assert isinstance(dropped.error, Overloaded)
    assert dropped.is_last
    assert waiting[-1].status is SequenceStatus.FINISHED
    assert crowd.steps_until_done(victim) <= 12


def test_a_client_that_aborts_and_comes_back_gains_nothing():
    crowd = Crowd()
    steady = [crowd.add("steady", 2000) for _ in range(4)]
    written = 0
    for _ in range(100):
        comers = [crowd.add("comer", 2000) for _ in range(8)]
        crowd.step(5)
        written += sum(sequence.num_output for sequence in comers)
        for sequence in comers:
            crowd.engine.stop(sequence)
    assert written <= 1.2 * sum(sequence.num_output for sequence in steady)


def test_one_client_alone_is_served_in_the_order_of_arrival():
    crowd = Crowd(max_batch=2)
    sequences = [crowd.add("only", 5 + number % 3) for number in range(12)]
    order = []
    while crowd.engine.has_work:
        crowd.step()
        order += [s for s in crowd.engine.scheduler.running if s not in order]
    assert order == sequences
    assert crowd.engine.scheduler.num_preempted == 0
    assert np.all([s.status is SequenceStatus.FINISHED for s in sequences])


class Ids(list):
    """Token ids that note how many of them were copied at once."""

    def __init__(self, values):
        super().__init__(values)
        self.copied = []

    def __getitem__(self, index):
        part = super().__getitem__(index)
        if isinstance(index, slice):
            self.copied.append(len(part))
        return part


def test_penalties_count_each_token_once(monkeypatch):
    """Counted anew for each token, 4,000 of them would cost 4 ms: 64 ms a step with sixteen choices.

    To copy 32,000 for each token costs 0.1 ms, and twice that with two kinds of penalties.
    """
    counted = []

    def recorded(values, *options):
        counted.append(len(values))
        return upload(values, *options)

    monkeypatch.setattr("runtime.scheduling.token_counts.upload", recorded)
    sampling = Sampling(presence_penalty=0.5, frequency_penalty=0.25, repetition_penalty=2.0)
    sequence = Sequence("s", [1] * 500, 1_000, sampling)
    sequence.token_ids = Ids(sequence.token_ids)
    for token_id in (2, 3, 2, 2):
        sequence.token_ids.append(token_id)
        adjust(logits := torch.tensor([[4.0, 4.0, -4.0, 4.0, 4.0]]), [sequence])
    assert counted == [501, 1, 1, 1, 1, 1, 1, 1]  # once as there, once as written
    assert sequence.token_ids.copied == counted
    assert logits.tolist() == [[4.0, 2.0, -8.0 - 0.5 - 3 * 0.25, 2.0 - 0.5 - 0.25, 4.0]]
