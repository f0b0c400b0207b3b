"""Completions: from a turn to the generation that answers it, for every wire format.

`Completions.start` takes these steps: find the model, resolve the toolsets, join their tools with the inline
ones, check the tool choice, find or compile the grammar, and have the runtime generate.
"""

import asyncio
from dataclasses import replace
from itertools import islice

from compiler.cache.grammar_cache import GrammarCache, GrammarLookup
from compiler.errors import UnsupportedToolset
from compiler.report import MAX_IGNORED
from compiler.syntaxes import find_syntax
from gateway.errors import InvalidField, NoEffect, NotReady, RefusedTool
from gateway.generation.allowance import Allowance, expected_tokens, metered
from gateway.generation.generation import Generation, Observer, PreparedTurn
from gateway.generation.generation_request import (
    generation_request,
    ignored_keywords,
    without_effect,
    without_oldest,
)
from gateway.generation.model_names import split_model
from gateway.generation.tool_finder import FoundTools, ToolFinder
from gateway.generation.turn import Turn
from gateway.http.deadline import Deadline
from gateway.http.held_contents import Holding
from gateway.telemetry.turn_recorder import Telemetry, TurnRecorder
from runtime.errors import PromptTooLong
from runtime.protocol import ModelCard, Runtime
from toolspecs.tool import ChoiceMode, Tool
from toolspecs.toolset import ToolsetReference

QUICK_LOOKUP_S = 0.5
"""Within this time, grammars are found that need not be compiled, or of few tools."""


