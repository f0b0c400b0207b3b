"""The remote runtime: a model that engines elsewhere run, each a vLLM server with this project's plugin.

It renders prompts and sends token ids. The engine masks; every token that comes back is verified here
(`runtime.engines.verified_output`). A refused token ends the engine's request. The output is then resumed
from what was good, as a new request, and after some such attempts completed by the budget closer.
"""

import asyncio
import hmac
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from compiler.cache.asked_already import SingleFlight, to_the_end
from compiler.cache.grammar_cache import GrammarCache
from runtime.engines.canary import Canary
from runtime.engines.client import EngineChunk, VllmClient
from runtime.engines.completion_request import SentinelWatch, completion_body, conversation_head, seed_of
from runtime.engines.delivery import LAST_WORDS_S, ChoiceDelivery, deliver_verified, last_words
from runtime.engines.mark import spell_mark
from runtime.engines.replicas import Replica, Replicas, WatchSettings
from runtime.engines.verified_output import VerifiedOutput
from runtime.errors import (
    DeadlineExceeded,
    EngineBroke,
    EngineStopped,
    GenerationFailed,
    GrammarNotStored,
    NoEngine,
    Overloaded,
    PluginMissing,
    PromptTooLong,
    RequestRefused,
    RuntimeFault,
    TooManySequences,
    UnknownModel,
)
from runtime.events import Event, Finished, PromptRead
from runtime.fair_threads import FairThreads
from runtime.jump_forward import JumpForward
from runtime.protocol import Circuit, Health, ModelCard
from runtime.request import GenerationRequest, check_limits, check_logprobs
from runtime.text.detokenizer import TokenBytes
from runtime.text.prompts import PromptRenderer
from runtime.text.template import template_variables
from runtime.text.tokenizer import LoadedTokenizer
from toolspecs.errors import StoreUnavailable

MAX_RESUMPTIONS = 3
"""How often an output is given back to an engine that wrote a token which the grammar refuses."""
MAX_TRIES = 2
"""How many engines may break off before an output fails."""
NUM_THREADS = 4
"""Threads that begin, verify and complete outputs which take long; one client has at most half of them."""
PUBLISHED_S = 300.0
"""After so long, it is looked again whether the store still has the parts of a grammar."""
_MAX_PUBLISHED = 4096


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """What a remote runtime is told of its engines.

    `model_name` is the model's name there; None where an engine serves only one. `sends_seeds`: whether
    seeds of clients reach the engine. `shares_prefixes`: whether a client may find the prefixes of others in
    the engine's cache, which shows by the time it takes.
    """

    model_name: str | None = None
    default_max_tokens: int = 2048
    max_sequences: int = 1024
    max_sequences_per_share: int = 128
    retry_after_s: float = 1.0
    jump_forward: bool = True
    sends_seeds: bool = True
    shares_prefixes: bool = False
    watch: WatchSettings = field(default_factory=WatchSettings)


