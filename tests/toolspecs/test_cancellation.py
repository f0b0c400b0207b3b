"""Work that goes to its end, however often its caller is cancelled."""

import asyncio

import pytest

from toolspecs.cancellation import to_the_end


async def test_who_is_cancelled_twice_still_waits_for_the_end():
    """A client leaves, and then its deadline passes; nobody else may use what is worked on meanwhile."""
    ended, given_up = asyncio.Event(), []
    waiting = asyncio.create_task(to_the_end(ended.wait(), lambda: given_up.append(True)))
    for _ in range(2):
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0.01)
    assert not waiting.done()
    ended.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert given_up == [True]