class Completions:
    """Finds the model, the tools and the grammar of a turn, and lets the runtime generate.

    Turns of a `tenant` do not learn where their grammar was found. With `is_strict`, a turn is refused if one
    of its fields has no effect.
    """

    def __init__(
        self,
        tools: ToolFinder,
        grammars: GrammarCache,
        runtime: Runtime,
        telemetry: Telemetry,
        *,
        max_choices: int,
        request_seconds: float | None,
        tenant: str | None,
        is_strict: bool,
    ) -> None:
        self._tools = tools
        self._grammars = grammars
        self._runtime = runtime
        self._telemetry = telemetry
        self._max_choices = max_choices
        self._request_seconds = request_seconds
        self._tenant = tenant
        self._is_strict = is_strict

    async def start(
        self,
        turn: Turn,
        allowance: Allowance | None = None,
        holding: Holding | None = None,
        *,
        arrived: float | None = None,
    ) -> Generation:
        """Begin to answer a turn; when this returns, the first event has come.

        Tokens are charged to the `allowance`, and toolsets count in the `holding` until the request is
        answered. The deadline counts from `arrived`, a time of the monotonic clock, by default now.

        Raises:
            InvalidField: fields of the turn contradict each other.
            NoEffect: a field has no effect, and turns must be strict.
            ToolspecsError: a toolset or revision does not exist.
            RefusedTool, UnsupportedToolset, UnsupportedSchema: a schema of the request cannot be enforced.
            RuntimeFault: the runtime cannot answer, or not in time.
            RateLimited: the allowance has too few tokens left.
            TooMuchHeld: the running requests of the client hold too much.
        """
        deadline = Deadline(turn.timeout_s, self._request_seconds, since=arrived)
        if turn.num_choices > self._max_choices:
            reason = f"the request asks for {turn.num_choices}"
            raise InvalidField("n", f"the setting max_choices allows {self._max_choices}; {reason}")
        model, suffix = await self._model(turn)
        recorder = self._telemetry.record_turn(model.model_id, turn.operation)
        with recorder.beginning():
            async with deadline.enforced():
                revisions = await self._tools.revisions((*turn.toolsets, *suffix), turn.client_id, holding)
                recorder.record_toolsets(revisions)
                found = await self._tools.find(turn, model, revisions, remaining_s=deadline.remaining_s())
                recorder.record_search(found.search_result)
                prepared = await self._prepared(turn, model, found, recorder, deadline)
                expected = expected_tokens(prepared.request, model.context_length)
                reservation = await allowance.reserve_tokens(expected.total) if allowance else None
            with metered(allowance, reservation, recorder, expected, turn.num_choices) as observer:
                return await self._begin_within_context(prepared, deadline, recorder, observer)

    async def _prepared(
        self, turn: Turn, model: ModelCard, found: FoundTools, recorder: TurnRecorder, deadline: Deadline
    ) -> PreparedTurn:
        """The turn with its grammar; raises what `start` raises of grammars and fields."""
        try:
            lookup = await self._lookup_unless_too_long(turn, model, found, recorder, deadline)
        except UnsupportedToolset as error:
            raise _with_index(error, turn.tools) from error
        request = generation_request(turn, model, found, lookup)
        request = replace(request, trace_headers=recorder.trace_headers())
        return PreparedTurn(turn, model, found, lookup, self._ignored(turn, model, lookup), request)

    def _ignored(self, turn: Turn, model: ModelCard, lookup: GrammarLookup | None) -> tuple[str, ...]:
        """The fields without effect, and the first such keywords.

        Raises NoEffect if it is strict, and there is such a field, or a keyword that is a slip.
        """
        fields = tuple(without_effect(turn, model, lookup))
        keywords = tuple(islice(ignored_keywords(turn, lookup), MAX_IGNORED)) if lookup else ()
        if self._is_strict:
            for name in fields:
                raise NoEffect(name)
            for path, entry in keywords:
                if entry.is_slip:
                    raise NoEffect(path, entry.note)
        return (*fields, *(path for path, _ in keywords))

    async def _begin_within_context(
        self, prepared: PreparedTurn, deadline: Deadline, recorder: TurnRecorder, observer: Observer
    ) -> Generation:
        """Begin the generation of a turn; when this returns, the first event has come.

        If the turn allows it and the prompt is too long for the model, its oldest messages are left out. Each
        try renders the whole prompt, so each leaves out twice as many exchanges as the one before.
        """
        num_exchanges = 1
        while True:
            request = replace(prepared.request, timeout_s=deadline.remaining_s())
            prepared = replace(prepared, request=request)
            recorder.record_request(request)
            generation = Generation(
                prepared,
                self._runtime.generate(request),
                observer,
                deadline,
                tells_grammar_source=self._tenant is None,
            )
            try:
                await generation.begin()
            except PromptTooLong as error:
                shorter = request.messages
                if prepared.turn.truncates:
                    shorter = await asyncio.to_thread(without_oldest, request.messages, error, num_exchanges)
                if len(shorter) == len(request.messages):
                    raise _with_remedy(error, request.tools, prepared.found) from error
                prepared = replace(prepared, request=replace(request, messages=shorter))
                num_exchanges *= 2
            else:
                return generation

    async def prompt_ids(
        self, turn: Turn, holding: Holding | None = None, *, arrived: float | None = None
    ) -> list[int]:
        """The token ids of the turn's prompt; `holding` and `arrived` as in `start`.

        Raises:
            InvalidField, ToolspecsError, RuntimeFault: as `start` does.
        """
        deadline = Deadline(turn.timeout_s, self._request_seconds, since=arrived)
        model, suffix = await self._model(turn)
        async with deadline.enforced():
            revisions = await self._tools.revisions((*turn.toolsets, *suffix), turn.client_id, holding)
            found = await self._tools.find(turn, model, revisions, remaining_s=deadline.remaining_s())
            return await self._prompt_ids(turn, model, found, deadline)

    async def _prompt_ids(
        self, turn: Turn, model: ModelCard, found: FoundTools, deadline: Deadline, *, must_fit: bool = False
    ) -> list[int]:
        """The token ids of the prompt.

        Raises:
            PromptTooLong: the prompt must fit into the model's context and does not, or is so long that the
                runtime does not even tokenize it.
        """
        request = generation_request(turn, model, found, None)
        request = replace(request, timeout_s=deadline.remaining_s())
        try:
            prompt_ids = await self._runtime.prompt_ids(request)
        except PromptTooLong as error:
            raise _with_remedy(error, request.tools, found) from error
        if must_fit and len(prompt_ids) >= model.context_length:
            raise _with_remedy(PromptTooLong(len(prompt_ids), model.context_length), request.tools, found)
        return prompt_ids

    async def _model(self, turn: Turn) -> tuple[ModelCard, tuple[ToolsetReference, ...]]:
        """The model that the turn names, and the toolset that the model's name may contain.

        Raises InvalidField if it contains one although the client wrote the prompt, which shows no tools.
        """
        health = await self._runtime.health()
        if not health.is_ready:
            raise NotReady(health.reason or "no model is ready")
        model, toolsets = split_model(turn.model, await self._runtime.models())
        if toolsets and turn.prompt is not None:
            reason = "there are no tools here; leave out the toolset, or use /v1/chat/completions"
            raise InvalidField("model", reason)
        return model, toolsets

    async def _lookup_unless_too_long(
        self, turn: Turn, model: ModelCard, found: FoundTools, recorder: TurnRecorder, deadline: Deadline
    ) -> GrammarLookup | None:
        """As `_lookup`; if that takes a while, the prompt is rendered meanwhile.

        Otherwise a thousand tools would be compiled for half a minute for a prompt that is too long.
        """
        looking_up = asyncio.create_task(self._lookup(turn, model, found, recorder))
        try:
            await asyncio.wait({looking_up}, timeout=QUICK_LOOKUP_S)
            if not looking_up.done() and turn.prompt is None and not turn.truncates:
                await self._prompt_ids(turn, model, found, deadline, must_fit=True)
            return await looking_up
        finally:
            looking_up.cancel()
            await asyncio.gather(looking_up, return_exceptions=True)

    async def _lookup(
        self, turn: Turn, model: ModelCard, found: FoundTools, recorder: TurnRecorder
    ) -> GrammarLookup | None:
        """The grammar of a turn, found or compiled; None if nothing constrains the answer."""
        # Some syntaxes put frames around plain text too. A grammar makes the model write them correctly.
        has_frames = find_syntax(model.syntax).frames_prose and turn.prompt is None
        if not found.tools and not turn.response_format and not has_frames:
            return None
        tool_choice = found.tool_choice
        with recorder.finding_grammar(found.revisions) as span:
            if turn.response_format and (not found.tools or tool_choice.mode is ChoiceMode.NONE):
                lookup = await self._grammars.find_format(
                    turn.response_format,
                    prepared=model.prepared,
                    syntax=None if turn.prompt is not None else model.syntax,
                    key_order=turn.key_order,
                    client_id=turn.client_id,
                )
            else:
                lookup = await self._grammars.find_toolset(
                    found.tools,
                    prepared=model.prepared,
                    syntax=model.syntax,
                    tool_choice=tool_choice,
                    is_parallel=turn.is_parallel and not tool_choice.is_named,
                    response_format=turn.response_format,
                    key_order=turn.key_order,
                    client_id=turn.client_id,
                )
            span.record(lookup.grammar.digest, lookup.source, lookup.wait_ms)
            return lookup