@dataclass(frozen=True, eq=False, slots=True)
class _Answer:
    """One running request: the queue of its events, and the task of each choice."""

    queue: asyncio.Queue[list[Event] | RuntimeFault]
    tasks: tuple[asyncio.Task[None], ...]

    async def stop(self) -> None:
        """Cancel what still runs, and wait until the engines' connections are closed."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class RemoteRuntime:
    """Serves one model by engines elsewhere.

        runtime = RemoteRuntime(load_tokenizer("path"), [VllmClient(EngineAddress(url))], secret=secret)
        await runtime.start(grammars)
        async for event in runtime.generate(request): ...
        await runtime.close()

    `secret` signs the marks; the plugin knows it, too.
    """

    def __init__(
        self,
        text: LoadedTokenizer,
        clients: Sequence[VllmClient],
        settings: RemoteSettings | None = None,
        *,
        secret: bytes,
    ) -> None:
        self._settings = settings or RemoteSettings()
        self._text = text
        self._secret = secret
        self._token_bytes = TokenBytes(text.vocabulary)
        self._prompts = PromptRenderer(
            text,
            text.context_length,
            max_waiting_per_share=self._settings.max_sequences_per_share,
            retry_after_s=self._settings.retry_after_s,
        )
        self._jump_forward = (
            JumpForward.of(text.tokenizer, text.prepared) if self._settings.jump_forward else None
        )
        self._jump_lock = threading.Lock()
        self._threads = FairThreads(NUM_THREADS, "callgate-verify")
        self._replicas = Replicas(text.model_id, clients, self._settings.watch)
        self._grammars: GrammarCache | None = None
        self._published: dict[str, float] = {}
        self._publishing: SingleFlight[bool] = SingleFlight()
        self._answers: dict[str, _Answer] = {}
        self._num_of_share: dict[str, int] = {}
        self._card = ModelCard(
            text.model_id,
            text.prepared,
            text.syntax,
            text.context_length,
            template_variables(text.tokenizer.chat_template),
        )

    async def start(self, grammars: GrammarCache) -> None:
        """Begin to watch the engines: they take requests once they have passed the canary."""
        self._grammars = grammars
        canary = Canary(self._text, grammars, self._secret)
        self._replicas.start(self._settings.model_name, canary.check)

    async def generate(self, request: GenerationRequest) -> AsyncIterator[PromptRead | Event]:
        """`PromptRead`, then the events of all choices, interleaved; closing it early aborts the request."""
        self._check_model(request)
        check_limits(request, self._text.vocabulary.width, self._settings.max_sequences_per_share)
        if (strategy := request.strategy) is not None:
            reason = "only the embedded engine selects answers, and vLLM runs this model; leave it out"
            raise RequestRefused(reason, f"callgate.{strategy}")
        outputs = await self._prompts.prepared(request, partial(self._outputs, request))
        with self._admitted(request):
            queue: asyncio.Queue[list[Event] | RuntimeFault] = asyncio.Queue()
            answer = _Answer(
                queue, tuple(asyncio.create_task(self._write(request, o, queue)) for o in outputs)
            )
            self._answers[request.request_id] = answer
            try:
                yield PromptRead(len(outputs[0].prompt_ids))
                num_open = len(outputs)
                while num_open:
                    delivery = await queue.get()
                    if isinstance(delivery, RuntimeFault):
                        raise delivery
                    for event in delivery:
                        num_open -= isinstance(event, Finished)
                        yield event
                await asyncio.wait(answer.tasks, timeout=LAST_WORDS_S)
            finally:
                del self._answers[request.request_id]
                await answer.stop()

    async def prompt_ids(self, request: GenerationRequest) -> list[int]:
        """The token ids of the prompt, with the tools shown; nothing is generated."""
        self._check_model(request)
        return await self._prompts.token_ids(request)

    async def abort(self, request_id: str) -> None:
        """Stop generating for a request; unknown ids are ignored."""
        if answer := self._answers.get(request_id):
            answer.queue.put_nowait(GenerationFailed("the request was aborted"))
            await answer.stop()

    async def health(self) -> Health:
        """Whether an engine takes requests, and what is known of each."""
        states = self._replicas.states()
        reasons = [f"the engine {state.name} {state.reason}" for state in states if state.reason]
        return Health(
            is_ready=any(state.circuit is Circuit.CLOSED for state in states),
            reason="; ".join(reasons),
            num_running=sum(state.num_running for state in states),
            engines=states,
        )

    async def models(self) -> tuple[ModelCard, ...]:
        """The model that is served, with as much context as every engine that is up has."""
        known = [replica.model.context_length for replica in self._replicas if replica.model]
        shortest = min([self._card.context_length, *(length for length in known if length)])
        if shortest != self._card.context_length:
            return (replace(self._card, context_length=shortest),)
        return (self._card,)

    async def close(self) -> None:
        """End running requests with `EngineStopped`, and close all connections."""
        for answer in list(self._answers.values()):
            answer.queue.put_nowait(EngineStopped())
            await answer.stop()
        await self._publishing.cancel()
        await self._replicas.close()
        self._prompts.close()
        self._threads.shutdown()

    def _check_model(self, request: GenerationRequest) -> None:
        if request.model != self._text.model_id:
            raise UnknownModel(request.model, (self._text.model_id,))

    def _outputs(self, request: GenerationRequest, prompt_ids: list[int]) -> list[VerifiedOutput]:
        """One output per choice, with its budget cut down to what the context leaves.

        Their budget is checked once for all. Grammars of many tools make this slow, so a thread does it.
        """
        context_length = min(
            [self._text.context_length]
            + [r.model.context_length for r in self._replicas if r.model and r.model.context_length]
        )
        num_left = context_length - len(prompt_ids)
        if num_left < 1:
            raise PromptTooLong(len(prompt_ids), context_length)
        max_tokens = min(request.max_tokens or self._settings.default_max_tokens, num_left)
        check_logprobs(request, max_tokens)
        syntax = request.constraint.syntax if request.constraint else None
        is_thinking = self._token_bytes.is_thinking(prompt_ids, syntax)
        outputs = [
            VerifiedOutput(
                request,
                choice,
                prompt_ids,
                max_tokens,
                prepared=self._text.prepared,
                token_bytes=self._token_bytes,
                is_thinking=is_thinking,
            )
            for choice in range(request.num_choices)
        ]
        outputs[0].check_budget()
        return outputs

    @contextmanager
    def _admitted(self, request: GenerationRequest) -> Iterator[None]:
        """Count a request's sequences while it runs, for its client and for all.

        Raises:
            Overloaded: there are too many.
        """
        share, counts, most = request.share, self._num_of_share, self._settings.max_sequences_per_share
        if sum(counts.values()) + request.num_choices > self._settings.max_sequences:
            raise Overloaded(self._settings.retry_after_s)
        if counts.get(share, 0) + request.num_choices > most:
            raise TooManySequences(most, self._settings.retry_after_s)
        counts[share] = counts.get(share, 0) + request.num_choices
        try:
            yield
        finally:
            counts[share] -= request.num_choices
            if not counts[share]:
                del counts[share]

    async def _write(
        self,
        request: GenerationRequest,
        output: VerifiedOutput,
        queue: asyncio.Queue[list[Event] | RuntimeFault],
    ) -> None:
        """Write one choice, from its beginning to its end; its events go to the queue, an error too."""
        delivery = ChoiceDelivery(queue)
        try:
            async with asyncio.timeout(request.timeout_s) as deadline:
                delivery.put(await self._in_thread(request, partial(self._begin, output)))
                if not output.is_finished:
                    await self._publish(request)
                await self._continue(request, output, delivery)
        except RuntimeFault as fault:
            queue.put_nowait(fault)
        except TimeoutError as error:
            queue.put_nowait(
                DeadlineExceeded() if deadline.expired() else GenerationFailed(f"it took too long: {error}")
            )
        except Exception as error:  # a fault of ours ends its own request
            queue.put_nowait(GenerationFailed(f"{type(error).__name__}: {error}"))
            raise

    def _begin(self, output: VerifiedOutput) -> list[Event]:
        with self._jump_lock:  # it tokenizes one text at a time
            return output.begin(self._jump_forward)

    async def _publish(self, request: GenerationRequest) -> None:
        """See that the store, from which the engine reads them, has the parts of a grammar.

        Raises:
            RequestRefused: it cannot have them, so that no engine is asked, and none looks broken.
            GrammarNotStored: the store fails, and had not been seen to have them.
        """
        recipe, grammars, share = request.recipe, self._grammars, request.share
        if recipe is None or grammars is None:
            return
        digest = recipe.digest
        if time.monotonic() - self._published.get(digest, -math.inf) < PUBLISHED_S:
            return
        try:
            is_stored = await self._publishing.join(
                f"{share} {digest}", lambda: grammars.publish(recipe, share)
            )
        except StoreUnavailable as error:
            if digest in self._published:  # engines that have read it keep it in memory
                return
            raise GrammarNotStored(self._settings.retry_after_s) from error
        if not is_stored:
            raise RequestRefused(
                "engines elsewhere cannot read the compiled grammar of this request: this client has stored"
                " as much of grammars as it may for now, or there is no room for it in memory; send tools and"
                " formats that were sent before, or fewer of them",
                "tools",
            )
        if len(self._published) >= _MAX_PUBLISHED:
            self._published.clear()
        self._published[digest] = time.monotonic()

    async def _continue(
        self,
        request: GenerationRequest,
        output: VerifiedOutput,
        delivery: ChoiceDelivery,
    ) -> None:
        """Have engines go on until the output ends.

        An engine that breaks off is replaced by another one, once, or asked again if there is no other. One
        that leaves the grammar gets the output back, some times; then the closer completes the output.
        """
        affinity = _affinity(request)
        broken: dict[Replica, EngineBroke] = {}
        num_broken = 0
        while not output.is_finished:
            replica = self._next_replica(output, affinity, broken)
            if replica is None:
                delivery.put(await self._in_thread(request, output.close))
                break
            output.resume()
            try:
                await self._ask(replica, request, output, delivery)
            except EngineBroke as fault:
                if output.is_finished:
                    break
                broken[replica] = fault
                num_broken += 1
                if num_broken >= MAX_TRIES:
                    raise
                if request.recipe is not None:  # vLLM says nothing of the store, which may have lost a part
                    self._published[request.recipe.digest] = -math.inf
                    await self._publish(request)
            if output.is_refused:
                replica.suspect(1)
        delivery.end()

    def _next_replica(
        self, output: VerifiedOutput, affinity: bytes, broken: Mapping[Replica, EngineBroke]
    ) -> Replica | None:
        """The replica that goes on with an output; None if the closer is to complete it."""
        if output.is_over_budget or output.num_refused > MAX_RESUMPTIONS:
            return None
        try:
            return self._replicas.choose(affinity, broken)
        except NoEngine:
            if output.num_refused:
                return None
            if broken:
                raise next(iter(broken.values())) from None
            raise

    async def _ask(
        self, replica: Replica, request: GenerationRequest, output: VerifiedOutput, delivery: ChoiceDelivery
    ) -> None:
        """Have one engine go on, until the output ends or a token is refused.

        Raises:
            EngineFault: the engine broke off, refused the request, or has no plugin.
        """
        name = replica.client.name
        request.times.has_begun()
        sentinel = SentinelWatch(self._token_bytes)
        finish_reason: str | None = None
        async with (
            replica.request(request.share) as progress,
            replica.client.completion(self._body(replica, request, output), request.trace_headers) as chunks,
        ):
            async for chunk in chunks:
                progress()
                if chunk.tokens:
                    request.times.has_token()
                finish_reason = chunk.finish_reason or finish_reason
                tokens = chunk.tokens
                if request.recipe is not None:
                    tokens = tuple(sentinel.passed(tokens, is_last=chunk.finish_reason is not None))
                if sentinel.is_found:
                    replica.suspect()
                    raise PluginMissing(name)
                await deliver_verified(output, tokens, delivery, partial(self._threads.submit, request.share))
                if output.is_finished:
                    await self._hear_out(replica, output, delivery, chunks, is_done=finish_reason is not None)
                if not output.is_open:
                    return
        if finish_reason not in {"stop", "length"}:
            raise EngineBroke(name, f"broke off: {finish_reason or 'it sent no finish_reason'}")
        delivery.put(output.engine_stopped(is_cut=finish_reason == "length"))

    async def _hear_out(
        self,
        replica: Replica,
        output: VerifiedOutput,
        delivery: ChoiceDelivery,
        chunks: AsyncIterator[EngineChunk],
        *,
        is_done: bool,
    ) -> None:
        """End the delivery of an output that is whole; `is_done`: its engine has said that it is done, too.

        Where the engine tells what it had in its cache, the end waits for that, and for a stop token before.
        """
        if not (replica.client.reports_cached and output.num_requests == 1):
            delivery.end()
        num_cached = 0
        try:
            if is_done or (output.is_exhausted and replica.client.reports_cached):
                num_cached = await last_words(chunks)
        finally:  # also at the deadline: the output is whole
            delivery.end(min(num_cached, len(output.prompt_ids)))

    async def _in_thread(self, request: GenerationRequest, work: Callable[[], list[Event]]) -> list[Event]:
        """Do work in a thread that its client may have now; of one client, others are free.

        Also when cancelled, it ends before anybody else uses the output.
        """

        async def done() -> list[Event]:
            return await asyncio.wrap_future(self._threads.submit(request.share, work))

        return await to_the_end(done())

    def _body(
        self, replica: Replica, request: GenerationRequest, output: VerifiedOutput
    ) -> dict[str, object]:
        assert replica.model is not None, "a replica that takes requests has passed the canary"
        sampling, others = request.sampling, {}
        seed = seed_of(sampling.seed, output.choice, len(output.ids)) if self._settings.sends_seeds else None
        if request.constraint is None:
            others = {
                "stop_token_ids": list(request.stop_token_ids),
                "min_tokens": max(0, request.min_tokens - len(output.ids)),
            }
        salted = "" if self._settings.shares_prefixes else request.share
        return completion_body(
            replica.model.model_id,
            [*output.prompt_ids, *output.ids],
            output.remaining,
            replace(sampling, seed=seed),
            grammar=self._mark(request, output),
            num_logprobs=request.num_logprobs,
            cache_salt=hmac.digest(self._secret, b"cache salt " + salted.encode(), "sha256").hex(),
            **others,
        )

    def _mark(self, request: GenerationRequest, output: VerifiedOutput) -> str | None:
        if request.constraint is None:
            return None
        assert request.recipe is not None, "whoever compiles a grammar knows its recipe"
        written = tuple(output.ids)
        return spell_mark(
            request.recipe, is_thinking=output.is_thinking, secret=self._secret, written_ids=written
        )


def _affinity(request: GenerationRequest) -> bytes:
    """The tools and the conversation's head, which the requests of a conversation share."""
    if request.prompt is not None:
        return conversation_head(request.prompt[:256])
    first = next((i for i, m in enumerate(request.messages) if m.role == "user"), 0)
    head = [(message.role, message.content) for message in request.messages[: first + 1]]
    return conversation_head([[tool.name for tool in request.tools], head])
