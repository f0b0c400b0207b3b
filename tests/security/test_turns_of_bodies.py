"""Large bodies take turns: each client has its part of the room, the threads and the time that reading takes."""

import asyncio
import threading
import time
import types
from contextlib import suppress

import pytest
from remote_engines import until

from gateway.errors import ClientGone, LargeBody, TooManyBodies
from gateway.http.request_bodies import LARGE, SMALL, BodyLimit, RequestBodies
from toolspecs.fairness.thread_time import between_turns
from toolspecs.json_scan import ContentLimits


class Upload:
    """A request whose body comes when `send` is called."""

    content_length = None
    headers = types.MappingProxyType({})

    def __init__(self):
        self.messages = asyncio.Queue()

    async def receive(self):
        return await self.messages.get()

    def send(self, size, *, more_body=True):
        self.messages.put_nowait({"type": "http.request", "body": b" " * size, "more_body": more_body})


@pytest.fixture
def bodies():
    limit = BodyLimit(300_000, "max_body_bytes")
    opened = RequestBodies(
        limit=limit,
        toolset_limit=limit,
        max_large=4,
        contents=ContentLimits(),
        has_others=lambda _: True,
    )
    yield opened
    opened.close()


def start(bodies, client_id, size=LARGE + 1):
    upload = Upload()
    upload.send(size)
    return upload, asyncio.create_task(bodies.read(upload, len, client_id=client_id))


async def test_one_client_has_half_of_the_room_for_large_bodies(bodies):
    held = [start(bodies, "greedy") for _ in range(3)]
    await asyncio.sleep(0.01)
    assert [upload.messages.qsize() for upload, _ in held] == [0, 0, 0]
    upload, other = start(bodies, "other")
    upload.send(1, more_body=False)
    assert await asyncio.wait_for(other, 5) == LARGE + 2
    for upload, _ in held:
        upload.send(0, more_body=False)
    assert await asyncio.wait_for(asyncio.gather(*(task for _, task in held)), 5) == [LARGE + 1] * 3


async def test_a_large_body_without_room_waits_a_while_and_a_small_one_does_not(bodies, monkeypatch):
    monkeypatch.setattr("gateway.http.request_bodies.WAIT_S", 0.05)
    held = [start(bodies, client_id) for client_id in "aabb"]
    await asyncio.sleep(0.01)
    _, refused = start(bodies, "c")
    with pytest.raises(TooManyBodies, match="max_large_bodies"):
        await refused
    small, read = start(bodies, "c", size=LARGE)
    small.send(0, more_body=False)
    assert await read == LARGE
    for upload, task in held:
        upload.messages.put_nowait({"type": "http.disconnect"})
        with pytest.raises(Exception, match="closed the connection"):
            await task
    upload, read = start(bodies, "c")
    upload.send(0, more_body=False)
    assert await read == LARGE + 1, "who leaves gives the room back"


@pytest.mark.parametrize(("size", "is_on_loop"), [(SMALL, True), (SMALL + 1, False), (LARGE + 1, False)])
async def test_only_small_bodies_are_read_on_the_event_loop(bodies, size, is_on_loop):
    """99 kB of empty schemas of an inline tool would take 0.16 s of it."""
    upload = Upload()
    upload.send(size, more_body=False)
    reader = await bodies.read(upload, lambda _: threading.current_thread(), client_id="a")
    assert (reader is threading.main_thread()) is is_on_loop


async def test_large_bodies_of_a_client_do_not_hold_up_its_small_ones(bodies):
    """Else a chat of 3 kB would wait 12 s for eight bodies of a megabyte."""
    gate, begun = threading.Event(), threading.Event()
    large, small = Upload(), Upload()
    large.send(LARGE + 1, more_body=False)
    small.send(SMALL + 1, more_body=False)
    held = asyncio.create_task(bodies.read(large, lambda _: (begun.set(), gate.wait(20)), client_id="a"))
    await until(begun.is_set)
    assert await asyncio.wait_for(bodies.read(small, len, client_id="a"), 10) == SMALL + 1
    gate.set()
    await held


async def test_a_body_whose_client_leaves_is_not_read(bodies):
    """Else the bodies of 500 clients that have left would wait in memory for their turns."""
    begun, gate = [], threading.Event()

    def read(number):
        upload = Upload()
        upload.send(SMALL + 1, more_body=False)
        work = bodies.read(upload, lambda _: (begun.append(number), gate.wait(20)), client_id="a")
        return upload, asyncio.create_task(work)

    first, *others = [read(number) for number in range(20)]
    await until(lambda: begun == [0])
    for upload, _ in others:
        upload.messages.put_nowait({"type": "http.disconnect"})
    gone = await asyncio.gather(*(task for _, task in others), return_exceptions=True)
    assert {type(error) for error in gone} == {ClientGone}
    gate.set()
    await first[1]
    _, last = read(20)
    await last
    assert begun == [0, 20]


