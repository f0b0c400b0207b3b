"""Reads the events that an engine streams: none larger than its request explains, and others have turns."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import httpx

from runtime.engines.completion_request import CompletionRequest
from toolspecs.errors import TooManyValues
from toolspecs.json_scan import ContentLimits, scan

T = TypeVar("T")

_USUAL_EVENT = 2_000
"""Bytes of an event from which it is measured before it is decoded."""
LONG_BYTES = 64_000
"""Bytes of an answer from which a thread measures and decodes it."""
_BYTES_A_TURN, _LINES_A_TURN, _PIECES_A_TURN = 8_000, 64, 64
"""What is read of a stream before others have a turn."""
PIECE_BYTES = 16
"""Bytes that pieces must have on average, after the first `FREE_PIECES`: each takes microseconds to parse."""
FREE_PIECES = 1024
_TOKENS_TOGETHER = 1_024
"""The most tokens with log probabilities in one event."""
_VALUES_OF_CHOICE = 16
"""What an event says of one token that was or might have been sampled: its text and bytes too."""
_TOKENS_OF_IMAGE = 16_384
"""An engine may repeat a prompt with the tokens that an image takes."""
_OTHER_VALUES = 10_000
_LONG_NUMBERS = 1_000
"""Log probabilities near zero have many digits; a thousand of the slowest numbers take ten milliseconds."""


@dataclass(frozen=True, slots=True)
class EventLimits:
    """The most that one event may contain, and the most bytes of it."""

    contents: ContentLimits
    num_bytes: int

    @classmethod
    def of(cls, request: CompletionRequest) -> "EventLimits":
        """The limits of what answers a request: an event may repeat the prompt, and all that was written."""
        num_choices = 1 + (request.num_logprobs or 0)
        num_values = (
            len(request.prompt_ids)
            + request.max_tokens
            + _TOKENS_TOGETHER * _VALUES_OF_CHOICE * num_choices
            + _TOKENS_OF_IMAGE * len(request.images)
            + _OTHER_VALUES
        )
        num_long = _LONG_NUMBERS + _LONG_NUMBERS // 4 * num_choices
        contents = ContentLimits(num_values=num_values, depth=100, num_long_numbers=num_long)
        return cls(contents, num_bytes=2**20 + 32 * num_values)


async def read_pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    """The content of an answer as it comes, with turns for others.

    Raises:
        ValueError: it comes in tiny pieces. Engines send an event or more in each.
    """
    num_pieces = num_bytes = 0
    async for piece in answer.aiter_raw():
        num_pieces, num_bytes = num_pieces + 1, num_bytes + len(piece)
        if num_pieces > FREE_PIECES + num_bytes / PIECE_BYTES:
            raise ValueError(f"it comes in chunks of less than {PIECE_BYTES} bytes on average")
        yield piece
        if num_pieces % _PIECES_A_TURN == 0:
            await asyncio.sleep(0)


async def event_data(answer: httpx.Response, limits: EventLimits) -> AsyncIterator[list[bytes]]:
    """The data of server-sent events: of those that come together, at once. Engines write each as one line.

    It reads to the end, after `[DONE]` too: only then can the connection be used again.

    Raises:
        ValueError, TooManyValues: an event exceeds the limits, or the answer comes in tiny pieces.
    """
    line = bytearray()
    num_bytes = num_lines = 0
    async for received in read_pieces(answer):
        *ends, beginning = received.split(b"\n")
        events: list[bytes] = []
        for end in ends:
            line += end
            num_bytes, num_lines = num_bytes + len(line), num_lines + 1
            if line.startswith(b"data:") and (data := bytes(line[5:]).strip()) != b"[DONE]":
                try:
                    await _measure(data, limits)
                except TooManyValues:
                    yield events
                    raise
                events.append(data)
            line.clear()
            if num_bytes > _BYTES_A_TURN or num_lines >= _LINES_A_TURN:
                if events:
                    yield events
                events, num_bytes, num_lines = [], 0, 0
                await asyncio.sleep(0)
        if events:
            yield events
        line += beginning
        if len(line) > limits.num_bytes:
            raise ValueError(f"an event of more than {limits.num_bytes} bytes")


async def read_in_turn(received: list[bytes], read: Callable[[list[bytes]], Iterator[T]]) -> AsyncIterator[T]:
    """What `read` makes of the data of events; a thread makes it of long ones.

    If it fails, what it had made before comes first.
    """
    if sum(map(len, received)) <= LONG_BYTES:
        for item in read(received):
            yield item
        return
    items: list[T] = []
    try:
        await asyncio.to_thread(lambda: items.extend(read(received)))
    except Exception:
        for item in items:
            yield item
        raise
    for item in items:
        yield item


async def _measure(data: bytes, limits: EventLimits) -> None:
    """Refuse an event that would stop the event loop for long; raises TooManyValues."""
    if len(data) > LONG_BYTES:
        await asyncio.to_thread(scan, data, limits.contents)
    elif len(data) > _USUAL_EVENT:
        scan(data, limits.contents)
