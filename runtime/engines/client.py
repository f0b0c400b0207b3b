"""What the clients of all engines share: the address of an engine, requests to it, and its answers.

An answer is streamed. Leaving the stream closes its connection, and the engine frees what the request holds.
"""

import asyncio
import re
import reprlib
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from types import MappingProxyType
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from runtime.engines.completion_request import CompletionRequest
from runtime.engines.engine_transport import engine_transport
from runtime.engines.event_stream import LONG_BYTES, EventLimits, event_data, read_in_turn, read_pieces
from runtime.errors import EngineBroke, EngineFault, EngineFull, EngineRefused, EngineUnreachable
from runtime.written_token import SampledToken
from toolspecs.errors import TooManyValues
from toolspecs.json_scan import ContentLimits, scan
from toolspecs.nearest import shorten
from toolspecs.resolved_types import resolved

MAX_PROBE_BYTES = 16 * 2**20
"""The largest answer about the engine itself: its health, models and metrics."""
_MAX_JSON_BYTES = 4 * 2**20
"""The largest of these that is JSON."""
_PROBE_LIMITS = ContentLimits(num_values=100_000, depth=100, num_long_numbers=1_000)
MAX_ERROR_CHARACTERS = 500
"""How much of an engine's own message our error messages quote."""
_MAX_ERROR_BYTES = 16 * MAX_ERROR_CHARACTERS
_SHORT = reprlib.Repr()
"""Writes the beginning of an engine's message that is no text."""
_SHORT.maxstring = _SHORT.maxother = MAX_ERROR_CHARACTERS
FULL = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
"""Statuses of engines without room, and of proxies that limit rates. vLLM and SGLang say 503, in a stream."""
MAX_RETRY_AFTER_S = 60
MAX_IDLE_S = 2.0
"""How long a connection waits to be used again. vLLM closes it after 5 s, perhaps just as it is used."""
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
MAX_TOKENS = 1 << 16
"""The most tokens in one event, besides those of the prompt."""
ModelId = Annotated[str, msgspec.Meta(max_length=1_000)]
"""A model's name at an engine, which each request to it repeats."""
MAX_ALTERNATIVES = 64
"""The most alternatives of a token; requests ask for twenty at most."""


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where an engine listens, the key to send to it, and a file of certificates to trust (`ca_bundle`)."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_bundle: str | None = None

    @property
    def name(self) -> str:
        """Host, port and path, without a password: how errors name the engine."""
        parts = urlsplit(self.url)
        return f"{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The longest times in seconds. An answer to a probe has both together, at whatever pace it comes.

    The number of connections has no limit: a probe that waited for a connection behind streams would make a
    busy engine look dead. The caller bounds how many completions run.
    """

    connect_s: float = 5.0
    probe_s: float = 5.0


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model of an engine: its name there, and the longest prompt and output together, in tokens."""

    model_id: str
    context_length: int | None

    @classmethod
    def told(cls, model_id: str, context_length: int | None) -> "ServedModel":
        """A model as an engine tells of it: a context that cannot be is unknown."""
        is_possible = context_length is not None and context_length > 0
        return cls(model_id, context_length if is_possible else None)


@dataclass(frozen=True, slots=True)
class EngineChunk:
    """More tokens of an answer."""

    tokens: tuple[SampledToken, ...] = ()
    finish_reason: str | None = None
    """Why the answer ended; None if it goes on."""
    prompt_ids: tuple[int, ...] | None = None
    """The prompt, which the first chunk may repeat."""
    num_cached: int | None = None
    """How many tokens of the prompt were in the engine's cache, which the last chunk may say."""

    def followed_by(self, chunk: "EngineChunk") -> "EngineChunk":
        """Both as one."""
        return EngineChunk(
            self.tokens + chunk.tokens,
            chunk.finish_reason or self.finish_reason,
            chunk.prompt_ids if self.prompt_ids is None else self.prompt_ids,
            self.num_cached if chunk.num_cached is None else chunk.num_cached,
        )


ChunkReader = Callable[[list[bytes]], Iterable[EngineChunk]]
"""Reads the chunks in the data of events that came together."""


def _joined(chunks: Iterable[EngineChunk]) -> Iterator[EngineChunk]:
    """Chunks that came together as one, so that their tokens are verified and sent at once.

    If reading a chunk fails, the chunks before it come first.
    """
    whole = EngineChunk()
    try:
        for chunk in chunks:
            whole = whole.followed_by(chunk)
    except Exception:
        yield whole
        raise
    yield whole


_Answer = TypeVar("_Answer")
_UNREADABLE = (msgspec.MsgspecError, TooManyValues, ValueError, KeyError, TypeError, RecursionError)


