"""Stored responses: a client can continue a conversation by the id of its last response, at any gateway.

An entry holds a response and the whole input that it answered, so that one look-up gives the conversation.
The entries of one owner are bounded: beyond the limits, the oldest are dropped. All entries expire, and so
does the list of an owner who has none left.

An item of an output has the id of its response in its own id, so that `item_reference` needs no other index.

    responses = StoredResponses(store, lifetime_s=3600)
    await responses.save("owner", response, items=[{"role": "user", "content": "Hi"}])
    async with bodies.turn("client", has_others) as turn:
        await responses.expanded({"previous_response_id": response["id"], "input": "And now?"}, "owner", turn)
    # {"previous_response_id": "resp_…", "input": ["Hi" and its answer as items, and then "And now?"]}
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec

from gateway.errors import InvalidField, UnknownPrevious, UnknownResponse
from gateway.http.json_body import DEFAULT_LIMITS
from gateway.http.request_bodies import ReadingTurn
from toolspecs.cancellation import to_the_end
from toolspecs.errors import StoreError, TooManyValues
from toolspecs.json_scan import ContentLimits, scan
from toolspecs.json_value import JSON
from toolspecs.nearest import MAX_NAME, shorten
from toolspecs.resolved_types import resolved
from toolspecs.store import Store, commit
from toolspecs.toolset_contents import compress, decompress

T = TypeVar("T")

_Listed = tuple[str, int, float]
"""The id, the size and the end of an owner's response."""

MAX_ENTRY_BYTES = 4 << 20
"""The largest entry, uncompressed; a longer conversation is not stored. Decoding stops the event loop."""
MAX_ENTRIES = 1_000
MAX_REFERRED = 100
"""The most responses that the items of one request may refer to; each is looked up."""
_LONGEST_S = 10 * 365 * 86_400.0
"""A lifetime that means for ever; the ends of entries are finite numbers."""
_MAX_LIST_BYTES = 200 * MAX_ENTRIES
_ATTEMPTS = 20

