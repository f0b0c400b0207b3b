"""A client whose bodies take long to read rests between them, while other clients are there."""

import asyncio
import time

import pytest

from gateway.http import client_pace
from gateway.http.client_pace import REST_FACTOR, USUAL_S, ClientPace

LONG_S = 0.05


@pytest.fixture
def pace():
    return ClientPace(lambda _: False)


async def read(pace, client_id, seconds, *, has_others=False):
    """Read a body that takes so long; returns how long the client had to wait before."""
    pace.note(client_id)
    pace._has_others = lambda _: has_others
    start = time.monotonic()
    turn = pace.turn(client_id, "small")
    async with turn.held():
        waited_s = time.monotonic() - start
        turn.spent.seconds = seconds
    return waited_s


async def test_a_client_rests_while_others_wait_for_answers(pace):
    assert await read(pace, "a", LONG_S, has_others=True) < LONG_S
    assert await read(pace, "a", LONG_S, has_others=True) > REST_FACTOR * LONG_S * 0.9


async def test_a_client_rests_while_others_have_sent_something_lately(pace):
    await read(pace, "a", LONG_S)
    await read(pace, "b", 0)
    assert await read(pace, "a", LONG_S) > REST_FACTOR * LONG_S * 0.9


async def test_a_client_alone_does_not_rest(pace, monkeypatch):
    await read(pace, "b", 0)
    monkeypatch.setattr(client_pace, "RECENT_S", 0.0)
    await read(pace, "a", 10)
    assert await read(pace, "a", 10) < 1


async def test_usual_bodies_need_no_rest(pace):
    await read(pace, "a", USUAL_S, has_others=True)
    assert await read(pace, "a", USUAL_S, has_others=True) < REST_FACTOR * USUAL_S


async def test_the_rest_of_one_client_holds_up_no_other(pace):
    await read(pace, "a", 10, has_others=True)
    assert await read(pace, "b", LONG_S, has_others=True) < 1


async def test_bodies_of_a_client_are_read_one_after_another_each_with_its_rest(pace):
    start = time.monotonic()
    await asyncio.gather(*(read(pace, "a", LONG_S, has_others=True) for _ in range(3)))
    assert time.monotonic() - start > 2 * REST_FACTOR * LONG_S * 0.9


async def test_the_time_counts_of_a_body_that_is_refused(pace):
    def refuse():
        end = time.thread_time() + LONG_S
        while time.thread_time() < end:
            pass
        raise ValueError("refused")

    turn = pace.turn("a", "small")
    with pytest.raises(ValueError, match="refused"):
        async with turn.held():
            turn.spent.timed(refuse)
    assert await read(pace, "a", 0, has_others=True) > REST_FACTOR * LONG_S * 0.9


async def test_a_turn_that_was_given_up_while_it_waited_holds_up_no_other(pace):
    await read(pace, "a", 10)
    resting = asyncio.create_task(read(pace, "a", 0, has_others=True))
    await asyncio.sleep(0.05)
    resting.cancel()
    await asyncio.gather(resting, return_exceptions=True)
    assert await read(pace, "a", 0) < 1