def _with_index(error: UnsupportedToolset, inline: tuple[Tool, ...]) -> Exception:
    """The refusal, with the index of the first inline tool that it names, if any."""
    refused = {name for name, _ in error.refusals}
    index = next((i for i, tool in enumerate(inline) if tool.name in refused), None)
    return error if index is None else RefusedTool(index, str(error))


def _with_remedy(error: PromptTooLong, shown: tuple[Tool, ...], found: FoundTools) -> PromptTooLong:
    """The error, with advice on showing fewer tools if those shown are most of the prompt."""
    if len(shown) < 2:
        return error
    names = ", ".join(repr(revision.toolset.name) for revision in found.revisions)
    plural = "s" if len(found.revisions) > 1 else ""
    whose = f"of the toolset{plural} {names}" if found.revisions else "of the request"
    remedy = (
        f"a `limit` of `tool_search` below {len(found.search_result.tools)} shows fewer"
        if found.search_result
        else '`"tool_search": {"limit": 20}` shows only those that fit the conversation best'
    )
    reason = f"it shows {len(shown)} tools {whose}; {remedy}"
    return PromptTooLong(
        error.num_prompt_tokens,
        error.context_length,
        at_least=error.at_least,
        num_reserved=error.num_reserved,
        remedy=reason,
    )
