"""The client of one vLLM server: it sends token ids to `/v1/completions`, and reads token ids.

That route takes no images. Requests with images go to `/inference/v1/generate`, which takes token ids as
well; the engine puts each image at its placeholder in the prompt.

A vLLM that speculates refuses `logit_bias` and `min_p`. So a bias is sent only where a client asks for one,
and that client is told which field of its request was refused.
"""

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import islice
from typing import Annotated, Any

import httpx
import msgspec
from msgspec import Meta

from compiler.vocabulary import Vocabulary
from runtime.engines.client import (
    MAX_ALTERNATIVES,
    MAX_TOKENS,
    NO_HEADERS,
    ChunkReader,
    ClientLimits,
    EngineAddress,
    EngineChunk,
    EngineClient,
)
from runtime.engines.completion_request import CompletionRequest
from runtime.errors import EngineRefused, RequestRefused
from runtime.written_token import SampledToken
from toolspecs.resolved_types import resolved

_RUNNING = re.compile(
    rb"\nvllm:num_requests_running(?:\{[^}\n]{0,1000}+\})? (\d{1,15}(?:\.\d{1,15})?(?:e\+\d\d)?)$",
    re.MULTILINE,
)
"""A line of the metrics. It begins with a constant text, for which Python searches quickly."""
_MAX_COUNTS = 256
"""The most engines of one server whose counts are added up."""
_SPECULATION = "speculative decoding"
"""What a vLLM that speculates says of the fields that it refuses for that reason."""
_TOKEN_ID = re.compile(r"token_id:(\d{1,9})")


class _Alternative(msgspec.Struct):
    token_id: int
    logprob: float


class _Logprob(_Alternative):
    top_logprobs: Annotated[list[_Alternative], Meta(max_length=MAX_ALTERNATIVES)] = []


_Top = Annotated[dict[str, float], Meta(max_length=MAX_ALTERNATIVES)]


class _Logprobs(msgspec.Struct):
    """The log probabilities of completions, or, as `content`, of the other route."""

    token_logprobs: list[float | None] = []
    top_logprobs: list[_Top | None] | None = None
    content: list[_Logprob] | None = None


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
    """An event of either route: one repeats the prompt in its choices, the other beside them."""

    choices: list[_Choice] = []
    prompt_token_ids: list[int] | None = None
    usage: _Usage | None = None
    error: Any = None


class _Version(msgspec.Struct):
    version: str = ""