_RESPONSE_ID = re.compile(r"resp_[0-9a-f]{32}")
_ITEM_ID = re.compile(r"[a-z]+_(?P<request_id>[0-9a-f]{32})[0-9a-f]{1,8}")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response as it was sent, and the items of the whole input before it."""

    response: JSON
    items: list[JSON]

    @property
    def conversation(self) -> list[JSON]:
        """The input, then the output."""
        return [*self.items, *self.response["output"]]


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

    async def expanded(self, body: Mapping[str, Any], owner: str, turn: ReadingTurn) -> Any:
        """A body that `is_continuing`, with what it continues and the items it refers to put into `input`.

        Raises:
            InvalidField: no response is stored under an id.
            StoreError: the store fails.
        """
        previous, items = body.get("previous_response_id"), body.get("input")
        if not self._lifetime_s:
            field = "input" if previous is None else "previous_response_id"
            raise InvalidField(field, "responses are not stored here: send the whole conversation in input")
        before = [] if previous is None else (await self._previous(previous, owner, turn)).conversation
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        elif isinstance(items, list):
            items = await self._without_references(items, owner, turn)
        else:
            return body  # whose reader says what is wrong with it
        return {**body, "input": [*before, *items]}

    async def save(self, owner: str, response: JSON, items: list[JSON]) -> bool:
        """Store a response; returns False if the store fails."""
        if not self._lifetime_s:
            return False
        content = await asyncio.to_thread(_packed, response, items, self._contents)
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
            for dropped_id in dropped:  # first, so that a full store has room
                await self._store.delete(_key(owner, dropped_id))
            await self._store.set(_key(owner, response_id), content, self._lifetime_s)
        except StoreError:
            await self._store.delete(_key(owner, response_id))  # it may be stored all the same
            await self._unlist(owner, response_id)
            raise
        return True

    async def load(self, owner: str, response_id: str, turn: ReadingTurn) -> StoredResponse:
        """A stored response; raises UnknownResponse, StoreError."""
        return await self._load(owner, response_id, _unpacked, turn)

    async def load_json(self, owner: str, response_id: str, turn: ReadingTurn) -> bytes:
        """The JSON of a stored response; raises UnknownResponse, StoreError."""
        return await self._load(owner, response_id, _unpacked_json, turn)

    async def _load(
        self, owner: str, response_id: str, unpack: Callable[[bytes, ContentLimits], T], turn: ReadingTurn
    ) -> T:
        """The result of `unpack` on an entry; raises UnknownResponse, StoreError."""
        content = None
        if self._lifetime_s and _RESPONSE_ID.fullmatch(response_id):
            content = await self._store.get(_key(owner, response_id))
        if content is None:
            raise UnknownResponse(shorten(response_id, MAX_NAME))
        try:
            return await turn.run(partial(unpack, content, self._contents))
        except (ValueError, msgspec.MsgspecError, TooManyValues) as error:
            _log.warning("stored response %s cannot be read: %s", response_id, error)
            raise UnknownResponse(response_id) from error

    async def delete(self, owner: str, response_id: str) -> None:
        """Remove a stored response; raises UnknownResponse, StoreError.

        If it cannot be taken from the owner's list, it counts there until it would have expired.
        """
        if not _RESPONSE_ID.fullmatch(response_id) or not await self._store.delete(_key(owner, response_id)):
            raise UnknownResponse(shorten(response_id, MAX_NAME))
        await self._unlist(owner, response_id)

    async def _unlist(self, owner: str, response_id: str) -> None:
        """Take a response that is not stored from its owner's list, where it would count."""
        try:
            await self._change_list(
                owner, lambda entries: [each for each in entries if each[0] != response_id]
            )
        except StoreError as error:
            _log.warning("response %s is still listed, but not stored: %s", response_id, error)

    async def _previous(self, previous: Any, owner: str, turn: ReadingTurn) -> StoredResponse:
        """The response that `previous_response_id` names."""
        if not isinstance(previous, str):
            raise InvalidField("previous_response_id", "it must be a string")
        try:
            return await self.load(owner, previous, turn)
        except UnknownResponse as error:
            raise UnknownPrevious(error) from error

    async def _without_references(self, items: list[Any], owner: str, turn: ReadingTurn) -> list[Any]:
        """The items, with each reference replaced by the item that it refers to.

        Raises:
            InvalidField: a referenced item is not stored or is referenced twice, or all are too long
            together.
        """
        referenced_ids = _references(items)
        items_by_id: dict[str, JSON] = {}
        num_bytes = 0
        for response_id in _referred(items):
            output = await self._referred_output(response_id, items, owner, turn)
            used = [item for item in output if item["id"] in referenced_ids]
            num_bytes += await turn.run(partial(_size, used))
            if num_bytes > MAX_ENTRY_BYTES:
                raise InvalidField(
                    "input", f"the items that it refers to have more than {MAX_ENTRY_BYTES} bytes"
                )
            items_by_id |= {item["id"]: item for item in used}
        return [
            _item(items_by_id, item["id"], position) if _is_reference(item) else item
            for position, item in enumerate(items)
        ]

    async def _referred_output(
        self, response_id: str, items: list[Any], owner: str, turn: ReadingTurn
    ) -> list[JSON]:
        try:
            return await self._load(owner, response_id, _unpacked_output, turn)
        except UnknownResponse as error:
            position = next(
                i for i, item in enumerate(items) if _is_reference(item) and _response_of(item) == response_id
            )
            raise InvalidField(f"input[{position}].id", str(error)) from error

    async def _change_list(
        self, owner: str, change: Callable[[list[_Listed]], list[_Listed]]
    ) -> list[str] | None:
        """Change the list of an owner's responses; returns the ids of those that it no longer has.

        None if other gateways changed the list at every try. A response that is not listed is not stored.
        """
        key = f"responses:{owner}"
        async with self._locks.setdefault(owner, asyncio.Lock()):
            for _ in range(_ATTEMPTS):
                before = await self._store.get(key)
                now = time.time()
                entries = [entry for entry in _listed(before) if entry[2] > now]
                changed = change(entries)
                if await commit(self._store, key, before, json.dumps(changed).encode(), self._lifetime_s):
                    kept = {response_id for response_id, _, _ in changed}
                    return [response_id for response_id, _, _ in entries if response_id not in kept]
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


def is_continuing(body: Any) -> bool:
    """Whether the body of a request refers to a stored response, or to items of such."""
    if not isinstance(body, dict):
        return False
    items = body.get("input")
    is_referring = isinstance(items, list) and any(map(_is_reference, items))
    return is_referring or body.get("previous_response_id") is not None


