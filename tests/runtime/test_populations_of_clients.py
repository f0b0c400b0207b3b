"""Answers that are selected from several count for their client, and leave the queue to others."""

import pytest
import toy_model
from selected import selected_sequence

from runtime.errors import TooManySequences
from runtime.selection import Selection


def of_client(client_id, selection, seed):
    sequence = selected_sequence(selection, seed)
    sequence.client_id = client_id
    return sequence


def test_particles_that_are_yet_to_be_drawn_count_for_their_client():
    engine = toy_model.toy_engine(max_sequences_per_client=40)
    for seed in (1, 2):
        engine.add(of_client("attacker", Selection("particles", 16), seed))
    with pytest.raises(TooManySequences):
        engine.add(of_client("attacker", Selection("particles", 16), 3))
    engine.add(of_client("attacker", Selection("particles", 8), 4))
    most = 0
    while engine.has_work:
        engine.step()
        most = max(most, len(list(engine.scheduler)))
    assert most == 40


def test_draws_beside_the_first_do_not_fill_the_queue_for_others():
    engine = toy_model.toy_engine(max_waiting=8, max_batch=2)
    for seed in range(4):
        engine.add(of_client("attacker", Selection("particles", 16), seed))
    for _ in range(3):
        engine.step()
    assert len(engine.scheduler.waiting) > 8
    engine.add(of_client("visitor", Selection(), 9))
