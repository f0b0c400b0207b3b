"""What is asked of an engine, and the watch for one that does not have the plugin."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.engines.mark import PLUGIN_MISSING
from runtime.engines.verified_output import VerifiedOutput
from runtime.request import GenerationRequest, Sampling
from runtime.text.detokenizer import TokenBytes
from runtime.written_token import SampledToken

_TELLING = 200
"""Characters at the end of an image by which it is told from others: all of them may be megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """What an engine is asked for: to go on after token ids, by at most `max_tokens`.

    `grammar` is a text that the engine reads: a mark, or a grammar. With `allowed_ids`, the one token that is
    asked for is one of these. Requests with the same `cache_salt` share prefixes in the engine's cache.
    `images` are data URLs; the prompt has a place for each, in their order.
    """

    model_id: str
    prompt_ids: Sequence[int]
    max_tokens: int
    sampling: Sampling
    grammar: str | None = None
    allowed_ids: tuple[int, ...] = ()
    num_logprobs: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    min_tokens: int = 0
    cache_salt: str | None = None
    images: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class CompletionRequests:
    """Makes the requests by which engines are asked to go on with an output.

    `secret` signs salts. `sends_seeds`: whether seeds of clients reach the engine. `shares_prefixes`: whether
    clients share the prefixes in an engine's cache.
    """

    secret: bytes
    sends_seeds: bool
    shares_prefixes: bool

    def request(
        self, model_id: str, request: GenerationRequest, output: VerifiedOutput, grammar: str | None
    ) -> CompletionRequest:
        """The request for all that is left of an output; `model_id` is the model's name at the engine."""
        sampling = request.sampling
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
            cache_salt=self._salt(request.share),
            images=tuple(image.url for image in request.images),
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
        said = [
            (message.role, message.content, [image.url[-_TELLING:] for image in message.images])
            for message in request.messages[: first + 1]
        ]
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
