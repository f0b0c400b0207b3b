"""The remote runtime: a model that external engines run, with this project's plugin or without.

It admits requests, renders prompts, and has outputs written (`runtime.engines.output_writer`). The engine
applies the masks; every token that it returns is verified here (`runtime.engines.verified_output`). A refused
token ends the engine's request. A new request then resumes the output after its valid tokens. After several
such attempts, the budget closer completes the output.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from compiler.cache.grammar_cache import GrammarCache
from runtime.drafting import Drafting
from runtime.engines.canary import Canary
from runtime.engines.client import EngineClient
from runtime.engines.completion_request import CompletionRequestBuilder, conversation_head
from runtime.engines.delivery import END_TIMEOUT_S
from runtime.engines.inline_grammars import InlineGrammars
from runtime.engines.output_writer import OutputWriter
from runtime.engines.published_grammars import PublishedGrammars
from runtime.engines.replica import WatchSettings
from runtime.engines.replicas import Replicas
from runtime.engines.sent_grammars import (
    GrammarParts,
    MarkedGrammars,
    RestGrammars,
    SentGrammars,
    WriteGrammar,
)
from runtime.engines.verified_output import Verification, VerifiedOutput
from runtime.errors import (
    EngineStopped,
    Overloaded,
    PromptTooLong,
    RequestRefused,
    TooManySequences,
    unfit_budget,
)
from runtime.event_queue import EventQueue
from runtime.events import Event, PromptRendered
from runtime.jump_forward import JumpForward
from runtime.protocol import Circuit, Health, ModelCard, reasons_of
from runtime.request import (
    MAX_IMAGE_CHARACTERS,
    GenerationRequest,
    check_details,
    check_limits,
    check_model,
)
from runtime.selection import Selection
from runtime.text.detokenizer import TokenBytes
from runtime.text.prompts import PromptRenderer
from runtime.text.tokenizer import LoadedTokenizer


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """The settings of a remote runtime.

    `selection` applies to requests that set none and are not streamed; external engines do not draw
    particles. `model_name` is the model's name at the engine; None if the engine serves only one.
    `sends_seeds`: whether clients' seeds are sent to the engine. `shares_prefixes`: whether clients share
    prefixes in the engine's cache, which they can notice by response times. `takes_images`: whether the model
    reads images. `sends_units`: engines with the plugin get the parts of grammars with each request and need
    no store.
    """

    model_name: str | None = None
    default_max_tokens: int = 2048
    max_sequences: int = 1024
    max_sequences_per_client: int = 128
    jump_forward: bool = True
    selection: Selection = field(default_factory=Selection)
    sends_seeds: bool = True
    shares_prefixes: bool = False
    takes_images: bool = False
    sends_units: bool = False
    watch: WatchSettings = field(default_factory=WatchSettings)


@dataclass(frozen=True, eq=False, slots=True)
class _Answer:
    """One running request: the queue of its events, and a task for each choice."""

    queue: EventQueue
    tasks: tuple[asyncio.Task[None], ...]

    async def stop(self) -> None:
        """Cancel the tasks that still run, and wait until their connections to engines are closed.

        It does not wait for a thread that still works for the request.
        """
        for task in self.tasks:
            task.cancel()
        await asyncio.wait([asyncio.gather(*self.tasks, return_exceptions=True)], timeout=END_TIMEOUT_S)


class Admission:
    """Counts the sequences and images of running requests, and admits others while they are few enough."""

    def __init__(self, settings: RemoteSettings) -> None:
        self._settings = settings
        self._sequences: Counter[str] = Counter()
        self._image_characters: Counter[str] = Counter()
        self._is_closed = False

    def close(self) -> None:
        """Admit no more requests."""
        self._is_closed = True

    def num_sequences(self, client_id: str) -> int:
        """How many sequences a client has."""
        return self._sequences[client_id]

    @contextmanager
    def admitted(self, request: GenerationRequest) -> Iterator[None]:
        """Count a request's sequences and images while it runs, for its client and for all clients.

        Raises:
            Overloaded: there are too many.
            EngineStopped: it is closed.
        """
        client_id = request.client_id
        self._check(request)
        self._sequences[client_id] += request.num_choices
        self._image_characters[client_id] += request.num_image_characters
        try:
            yield
        finally:
            self._image_characters[client_id] -= request.num_image_characters
            self._sequences[client_id] -= request.num_choices
            for counts in (self._image_characters, self._sequences):
                if not counts[client_id]:
                    del counts[client_id]

    def _check(self, request: GenerationRequest) -> None:
        if self._is_closed:
            raise EngineStopped
        client_id, settings = request.client_id, self._settings
        if self._sequences.total() + request.num_choices > settings.max_sequences:
            raise Overloaded
        if self._sequences[client_id] + request.num_choices > settings.max_sequences_per_client:
            raise TooManySequences(settings.max_sequences_per_client)
        if self._image_characters[client_id] + request.num_image_characters > MAX_IMAGE_CHARACTERS:
            reason = (
                f"the images of a client's running answers have at most {MAX_IMAGE_CHARACTERS} characters"
            )
            raise Overloaded(reason)


class RemoteRuntime:
    """Serves one model by external engines.

        runtime = RemoteRuntime(load_tokenizer("path"), [VllmClient(EngineAddress(url))], secret=secret)
        await runtime.start(grammars)
        async for event in runtime.generate(request): ...
        await runtime.close()

    `secret` signs the marks; the plugin knows it too. Engines without the plugin are sent grammars written by
    `write_grammar` instead of marks.
    """

    def __init__(
        self,
        loaded: LoadedTokenizer,
        clients: Sequence[EngineClient],
        settings: RemoteSettings | None = None,
        *,
        secret: bytes,
        write_grammar: WriteGrammar | None = None,
    ) -> None:
        self._settings = settings or RemoteSettings()
        self._secret = secret
        self._loaded = loaded
        # It takes up to a second: done here, so that the event loop never waits for it.
        loaded.prepared.guarded.prepare()
        self._token_bytes = TokenBytes(loaded.vocabulary)
        self._admission = Admission(self._settings)
        self._prompts = PromptRenderer(
            loaded,
            loaded.context_length,
            max_per_client=self._settings.max_sequences_per_client,
            num_sequences=self._admission.num_sequences,
            takes_images=self._settings.takes_images,
        )
        self._replicas = Replicas(loaded.model_id, clients, self._settings.watch)
        self._grammars = self._sent_grammars(secret, write_grammar)
        self._writer = OutputWriter(
            self._replicas,
            self._grammars,
            CompletionRequestBuilder(secret, self._settings.sends_seeds, self._settings.shares_prefixes),
            JumpForward.of(loaded.tokenizer, loaded.prepared) if self._settings.jump_forward else None,
        )
        self._verification = Verification(
            loaded.prepared,
            self._token_bytes,
            checks_masks=not self._grammars.applies_guards,
            counts_rescued=all(client.has_unmasked_logprobs for client in clients),
        )
        self._drafting = Drafting(self._generate, self._token_bytes, {"draft", "accept"})
        self._answers: set[_Answer] = set()
        self._card = replace(
            loaded.card(loaded.context_length), applies_guards=self._grammars.applies_guards, selects=False
        )

    async def start(self, grammars: GrammarCache) -> None:
        """Begin to watch the engines; each takes requests once it has passed the canary."""
        self._grammars.start(grammars)
        canary = Canary(self._loaded, grammars, self._grammars, self._secret)
        self._replicas.start(self._settings.model_name, canary.check)

    async def generate(self, request: GenerationRequest) -> AsyncIterator[PromptRendered | Event]:
        """`PromptRendered`, then the events of all choices, interleaved; closing it early aborts it."""
        check_model(request, self._loaded.model_id)
        check_limits(request, self._loaded.vocabulary.width, self._settings.max_sequences_per_client)
        if request.strategy == "particles":
            reason = (
                "only the embedded engine draws particles, and another one runs this model;"
                " ask for `accept` or `draft` instead"
            )
            raise RequestRefused(reason, "callgate.particles")
        if request.is_inspected:
            reason = (
                "only the embedded engine tells what its masks removed, and another one runs this model;"
                " ask for `logprobs` instead"
            )
            raise RequestRefused(reason, "callgate.inspect")
        selection = request.selection_or(self._settings.selection, self._settings.max_sequences_per_client)
        async with aclosing(self._drafting.answer(request, selection)) as events:
            async for event in events:
                yield event

    async def _generate(self, request: GenerationRequest) -> AsyncGenerator[PromptRendered | Event, None]:
        """`generate` without selecting among drafts."""
        now = asyncio.get_running_loop().time()
        ends_at = None if request.timeout_s is None else now + request.timeout_s
        outputs, affinity = await self._prompts.render(request, partial(self._outputs_and_affinity, request))
        with self._admission.admitted(request):
            queue = EventQueue(len(outputs))
            answer = _Answer(queue, self._writer.begin(outputs, affinity, queue, ends_at))
            self._answers.add(answer)
            try:
                yield PromptRendered(len(outputs[0].prompt_ids))
                while queue.num_open:
                    for event in await queue.take():
                        yield event
                await asyncio.wait(answer.tasks, timeout=END_TIMEOUT_S)
            finally:
                self._answers.remove(answer)
                await answer.stop()

    async def prompt_ids(self, request: GenerationRequest) -> list[int]:
        """The token ids of the prompt, with the tools shown; nothing is generated."""
        check_model(request, self._loaded.model_id)
        return await self._prompts.token_ids(request)

    async def health(self) -> Health:
        """Whether any engine takes requests, and the state of each."""
        states = self._replicas.states()
        return Health(
            is_ready=any(state.circuit is Circuit.CLOSED for state in states),
            reason=reasons_of(states),
            engines=states,
        )

    async def models(self) -> tuple[ModelCard, ...]:
        """The model that is served, with the smallest context length of all engines that are up."""
        return (replace(self._card, context_length=self._context_length),)

    async def close(self) -> None:
        """End running requests with `EngineStopped`, and close all connections."""
        self._admission.close()
        answers = list(self._answers)
        for answer in answers:  # first all of them: some may wait for their threads when they stop
            answer.queue.put(EngineStopped())
        await asyncio.gather(*(answer.stop() for answer in answers))
        await self._grammars.close()
        await self._replicas.close()
        self._prompts.close()
        self._writer.shutdown()

    def _sent_grammars(self, secret: bytes, write_grammar: WriteGrammar | None) -> SentGrammars:
        if write_grammar is not None:
            return RestGrammars(self._loaded.vocabulary, write_grammar)
        parts: GrammarParts = InlineGrammars(secret) if self._settings.sends_units else PublishedGrammars()
        return MarkedGrammars(secret, self._token_bytes, parts)

    @property
    def _context_length(self) -> int:
        """The smallest context length of the model and of the engines that take requests."""
        serving = (replica for replica in self._replicas if replica.circuit is Circuit.CLOSED)
        lengths = (replica.model.context_length for replica in serving if replica.model)
        return min([self._loaded.context_length, *filter(None, lengths)])

    def _outputs_and_affinity(
        self, request: GenerationRequest, prompt_ids: list[int]
    ) -> tuple[list[VerifiedOutput], bytes]:
        """The outputs of a request, and what chooses their replicas, which is a digest of long texts."""
        return self._outputs(request, prompt_ids), conversation_head(request)

    def _outputs(self, request: GenerationRequest, prompt_ids: list[int]) -> list[VerifiedOutput]:
        """One output per choice, with its budget cut down to what the context leaves.

        Their budget is checked only once. This is slow for grammars of many tools, so a thread does it.
        """
        context_length = self._context_length
        num_left = context_length - len(prompt_ids)
        if num_left < 1:
            raise PromptTooLong(len(prompt_ids), context_length)
        asked = request.max_tokens or self._settings.default_max_tokens
        max_tokens = min(asked, num_left)
        check_details(request, max_tokens)
        syntax = request.constraint.syntax if request.constraint else None
        is_thinking = self._token_bytes.is_thinking(prompt_ids, syntax)
        outputs = [
            VerifiedOutput(
                request, choice, prompt_ids, max_tokens, self._verification, is_thinking=is_thinking
            )
            for choice in range(request.num_choices)
        ]
        closer = outputs[0].position.closer
        if closer is not None and not closer.fits(max_tokens):
            raise unfit_budget(asked, closer.minimum(), len(prompt_ids), context_length)
        if request.draft is not None:
            [output] = outputs
            output.follow(request.draft)
        return outputs
