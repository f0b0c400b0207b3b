"""The canary: a few short requests that show whether an engine constrains outputs by our grammars.

It runs before an engine gets its first request, after an outage, and every few minutes. Its grammars admit
only calls with words and lengths that no model knows: digests of the gateway's secret. An engine that applies
the masks writes them. Wherever a mask is missing, the model writes something else. Requests without a grammar
may write one letter only, which none of the calls begins with. If a model may think before its call, the
prompt ends with the beginning of the call, because a thought may be long. No request has a `logit_bias` where
that can be avoided: a vLLM that speculates refuses it. The canary checks that:

- the echoed prompt and the token ids are those of this vocabulary;
- the plugin runs: the sentence of an engine without it does not come;
- in two calls with two grammars in one batch, every token is allowed by its grammar; one of them repeats its
  word, so that an engine which speculates by earlier text drafts tokens, and has to refuse the last of them;
- if the engine applies guards, three strings have the exact lengths that only a guard knows; a model without
  guards writes just these with one secret in 4,096 at most;
- a request without a grammar in the same batch is not masked, and gets exactly `max_tokens` tokens;
- a call begins soon after that request ended: an engine where grammars get stuck is not only full. A request
  that the engine refuses for want of room is sent again until the canary's time is over;
- a request whose client leaves is aborted: the engine no longer computes it.
"""

import asyncio
import hmac
import math
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress

from compiler.cache.grammar_cache import GrammarCache, GrammarLookup
from compiler.constraint import Constraint
from compiler.matcher import Matcher
from compiler.output_parts import CallStart
from runtime.engines.client import EngineChunk, EngineClient, ServedModel
from runtime.engines.completion_request import CompletionRequest
from runtime.engines.sent_grammars import SentGrammars
from runtime.errors import CanaryUnfinished, EngineBroke, EngineFault, EngineFull, GrammarNotStored
from runtime.request import Sampling
from runtime.text.detokenizer import TokenBytes
from runtime.text.tokenizer import LoadedTokenizer
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

LETTERS = (b"a", b"e", b"A", b"x")
"""The letter of prompts and of requests without a grammar: the first that is a token."""
MAX_TOKENS = 1_024
"""More than any call takes, also if each character of its strings is written as two escapes, byte by byte."""
NUM_UNMASKED = 5
TIMEOUT_S = 120.0
"""The canary may take as long as a client's request waits for a token (`WatchSettings.stall_s`)."""
CALL_S = 30.0
"""After the end of the request without a grammar, the first token of a call may take so long. If the engine
refuses the call for want of room, this begins when the call is sent again."""
MIN_CHARACTERS = 9
"""The shortest string whose length a guard counts; the longest has 15 more."""
NUM_LOOKS, LOOK_S = 50, 0.1
"""How often, and with how many seconds between, the canary looks whether an aborted request is gone."""
_NOT_ABORTED = "goes on with requests whose client has left"


def _tool(name: str, parameters: Mapping[str, Mapping[str, object]]) -> Tool:
    required = {"type": "object", "required": [*parameters], "additionalProperties": False}
    return Tool(name, "Nothing", {**required, "properties": parameters})


def canary_tools(secret: bytes, *, has_guards: bool) -> tuple[Tool, Tool]:
    """Two tools, each with a word of its own. All gateways with this secret have the same."""
    digest = hmac.digest(secret, b"words of the canary", "sha256").hex()
    one, other = {"const": digest[:12]}, {"const": digest[12:24]}
    lengths = [MIN_CHARACTERS + int(digit, 16) for digit in digest[24:27]] if has_guards else []
    texts: dict[str, dict[str, object]] = {
        f"text{number}": {"type": "string", "minLength": length, "maxLength": length}
        for number, length in enumerate(lengths)
    }
    return (
        _tool("callgate_canary", {"word": one, **texts}),
        _tool("callgate_other", {"word": other, "again": other}),
    )


