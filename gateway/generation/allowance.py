"""A request's allowance: what it takes of its key's limits per minute, from admission to settling."""

import asyncio
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send

from gateway.access.grants import Grant, grant_of
from gateway.access.rate_limits import LimitKind, RateLimits, Reservation
from gateway.access.route_scopes import OPEN, scopes_of
from gateway.errors import RateLimited
from gateway.generation.generation import Observer
from gateway.http.headers import with_headers
from gateway.http.problems import send_error
from runtime.errors import DeadlineExceeded, GrammarTooSlow, RequestRefused
from runtime.events import ArgumentsDelta, Event, Finished, GenerationStats, TextDelta, ThoughtDelta
from runtime.request import GenerationRequest

ALLOWANCE = "callgate.allowance"
"""Where the scope of a request of a limited key holds its allowance."""

EXPECTED_ANSWER = 512
"""Tokens that are reserved for an answer whose request sets no budget."""

PIXELS_PER_TOKEN = 750
"""Pixels of an image that count as a token. Models take 600 to 1,000; engines do not say how many."""


class AllowanceMiddleware(ASGIMiddleware):
    """Counts the requests of keys with limits, and adds headers with what is left to each answer."""

    scopes = (ScopeType.HTTP, ScopeType.ASGI)

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Pass the request on, or answer it."""
        grant = grant_of(scope)
        is_open = scopes_of(scope["route_handler"]) is OPEN
        if is_open or grant is None or not grant.has_limits:
            await next_app(scope, receive, send)
            return
        allowance = Allowance(self._limits, grant)
        scope[ALLOWANCE] = allowance  # type: ignore[literal-required]
        send_with_headers = with_headers(send, allowance.headers)
        try:
            await allowance.count_request()
        except RateLimited as error:
            await send_error(scope, receive, send_with_headers, error)
        else:
            await next_app(scope, receive, send_with_headers)


@dataclass
class Allowance:
    """What one request may use of its key's limits."""

    limits: RateLimits
    grant: Grant
    states: dict[LimitKind, Reservation | RateLimited] = field(default_factory=dict)
    """What was reserved of each limit, or why nothing was."""

    async def count_request(self) -> None:
        """Count the request. Raises RateLimited."""
        if self.grant.requests_per_minute is not None:
            await self._reserve(LimitKind.REQUESTS, 1, self.grant.requests_per_minute)

    async def reserve_tokens(self, num_tokens: int) -> Reservation | None:
        """Reserve tokens for an answer; None if tokens are not limited. Raises RateLimited."""
        if self.grant.tokens_per_minute is None:
            return None
        return await self._reserve(LimitKind.TOKENS, num_tokens, self.grant.tokens_per_minute)

    async def _reserve(self, kind: LimitKind, amount: int, limit: int) -> Reservation:
        try:
            reservation = await self.limits.reserve(f"{self.grant.key_id}/{kind}", kind, amount, limit)
        except RateLimited as error:
            self.states[kind] = error
            raise
        self.states[kind] = reservation
        return reservation

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers that say what is left, as OpenAI sends them."""
        return [header for kind, state in self.states.items() for header in _headers(kind, state)]


def allowance_of(scope: Mapping[str, Any]) -> Allowance | None:
    """The allowance of a request; None if its key has no limits."""
    allowance: Allowance | None = scope.get(ALLOWANCE)
    return allowance


@contextmanager
def metered(
    allowance: Allowance | None,
    reservation: Reservation | None,
    observer: Observer,
    expected: "ExpectedTokens",
    num_choices: int,
) -> Iterator[Observer]:
    """Settle a reservation when the answer that the block begins has ended.

    An answer that is refused costs nothing. One that fails before its first event costs the prompt, if that
    was rendered. If an answer breaks off or its client leaves, nobody knows how much was computed.
    It then costs what was reserved, or the tokens seen so far if these are more.
    """
    if allowance is None or reservation is None:
        yield observer
        return
    metered_observer = _Metered(observer, allowance.limits, reservation, expected, num_choices)
    try:
        yield metered_observer
    except (asyncio.CancelledError, DeadlineExceeded):
        allowance.limits.settle(reservation, max(reservation.amount, metered_observer.num_prompt or 0))
        raise
    except BaseException as error:
        # A grammar that is too slow is refused late.
        is_refused = isinstance(error, RequestRefused) and not isinstance(error, GrammarTooSlow)
        allowance.limits.settle(reservation, 0 if is_refused else metered_observer.num_prompt or 0)
        raise


@dataclass
class _Metered:
    """An observer that passes everything on to another one, and settles the reservation at the end."""

    observer: Observer
    limits: RateLimits
    reservation: Reservation
    expected: "ExpectedTokens"
    num_choices: int
    finished: list[Finished] = field(default_factory=list)
    num_rendered: int | None = None
    """Tokens of the rendered prompt; None if the runtime has not told."""
    num_pieces: int = 0
    """Pieces of text and arguments that came; each is at least one token."""

    @property
    def num_prompt(self) -> int | None:
        """Tokens of the prompt and its images; None if the runtime has not told."""
        return None if self.num_rendered is None else self.num_rendered + self.expected.images

    def prompt_rendered(self, num_tokens: int) -> None:
        """See `Observer`."""
        self.num_rendered = num_tokens
        self.observer.prompt_rendered(num_tokens)

    def began(self) -> None:
        """See `Observer`."""
        self.observer.began()

    def observed(self, event: Event) -> None:
        """See `Observer`."""
        if isinstance(event, Finished):
            self.finished.append(event)
        elif isinstance(event, TextDelta | ThoughtDelta | ArgumentsDelta):
            self.num_pieces += 1
        self.observer.observed(event)

    def ended(self, error: BaseException | None) -> None:
        """See `Observer`; a generation ends once."""
        if len(self.finished) == self.num_choices:
            stats = [finished.stats for finished in self.finished]
            num_prompt = max(finished.num_prompt_tokens for finished in stats) + self.expected.images
            self.limits.settle(self.reservation, num_prompt + sum(map(_num_written, stats)))
        else:
            num_prompt = self.num_prompt or self.expected.prompt + self.expected.images
            self.limits.settle(self.reservation, max(self.reservation.amount, num_prompt + self.num_pieces))
        self.observer.ended(error)


def _num_written(stats: GenerationStats) -> int:
    """The tokens that were written for a choice, including those of drafts that were not selected."""
    return max(stats.num_output_tokens, stats.selection.num_written_tokens if stats.selection else 0)


@dataclass(frozen=True, slots=True)
class ExpectedTokens:
    """An estimate of the tokens of a prompt, of its images, and of all its answers."""

    prompt: int
    answers: int
    images: int

    @property
    def total(self) -> int:
        """The sum of all."""
        return self.prompt + self.images + self.answers


def expected_tokens(request: GenerationRequest, context_length: int) -> ExpectedTokens:
    """About how many tokens a request will cost: its prompt at four characters a token, and its budgets.

    Each answer that the request itself wants drawn counts, as its client can ask for fewer. If a setting
    selects, one counts: the client has not asked for more, and `accept`, which is the default, computes a
    tenth more tokens than one answer has (docs/benchmarks.md). At worst, it writes `MAX_BUDGETS + 1` budgets
    (`runtime.decoding.members`). What is written beyond the reservation counts when the answer ends, so later
    requests of that minute have less.
    """
    text = request.prompt if isinstance(request.prompt, str) else ""
    num_ids = 0 if isinstance(request.prompt, str | None) else len(request.prompt)
    characters = len(text) + sum(tool.num_bytes for tool in request.tools)
    characters += sum(message.num_characters for message in request.messages)
    budget = EXPECTED_ANSWER if request.max_tokens is None else request.max_tokens
    prompt = min(num_ids + characters // 4, context_length)
    num_answers = request.num_choices * request.num_answers_per_choice
    images = sum(-(-image.num_pixels // PIXELS_PER_TOKEN) for image in request.images)
    return ExpectedTokens(prompt, min(budget, context_length) * num_answers, images)


def _headers(kind: LimitKind, state: Reservation | RateLimited) -> Iterable[tuple[bytes, bytes]]:
    values = {"limit": state.limit, "remaining": state.remaining, "reset": _duration(state.reset_s)}
    return [(f"x-ratelimit-{name}-{kind}".encode(), str(value).encode()) for name, value in values.items()]


def _duration(seconds: float) -> str:
    """A duration as OpenAI writes it.

    >>> _duration(4.2), _duration(64.9)
    ('5s', '1m5s')
    """
    minutes, rest = divmod(max(0, math.ceil(seconds)), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
