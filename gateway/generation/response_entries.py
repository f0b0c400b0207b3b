"""Entries of stored responses: a response and the whole input that it answered, compressed."""

from dataclasses import dataclass

import msgspec

from toolspecs.errors import TooManyValues
from toolspecs.json_scan import ContentLimits, scan
from toolspecs.json_value import JSON
from toolspecs.resolved_types import resolved
from toolspecs.revisions.toolset_contents import compress, decompress

MAX_ENTRY_BYTES = 4 << 20
"""The largest entry, uncompressed; a longer conversation is not stored. Decoding stops the event loop."""

UNREADABLE = (ValueError, msgspec.MsgspecError, TooManyValues)
"""What reading an entry raises if it is damaged, or larger than the limits allow today."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response as it was sent, and the items of the whole input before it."""

    response: JSON
    items: list[JSON]

    @property
    def conversation(self) -> list[JSON]:
        """The input, then the output."""
        return [*self.items, *self.response["output"]]


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


def pack(response: JSON, items: list[JSON], limits: ContentLimits) -> bytes | None:
    """The bytes of an entry; None if it is too long or has too many values."""
    content = msgspec.json.encode({"response": response, "items": items})
    if len(content) > MAX_ENTRY_BYTES:
        return None
    try:
        scan(content, limits)
    except TooManyValues:
        return None
    return compress(content)


def unpack(content: bytes, limits: ContentLimits) -> StoredResponse:
    """The response and the items of an entry; raises `UNREADABLE`."""
    entry = msgspec.json.decode(_scanned(content, limits), type=resolved(_Entry))
    msgspec.convert(entry.response, type=resolved(_ResponseFields))
    return StoredResponse(entry.response, entry.items)


def unpack_json(content: bytes, limits: ContentLimits) -> bytes:
    """The JSON of an entry's response; raises `UNREADABLE`."""
    response = bytes(msgspec.json.decode(_scanned(content, limits), type=resolved(_RawEntry)).response)
    msgspec.json.decode(response, type=resolved(_ResponseFields))
    return response


def unpack_output(content: bytes, limits: ContentLimits) -> list[JSON]:
    """The items of the output of an entry's response; raises `UNREADABLE`."""
    output = msgspec.json.decode(_scanned(content, limits), type=resolved(_OutputEntry)).response.output
    msgspec.convert(output, type=resolved(list[_OutputItem]))
    return output


def _scanned(content: bytes, limits: ContentLimits) -> bytes:
    """The JSON of an entry; raises ValueError, and TooManyValues for a large entry of an earlier version."""
    entry = decompress(content, MAX_ENTRY_BYTES)
    scan(entry, limits)
    return entry