class Canary:
    """Checks engines of one model; its words are made from the secret."""

    def __init__(
        self, loaded: LoadedTokenizer, grammars: GrammarCache, sent_grammars: SentGrammars, secret: bytes
    ) -> None:
        self._loaded = loaded
        self._grammars = grammars
        self._sent = sent_grammars
        self._tools = canary_tools(secret, has_guards=sent_grammars.applies_guards)
        self._token_bytes = TokenBytes(loaded.vocabulary)
        self._not_aborted: set[str] = set()
        """Engines that went on with an abandoned request when this was last checked, and may still do so."""
        index = loaded.prepared.index
        spelled = dict(zip(index.spellings, index.ids, strict=True))
        self._letter_id = next((spelled[letter][0] for letter in LETTERS if letter in spelled), 0)

    async def check(self, client: EngineClient, model: ServedModel) -> None:
        """Run the canary on one engine.

        Raises:
            EngineFault: the engine must not be used; the message says what it did.
        """
        grammars = [await self._grammar(tool) for tool in self._tools]
        calls = _Calls()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await _all_good(
                    *(self._check_call(client, model, grammar, calls) for grammar in grammars),
                    self._check_text(client, model, calls),
                )
                await self._check_abort(client, model)
        except TimeoutError as error:
            raise CanaryUnfinished(client.name, TIMEOUT_S, await _num_running(client)) from error

    async def _grammar(self, tool: Tool) -> GrammarLookup:
        """The grammar of one call of a tool, stored where the engine reads it."""
        cached = await self._grammars.find_toolset(
            (tool,),
            prepared=self._loaded.prepared,
            syntax=self._loaded.syntax,
            tool_choice=ToolChoice(ChoiceMode.REQUIRED),
            is_parallel=False,
        )
        with suppress(GrammarNotStored):  # an engine that has read it before needs no store
            await self._sent.publish(cached.recipe, None, is_again=True)
        return cached

    async def _check_call(
        self, client: EngineClient, model: ServedModel, lookup: GrammarLookup, calls: "_Calls"
    ) -> None:
        """Check that a call follows its grammar."""
        matcher = lookup.grammar.matcher()
        begun_ids = _begun_ids(lookup.grammar, matcher)
        grammar = self._sent.of_lookup(lookup, begun_ids)
        plugin_watch = self._sent.watch(client.name)
        num_written = 0
        answer = self._chunks(client, model, MAX_TOKENS, grammar, begun_ids, calls=calls)
        async with aclosing(answer) as chunks:
            async for chunk in chunks:
                if chunk.tokens:
                    calls.note_begun()
                is_last = chunk.finish_reason is not None
                tokens = plugin_watch.passed(chunk.tokens, is_last=is_last) if plugin_watch else chunk.tokens
                for token in tokens:
                    num_written += 1
                    if not (self._token_bytes.has(token.token_id) and matcher.accept(token.token_id)):
                        reason = f"wrote a token against its grammar as token {num_written} of an output"
                        raise EngineBroke(client.name, f"{reason}; its masks are not in force")
        if not matcher.is_completed():
            raise EngineBroke(client.name, f"ended a call after {num_written} tokens, before it was complete")

    async def _check_text(self, client: EngineClient, model: ServedModel, calls: "_Calls") -> None:
        """Check the request without a grammar, and that a call begins soon after it."""
        ids: list[int] = []
        async with aclosing(self._chunks(client, model, NUM_UNMASKED, None)) as chunks:
            async for chunk in chunks:
                ids += [token.token_id for token in chunk.tokens]
                if len(ids) > NUM_UNMASKED:
                    break
        if len(ids) != NUM_UNMASKED:
            more_or_fewer = "more" if len(ids) > NUM_UNMASKED else "fewer"
            raise EngineBroke(
                client.name, f"wrote {more_or_fewer} tokens than the {NUM_UNMASKED} it was asked for"
            )
        if set(ids) != {self._letter_id}:
            reason = "wrote under a mask in a request that has none, or other tokens than it was told to"
            raise EngineBroke(client.name, reason)
        calls.give_time()
        if not await calls.wait():
            reason = f"answers without a grammar, but began no answer with one in {CALL_S:.0f} s"
            raise EngineBroke(client.name, reason)

    async def _check_abort(self, client: EngineClient, model: ServedModel) -> None:
        """Check that an abandoned request ends; only an engine with nothing else to do shows this.

        An abandoned request that goes on is something to do, but no reason to use the engine.
        """
        num_running = await client.num_running()
        if num_running == 1 and client.name in self._not_aborted:
            raise EngineBroke(client.name, _NOT_ABORTED)
        self._not_aborted.discard(client.name)
        if num_running != 0:
            return
        async with aclosing(self._chunks(client, model, MAX_TOKENS, None)) as chunks:
            await anext(chunks, None)
        for _ in range(NUM_LOOKS):
            if not await client.num_running():
                return
            await asyncio.sleep(LOOK_S)
        self._not_aborted.add(client.name)
        raise EngineBroke(client.name, _NOT_ABORTED)

    async def _chunks(
        self,
        client: EngineClient,
        model: ServedModel,
        max_tokens: int,
        grammar: str | None,
        begun_ids: Sequence[int] = (),
        *,
        calls: "_Calls | None" = None,
    ) -> AsyncGenerator[EngineChunk, None]:
        """The chunks of a request, which is sent again while the engine has no room for it.

        If it is one of the `calls`, they then have more time.
        """
        prompt_ids = [*([self._letter_id] * 8), *begun_ids]
        if model.context_length is not None:  # engines refuse a request for more
            max_tokens = max(1, min(max_tokens, model.context_length - len(prompt_ids)))
        request = CompletionRequest(
            model_id=model.model_id,
            prompt_ids=prompt_ids,
            max_tokens=max_tokens,
            sampling=Sampling(temperature=0.0),
            grammar=grammar,
            only_id=self._letter_id if grammar is None else None,
            repeats_prompt=True,
        )
        has_begun = False
        while True:
            try:
                async with aclosing(_chunks_of(client, request)) as chunks:
                    async for chunk in chunks:
                        has_begun |= bool(chunk.tokens)
                        yield chunk
            except EngineFull as fault:
                if has_begun:
                    raise
                if calls is not None:
                    calls.give_time(fault.retry_after_s)
                await asyncio.sleep(fault.retry_after_s)
            else:
                return