def _key(owner: str, response_id: str) -> str:
    return f"response:{owner}:{response_id}"


def _is_reference(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "item_reference"


def _response_of(reference: Mapping[str, Any]) -> str | None:
    """The id of the response that a referenced item belongs to."""
    matched = _ITEM_ID.fullmatch(reference["id"])
    return f"resp_{matched['request_id']}" if matched else None


def _references(items: list[Any]) -> frozenset[str]:
    """The referenced ids; each may occur only once, or a small request could expand to a huge one."""
    item_ids: set[str] = set()
    for position, item in enumerate(items):
        if _is_reference(item):
            item_id = item.get("id")
            if not isinstance(item_id, str):
                raise InvalidField(f"input[{position}].id", "it must be a string")
            if item_id in item_ids:
                raise InvalidField(f"input[{position}].id", "an item before it refers to the same item")
            item_ids.add(item_id)
    return frozenset(item_ids)


def _size(items: list[JSON]) -> int:
    return len(msgspec.json.encode(items))


def _referred(items: list[Any]) -> Iterable[str]:
    """The ids of the responses whose items are referenced."""
    response_ids: dict[str, None] = {}
    for position, item in enumerate(items):
        if _is_reference(item):
            response_id = _response_of(item)
            if response_id is None:
                raise _no_item(item.get("id"), position)
            response_ids[response_id] = None
    if len(response_ids) > MAX_REFERRED:
        raise InvalidField(
            "input",
            f"the items refer to more than {MAX_REFERRED} responses; send some of the items themselves",
        )
    return response_ids


def _item(items_by_id: Mapping[str, JSON], item_id: str, position: int) -> JSON:
    if item_id not in items_by_id:
        raise _no_item(item_id, position)
    return items_by_id[item_id]


def _no_item(item_id: Any, position: int) -> InvalidField:
    quoted_id = shorten(repr(item_id), MAX_NAME)
    return InvalidField(f"input[{position}].id", f"no item {quoted_id} is stored; send the item itself")


class _OutputItem(msgspec.Struct):
    id: str


class _ResponseFields(msgspec.Struct):
    """What is read of a stored response; whoever can write to the store may have written another value."""

    id: str
    output: list[_OutputItem]


class _Entry(msgspec.Struct):
    response: JSON
    items: list[JSON]


class _Output(msgspec.Struct):
    output: list[JSON]


class _RawEntry(msgspec.Struct):
    """An entry whose response is not decoded, because it is sent as it is."""

    response: msgspec.Raw


class _OutputEntry(msgspec.Struct):
    """An entry with only its output decoded, because a request may refer to items of many entries."""

    response: _Output


def _packed(response: JSON, items: list[JSON], limits: ContentLimits) -> bytes | None:
    """The bytes of an entry; None if it is too long or has too many values."""
    content = msgspec.json.encode({"response": response, "items": items})
    if len(content) > MAX_ENTRY_BYTES:
        return None
    try:
        scan(content, limits)
    except TooManyValues:
        return None
    return compress(content)


def _unpacked(content: bytes, limits: ContentLimits) -> StoredResponse:
    entry = msgspec.json.decode(_scanned(content, limits), type=resolved(_Entry))
    msgspec.convert(entry.response, type=resolved(_ResponseFields))
    return StoredResponse(entry.response, entry.items)


def _unpacked_json(content: bytes, limits: ContentLimits) -> bytes:
    response = bytes(msgspec.json.decode(_scanned(content, limits), type=resolved(_RawEntry)).response)
    msgspec.json.decode(response, type=resolved(_ResponseFields))
    return response


def _unpacked_output(content: bytes, limits: ContentLimits) -> list[JSON]:
    output = msgspec.json.decode(_scanned(content, limits), type=resolved(_OutputEntry)).response.output
    msgspec.convert(output, type=resolved(list[_OutputItem]))
    return output


def _scanned(content: bytes, limits: ContentLimits) -> bytes:
    """The JSON of an entry; raises ValueError, and TooManyValues for a large entry of an earlier version."""
    entry = decompress(content, MAX_ENTRY_BYTES)
    scan(entry, limits)
    return entry