async def test_a_change_whose_client_leaves_before_its_turn_is_not_made(bodies):
    """Else the next one would wait for minutes behind 1,500 restorations whose clients have left."""
    made, gate = [], asyncio.Event()

    async def change(number, upload):
        async with bodies.registry_turn(upload, "a"):
            made.append(number)
            await gate.wait()

    uploads = [Upload() for _ in range(20)]
    first, *others = [asyncio.create_task(change(*numbered)) for numbered in enumerate(uploads)]
    await until(lambda: made == [0])
    for upload in uploads[1:]:
        upload.messages.put_nowait({"type": "http.disconnect"})
    gone = await asyncio.gather(*others, return_exceptions=True)
    assert {type(error) for error in gone} == {ClientGone}
    gate.set()
    await first
    await change(20, Upload())
    assert made == [0, 20]


async def test_a_turn_at_the_registry_is_given_back_while_tools_compile(bodies):
    """Else a client's restoration would wait behind slow tools of its own."""
    compiled, events = asyncio.Event(), []

    async def register():
        async with bodies.registry_turn(Upload(), "a"):
            events.append("read")
            with suppress(ValueError):
                async with between_turns():
                    await compiled.wait()
                    raise ValueError("refused")
            events.append("written")
            await asyncio.sleep(0.05)
            events.append("done")

    async def change(name):
        async with bodies.registry_turn(Upload(), "a"):
            events.append(name)

    registering = asyncio.create_task(register())
    await until(lambda: events == ["read"])
    await change("changed meanwhile")
    compiled.set()
    await until(lambda: events[-1] == "written")
    await change("changed after")
    await registering
    assert events == ["read", "changed meanwhile", "written", "done", "changed after"]


async def test_a_change_whose_client_leaves_while_its_tools_compile_is_not_made(bodies):
    begun, compiled, made, upload = asyncio.Event(), asyncio.Event(), [], Upload()

    async def register():
        async with bodies.registry_turn(upload, "a"):
            async with between_turns():
                begun.set()
                await compiled.wait()
            made.append("toolset")

    registering = asyncio.create_task(register())
    await begun.wait()
    async with bodies.registry_turn(Upload(), "a"):
        compiled.set()
        upload.messages.put_nowait({"type": "http.disconnect"})
        with pytest.raises(ClientGone):
            await registering
    assert made == []
    async with bodies.registry_turn(Upload(), "a"):
        pass


@pytest.mark.parametrize("num_cancelled", [0, 1])
async def test_a_client_that_leaves_rests_as_well(bodies, num_cancelled):
    """Else one that leaves while its bodies are read, 65 times a second, would take a whole core."""

    def compute(_):
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass
        raise ValueError("refused")

    upload, begun = Upload(), threading.Event()
    upload.send(SMALL + 1, more_body=False)
    work = bodies.read(upload, lambda raw: (begun.set(), compute(raw)), client_id="a")
    task = asyncio.create_task(work)
    await until(begun.is_set)
    upload.messages.put_nowait({"type": "http.disconnect"})
    await asyncio.sleep(0.01)
    for _ in range(num_cancelled):
        task.cancel()  # as its deadline does
    with pytest.raises((ClientGone, asyncio.CancelledError)):
        await task
    start = time.monotonic()
    async with bodies.turn("a", "small"):
        assert time.monotonic() - start > 0.3


async def test_the_bodies_of_one_client_are_not_read_before_those_of_others(bodies):
    """Large ones wait for room as well; of others, a client may send one on each connection."""
    begun, gate = [], threading.Event()

    def read(client_id):
        upload = Upload()
        upload.send(SMALL + 1, more_body=False)
        work = bodies.read(upload, lambda _: (begun.append(client_id), gate.wait(20)), client_id=client_id)
        return asyncio.create_task(work)

    tasks = [read(client_id) for client_id in ("attacker", "attacker", "attacker", "victim")]
    await until(lambda: len(begun) == 2)
    assert begun == ["attacker", "victim"]
    gate.set()
    await asyncio.gather(*tasks)


async def test_a_body_without_an_announced_length_is_counted(bodies):
    upload, read = start(bodies, "a", size=200_000)
    upload.send(200_000)
    with pytest.raises(LargeBody):
        await read
