"""Requests that continue a stored response (`previous_response_id`), or refer to items of some.

    continuation = Continuation(responses, "owner")
    async with bodies.turn("client", "stored") as turn:
        await continuation.expand({"previous_response_id": "resp_…", "input": "And now?"}, turn)
    # {"previous_response_id": "resp_…", "input": ["Hi" and its answer as items, and then "And now?"]}

An item of an output has the id of its response in its own id, so that `item_reference` needs no other index.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from gateway.errors import InvalidField, UnknownPrevious, UnknownResponse
from gateway.generation.response_entries import MAX_ENTRY_BYTES, StoredResponse
from gateway.generation.stored_responses import StoredResponses
from gateway.http.request_bodies import ReadingTurn
from toolspecs.nearest import MAX_NAME, shorten

MAX_REFERRED = 100
"""The most responses that the items of one request may refer to; each is looked up."""

_ITEM_ID = re.compile(r"[a-z]+_(?P<request_id>[0-9a-f]{32})[0-9a-f]{1,8}")

_PLACE = re.compile(r"input\[(?P<position>[0-9]+)\](?P<rest>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Continuation:
    """Puts into a body the conversation of an owner that it continues, and the items that it refers to."""

    responses: StoredResponses
    owner: str

    def is_needed(self, body: Any) -> bool:
        """Whether the body of a request refers to a stored response, or to items of such."""
        if not isinstance(body, dict):
            return False
        items = body.get("input")
        is_referring = isinstance(items, list) and any(map(_is_reference, items))
        return is_referring or body.get("previous_response_id") is not None

    async def expand(self, body: Mapping[str, Any], turn: ReadingTurn) -> Any:
        """A body that needs it, with what it continues and the items it refers to put into `input`.

        Raises:
            InvalidField: no response is stored under an id.
            StoreError: the store fails.
        """
        previous, items = body.get("previous_response_id"), body.get("input")
        if not self.responses.are_stored:
            field = "input" if previous is None else "previous_response_id"
            raise InvalidField(field, "responses are not stored here: send the whole conversation in input")
        before = [] if previous is None else (await self._previous(previous, turn)).conversation
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        elif isinstance(items, list):
            items = await self._without_references(items, turn)
        else:
            return body  # whose reader says what is wrong with it
        return {**body, "input": [*before, *items]}

    def as_sent(
        self, error: InvalidField, body: Mapping[str, Any], expanded: Mapping[str, Any]
    ) -> InvalidField:
        """An error of reading the expanded body, with its place in the `input` that the client sent."""
        found = _PLACE.fullmatch(error.param)
        if found is None:
            return error
        sent = body["input"]
        num_sent = 1 if isinstance(sent, str) else len(sent)
        position = int(found["position"]) - (len(expanded["input"]) - num_sent)
        if position < 0:
            return InvalidField("previous_response_id", f"it cannot be continued: {error}")
        place = "input" if isinstance(sent, str) else f"input[{position}]{found['rest']}"
        return type(error)(place, error.reason)

    async def _previous(self, previous: Any, turn: ReadingTurn) -> StoredResponse:
        """The response that `previous_response_id` names."""
        if not isinstance(previous, str):
            raise InvalidField("previous_response_id", "it must be a string")
        try:
            return await self.responses.load(self.owner, previous, turn)
        except UnknownResponse as error:
            raise UnknownPrevious(error) from error

    async def _without_references(self, items: list[Any], turn: ReadingTurn) -> list[Any]:
        """The items, with each reference replaced by the item that it refers to.

        Raises:
            InvalidField: a referenced item is not stored or is referenced twice, or all are too long
            together.
        """
        replaced = list(items)
        num_bytes = 0
        for response_id, positions in _referred(items).items():
            try:
                output = await self.responses.load_output(self.owner, response_id, turn)
            except UnknownResponse as error:
                raise InvalidField(_id_field(min(positions.values())), str(error)) from error
            used = {item["id"]: item for item in output if item["id"] in positions}
            num_bytes += len(await turn.run(partial(msgspec.json.encode, [*used.values()])))
            if num_bytes > MAX_ENTRY_BYTES:
                raise InvalidField(
                    "input", f"the items that it refers to have more than {MAX_ENTRY_BYTES} bytes"
                )
            for item_id, position in positions.items():
                if item_id not in used:
                    raise _not_stored(item_id, position)
                replaced[position] = used[item_id]
        return replaced


def _referred(items: list[Any]) -> dict[str, dict[str, int]]:
    """The positions of the references among the items, by the id of the response and of the item.

    Each item may be referred to once, or a small request could expand to a huge one. Raises InvalidField.
    """
    positions: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for position, item in enumerate(items):
        if not _is_reference(item):
            continue
        item_id = item.get("id")
        if not isinstance(item_id, str):
            raise InvalidField(_id_field(position), "it must be a string")
        matched = _ITEM_ID.fullmatch(item_id)
        if matched is None:
            raise _not_stored(item_id, position)
        of_response = positions[f"resp_{matched['request_id']}"]
        if of_response.setdefault(item_id, position) != position:
            raise InvalidField(_id_field(position), "an item before it refers to the same item")
    if len(positions) > MAX_REFERRED:
        raise InvalidField(
            "input",
            f"the items refer to more than {MAX_REFERRED} responses; send some of the items themselves",
        )
    return positions


def _is_reference(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "item_reference"


def _id_field(position: int) -> str:
    return f"input[{position}].id"


def _not_stored(item_id: str, position: int) -> InvalidField:
    quoted_id = shorten(repr(item_id), MAX_NAME)
    return InvalidField(_id_field(position), f"no item {quoted_id} is stored; send the item itself")
