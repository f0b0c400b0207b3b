"""The HTTP client of one vLLM server: it sends token ids, and reads token ids.

A request goes to `/v1/completions` and is streamed. Leaving the stream closes its connection, and the engine
frees what the request holds.
"""

import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any
from urllib.parse import urlsplit

import httpx
import msgspec
from msgspec import Meta

from runtime.errors import EngineBroke, EngineFault, EngineRefused, EngineUnreachable
from runtime.written_token import SampledToken

MAX_EVENT_BYTES = 16 * 2**20
"""Of one event of a stream; the first repeats the ids of the prompt."""
MAX_PROBE_BYTES = 16 * 2**20
"""Of an answer about the engine itself: its health, models and metrics."""
MAX_ERROR_CHARACTERS = 500
"""Of an engine's own words in our error messages."""
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
MAX_TOKENS = 1 << 16
"""Of one event, beside those of the prompt."""
_RUNNING = re.compile(r"^vllm:num_requests_running(?:\{[^}\n]*\})? ([0-9.e+]{1,20})$", re.MULTILINE)
_TOKEN_ID = re.compile(r"token_id:(\d{1,9})")


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where an engine listens and how it knows us; `ca_bundle` is a file of certificates that are trusted."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_bundle: str | None = None

    @property
    def name(self) -> str:
        """Host and port, and the path if there is one: what errors call the engine. It holds no password."""
        parts = urlsplit(self.url)
        return f"{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The longest times in seconds.

    Connections have no limit: a probe that waits behind streams for one would make a busy engine look dead.
    Whoever asks for completions bounds how many run.
    """

    connect_s: float = 5.0
    probe_s: float = 5.0


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model of an engine: its name there, and the longest prompt and output together, in tokens."""

    model_id: str
    context_length: int | None


@dataclass(frozen=True, slots=True)
class EngineChunk:
    """Some more tokens; `finish_reason` says why no others come. The first chunk may repeat the prompt.

    The last one may say how many tokens of the prompt were in the engine's cache.
    """

    tokens: tuple[SampledToken, ...] = ()
    finish_reason: str | None = None
    prompt_ids: tuple[int, ...] | None = None
    num_cached: int | None = None


class _Model(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


class _Logprobs(msgspec.Struct):
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] | None = None


class _Choice(msgspec.Struct):
    token_ids: Annotated[list[int], Meta(max_length=MAX_TOKENS)] | None = None
    prompt_token_ids: list[int] | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens_details: _PromptDetails | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


