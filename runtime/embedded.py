"""The embedded runtime: the engine in a thread of this process."""

import asyncio
import math
import secrets
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from compiler.cache.grammar_cache import GrammarCache
from compiler.closing.closer import Closer
from compiler.prepared_vocabulary import PreparedVocabulary
from runtime.decoding.population import population_of
from runtime.decoding.sampling import draw_seed
from runtime.drafting import Drafting
from runtime.engine import Engine
from runtime.engine_thread import EngineJob, EngineThread
from runtime.event_queue import EventQueue
from runtime.events import Event, PromptRendered
from runtime.forward.model_runner import ModelRunner
from runtime.jump_forward import JumpForward
from runtime.loading import LoadedModel, load_model
from runtime.protocol import Health, ModelCard
from runtime.request import GenerationRequest, check_details, check_limits, check_model
from runtime.scheduling.sequence import Sequence
from runtime.scheduling.weights import Weight
from runtime.settings import EngineSettings
from runtime.text.detokenizer import TokenBytes
from runtime.text.prompts import PromptRenderer
from runtime.transcript import Transcript

T = TypeVar("T")


class EmbeddedRuntime:
    """Serves one loaded model.

        runtime = EmbeddedRuntime.load("path/to/model")
        async for event in runtime.generate(request):
            ...  # TextDelta, CallStarted, ArgumentsDelta, ..., Finished
        await runtime.close()

    Without `close`, its thread lives as long as the process.
    """

    def __init__(self, loaded: LoadedModel, settings: EngineSettings | None = None) -> None:
        settings = settings or EngineSettings()
        self._loaded = loaded
        self._settings = settings
        self._token_bytes = TokenBytes(loaded.vocabulary)
        length = min(loaded.context_length, settings.context_length or loaded.context_length)
        runner = ModelRunner(loaded.model, settings)
        self._num_columns = runner.num_columns
        self._default_max_tokens = settings.default_max_tokens
        self._default_selection = settings.selection
        self._max_choices = min(settings.max_waiting, settings.max_sequences_per_client)
        jump_forward = JumpForward.of(loaded.tokenizer, loaded.prepared) if settings.jump_forward else None
        engine = Engine(runner, loaded.prepared, settings, context_length=length, jump_forward=jump_forward)
        self._card = loaded.card(engine.context_length)
        self._thread = EngineThread(engine, num_threads=settings.num_threads, device=runner.device)
        self._drafting = Drafting(self._generate, self._token_bytes, {"draft"})
        self._prompts = PromptRenderer(
            loaded,
            engine.context_length,
            max_per_client=settings.max_sequences_per_client,
            num_sequences=engine.scheduler.shares.num_of,
        )

    @classmethod
    def load(
        cls,
        source: str | Path,
        settings: EngineSettings | None = None,
        *,
        model_id: str | None = None,
        syntax: str | None = None,
        adapter: str | Path | None = None,
        on_vocabulary: Callable[[PreparedVocabulary], None] = lambda _: None,
    ) -> "EmbeddedRuntime":
        """Load a model and start its engine. This blocks for seconds; the options are `load_model`'s.

        Raises:
            ModelLoadError: the model cannot be loaded or run.
            UnknownSyntax: there is no such call syntax.
        """
        settings = settings or EngineSettings()

        def build() -> "EmbeddedRuntime":
            loaded = load_model(
                source,
                model_id=model_id,
                syntax=syntax,
                device=settings.device,
                dtype=settings.dtype,
                adapter=adapter,
                on_vocabulary=on_vocabulary,
            )
            return cls(loaded, settings)

        return run_in_short_lived_thread(build)

    async def start(self, grammars: GrammarCache) -> None:
        """Do nothing: the engine has been running since the constructor."""

    async def generate(self, request: GenerationRequest) -> AsyncIterator[PromptRendered | Event]:
        """`PromptRendered`, then the events of all choices, interleaved; closing it early aborts it."""
        check_model(request, self._loaded.model_id)
        check_limits(request, self._num_columns, self._max_choices)
        selection = request.selection_or(self._default_selection, self._max_choices)
        async with aclosing(self._drafting.answer(request, selection)) as events:
            async for event in events:
                yield event

    async def _generate(self, request: GenerationRequest) -> AsyncGenerator[PromptRendered | Event, None]:
        """`generate` by the engine alone, which does not write drafts."""
        deadline = math.inf if request.timeout_s is None else time.monotonic() + request.timeout_s
        choices = await self._prompts.render(request, partial(self._choices, request, deadline))
        queue = EventQueue(request.num_choices)
        request.times.note_queued()
        self._thread.submit(EngineJob(request.request_id, choices, queue))
        try:
            yield PromptRendered(len(choices[0][0].prompt_ids))
            while queue.num_open:
                for event in await queue.take():
                    yield event
        finally:
            if queue.num_open:
                self._thread.abort(request.request_id)

    async def prompt_ids(self, request: GenerationRequest) -> list[int]:
        """The token ids of the prompt, with its tools; nothing is generated."""
        check_model(request, self._loaded.model_id)
        return await self._prompts.token_ids(request)

    async def health(self) -> Health:
        """The current state."""
        failure = self._thread.failure
        load = self._thread.engine.current_load(self._loaded.model_id)
        return Health(
            is_ready=failure is None,
            reason=failure or "",
            is_lost=failure is not None,
            loads=(replace(load, is_ready=failure is None),),
        )

    async def models(self) -> tuple[ModelCard, ...]:
        """The model that is served."""
        return (self._card,)

    async def close(self) -> None:
        """Stop the engine; running requests end with `GenerationFailed`."""
        await asyncio.to_thread(self._thread.stop)
        self._prompts.close()

    def _choices(
        self, request: GenerationRequest, deadline: float, prompt_ids: list[int]
    ) -> tuple[tuple[Sequence, Transcript], ...]:
        """The sequences of a request and their transcripts.

        This thread checks their budget first, before the engine's does: if the shortest output is long, the
        check takes time, and all other requests would wait for it.
        """
        constraint = request.constraint
        is_thinking = self._token_bytes.is_thinking(prompt_ids, constraint.syntax if constraint else None)
        closer = constraint.closer(is_thinking=is_thinking) if constraint else None
        selection = request.selection_or(self._default_selection, self._max_choices)
        template = _SequenceTemplate(
            request=request,
            prompt_ids=prompt_ids,
            deadline=deadline,
            seed=_seed_of(request),
            is_thinking=is_thinking,
            closer=closer,
            is_weighed=selection.size > 1,
            prefix_salt="" if self._settings.shares_prefixes else request.client_id,
        )
        choices = []
        max_tokens = request.max_tokens or self._default_budget(closer)
        for choice in range(request.num_choices):
            first = template.sequence(choice, 0, max_tokens)
            first.population = population_of(first, selection, partial(template.sequence, choice))
            choices.append((first, Transcript.of(request, choice, self._token_bytes)))
        self._thread.engine.fit_budget(choices[0][0])
        if request.draft is not None:
            [(draft, _)] = choices
            assert draft.matcher is not None, "drafts are of a grammar"
            draft.matcher = request.draft.follow(draft.matcher, self._loaded.vocabulary.tokens)
            draft.closer = None  # a draft may end anywhere
        check_details(request, choices[0][0].max_tokens)
        return tuple(choices)

    def _default_budget(self, closer: Closer | None) -> int:
        """The default of the settings; the whole context if the shortest valid output is longer."""
        is_enough = closer is None or closer.fits(self._default_max_tokens)
        return self._default_max_tokens if is_enough else self._card.context_length


