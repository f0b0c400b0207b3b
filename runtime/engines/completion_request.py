"""What is asked of an engine, and the watch for one that does not have the plugin."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime.engines.mark import PLUGIN_MISSING, spell_mark
from runtime.engines.verified_output import VerifiedOutput
from runtime.request import GenerationRequest, Sampling
from runtime.text.detokenizer import TokenBytes
from runtime.written_token import SampledToken


def completion_body(
    model_id: str,
    prompt_ids: Sequence[int],
    max_tokens: int,
    sampling: Sampling,
    *,
    grammar: str | None = None,
    num_logprobs: int | None = None,
    **others: Any,
) -> dict[str, Any]:
    """The body of a streamed completion of token ids; `grammar` is the text of a mark."""
    body: dict[str, Any] = {
        "model": model_id,
        "prompt": list(prompt_ids),
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        # All of these are given, since an engine has defaults of its own for what is left out.
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or 0,
        "min_p": sampling.min_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "repetition_penalty": sampling.repetition_penalty,
        **others,
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if sampling.logit_bias:
        body["logit_bias"] = {str(token_id): value for token_id, value in sampling.logit_bias.items()}
    if num_logprobs is not None:
        body |= {"logprobs": num_logprobs, "return_tokens_as_token_ids": True}
    if grammar is not None:
        body["structured_outputs"] = {"grammar": grammar}
    return body


@dataclass(frozen=True, slots=True)
class CompletionRequests:
    """Makes the bodies by which engines are asked to go on with an output.

    `secret` signs marks and salts. `sends_seeds`: whether seeds of clients reach the engine.
    `shares_prefixes`: whether clients share the prefixes in an engine's cache.
    """

    secret: bytes
    sends_seeds: bool
    shares_prefixes: bool

    def body(self, model_id: str, request: GenerationRequest, output: VerifiedOutput) -> dict[str, Any]:
        """The request for all that is left of an output; `model_id` is the model's name at the engine."""
        sampling, others = request.sampling, {}
        seed = _seed_of(sampling.seed, output.choice, len(output.ids)) if self.sends_seeds else None
        if request.constraint is None:
            others = {
                "stop_token_ids": list(request.stop_token_ids),
                "min_tokens": max(0, request.min_tokens - len(output.ids)),
            }
        return completion_body(
            model_id,
            [*output.prompt_ids, *output.ids],
            output.remaining,
            replace(sampling, seed=seed),
            grammar=self._mark(request, output),
            num_logprobs=request.num_logprobs,
            cache_salt=self._salt(request.share),
            **others,
        )

    def _mark(self, request: GenerationRequest, output: VerifiedOutput) -> str | None:
        if request.constraint is None:
            return None
        assert request.recipe is not None, "whoever compiles a grammar knows its recipe"
        written = tuple(output.ids)
        return spell_mark(
            request.recipe, is_thinking=output.is_thinking, secret=self.secret, written_ids=written
        )

    def _salt(self, share: str) -> str:
        """Requests with the same salt share prefixes in an engine's cache."""
        salted = "" if self.shares_prefixes else share
        return hmac.digest(self.secret, b"cache salt " + salted.encode(), "sha256").hex()


def _seed_of(seed: int | None, choice: int, num_written: int) -> int | None:
    """The seed of one engine request: each choice has its own, and so has each resumption."""
    if seed is None:
        return None
    content = f"{seed}/{choice}/{num_written}".encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest()) >> 1


def conversation_head(request: GenerationRequest) -> bytes:
    """A digest of the tools and of the conversation's head, which the requests of a conversation share.

    The replica that answered one of them has it in its cache.
    """
    head: Any
    if request.prompt is not None:
        head = request.prompt[:256]
    else:
        first = next((i for i, m in enumerate(request.messages) if m.role == "user"), 0)
        said = [(message.role, message.content) for message in request.messages[: first + 1]]
        head = [[tool.name for tool in request.tools], said]
    return hashlib.blake2b(repr(head).encode(), digest_size=16).digest()


class SentinelWatch:
    """Holds tokens back for as long as they may spell what an engine without the plugin writes."""

    def __init__(self, token_bytes: TokenBytes) -> None:
        self._token_bytes = token_bytes
        self._text = b""
        self._held: list[SampledToken] | None = []
        self.is_found = False

    def passed(self, tokens: Sequence[SampledToken], *, is_last: bool = False) -> Sequence[SampledToken]:
        """The tokens that are certainly no part of it."""
        if self._held is None:
            return tokens
        self._held += tokens
        self._text += self._token_bytes.of(t.token_id for t in tokens if self._token_bytes.has(t.token_id))
        sentinel = PLUGIN_MISSING.encode()
        if self._text == sentinel:
            self.is_found = True
            return ()
        may_follow = not self._held or (self._text and sentinel.startswith(self._text))
        if may_follow and not is_last:
            return ()
        released, self._held = self._held, None
        return released