class VllmClient:
    """One vLLM server, whose connections are used again. Its errors name it.

    `reports_cached`: it was seen to tell at the end of an answer how much of a prompt it had in its cache.
    """

    def __init__(
        self,
        address: EngineAddress,
        limits: ClientLimits | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        limits = limits or ClientLimits()
        self.name = address.name
        self.reports_cached = False
        key = {"Authorization": f"Bearer {address.api_key}"} if address.api_key else {}
        verified = ssl.create_default_context(cafile=address.ca_bundle) if address.ca_bundle else True
        self._http = httpx.AsyncClient(
            base_url=address.url.rstrip("/").removesuffix("/v1"),
            # What is compressed may become a thousand times as large.
            headers={**address.headers, **key, "Accept-Encoding": "identity"},
            verify=verified,
            transport=transport,
            # Whoever reads a stream decides how long it waits for the next token.
            timeout=httpx.Timeout(limits.probe_s, connect=limits.connect_s),
            limits=httpx.Limits(keepalive_expiry=30),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def is_healthy(self) -> bool:
        """Whether the server says that its engine works.

        Raises:
            EngineBroke: it does not answer.
        """
        return (await self._get("/health")).is_success

    async def version(self) -> str:
        """The version of vLLM; empty if the server does not say."""
        with _of_engine(self.name):
            answer = await self._get("/version")
            found = answer.json() if answer.is_success else {}
            return str(found.get("version", ""))[:40] if isinstance(found, dict) else ""

    async def models(self) -> list[ServedModel]:
        """The models that it serves."""
        answer = await self._get("/v1/models")
        if not answer.is_success:
            raise _refusal(self.name, answer.status_code, answer.content)
        with _of_engine(self.name):
            found = msgspec.json.decode(answer.content, type=_Models)
            return [ServedModel(model.id, model.max_model_len) for model in found.data]

    async def num_running(self) -> int | None:
        """How many requests its metrics say that it computes now; None if it has no such metric."""
        answer = await self._get("/metrics")
        found = _RUNNING.findall(answer.text)
        return int(sum(map(float, found))) if answer.is_success and found else None

    @asynccontextmanager
    async def completion(
        self, body: Mapping[str, Any], headers: Mapping[str, str] = _NO_HEADERS
    ) -> AsyncIterator[AsyncIterator[EngineChunk]]:
        """The chunks of a completion, for which `headers` are sent too; leaving the block aborts it.

        Raises:
            EngineRefused: the engine refuses the request.
            EngineBroke: it fails, cannot be reached, or breaks off.
        """
        timeout = httpx.Timeout(None, connect=self._http.timeout.connect)
        content, headers = msgspec.json.encode(body), {**headers, "Content-Type": "application/json"}
        asked = self._http.build_request(
            "POST", "/v1/completions", content=content, headers=headers, timeout=timeout
        )
        with _of_engine(self.name):
            answer = await self._http.send(asked, stream=True)
        chunks = self._chunks(answer)
        try:
            if not answer.is_success:
                with _of_engine(self.name):
                    said = await _beginning(answer)
                raise _refusal(self.name, answer.status_code, said)
            yield chunks
        finally:
            await chunks.aclose()
            await answer.aclose()

    async def _chunks(self, answer: httpx.Response) -> AsyncGenerator[EngineChunk, None]:
        with _of_engine(self.name):
            async for data in _event_data(answer):
                if data == b"[DONE]":
                    return
                yield self._chunk(msgspec.json.decode(data, type=_Event))

    def _chunk(self, event: _Event) -> EngineChunk:
        if event.error is not None:
            raise EngineBroke(self.name, f"broke off: {_plain(event.error)}")
        if not event.choices:
            details = event.usage.prompt_tokens_details if event.usage else None
            num_cached = details.cached_tokens if details else None
            self.reports_cached |= num_cached is not None
            return EngineChunk(num_cached=num_cached)
        choice = event.choices[0]
        if choice.token_ids is None:
            raise EngineRefused(self.name, "sends no token ids; it needs a vLLM that knows return_token_ids")
        prompt_ids = choice.prompt_token_ids
        return EngineChunk(
            tuple(_tokens(choice.token_ids, choice.logprobs)),
            choice.finish_reason,
            None if prompt_ids is None else tuple(prompt_ids),
        )

    async def _get(self, path: str) -> httpx.Response:
        with _of_engine(self.name):
            async with self._http.stream("GET", path) as answer:
                content = bytearray()
                async for received in answer.aiter_raw():
                    content += received
                    if len(content) > MAX_PROBE_BYTES:
                        raise ValueError(f"{path} has more than {MAX_PROBE_BYTES} bytes")
            return httpx.Response(answer.status_code, content=bytes(content))


def _tokens(ids: list[int], logprobs: _Logprobs | None) -> list[SampledToken]:
    if logprobs is None or len(logprobs.token_logprobs) != len(ids):
        return [SampledToken(token_id) for token_id in ids]
    tops = logprobs.top_logprobs or [None] * len(ids)
    return [
        SampledToken(token_id, value, _top(top))
        for token_id, value, top in zip(ids, logprobs.token_logprobs, tops, strict=False)
    ]


def _top(top: Mapping[str, float] | None) -> tuple[tuple[int, float], ...]:
    """The alternatives, by their ids; the engine is asked to write `token_id:5` for a token."""
    found = ((_TOKEN_ID.fullmatch(token), value) for token, value in (top or {}).items())
    return tuple((int(matched[1]), value) for matched, value in found if matched)


async def _event_data(answer: httpx.Response) -> AsyncIterator[bytes]:
    """The data of each server-sent event: vLLM writes each as one line."""
    line = bytearray()
    async for received in answer.aiter_raw():
        *ends, beginning = received.split(b"\n")
        for end in ends:
            line += end
            if line.startswith(b"data:"):
                yield bytes(line[5:]).strip()
            line.clear()
        line += beginning
        if len(line) > MAX_EVENT_BYTES:
            raise ValueError(f"an event of more than {MAX_EVENT_BYTES} bytes")


async def _beginning(answer: httpx.Response) -> bytes:
    """The beginning of an error's body."""
    found = b""
    async for received in answer.aiter_raw():
        found += received
        if len(found) > 4 * MAX_ERROR_CHARACTERS:
            break
    return found


def _refusal(name: str, status: int, content: bytes) -> EngineFault:
    """The error of an answer that is none."""
    try:
        said: Any = msgspec.json.decode(content)
    except msgspec.DecodeError:
        said = content.decode(errors="replace")
    reason = f"{_plain(said)} (HTTP {status})"
    if status in {408, 429} or status >= 500:
        return EngineBroke(name, f"cannot answer now: {reason}")
    if status in {401, 403}:
        return EngineBroke(name, f"does not accept the gateway's credentials: {reason}")
    return EngineRefused(name, f"refuses the request: {reason}")


def _plain(said: Any) -> str:
    """The message in an error of vLLM, cut to a length that fits into ours."""
    while isinstance(said, dict):
        said = said.get("error") or said.get("message") or said.get("detail") or "it gives no reason"
    text = " ".join(str(said).split())
    return text if len(text) <= MAX_ERROR_CHARACTERS else f"{text[:MAX_ERROR_CHARACTERS]} …"


class _of_engine:  # noqa: N801 - used as a function
    """Turns the errors of a connection, and of what comes over it, into `EngineBroke`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        """Nothing is needed."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        match error:
            case httpx.ConnectError() | httpx.ConnectTimeout():
                raise EngineUnreachable(self._name, f"cannot be reached: {error}") from error
            case httpx.TimeoutException():
                reason = "does not answer in time"
            case httpx.HTTPError():
                reason = f"broke off: {str(error) or type(error).__name__}"
            case msgspec.MsgspecError() | ValueError() | KeyError() | TypeError() | RecursionError():
                reason = f"answers what vLLM would not: {error}"
            case _:
                return
        raise EngineBroke(self._name, reason) from error
