"""The client of one SGLang server: it sends token ids to `/generate`, and reads token ids.

This is the only route of SGLang that names tokens by their ids everywhere, also in log probabilities. Each
event repeats the whole output, unless the server runs with `--incremental-streaming-output`. Repeated log
probabilities are refused: reading those of 5,000 tokens would take a minute of the event loop.
"""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from runtime.engines.client import (
    MAX_ALTERNATIVES,
    MAX_TOKENS,
    ChunkReader,
    EngineChunk,
    EngineClient,
    ServedModel,
)
from runtime.engines.completion_request import CompletionRequest
from runtime.errors import EngineRefused
from runtime.written_token import SampledToken
from toolspecs.resolved_types import resolved

_LogProbability = tuple[float | None, int, str | None]
"""The logarithm, the token's id, and its text, which is not asked for."""
_Top = Annotated[list[_LogProbability], Meta(max_length=MAX_ALTERNATIVES)]


_REPEATS = (
    "repeats all log probabilities with each token, which would take too long to read; start it with"
    " --incremental-streaming-output"
)


class _Load(msgspec.Struct):
    num_running_reqs: int = 0
    num_waiting_reqs: int = 0


class _Loads(msgspec.Struct):
    version: str = ""
    loads: list[_Load] = []


class _ServerInfo(msgspec.Struct):
    max_req_input_len: int


class _Finish(msgspec.Struct):
    type: str
    message: str = ""
    status_code: int | None = None


class _About(msgspec.Struct):
    finish_reason: _Finish | None = None
    completion_tokens: int = 0
    cached_tokens: int | None = None
    output_token_logprobs: list[_LogProbability] = []
    output_top_logprobs: list[_Top | None] = []


class _Event(msgspec.Struct):
    output_ids: Annotated[list[int], Meta(max_length=MAX_TOKENS)] = []
    prompt_token_ids: list[int] | None = None
    meta_info: _About = msgspec.field(default_factory=_About)
    error: Any = None


class SglangClient(EngineClient):
    """One SGLang server. It reports with the first tokens how much of the prompt was cached.

    Its health check generates a token, which takes a second.
    """

    repeats_prompts = True
    has_unmasked_logprobs = False  # SGLang masks logits in place, before it computes log probabilities

    async def version(self) -> str:
        """The version of SGLang; empty if the server does not say."""
        return (await self._loads()).version[:40]

    async def models(self) -> list[ServedModel]:
        """The models that it serves; the context length is what a prompt and an output may have together.

        SGLang refuses prompts of `max_req_input_len` tokens. That is six less than the model's context, or
        than the KV cache if this is smaller. Outputs end a few tokens above it, without an error.
        """
        most = (await self._connection.get_json("/server_info", _ServerInfo)).max_req_input_len
        return [
            ServedModel.told(model.model_id, min(model.context_length or most, most))
            for model in await super().models()
        ]

    async def num_running(self) -> int | None:
        """The number of requests in its schedulers."""
        loads = (await self._loads()).loads
        return sum(load.num_running_reqs + load.num_waiting_reqs for load in loads) if loads else None

    def _path_and_body(self, request: CompletionRequest) -> tuple[str, dict[str, Any]]:
        return "/generate", sglang_body(request)

    def _reader(self, request: CompletionRequest) -> ChunkReader:  # noqa: ARG002 - all answers are read alike
        num_seen = 0

        def read(received: list[bytes]) -> Iterator[EngineChunk]:
            nonlocal num_seen
            for data in received:
                chunk = self._chunk(data, num_seen)
                num_seen += len(chunk.tokens)
                yield chunk

        return read

    async def _loads(self) -> _Loads:
        return await self._connection.get_json("/v1/loads?include=core", _Loads)

    def _chunk(self, data: bytes, num_seen: int) -> EngineChunk:
        """The chunk of an event; `num_seen` tokens came before."""
        event = msgspec.json.decode(data, type=resolved(_Event))
        if event.error is not None:
            raise self._fault(event.error)
        is_repeated = len(event.output_ids) > event.meta_info.completion_tokens - num_seen
        if is_repeated and event.meta_info.output_token_logprobs:
            raise EngineRefused(self.name, _REPEATS)
        tokens = _new_tokens(event, num_seen if is_repeated else 0)
        prompt_ids = None if event.prompt_token_ids is None else tuple(event.prompt_token_ids)
        reason = self._finish_reason(event.meta_info.finish_reason)
        return EngineChunk(tokens, reason, prompt_ids, event.meta_info.cached_tokens)

    def _finish_reason(self, finish: _Finish | None) -> str | None:
        if finish is not None and finish.type == "abort":
            raise self._fault({"message": finish.message, "code": finish.status_code})
        return None if finish is None else finish.type


def _new_tokens(event: _Event, num_seen: int) -> tuple[SampledToken, ...]:
    """The tokens of an event after the first `num_seen`."""
    about, ids = event.meta_info, event.output_ids[num_seen:]
    if not about.output_token_logprobs:
        return tuple(SampledToken(token_id) for token_id in ids)
    values = about.output_token_logprobs[-len(ids) :] if ids else []
    tops = about.output_top_logprobs[-len(ids) :] if ids and about.output_top_logprobs else [None] * len(ids)
    return tuple(
        SampledToken(token_id, value, _top(top))
        for token_id, (value, *_), top in zip(ids, values, tops, strict=True)
    )


def _top(top: list[_LogProbability] | None) -> tuple[tuple[int, float], ...]:
    return tuple((token_id, value) for value, token_id, _ in top or () if value is not None)


def sglang_body(request: CompletionRequest) -> dict[str, Any]:
    """The body of a request as SGLang reads it."""
    sampling = request.sampling
    parameters = request.sampling_fields | {
        "max_new_tokens": request.max_tokens,
        "min_new_tokens": request.min_tokens,
        "top_k": sampling.top_k or -1,
        "repetition_penalty": sampling.repetition_penalty,
        "stop_token_ids": list(request.stop_token_ids),
    }
    if sampling.seed is not None:
        parameters["sampling_seed"] = sampling.seed
    if request.logit_bias:
        parameters["logit_bias"] = {str(token_id): value for token_id, value in request.logit_bias.items()}
    if request.grammar is not None:
        parameters["ebnf"] = request.grammar
    body: dict[str, Any] = {
        "input_ids": list(request.prompt_ids),
        "sampling_params": parameters,
        "stream": True,
    }
    if request.repeats_prompt:  # it does so in each event
        body["return_prompt_token_ids"] = True
    if request.images:
        body["image_data"] = list(request.images)
    if request.cache_salt is not None:
        body["cache_salt"] = request.cache_salt
    if request.num_logprobs is not None:
        body |= {"return_logprob": True, "top_logprobs_num": request.num_logprobs}
    return body
