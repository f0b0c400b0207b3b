"""The requests that ask an engine to continue an output."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.engines.verified_output import VerifiedOutput
from runtime.request import GenerationRequest, Sampling

_LEAST_TOP_P = 1e-6
_ONLY_BIAS, _UNWANTED_BIAS = 100.0, -100.0
_IMAGE_END = 200
"""Characters at the end of an image's URL that tell it from others; the whole URL may have megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """A request to an engine: continue after the token ids, by at most `max_tokens`.

    `grammar` is text that the engine reads: a mark or a grammar. With `allowed_ids`, a single token is
    requested, which must be one of these. With `only_id`, the engine writes nothing but this token, although
    it reads no grammar. It does not write `unwanted_ids` where another token is possible. Requests with the
    same `cache_salt` share prefixes in the engine's cache. `images` are data URLs, in the order of their
    placeholders in the prompt. With `repeats_prompt`, the engine repeats the ids of the prompt.
    """

    model_id: str
    prompt_ids: Sequence[int]
    max_tokens: int
    sampling: Sampling
    grammar: str | None = None
    allowed_ids: tuple[int, ...] = ()
    only_id: int | None = None
    unwanted_ids: tuple[int, ...] = ()
    num_logprobs: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    min_tokens: int = 0
    cache_salt: str | None = None
    images: tuple[str, ...] = field(default=(), repr=False)
    repeats_prompt: bool = False

    @property
    def sampling_fields(self) -> dict[str, Any]:
        """The parameters that all engines know by the same names.

        All are given, since an engine has defaults of its own for what is left out. `top_p` is never 0, which
        engines refuse; 0 and the least keep only the most probable token.
        """
        return {
            "temperature": self.sampling.temperature,
            "top_p": max(self.sampling.top_p, _LEAST_TOP_P),
            "min_p": self.sampling.min_p,
            "presence_penalty": self.sampling.presence_penalty,
            "frequency_penalty": self.sampling.frequency_penalty,
        }

    @property
    def logit_bias(self) -> dict[int, float]:
        """That of the sampling and, for engines that express them so, of the only and the unwanted tokens."""
        only = {} if self.only_id is None else {self.only_id: _ONLY_BIAS}
        return {**self.sampling.logit_bias, **dict.fromkeys(self.unwanted_ids, _UNWANTED_BIAS), **only}


@dataclass(frozen=True, slots=True)
class CompletionRequestBuilder:
    """Makes the requests that ask engines to continue an output.

    `secret` keys the salts. With `sends_seeds`, clients' seeds are sent to the engine. With
    `shares_prefixes`, different clients share prefixes in an engine's cache.
    """

    secret: bytes
    sends_seeds: bool
    shares_prefixes: bool

    def build(self, model_id: str, output: VerifiedOutput, grammar: str | None) -> CompletionRequest:
        """The request for the rest of an output; `model_id` is the model's name at the engine."""
        request, sampling = output.request, output.request.sampling
        seed = _seed_of(sampling.seed, output.choice, len(output.ids)) if self.sends_seeds else None
        is_free = request.constraint is None
        return CompletionRequest(
            model_id=model_id,
            prompt_ids=[*output.prompt_ids, *output.ids],
            max_tokens=output.remaining,
            sampling=replace(sampling, seed=seed),
            grammar=grammar,
            num_logprobs=request.num_logprobs,
            stop_token_ids=request.stop_token_ids if is_free else (),
            min_tokens=max(0, request.min_tokens - len(output.ids)) if is_free else 0,
            cache_salt=self._salt(request.client_id),
            images=tuple(image.url for image in request.images),
        )

    def _salt(self, client_id: str) -> str:
        """Requests with the same salt share prefixes in an engine's cache."""
        salted = "" if self.shares_prefixes else client_id
        return hmac.digest(self.secret, b"cache salt " + salted.encode(), "sha256").hex()


def _seed_of(seed: int | None, choice: int, num_written: int) -> int | None:
    """The seed of one engine request; every choice and every resumption has its own."""
    if seed is None:
        return None
    content = f"{seed}/{choice}/{num_written}".encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest()) >> 1


def conversation_head(request: GenerationRequest) -> bytes:
    """A digest of the tools and the first messages, equal for all requests of a conversation.

    The replica that answered one of these requests has that prefix in its cache.
    """
    head: Any
    if request.prompt is not None:
        head = request.prompt[:256]
    else:
        first = next((i for i, m in enumerate(request.messages) if m.role == "user"), 0)
        messages = [
            (message.role, message.content, [image.url[-_IMAGE_END:] for image in message.images])
            for message in request.messages[: first + 1]
        ]
        head = [[tool.name for tool in request.tools], messages]
    return hashlib.blake2b(repr(head).encode(), digest_size=16).digest()
