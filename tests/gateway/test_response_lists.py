"""What is kept of the responses of an owner: at most so many, in so many bytes, and nothing that no list has."""

import asyncio
import json
import math

import pytest
from opened_store import keys, opened
from reading_turns import TURN

from gateway.errors import InvalidField, UnknownResponse
from gateway.generation import response_entries, stored_responses
from gateway.generation.continuation import Continuation
from gateway.generation.stored_responses import StoredResponses
from toolspecs.errors import StoreUnavailable
from toolspecs.revisions.toolset_contents import compress


def id_of(number):
    return f"resp_{number:032x}"


def response(number, size=1):
    return {"id": id_of(number), "output": [{"id": f"msg_{number:032x}00", "text": "x" * size}]}


async def stored_ids(store):
    """The ids of the responses of the owner `o` that are in the store."""
    return [key.rpartition(":")[2] for key in await keys(store, "response:o:")]


async def listed_ids(store):
    """The ids of the responses in the list of the owner `o`, the oldest first."""
    return [entry[0] for entry in json.loads(await store.get("responses:o"))]


@pytest.fixture
async def store():
    async with opened("sqlite://:memory:") as store:
        yield store


async def test_the_oldest_are_dropped(store, monkeypatch):
    monkeypatch.setattr(stored_responses, "MAX_ENTRIES", 3)
    responses = StoredResponses(store, lifetime_s=60)
    for number in range(5):
        assert await responses.save("o", response(number), [])
    for number in range(5):
        if number < 2:
            with pytest.raises(UnknownResponse):
                await responses.load("o", id_of(number), TURN)
        else:
            assert (await responses.load("o", id_of(number), TURN)).response == response(number)
    assert len(await keys(store)) == 4  # three, and the list


async def test_bytes_are_bounded_for_each_owner(store, monkeypatch):
    monkeypatch.setattr(response_entries, "MAX_ENTRY_BYTES", 1000)
    responses = StoredResponses(store, lifetime_s=60, max_bytes=200)
    assert not await responses.save("o", response(0, size=2000), [])
    for number in range(10):
        assert await responses.save("o", response(number), [])
        assert await responses.save("other", response(number), [])
    kept = await stored_ids(store)
    assert 1 <= len(kept) < 10
    assert len(await keys(store, "response:other:")) == len(kept)


async def test_what_was_deleted_drops_nothing(store, monkeypatch):
    """A thousand responses that are deleted at once push out none that is kept."""
    monkeypatch.setattr(stored_responses, "MAX_ENTRIES", 3)
    responses = StoredResponses(store, lifetime_s=60)
    assert await responses.save("o", response(0), [])
    for number in range(1, 9):
        assert await responses.save("o", response(number), [])
        await responses.delete("o", id_of(number))
    assert (await responses.load("o", id_of(0), TURN)).response == response(0)
    assert await listed_ids(store) == [id_of(0)]


async def test_what_cannot_be_taken_from_the_list_is_deleted(store, monkeypatch):
    async def fail(*args):
        raise StoreUnavailable("sqlite", "it is gone")

    responses = StoredResponses(store, lifetime_s=60)
    assert await responses.save("o", response(0), [])
    monkeypatch.setattr(store, "compare_and_set", fail)
    await responses.delete("o", id_of(0))
    with pytest.raises(UnknownResponse):
        await responses.load("o", id_of(0), TURN)


async def test_a_response_that_cannot_be_listed_is_not_stored(store, monkeypatch):
    """What is in no list counts for nobody."""
    stored = StoredResponses(store, lifetime_s=60)

    async def another_was_first(*_):
        return False

    monkeypatch.setattr(store, "compare_and_set", another_was_first)
    assert not await stored.save("o", response(0), [])
    assert await stored_ids(store) == []


@pytest.mark.parametrize("failing", ["set", "delete"])
async def test_a_response_that_could_not_be_stored_pushes_nothing_out_later(store, monkeypatch, failing):
    """What a full store refuses is not listed either."""
    monkeypatch.setattr(stored_responses, "MAX_ENTRIES", 2)
    responses = StoredResponses(store, lifetime_s=60)
    for number in range(2):
        assert await responses.save("o", response(number), [])
    operation = getattr(store, failing)

    async def fail_once(*_):
        monkeypatch.setattr(store, failing, operation)
        raise StoreUnavailable("sqlite", "it is full")

    monkeypatch.setattr(store, failing, fail_once)
    assert not await responses.save("o", response(2), [])
    assert await responses.save("o", response(3), [])
    assert (await responses.load("o", id_of(1), TURN)).response == response(1)
    assert await listed_ids(store) == await stored_ids(store) == [id_of(1), id_of(3)]


