"""One task at a time has a turn, owners take turns, and a task that gives up loses nobody's."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from toolspecs.fairness.fair_turns import FairTurns

OWNERS = st.lists(st.sampled_from("abc"), min_size=1, max_size=12)


async def had(turns, owner, order, name):
    async with turns.of(owner):
        order.append(name)
        await asyncio.sleep(0)


async def test_an_owner_with_many_tasks_does_not_delay_another_one():
    turns, order = FairTurns(), []
    owners = "aaaaab"
    await asyncio.gather(*(had(turns, owner, order, owner) for owner in owners))
    assert "".join(order) == "aabaaa"


@given(OWNERS, st.data())
def test_whoever_does_not_give_up_has_a_turn_and_has_it_alone(owners, data):
    leavers = data.draw(st.sets(st.integers(0, len(owners) - 1)), label="tasks that give up")
    num_steps = data.draw(st.integers(0, 2 * len(owners)), label="steps of the event loop before they do")
    running, order = [], []

    async def have_turn(turns, number):
        async with turns.of(owners[number]):
            running.append(number)
            assert running == [number]
            try:
                await asyncio.sleep(0)
            finally:
                running.remove(number)
            order.append(number)

    async def main():
        turns = FairTurns()
        tasks = [asyncio.create_task(have_turn(turns, number)) for number in range(len(owners))]
        for _ in range(num_steps):
            await asyncio.sleep(0)
        for number in leavers:
            tasks[number].cancel()
        async with asyncio.timeout(5):
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                assert result is None or isinstance(result, asyncio.CancelledError)
            async with turns.of("another owner"):
                running.clear()

    asyncio.run(main())
    assert len(order) == len(set(order))
    assert set(range(len(owners))) - leavers <= set(order)