class EngineConnection:
    """HTTP to one server, with reused connections. Its errors name the server."""

    def __init__(
        self,
        address: EngineAddress,
        limits: ClientLimits | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        limits = limits or ClientLimits()
        self.name = address.name
        self._whole_probe_s = limits.connect_s + limits.probe_s
        key = {"Authorization": f"Bearer {address.api_key}"} if address.api_key else {}
        verified = ssl.create_default_context(cafile=address.ca_bundle) if address.ca_bundle else True
        pooled = httpx.Limits(keepalive_expiry=MAX_IDLE_S)
        self._http = httpx.AsyncClient(
            base_url=address.url.rstrip("/").removesuffix("/v1"),
            # Compressed data may become a thousand times as large.
            headers={**address.headers, **key, "Accept-Encoding": "identity"},
            cookies=_NoCookies(),
            verify=verified,
            transport=transport or engine_transport(verify=verified, limits=pooled),
            # The reader of a stream decides how long to wait for the next token.
            timeout=httpx.Timeout(limits.probe_s, connect=limits.connect_s),
            limits=pooled,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def get(self, path: str) -> httpx.Response:
        """An answer about the engine itself."""
        with self.reading():
            async with asyncio.timeout(self._whole_probe_s), self._http.stream("GET", path) as answer:
                content = bytearray()
                async for received in read_pieces(answer):
                    content += received
                    if len(content) > MAX_PROBE_BYTES:
                        raise ValueError(f"{path} has more than {MAX_PROBE_BYTES} bytes")
            return httpx.Response(answer.status_code, content=bytes(content))

    async def get_json(self, path: str, kind: type[_Answer]) -> _Answer:
        """An answer about the engine itself, read as `kind`; its status must be a success."""
        answer = await self.get(path)
        if not answer.is_success:
            raise _refusal(self.name, answer, answer.content)
        return await self.decoded(answer, kind)

    async def decoded(self, answer: httpx.Response, kind: type[_Answer]) -> _Answer:
        """An answer about the engine itself, read as `kind`; raises EngineBroke."""
        with self.reading():
            if len(answer.content) > _MAX_JSON_BYTES:
                raise ValueError(f"it has more than {_MAX_JSON_BYTES} bytes")
            if len(answer.content) > LONG_BYTES:
                await asyncio.to_thread(scan, answer.content, _PROBE_LIMITS)
            else:
                scan(answer.content, _PROBE_LIMITS)
            return msgspec.json.decode(answer.content, type=resolved(kind))

    @asynccontextmanager
    async def events(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str], limits: EventLimits
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """The data of the events of a streamed answer, as `event_data`.

        Raises:
            EngineRefused: the engine refuses the request.
            EngineFull: it has no room for it now.
            EngineBroke: it fails or cannot be reached.
        """
        timeout = httpx.Timeout(None, connect=self._http.timeout.connect)
        content, headers = msgspec.json.encode(body), {**headers, "Content-Type": "application/json"}
        with self.reading():
            request = self._http.build_request(
                "POST", path, content=content, headers=headers, timeout=timeout
            )
            answer = await self._http.send(request, stream=True)
        try:
            if not answer.is_success:
                with self.reading():
                    beginning = await _beginning(answer)
                raise _refusal(self.name, answer, beginning)
            yield event_data(answer, limits)
        finally:
            await answer.aclose()

    def reading(self) -> "_Reading":
        """Inside the block, errors of the connection and of its data become EngineBroke."""
        return _Reading(self.name)


class _Model(msgspec.Struct):
    id: ModelId
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


class EngineClient(ABC):
    """One server of an engine. Errors name it."""

    repeats_prompts: bool
    """Whether its first chunk has the ids of the prompt."""
    has_unmasked_logprobs: bool
    """Whether its log probabilities are those from before the mask, so that they tell the first choice."""
    leaves_at_end = False
    """Whether its connections are closed with the last chunk, and not used again."""

    def __init__(
        self,
        address: EngineAddress,
        limits: ClientLimits | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.name = address.name
        self.reports_cached = False
        """Whether it has said at the end of an answer how much of the prompt was in its cache."""
        self._connection = EngineConnection(address, limits, transport=transport)

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def is_healthy(self) -> bool:
        """Whether the server says that its engine works; raises EngineBroke if it does not answer.

        A proxy that limits rates says nothing about the engine.
        """
        answer = await self._connection.get("/health")
        return answer.is_success or answer.status_code == httpx.codes.TOO_MANY_REQUESTS

    @abstractmethod
    async def version(self) -> str:
        """The version of the engine; empty if the server does not say."""

    async def models(self) -> list[ServedModel]:
        """The models that it serves, as vLLM and SGLang list them."""
        answer = await self._connection.get_json("/v1/models", _Models)
        return [ServedModel.told(model.id, model.max_model_len) for model in answer.data]

    @abstractmethod
    async def num_running(self) -> int | None:
        """The number of requests that the engine says it is computing; None if it does not say."""

    @asynccontextmanager
    async def completion(
        self, request: CompletionRequest, headers: Mapping[str, str] = NO_HEADERS
    ) -> AsyncIterator[AsyncIterator[EngineChunk]]:
        """The chunks of a completion; `headers` are sent with the request, and leaving the block aborts it.

        Raises:
            EngineRefused: the engine refuses the request.
            RequestRefused: it refuses a field of the client's request.
            EngineFull: it has no room for it now.
            EngineBroke: it fails, cannot be reached, or breaks off.
        """
        path, body = self._path_and_body(request)
        limits, read = EventLimits.of(request), self._reader(request)
        async with (
            self._connection.events(path, body, headers, limits) as events,
            aclosing(self._chunks(events, read)) as chunks,
        ):
            yield chunks

    @abstractmethod
    def _path_and_body(self, request: CompletionRequest) -> tuple[str, dict[str, Any]]:
        """How the engine is asked; raises RequestRefused if it cannot do what a client asks for."""

    @abstractmethod
    def _reader(self, request: CompletionRequest) -> ChunkReader:
        """What reads the events of one answer."""

    async def _chunks(
        self, events: AsyncIterator[list[bytes]], read: ChunkReader
    ) -> AsyncGenerator[EngineChunk, None]:
        with self._connection.reading():
            async for received in events:
                async for chunk in read_in_turn(received, lambda data: _joined(read(data))):
                    yield chunk
                    if self.leaves_at_end and chunk.finish_reason is not None:
                        return

    def _fault(self, error: Any) -> EngineBroke | EngineRefused:
        """What an engine tells inside a stream: the request was bad, or had no room, or the engine broke off.

        A grammar that an engine could not load is no bad request: it may be published again.
        """
        reason, code = engine_message(error), error.get("code") if isinstance(error, dict) else None
        if code in FULL:
            return EngineFull(self.name, f"has no room for the request: {reason}")
        if code == httpx.codes.BAD_REQUEST and "grammar" not in reason.lower():
            return EngineRefused(self.name, f"refuses the request: {reason}")
        return EngineBroke(self.name, f"broke off: {reason}")


async def _beginning(answer: httpx.Response) -> bytes:
    """The beginning of an error's body."""
    beginning = b""
    async for received in read_pieces(answer):
        beginning += received
        if len(beginning) > _MAX_ERROR_BYTES:
            break
    return beginning


class _NoCookies(CookieJar):
    """Takes no cookies, so that what one answer sets is not sent with requests of other clients."""

    def extract_cookies(self, response: object, request: object) -> None:
        """Take none."""


def _refusal(name: str, answer: httpx.Response, content: bytes) -> EngineFault:
    """The error for an answer with an error status; of a long one, its beginning is told as text."""
    status = answer.status_code
    error: Any = content[:_MAX_ERROR_BYTES].decode(errors="replace")
    if len(content) <= _MAX_ERROR_BYTES:
        with suppress(msgspec.DecodeError, RecursionError):
            error = msgspec.json.decode(content)
    reason = f"{engine_message(error)} (HTTP {status})"
    if status in FULL:
        return EngineFull(name, f"has no room for the request: {reason}", _retry_after_s(answer.headers))
    if status == httpx.codes.REQUEST_TIMEOUT or status >= 500:
        return EngineBroke(name, f"cannot answer now: {reason}")
    if status in {401, 403}:
        return EngineBroke(name, f"does not accept the gateway's credentials: {reason}")
    return EngineRefused(name, f"refuses the request: {reason}")


def _retry_after_s(headers: Mapping[str, str]) -> float:
    """When to try again: as the engine says in seconds, if that is soon enough to say to a client."""
    told = headers.get("Retry-After", "")
    return float(min(max(1, int(told)), MAX_RETRY_AFTER_S)) if re.fullmatch(r"\d{1,9}", told) else 1.0


def engine_message(error: Any) -> str:
    """The message in an engine's error, shortened so that it fits into our own message."""
    while isinstance(error, dict):
        error = error.get("error") or error.get("message") or error.get("detail") or "it gives no reason"
    text = error[:_MAX_ERROR_BYTES] if isinstance(error, str) else _SHORT.repr(error)
    return shorten(" ".join(text.split()), MAX_ERROR_CHARACTERS)


class _Reading:
    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        match error:
            case httpx.ConnectError() | httpx.ConnectTimeout():
                raise EngineUnreachable(self._name, f"cannot be reached: {error}") from error
            case httpx.TimeoutException() | TimeoutError():
                reason = "does not answer in time"
            case httpx.HTTPError():
                reason = f"broke off: {str(error) or type(error).__name__}"
            case _ if isinstance(error, _UNREADABLE):
                reason = f"gives an answer that cannot be read: {error}"
            case _:
                return
        raise EngineBroke(self._name, reason) from error
