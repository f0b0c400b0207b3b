"""What is asked of an engine, and the watch for one that does not have the plugin."""

import hashlib
from collections.abc import Sequence
from typing import Any

from runtime.engines.mark import PLUGIN_MISSING
from runtime.request import Sampling
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


def seed_of(seed: int | None, choice: int, num_written: int) -> int | None:
    """The seed of one engine request: each choice has its own, and so has each resumption."""
    if seed is None:
        return None
    content = f"{seed}/{choice}/{num_written}".encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest()) >> 1


def conversation_head(parts: Sequence[Any]) -> bytes:
    """A digest by which requests with the same beginning are told: the same replica has it in its cache."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


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