async def test_a_response_that_others_push_out_before_it_is_stored_is_not_kept(store, monkeypatch):
    """The others cannot delete what is not there yet, so it is deleted by whoever stores it."""
    monkeypatch.setattr(stored_responses, "MAX_ENTRIES", 2)
    first, other = (StoredResponses(store, lifetime_s=60) for _ in range(2))
    write = store.set

    async def write_after_others(*arguments):
        monkeypatch.setattr(store, "set", write)
        for number in range(1, 4):
            assert await other.save("o", response(number), [])
        await write(*arguments)

    monkeypatch.setattr(store, "set", write_after_others)
    await first.save("o", response(0), [])
    assert await stored_ids(store) == [id_of(2), id_of(3)]


class SlowStore:
    """A store whose every operation takes a moment, so that its caller can leave meanwhile."""

    def __init__(self, store):
        self._store = store
        self.num_called = 0

    def __getattr__(self, name):
        async def slowly(*arguments):
            self.num_called += 1
            await asyncio.sleep(0.01)
            return await getattr(self._store, name)(*arguments)

        return slowly


@pytest.mark.parametrize("num_done", range(5))
async def test_a_client_that_leaves_while_its_response_is_stored_leaves_none_behind(
    store, monkeypatch, num_done
):
    """What is dropped from the list leaves the store, and what is never stored leaves the list."""
    monkeypatch.setattr(stored_responses, "MAX_ENTRIES", 2)
    for number in range(2):
        assert await StoredResponses(store, lifetime_s=60).save("o", response(number), [])
    slow = SlowStore(store)
    saving = asyncio.create_task(StoredResponses(slow, lifetime_s=60).save("o", response(2), []))
    while slow.num_called <= num_done and not saving.done():
        await asyncio.sleep(0.001)
    for _ in range(3):  # as the scope of a stream does
        saving.cancel()
        await asyncio.sleep(0)
    await asyncio.gather(saving, return_exceptions=True)
    await asyncio.sleep(0.2)
    assert await stored_ids(store) == sorted(await listed_ids(store))


async def test_responses_of_one_owner_at_once_are_all_listed(store):
    responses = StoredResponses(store, lifetime_s=60)
    assert all(await asyncio.gather(*(responses.save("o", response(number), []) for number in range(60))))
    assert sorted(await listed_ids(store)) == [id_of(number) for number in range(60)]


async def test_stored_responses_expire(store):
    responses = StoredResponses(store, lifetime_s=0.001)
    assert await responses.save("o", response(1), [])
    await asyncio.sleep(0.01)
    with pytest.raises(UnknownResponse):
        await responses.load("o", id_of(1), TURN)
    assert await keys(store) == [], "the list expires, too"


async def test_a_list_lives_as_long_as_the_longest_of_its_responses(store):
    """Also where an operator shortens `response_seconds` meanwhile."""
    assert await StoredResponses(store, lifetime_s=60).save("o", response(1), [])
    assert await StoredResponses(store, lifetime_s=0.05).save("o", response(2), [])
    await asyncio.sleep(0.1)
    assert await listed_ids(store) == [id_of(1), id_of(2)]


@pytest.mark.parametrize(
    "content", [b"x", b"[1]", b"[[1,2,3]]", b"[" + b'["a",0,0],' * 100_000 + b'["a",0,0]]']
)
async def test_a_damaged_list_counts_as_empty(store, content):
    """Its owner gets answers as before."""
    responses = StoredResponses(store, lifetime_s=60)
    await store.set("responses:o", content)
    assert await responses.save("o", response(1), [])
    assert (await responses.load("o", id_of(1), TURN)).response == response(1)


@pytest.mark.parametrize(
    "forged", [{}, {"id": 5, "output": 5}, {"id": "a"}, {"id": "a", "output": [{}]}, {"output": []}, 5]
)
async def test_a_forged_entry_is_as_good_as_none(store, forged):
    """In conversations, in lists of items and in references to them."""
    responses = StoredResponses(store, lifetime_s=60)
    response_id = id_of(1)
    entry = json.dumps({"response": forged, "items": [{}]}).encode()
    await store.set(f"response:o:{response_id}", compress(entry))
    for load in (responses.load, responses.load_json):
        with pytest.raises(UnknownResponse):
            await load("o", response_id, TURN)
    with pytest.raises(InvalidField):
        await Continuation(responses, "o").expand({"previous_response_id": response_id, "input": "a"}, TURN)


async def test_responses_that_never_expire_are_listed_too(store):
    responses = StoredResponses(store, lifetime_s=math.inf, max_bytes=200)
    for number in range(20):
        assert await responses.save("o", response(number), [])
    assert len(await stored_ids(store)) < 20
    assert len(await listed_ids(store)) < 20


async def test_a_damaged_entry_is_as_good_as_none(store):
    responses = StoredResponses(store, lifetime_s=60)
    assert await responses.save("o", response(1), [])
    key = f"response:o:{response(1)['id']}"
    for content in (b"", b"x", (await store.get(key))[:-3]):
        await store.set(key, content)
        with pytest.raises(UnknownResponse):
            await responses.load("o", id_of(1), TURN)