class VllmClient(EngineClient):
    """One vLLM server.

    `vocabulary` is that of an engine without the plugin. If it was sent the grammar of a part, it ends the
    part with a stop token, although the output continues: that token does not belong to the answer.
    """

    repeats_prompts = True
    has_unmasked_logprobs = False  # vLLM masks logits in place, before it computes log probabilities

    def __init__(
        self,
        address: EngineAddress,
        limits: ClientLimits | None = None,
        *,
        vocabulary: Vocabulary | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(address, limits, transport=transport)
        self._vocabulary = vocabulary
        self._ending_ids = frozenset(vocabulary.stop_ids if vocabulary else ())

    async def version(self) -> str:
        """The version of vLLM; empty if the server does not say."""
        answer = await self._connection.get("/version")
        return (await self._connection.decoded(answer, _Version)).version[:40] if answer.is_success else ""

    async def num_running(self) -> int | None:
        """The number of running requests, by its metrics; None if it has no such metric."""
        answer = await self._connection.get("/metrics")
        lines = _RUNNING.finditer(b"\n" + answer.content)
        counts = [float(found[1]) for found in islice(lines, _MAX_COUNTS)]
        return int(sum(counts)) if answer.is_success and counts else None

    @asynccontextmanager
    async def completion(
        self, request: CompletionRequest, headers: Mapping[str, str] = NO_HEADERS
    ) -> AsyncIterator[AsyncIterator[EngineChunk]]:
        """The chunks of a completion; see `EngineClient`."""
        async with _telling_speculation(request), super().completion(request, headers) as chunks:
            yield chunks

    def _path_and_body(self, request: CompletionRequest) -> tuple[str, dict[str, Any]]:
        if request.images:
            return "/inference/v1/generate", generate_body(request, self._vocabulary)
        return "/v1/completions", completion_body(request, self._vocabulary)

    def _reader(self, request: CompletionRequest) -> ChunkReader:  # noqa: ARG002 - all answers are read alike
        return partial(map, self._chunk)

    def _chunk(self, data: bytes) -> EngineChunk:
        event = msgspec.json.decode(data, type=resolved(_Event))
        if event.error is not None:
            raise self._fault(event.error)
        if not event.choices:
            details = event.usage.prompt_tokens_details if event.usage else None
            num_cached = details.cached_tokens if details else None
            self.reports_cached |= num_cached is not None
            return EngineChunk(num_cached=num_cached)
        choice = event.choices[0]
        if choice.token_ids is None:
            raise EngineRefused(self.name, "sends no token ids; it needs a vLLM that knows return_token_ids")
        prompt_ids = choice.prompt_token_ids or event.prompt_token_ids
        tokens = _tokens(choice.token_ids, choice.logprobs)
        if choice.finish_reason == "stop" and tokens and tokens[-1].token_id in self._ending_ids:
            tokens.pop()
        return EngineChunk(
            tuple(tokens),
            choice.finish_reason,
            None if prompt_ids is None else tuple(prompt_ids),
        )


@asynccontextmanager
async def _telling_speculation(request: CompletionRequest) -> AsyncIterator[None]:
    """Inside the block, raise RequestRefused for a field that the engine refuses because it speculates."""
    try:
        yield
    except EngineRefused as refusal:
        asked = {"logit_bias": request.sampling.logit_bias, "min_p": request.sampling.min_p}
        field = next((name for name, value in asked.items() if value and name in refusal.reason), None)
        if field is None or _SPECULATION not in refusal.reason:
            raise
        remedy = "leave it out" if field == "logit_bias" else "send 0"
        reason = f"the engine of this model speculates, and vLLM does not take `{field}` then; {remedy}"
        raise RequestRefused(reason, field) from refusal


def _tokens(ids: list[int], logprobs: _Logprobs | None) -> list[SampledToken]:
    if logprobs is not None and logprobs.content is not None and len(logprobs.content) == len(ids):
        return [
            SampledToken(
                token.token_id, token.logprob, tuple((t.token_id, t.logprob) for t in token.top_logprobs)
            )
            for token in logprobs.content
        ]
    if logprobs is None or len(logprobs.token_logprobs) != len(ids):
        return [SampledToken(token_id) for token_id in ids]
    tops = logprobs.top_logprobs or [None] * len(ids)
    return [
        SampledToken(token_id, value, _top(top))
        for token_id, value, top in zip(ids, logprobs.token_logprobs, tops, strict=False)
    ]


def _top(top: Mapping[str, float] | None) -> tuple[tuple[int, float], ...]:
    """The alternatives by their ids; the engine is asked to write a token as `token_id:5`."""
    matches = ((_TOKEN_ID.fullmatch(token), value) for token, value in (top or {}).items())
    return tuple((int(matched[1]), value) for matched, value in matches if matched)


def completion_body(request: CompletionRequest, vocabulary: Vocabulary | None = None) -> dict[str, Any]:
    """The body of a request as vLLM's `/v1/completions` reads it; `vocabulary` spells unwanted tokens."""
    body = {"prompt": list(request.prompt_ids)} | _common(request) | _parameters(request, vocabulary)
    if request.num_logprobs is not None:
        body["return_tokens_as_token_ids"] = True
    return body


def generate_body(request: CompletionRequest, vocabulary: Vocabulary | None = None) -> dict[str, Any]:
    """The body of a request with images as vLLM's `/inference/v1/generate` reads it."""
    return _common(request) | {
        "token_ids": list(request.prompt_ids),
        "content_parts": [{"type": "image_url", "url": url} for url in request.images],
        "sampling_params": _parameters(request, vocabulary),
    }


def _common(request: CompletionRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": request.model_id,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    }
    if request.cache_salt is not None:
        body["cache_salt"] = request.cache_salt
    return body


def _parameters(request: CompletionRequest, vocabulary: Vocabulary | None) -> dict[str, Any]:
    """The fields that bound and mask an output; both routes have the same names for them."""
    sampling = request.sampling
    parameters = request.sampling_fields | {
        "max_tokens": request.max_tokens,
        "top_k": sampling.top_k or 0,
        "repetition_penalty": sampling.repetition_penalty,
        "stop_token_ids": list(request.stop_token_ids),
        "min_tokens": request.min_tokens,
    }
    if sampling.seed is not None:
        parameters["seed"] = sampling.seed
    if sampling.logit_bias:
        parameters["logit_bias"] = {str(token_id): value for token_id, value in sampling.logit_bias.items()}
    if request.num_logprobs is not None:
        parameters["logprobs"] = request.num_logprobs
    if vocabulary is not None and (words := list(_words(request.unwanted_ids, vocabulary))):
        parameters["bad_words"] = words
    if request.only_id is not None:
        parameters["allowed_token_ids"] = [request.only_id]
    elif request.allowed_ids:
        parameters["allowed_token_ids"] = list(request.allowed_ids)
    elif request.grammar is not None:
        parameters["structured_outputs"] = {"grammar": request.grammar}
    return parameters


def _words(token_ids: Iterable[int], vocabulary: Vocabulary) -> Iterator[str]:
    """The texts of tokens, as words that vLLM is not to write; without those that it would read otherwise.

    vLLM leaves out all space before a word, and forbids it both without space and behind one.
    """
    for token_id in token_ids:
        with suppress(UnicodeDecodeError):  # a part of a character
            text = vocabulary.display(vocabulary.tokens[token_id]).decode()
            word = text.lstrip()
            if word and text in {word, f" {word}"}:
                yield text
