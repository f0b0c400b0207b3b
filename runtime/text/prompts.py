"""From requests to prompts: chat templates are rendered in threads that clients share fairly."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from runtime.errors import DeadlineExceeded, EngineStopped, RequestRefused, TooManySequences
from runtime.request import GenerationRequest, check_images
from runtime.text.template import PromptLimit
from runtime.text.tokenizer import LoadedTokenizer
from toolspecs.fairness.fair_threads import FairThreads

T = TypeVar("T")

NUM_TEMPLATE_THREADS = 4
"""Tokenizing releases the interpreter's lock, so a short prompt need not wait for a long one.

One client has at most half of the threads, so its prompts do not hold up those of others."""

FULL_PAUSE_S = 0.25
"""How long a client that has all its sequences waits for room before it is refused."""


class PromptRenderer:
    """Renders the prompts of one model.

    Prompts of more than `context_length` tokens may be refused early, and those with images unless the model
    `takes_images`. A client has at most `max_per_client` of them in work, and as many sequences, which
    `num_sequences` counts.
    """

    def __init__(
        self,
        loaded: LoadedTokenizer,
        context_length: int,
        *,
        max_per_client: int,
        num_sequences: Callable[[str], int],
        takes_images: bool = False,
    ) -> None:
        self._chat_template = loaded.chat_template
        # The tokenizer of transformers itself must not be called from several threads at once.
        self._backend = loaded.tokenizer.backend_tokenizer
        tokens = (*loaded.vocabulary.tokens, *loaded.vocabulary.markers)
        self._limit = PromptLimit(context_length, max(map(len, tokens)))
        self._threads = FairThreads(NUM_TEMPLATE_THREADS, "callgate-template")
        self._max_per_client = max_per_client
        self._num_sequences = num_sequences
        self._takes_images = takes_images
        self._is_closed = False

    async def token_ids(self, request: GenerationRequest) -> list[int]:
        """The prompt's token ids, as soon as a thread is free; raises what `render` raises."""
        await self._wait_for_room(lambda: self._threads.num_of(request.client_id) < self._max_per_client)
        return await self._in_thread(request, lambda prompt_ids: prompt_ids)

    async def render(self, request: GenerationRequest, prepare: Callable[[list[int]], T]) -> T:
        """Render the prompt, and return what `prepare` makes of its token ids, in the same thread.

        Raises:
            RequestRefused: the template refuses the messages, or the prompt is too long or empty.
            DeadlineExceeded: the request's time ran out before that.
            TooManySequences: as many requests of its client wait for that, and hold their messages in memory,
            or its client has too many sequences.
            EngineStopped: it is closed.
        """
        client_id, most = request.client_id, self._max_per_client
        await self._wait_for_room(
            lambda: (
                self._threads.num_of(client_id) < most
                and self._num_sequences(client_id) + request.num_choices <= most
            )
        )
        return await self._in_thread(request, prepare)

    async def _wait_for_room(self, has_room: Callable[[], bool]) -> None:
        """Wait until a client may have more, before its prompt is rendered.

        A client at its limit is refused only after a moment. Otherwise it could send requests without pause
        and keep the event loop busy with refusals.

        Raises:
            TooManySequences: it is still full then.
        """
        if not has_room():
            await asyncio.sleep(FULL_PAUSE_S)
            if not has_room():
                raise TooManySequences(self._max_per_client)

    async def _in_thread(self, request: GenerationRequest, prepare: Callable[[list[int]], T]) -> T:
        if self._is_closed:
            raise EngineStopped
        rendering = self._threads.submit(request.client_id, lambda: prepare(self._token_ids_of(request)))
        try:
            async with asyncio.timeout(request.timeout_s) as scope:
                return await asyncio.wrap_future(rendering)
        except TimeoutError:
            if not scope.expired():
                raise
            raise DeadlineExceeded from None

    def close(self) -> None:
        """Take no more work."""
        self._is_closed = True
        self._threads.shutdown()

    def _token_ids_of(self, request: GenerationRequest) -> list[int]:
        if request.prompt is not None:
            return self._given_token_ids(request.prompt)
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

    def _given_token_ids(self, prompt: str | tuple[int, ...]) -> list[int]:
        """The token ids of a prompt that the client wrote itself, as text or as token ids."""
        if isinstance(prompt, str):
            self._limit.check_prompt(prompt)
        ids = self._tokenize(prompt) if isinstance(prompt, str) else list(prompt)
        if not ids:
            raise RequestRefused("the prompt has no token", "prompt")
        return ids

    def _tokenize(self, prompt: str) -> list[int]:
        """The token ids of a text, tokenized as a batch of one: `encode` holds the interpreter's lock."""
        ids: list[int] = self._backend.encode_batch_fast([prompt])[0].ids
        return ids