class _Calls:
    """Whether the engine has begun one of the canary's calls, and until when it should have."""

    def __init__(self) -> None:
        self._has_begun = asyncio.Event()
        self._ends_at = -math.inf

    def note_begun(self) -> None:
        """A token of a call came."""
        self._has_begun.set()

    def give_time(self, after_s: float = 0.0) -> None:
        """A call should begin soon, from `after_s` seconds on."""
        self._ends_at = max(self._ends_at, asyncio.get_running_loop().time() + after_s + CALL_S)

    async def wait(self) -> bool:
        """Wait until a call has begun; False if none has in time."""
        now = asyncio.get_running_loop().time
        while not self._has_begun.is_set() and (left_s := self._ends_at - now()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._has_begun.wait()
        return self._has_begun.is_set()


async def _chunks_of(client: EngineClient, request: CompletionRequest) -> AsyncGenerator[EngineChunk, None]:
    """The chunks of a completion whose first repeats the prompt, if the client's engines do that."""
    has_echo = not client.repeats_prompts
    async with client.completion(request) as chunks:
        async for chunk in chunks:
            if chunk.prompt_ids is not None:
                has_echo = True
                if list(chunk.prompt_ids) != list(request.prompt_ids):
                    raise EngineBroke(client.name, "computed another prompt than the token ids it was sent")
            yield chunk
    if not has_echo:
        raise EngineBroke(client.name, "does not repeat the token ids of the prompt")


async def _num_running(client: EngineClient) -> int | None:
    """How many requests the engine says that it computes, if it says so."""
    with suppress(EngineFault):
        return await client.num_running()
    return None


def _begun_ids(grammar: Constraint, matcher: Matcher) -> tuple[int, ...]:
    """The beginning of a call, up to its name, if a thought may come before it.

    The matcher has accepted it then.
    """
    closer = grammar.closer()
    if closer is None or grammar.syntax is None or not grammar.syntax.frames_prose:
        return ()
    begun: list[int] = []
    for token_id in closer.completion_ids(MAX_TOKENS):
        accepted = matcher.accept(token_id)
        assert accepted, "the grammar allows what its closer writes"
        begun.append(token_id)
        if any(isinstance(part, CallStart) for part in matcher.parts()):
            break
    return tuple(begun)


async def _all_good(*checks: Coroutine[object, object, None]) -> None:
    """Run checks concurrently; the first that fails cancels the others.

    `asyncio.TaskGroup` (before Python 3.13) and `asyncio.gather` lose a cancellation that arrives while one
    of their tasks fails. The task that watches an engine would then outlive its gateway.
    """
    tasks = [asyncio.create_task(check) for check in checks]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
