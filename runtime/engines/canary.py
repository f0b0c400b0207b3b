"""The canary: a few short requests that show whether an engine holds outputs to our grammars.

It runs before an engine gets its first request, when it comes back, and every few minutes. All requests have
a bias of 100 towards one letter. An engine whose masks are in force writes a call nonetheless; one without
writes that letter, and at any place where a mask is missing it would write it, too:

- the echoed prompt, and the ids of each token, are those of this vocabulary;
- the plugin is there: its sentinel does not come;
- every token of two calls, of two grammars in one batch, is of its grammar; the first string is filled with
  the letter up to its `maxLength`, where a guard has to end it;
- beside them, a request without a grammar is not masked, and gets exactly `max_tokens` tokens;
- a request that is left is aborted: it is no longer among those that the engine computes.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

from compiler.cache.grammar_cache import GrammarCache, GrammarLookup
from runtime.engines.client import EngineChunk, ServedModel, VllmClient
from runtime.engines.completion_request import SentinelWatch, completion_body
from runtime.engines.mark import spell_mark
from runtime.errors import EngineBroke, PluginMissing
from runtime.request import Sampling
from runtime.text.detokenizer import TokenBytes
from runtime.text.tokenizer import LoadedTokenizer
from toolspecs.errors import StoreUnavailable
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

LETTERS = (b"a", b"e", b"A", b"x")
"""The letter of the bias: the first that is a token."""
MAX_TOKENS = 200
NUM_UNMASKED = 5
TIMEOUT_S = 60.0
MAX_LENGTH = 24
NUM_LOOKS, LOOK_S = 50, 0.1
"""How often, and with how many seconds between, the canary looks whether an aborted request is gone."""

_TOOLS = (
    Tool(
        "callgate_canary",
        "Nothing",
        {
            "type": "object",
            "properties": {"text": {"type": "string", "maxLength": MAX_LENGTH}},
            "required": ["text"],
            "additionalProperties": False,
        },
    ),
    Tool(
        "callgate_other",
        "Nothing",
        {
            "type": "object",
            "properties": {"number": {"type": "integer", "minimum": 10, "maximum": 99}},
            "required": ["number"],
            "additionalProperties": False,
        },
    ),
)


class Canary:
    """Checks engines of one model."""

    def __init__(self, text: LoadedTokenizer, grammars: GrammarCache, secret: bytes) -> None:
        self._text = text
        self._grammars = grammars
        self._secret = secret
        self._token_bytes = TokenBytes(text.vocabulary)
        index = text.prepared.index
        spelled = dict(zip(index.spellings, index.ids, strict=True))
        self._letter_id = next((spelled[one][0] for one in LETTERS if one in spelled), 0)

    async def check(self, client: VllmClient, model: ServedModel) -> None:
        """Run it.

        Raises:
            EngineFault: the engine must not be used; says what it did.
        """
        grammars = [await self._grammar(tool) for tool in _TOOLS]
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await _all_good(
                    *(self._check_call(client, model, grammar) for grammar in grammars),
                    self._check_text(client, model),
                )
                await self._check_abort(client, model)
        except TimeoutError as error:
            raise EngineBroke(client.name, f"did not finish the canary in {TIMEOUT_S:.0f} s") from error

    async def _grammar(self, tool: Tool) -> GrammarLookup:
        """The grammar of one call of a tool, stored where the engine reads it."""
        found = await self._grammars.toolset(
            (tool,),
            prepared=self._text.prepared,
            syntax=self._text.syntax,
            choice=ToolChoice(ChoiceMode.REQUIRED),
            parallel=False,
        )
        with suppress(StoreUnavailable):  # an engine that has read it before needs no store
            await self._grammars.publish(found.recipe, None)
        return found

    async def _check_call(self, client: VllmClient, model: ServedModel, grammar: GrammarLookup) -> None:
        mark = spell_mark(grammar.recipe, is_thinking=False, secret=self._secret)
        sentinel = SentinelWatch(self._token_bytes)
        matcher = grammar.grammar.matcher()
        num_written = 0
        async with aclosing(self._chunks(client, model, MAX_TOKENS, mark)) as chunks:
            async for chunk in chunks:
                for token in sentinel.passed(chunk.tokens, is_last=chunk.finish_reason is not None):
                    num_written += 1
                    if not (self._token_bytes.has(token.token_id) and matcher.accept(token.token_id)):
                        reason = f"wrote a token against its grammar as token {num_written} of an output"
                        raise EngineBroke(client.name, f"{reason}; its masks are not in force")
                if sentinel.is_found:
                    raise PluginMissing(client.name)
        if not matcher.is_completed():
            raise EngineBroke(client.name, f"ended a call after {num_written} tokens, before it was complete")

    async def _check_text(self, client: VllmClient, model: ServedModel) -> None:
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
        if ids[0] != self._letter_id:
            reason = "wrote under a mask in a request that has none, or ignores logit_bias"
            raise EngineBroke(client.name, reason)

    async def _check_abort(self, client: VllmClient, model: ServedModel) -> None:
        """Only an engine with nothing else to do shows whether a request is gone."""
        if await client.num_running() != 0:
            return
        async with aclosing(self._chunks(client, model, MAX_TOKENS * 5, None)) as chunks:
            await anext(chunks, None)
        for _ in range(NUM_LOOKS):
            if not await client.num_running():
                return
            await asyncio.sleep(LOOK_S)
        raise EngineBroke(client.name, "goes on with requests whose client has left")

    async def _chunks(
        self, client: VllmClient, model: ServedModel, max_tokens: int, mark: str | None
    ) -> AsyncGenerator[EngineChunk, None]:
        prompt_ids = self._prompt_ids()
        sampling = replace(Sampling(temperature=0.0), logit_bias={self._letter_id: 100.0})
        body = completion_body(model.model_id, prompt_ids, max_tokens, sampling, grammar=mark)
        has_echo = False
        async with client.completion(body) as chunks:
            async for chunk in chunks:
                if chunk.prompt_ids is not None:
                    has_echo = True
                    if list(chunk.prompt_ids) != prompt_ids:
                        raise EngineBroke(
                            client.name, "computed another prompt than the token ids it was sent"
                        )
                yield chunk
        if not has_echo:
            raise EngineBroke(client.name, "does not repeat the token ids of the prompt")

    def _prompt_ids(self) -> Sequence[int]:
        return [self._letter_id] * 8


async def _all_good(*checks: Coroutine[object, object, None]) -> None:
    """Run checks beside each other; the first that fails ends the others.

    An `asyncio.TaskGroup` (before Python 3.13) and `asyncio.gather` forget that they are cancelled while one
    of their tasks fails: the watch of an engine would outlive its gateway.
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
