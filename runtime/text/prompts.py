"""From requests to prompts: chat templates are rendered in threads that clients share fairly."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from runtime.errors import DeadlineExceeded, RequestRefused, TooManySequences
from runtime.fair_threads import FairThreads
from runtime.request import GenerationRequest, check_images
from runtime.text.template import PromptLimit
from runtime.text.tokenizer import LoadedTokenizer

T = TypeVar("T")

NUM_TEMPLATE_THREADS = 4
"""Tokenizing holds no lock of the interpreter, so a short prompt need not wait for a long one.

One client has at most half of them, so the prompts of one do not hold up those of others."""


class PromptRenderer:
    """Renders the prompts of one model.

    Prompts of more than `context_length` tokens may be refused early, and those with images unless the model
    `takes_images`. A client has at most
    `max_waiting_per_share` of them in work, and is told to come back after `retry_after_s`.
    """

    def __init__(
        self,
        text: LoadedTokenizer,
        context_length: int,
        *,
        max_waiting_per_share: int,
        retry_after_s: float,
        takes_images: bool = False,
    ) -> None:
        self._chat_template = text.chat_template
        # The tokenizer of transformers itself must not be called from several threads at once.
        self._backend = text.tokenizer.backend_tokenizer
        tokens = (*text.vocabulary.tokens, *text.vocabulary.markers)
        self._limit = PromptLimit(context_length, max(map(len, tokens)))
        self._threads = FairThreads(NUM_TEMPLATE_THREADS, "callgate-template")
        self._max_waiting_per_share = max_waiting_per_share
        self._retry_after_s = retry_after_s
        self._takes_images = takes_images

    async def token_ids(self, request: GenerationRequest) -> list[int]:
        """The prompt's token ids, as soon as a thread is free; raises what `prepared` raises."""
        return await self.prepared(request, lambda prompt_ids: prompt_ids)

    async def prepared(self, request: GenerationRequest, prepare: Callable[[list[int]], T]) -> T:
        """What `prepare` makes of the prompt's token ids, in the thread that renders the prompt.

        Raises:
            RequestRefused: the template refuses the messages, or the prompt is too long or empty.
            DeadlineExceeded: the request's time ran out before that.
            TooManySequences: as many requests of its client wait for that, and hold their messages in memory.
        """
        most = self._max_waiting_per_share
        if self._threads.num_of(request.share) >= most:
            raise TooManySequences(most, self._retry_after_s)
        rendering = self._threads.submit(request.share, lambda: prepare(self._render(request)))
        try:
            async with asyncio.timeout(request.timeout_s) as scope:
                return await asyncio.wrap_future(rendering)
        except TimeoutError:
            if not scope.expired():
                raise
            raise DeadlineExceeded from None

    def close(self) -> None:
        """Take no more work."""
        self._threads.shutdown()

    def _render(self, request: GenerationRequest) -> list[int]:
        if request.prompt is not None:
            return self._own_prompt(request.prompt)
        if not self._takes_images and request.images:
            raise RequestRefused(
                "a message has an image, and this model is not set up to take any (`engine_images` in"
                " [[models]]); send text",
                "messages",
            )
        check_images(request)
        return self._chat_template.token_ids(
            request.messages, request.tools, request.template_options, limit=self._limit
        )

    def _own_prompt(self, prompt: str | tuple[int, ...]) -> list[int]:
        """The ids of a prompt that a client wrote itself, text or ids."""
        if isinstance(prompt, str):
            self._limit.check_prompt(prompt)
        ids = self._backend.encode(prompt).ids if isinstance(prompt, str) else list(prompt)
        if not ids:
            raise RequestRefused("the prompt has no token", "prompt")
        return ids
