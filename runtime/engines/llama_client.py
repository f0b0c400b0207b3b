"""The client of one `llama-server`, which llama.cpp ships: token ids go to `/completion`, and come back.

If a character consists of several tokens, llama-server sends only the last token, with the whole character as
its text. The bytes are then tokenized here, perhaps into other tokens. The text that a client reads, and
whether the grammar allows it, are the same.
"""

from collections.abc import Iterator
from typing import Annotated, Any

import httpx
import msgspec
from msgspec import Meta

from compiler.closing.segmentation import Segmentation
from compiler.grammar.gbnf import token_choice
from compiler.prepared_vocabulary import PreparedVocabulary
from runtime.engines.client import (
    MAX_ALTERNATIVES,
    MAX_TOKENS,
    ChunkReader,
    ClientLimits,
    EngineAddress,
    EngineChunk,
    EngineClient,
    ModelId,
    ServedModel,
)
from runtime.engines.completion_request import CompletionRequest
from runtime.errors import RequestRefused
from runtime.written_token import SampledToken
from toolspecs.resolved_types import resolved

MAX_RESPELLED = 2_048
"""Bytes of an event's text that are spelled anew: those of a few tokens. A longer one is no character's."""

_FINISH_REASONS = {"eos": "stop", "word": "stop", "limit": "length"}


class _Meta(msgspec.Struct):
    n_ctx: int | None = None


class _Model(msgspec.Struct):
    id: ModelId
    meta: _Meta | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


class _Properties(msgspec.Struct):
    build_info: str = ""


class _Slot(msgspec.Struct):
    is_processing: bool = False


class _Alternative(msgspec.Struct):
    id: int
    logprob: float | None = None


class _Probability(msgspec.Struct):
    id: int
    logprob: float | None = None
    top_logprobs: Annotated[list[_Alternative], Meta(max_length=MAX_ALTERNATIVES)] = []


class _Timings(msgspec.Struct):
    cache_n: int | None = None


class _Event(msgspec.Struct):
    content: str = ""
    tokens: Annotated[list[int], Meta(max_length=MAX_TOKENS)] = []
    stop: bool = False
    stop_type: str = "none"
    timings: _Timings | None = None
    completion_probabilities: list[_Probability] = []
    error: Any = None


class LlamaClient(EngineClient):
    """One `llama-server`."""

    repeats_prompts = False
    has_unmasked_logprobs = True
    leaves_at_end = True  # llama-server ends connections after some requests, perhaps just as they are used

    def __init__(
        self,
        address: EngineAddress,
        prepared: PreparedVocabulary,
        limits: ClientLimits | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(address, limits, transport=transport)
        self._tokens = prepared.vocabulary.tokens
        self._special_ids = prepared.vocabulary.marker_ids | set(prepared.vocabulary.stop_ids)
        self._index = prepared.index

    async def version(self) -> str:
        """The build of llama.cpp; empty if the server does not say."""
        return (await self._connection.get_json("/props", _Properties)).build_info[:40]

    async def models(self) -> list[ServedModel]:
        """The models that it serves; the context length is that of one slot."""
        answer = await self._connection.get_json("/v1/models", _Models)
        return [ServedModel.told(model.id, model.meta.n_ctx if model.meta else None) for model in answer.data]

    async def num_running(self) -> int | None:
        """The number of busy slots; None if the server does not show its slots."""
        answer = await self._connection.get("/slots")
        if not answer.is_success:
            return None
        slots = await self._connection.decoded(answer, list[_Slot])
        return sum(slot.is_processing for slot in slots)

    def _path_and_body(self, request: CompletionRequest) -> tuple[str, dict[str, Any]]:
        if request.min_tokens:
            raise RequestRefused("the engine of this model, llama-server, does not know it", "min_tokens")
        return "/completion", llama_body(request)

    def _reader(self, request: CompletionRequest) -> ChunkReader:
        """Leaves out the token that ended the answer, which may be outside our vocabulary."""
        held_back: EngineChunk | None = None

        def read(received: list[bytes]) -> Iterator[EngineChunk]:
            nonlocal held_back
            for data in received:
                event = self._event(data, request.max_tokens)
                if held_back is not None and event.stop_type != "eos":
                    yield held_back
                chunk = self._chunk(event)
                held_back = chunk if self._may_end(chunk) else None
                if held_back is None:
                    yield chunk

        return read

    def _event(self, data: bytes, max_tokens: int) -> _Event:
        """An event; raises ValueError if it has more tokens than all of the answer may have."""
        event = msgspec.json.decode(data, type=resolved(_Event))
        if event.error is not None:
            raise self._fault(event.error)
        if len(event.tokens) > max_tokens:
            raise ValueError(f"an event has {len(event.tokens)} tokens, and {max_tokens} were asked for")
        return event

    def _may_end(self, chunk: EngineChunk) -> bool:
        """Whether a chunk is a token without text, which may have ended the answer."""
        is_special = [token.token_id in self._special_ids for token in chunk.tokens]
        return chunk.finish_reason is None and bool(is_special) and all(is_special)

    def _chunk(self, event: _Event) -> EngineChunk:
        reason = _FINISH_REASONS.get(event.stop_type) if event.stop else None
        num_cached = event.timings.cache_n if event.timings else None
        self.reports_cached |= num_cached is not None
        return EngineChunk(tuple(self._sampled(event)), reason, num_cached=num_cached)

    def _sampled(self, event: _Event) -> list[SampledToken]:
        """The tokens of an event; several if it completes a character of several tokens."""
        text = event.content.encode()
        ids = event.tokens
        is_known = all(0 <= i < len(self._tokens) for i in ids)
        spelled = b"".join(self._tokens[i] for i in ids) if is_known else b""
        has_more = bool(spelled) and text.endswith(spelled) and len(text) > len(spelled)
        if has_more and len(text) <= MAX_RESPELLED:
            segmentation = Segmentation(self._index)
            if segmentation.count(text) < len(text) + 1:
                ids = segmentation.ids(text)
        logprobs = {
            sampled.id: (sampled.logprob, _top(sampled)) for sampled in event.completion_probabilities
        }
        return [SampledToken(token_id, *logprobs.get(token_id, (None, ()))) for token_id in ids]


def _top(probability: _Probability) -> tuple[tuple[int, float], ...]:
    tops = probability.top_logprobs
    return tuple((token.id, token.logprob) for token in tops if token.logprob is not None)


def llama_body(request: CompletionRequest) -> dict[str, Any]:
    """The body of a request as llama-server reads it."""
    sampling = request.sampling
    body = request.sampling_fields | {
        "prompt": list(request.prompt_ids),
        "n_predict": request.max_tokens,
        "stream": True,
        "return_tokens": True,
        "cache_prompt": True,
        "response_fields": ["content", "tokens", "stop", "stop_type", "timings"],
        "samplers": ["penalties", "top_k", "top_p", "min_p", "temperature"],
        "top_k": sampling.top_k or 0,
        "repeat_penalty": sampling.repetition_penalty,
        "repeat_last_n": len(request.prompt_ids) + request.max_tokens,
        "n_probs": 0 if request.num_logprobs is None else max(1, request.num_logprobs),
        "ignore_eos": False,
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed & 0xFFFFFFFF
    if request.logit_bias:
        body["logit_bias"] = [[token_id, value] for token_id, value in request.logit_bias.items()]
    if request.allowed_ids:
        body["grammar"] = token_choice(request.allowed_ids)
    elif request.grammar is not None:
        body["grammar"] = request.grammar
    return body