@dataclass(frozen=True, kw_only=True, slots=True)
class _SequenceTemplate:
    """What all sequences of a request have in common."""

    request: GenerationRequest
    prompt_ids: list[int]
    deadline: float
    seed: int
    is_thinking: bool
    closer: Closer | None
    is_weighed: bool
    prefix_salt: str

    def sequence(self, choice: int, number: int, max_tokens: int) -> Sequence:
        """A new sequence: the one with this number in the population of a choice."""
        request, constraint = self.request, self.request.constraint
        return Sequence(
            sequence_id=f"{request.request_id}/{choice}",
            prompt_ids=self.prompt_ids,
            max_tokens=max_tokens,
            sampling=request.sampling,
            seed=draw_seed(self.seed, number),
            choice=choice,
            matcher=constraint.matcher(is_thinking=self.is_thinking) if constraint else None,
            closer=self.closer.fork() if self.closer else None,  # forks share what one has counted
            num_logprobs=request.num_logprobs,
            is_inspected=request.is_inspected,
            deadline=self.deadline,
            client_id=request.client_id,
            prefix_salt=self.prefix_salt,
            min_tokens=0 if constraint else request.min_tokens,
            stop_token_ids=frozenset() if constraint else frozenset(request.stop_token_ids),
            times=request.times,
            weight=Weight(len(self.prompt_ids)) if self.is_weighed else None,
        )


def _seed_of(request: GenerationRequest) -> int:
    if request.sampling.seed is not None:
        return request.sampling.seed
    return 0 if request.sampling.is_greedy else secrets.randbits(63)


def run_in_short_lived_thread(work: Callable[[], T]) -> T:
    """What `work` returns or raises, run in a thread of its own that has ended when this returns.

    Torch gives every thread that computes on a CPU helper threads, for as long as that thread lives. Once all
    helpers together are more than the cores, OpenMP's runtime (libgomp) lets none of them wait actively. The
    engine's own helpers then fall asleep between two operations, and on two cores a decode step takes a fifth
    longer. A caller that is interrupted does not wait for the thread.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 the caller raises it
            future.set_exception(error)

    thread = threading.Thread(target=run, name="callgate-load", daemon=True)
    thread.start()
    result = future.result()
    thread.join()
    return result
