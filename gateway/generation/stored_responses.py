"""Stored responses: a client can continue a conversation by the id of its last response, at any gateway.

An entry holds a response and the whole input that it answered, so that one look-up gives the conversation.
The entries of one owner are bounded: beyond the limits, the oldest are dropped. All entries expire, and so
does the list of an owner who has none left.

    responses = StoredResponses(store, lifetime_s=3600)
    await responses.save("owner", response, items=[{"role": "user", "content": "Hi"}])
    async with bodies.turn("client", "stored") as turn:
        (await responses.load("owner", response["id"], turn)).conversation  # "Hi" and its answer, as items

`gateway.generation.continuation` puts it into the next request.
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec

from gateway.errors import UnknownResponse
from gateway.generation.response_entries import (
    UNREADABLE,
    StoredResponse,
    pack,
    unpack,
    unpack_json,
    unpack_output,
)
from gateway.http.json_body import DEFAULT_LIMITS
from gateway.http.request_bodies import ReadingTurn
from toolspecs.cancellation import to_the_end
from toolspecs.errors import StoreError
from toolspecs.json_scan import ContentLimits
from toolspecs.json_value import JSON
from toolspecs.nearest import MAX_NAME, shorten
from toolspecs.resolved_types import resolved
from toolspecs.store import Store, commit

T = TypeVar("T")

_Listed = tuple[str, int, float]
"""The id, the size and the end of an owner's response."""

MAX_ENTRIES = 1_000
_LONGEST_S = 10 * 365 * 86_400.0
"""A lifetime that means for ever; the ends of entries are finite numbers."""
_MAX_LIST_BYTES = 200 * MAX_ENTRIES
_ATTEMPTS = 20

_RESPONSE_ID = re.compile(r"resp_[0-9a-f]{32}")

_log = logging.getLogger(__name__)


class StoredResponses:
    """The stored responses of all owners; with a lifetime of 0, none are stored.

    `max_bytes` bounds the compressed entries of one owner. `contents` bounds one entry, because a client who
    names it costs as much time and memory as with a body of that size, but sends only an id. So an entry is
    fetched and decoded in a turn of the client, as a body is.
    """

    def __init__(
        self,
        store: Store,
        *,
        lifetime_s: float,
        max_bytes: int = 64 << 20,
        contents: ContentLimits = DEFAULT_LIMITS,
    ) -> None:
        self._store = store
        self._lifetime_s = min(lifetime_s, _LONGEST_S)
        self._max_bytes = max_bytes
        self._contents = contents
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def are_stored(self) -> bool:
        """Whether responses are stored here."""
        return self._lifetime_s > 0

    async def save(self, owner: str, response: JSON, items: list[JSON]) -> bool:
        """Store a response; returns False if the store fails."""
        if not self.are_stored:
            return False
        content = await asyncio.to_thread(pack, response, items, self._contents)
        if content is None or len(content) > self._max_bytes:
            return False
        try:
            # A client that leaves on the way must not leave entries that no list counts.
            return await to_the_end(self._put(owner, response["id"], content))
        except StoreError as error:
            _log.warning("response %s is not stored: %s", response["id"], error)
            return False

    async def _put(self, owner: str, response_id: str, content: bytes) -> bool:
        """List and store an entry in the place of those that it pushes out; False if it cannot be listed."""
        entry = (response_id, len(content), time.time() + self._lifetime_s)
        dropped = await self._change_list(owner, lambda entries: self._newest([*entries, entry]))
        if dropped is None:
            return False
        try:
            while dropped:  # first, so that a full store has room
                await self._store.delete(_key(owner, dropped[0][0]))
                dropped.pop(0)
            await self._store.set(_key(owner, response_id), content, self._lifetime_s)
            listed = _listed(await self._store.get(_list_key(owner)))
            if all(listed_id != response_id for listed_id, _, _ in listed):
                # Others pushed it out, and deleted it before it was there.
                await self._store.delete(_key(owner, response_id))
        except StoreError:
            await self._store.delete(_key(owner, response_id))  # it may be stored all the same
            await self._unlist(owner, response_id, still_stored=dropped)
            raise
        return True

    async def load(self, owner: str, response_id: str, turn: ReadingTurn) -> StoredResponse:
        """A stored response; raises UnknownResponse, StoreError."""
        return await self._load(owner, response_id, unpack, turn)

    async def load_json(self, owner: str, response_id: str, turn: ReadingTurn) -> bytes:
        """The JSON of a stored response; raises UnknownResponse, StoreError."""
        return await self._load(owner, response_id, unpack_json, turn)

    async def load_output(self, owner: str, response_id: str, turn: ReadingTurn) -> list[JSON]:
        """The items of a stored response's output; raises UnknownResponse, StoreError."""
        return await self._load(owner, response_id, unpack_output, turn)

    async def _load(
        self, owner: str, response_id: str, decode: Callable[[bytes, ContentLimits], T], turn: ReadingTurn
    ) -> T:
        """The result of `decode` on an entry; raises UnknownResponse, StoreError."""
        content = None
        if self.are_stored and _RESPONSE_ID.fullmatch(response_id):
            content = await self._store.get(_key(owner, response_id))
        if content is None:
            raise UnknownResponse(shorten(response_id, MAX_NAME))
        try:
            return await turn.run(partial(decode, content, self._contents))
        except UNREADABLE as error:
            _log.warning("stored response %s cannot be read: %s", response_id, error)
            raise UnknownResponse(response_id) from error

    async def delete(self, owner: str, response_id: str) -> None:
        """Remove a stored response; raises UnknownResponse, StoreError.

        If it cannot be taken from the owner's list, it counts there until it would have expired.
        """
        if not _RESPONSE_ID.fullmatch(response_id) or not await self._store.delete(_key(owner, response_id)):
            raise UnknownResponse(shorten(response_id, MAX_NAME))
        await self._unlist(owner, response_id)

    async def _unlist(self, owner: str, response_id: str, still_stored: Sequence[_Listed] = ()) -> None:
        """Take a response that is not stored from its owner's list, where it would count.

        Older ones that are `still_stored` are listed again.
        """
        try:
            await self._change_list(
                owner, lambda entries: [*still_stored, *(each for each in entries if each[0] != response_id)]
            )
        except StoreError as error:
            _log.warning("response %s is still listed, but not stored: %s", response_id, error)

    async def _change_list(
        self, owner: str, change: Callable[[list[_Listed]], list[_Listed]]
    ) -> list[_Listed] | None:
        """Change the list of an owner's responses; returns those that it no longer has.

        None if other gateways changed the list at every try. A response that is not listed is not stored.
        """
        key = _list_key(owner)
        async with self._locks.setdefault(owner, asyncio.Lock()):
            for _ in range(_ATTEMPTS):
                before = await self._store.get(key)
                now = time.time()
                entries = [entry for entry in _listed(before) if entry[2] > now]
                changed = change(entries)
                lifetime_s = max((end for _, _, end in changed), default=now) - now
                content = json.dumps(changed).encode()
                if await commit(self._store, key, before, content, min(lifetime_s, _LONGEST_S)):
                    kept = {response_id for response_id, _, _ in changed}
                    return [entry for entry in entries if entry[0] not in kept]
        return None

    def _newest(self, entries: list[_Listed]) -> list[_Listed]:
        """The newest responses, as many as one owner may have; at least one."""
        num_kept, total = 0, 0
        for _, entry_size, _ in reversed(entries):
            total += entry_size
            if total > self._max_bytes or num_kept == MAX_ENTRIES:
                break
            num_kept += 1
        return entries[-num_kept:]


def _listed(content: bytes | None) -> list[_Listed]:
    """An owner's responses; a damaged list counts as empty."""
    if content is None or len(content) > _MAX_LIST_BYTES:
        return []
    try:
        return msgspec.json.decode(content, type=resolved(list[_Listed]))
    except (msgspec.MsgspecError, ValueError):
        return []


def _list_key(owner: str) -> str:
    return f"responses:{owner}"


def _key(owner: str, response_id: str) -> str:
    return f"response:{owner}:{response_id}"
