"""Completions: from a turn to the generation that answers it, for every wire format.

`Completions.start` takes these steps: find the model, resolve the toolsets, join their tools with the inline
ones, check the tool choice, find or compile the grammar, and have the runtime generate.
"""

import asyncio
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from compiler.cache.grammar_cache import GrammarCache, GrammarLookup
from compiler.errors import UnsupportedToolset
from compiler.report import MAX_IGNORED
from compiler.syntaxes import find_syntax
from gateway.errors import InvalidField, NoEffect, NotReady, RefusedTool
from gateway.generation.allowance import Allowance, expected_tokens, metered
from gateway.generation.generation_request import (
    generation_request,
    ignored_keywords,
    without_effect,
    without_oldest,
)
from gateway.generation.inspected_tokens import InspectedTokens
from gateway.generation.joined_tools import check_together, join_tools
from gateway.generation.model_names import split_model
from gateway.generation.tool_search import ToolSearcher
from gateway.generation.turn import Generation, Observer, Turn
from gateway.http.deadline import Deadline
from gateway.http.held_contents import Holding
from gateway.telemetry.turn_recorder import Telemetry, TurnRecorder
from gateway.version import VERSION
from runtime.errors import PromptTooLong
from runtime.protocol import ModelCard, Runtime
from runtime.request import GenerationRequest
from toolspecs.catalog import Catalog
from toolspecs.nearest import MAX_NAME, instead, shorten
from toolspecs.tool import ChoiceMode, Tool, ToolChoice, ToolSearchResult
from toolspecs.toolset import Revision, ToolsetReference


@dataclass(frozen=True, slots=True)
class _PreparedTurn:
    """A turn with everything that was found for it."""

    turn: Turn
    model: ModelCard
    tool_choice: ToolChoice
    tools: tuple[Tool, ...]
    revisions: tuple[Revision, ...]
    search_result: ToolSearchResult | None
    lookup: GrammarLookup | None
    ignored: tuple[str, ...]
    request: GenerationRequest


class Completions:
    """Finds the model, the tools and the grammar of a turn, and lets the runtime generate.

    Turns of a `tenant` do not learn where their grammar was found. With `is_strict`, a turn is refused if one
    of its fields has no effect.
    """

    def __init__(
        self,
        catalog: Catalog,
        grammars: GrammarCache,
        runtime: Runtime,
        telemetry: Telemetry,
        searcher: ToolSearcher,
        *,
        max_choices: int,
        request_seconds: float | None,
        tenant: str | None,
        is_strict: bool,
    ) -> None:
        self._catalog = catalog
        self._grammars = grammars
        self._runtime = runtime
        self._telemetry = telemetry
        self._searcher = searcher
        self._max_choices = max_choices
        self._request_seconds = request_seconds
        self._tenant = tenant
        self._is_strict = is_strict

    async def start(
        self,
        turn: Turn,
        client_id: str = "",
        allowance: Allowance | None = None,
        holding: Holding | None = None,
        *,
        arrived: float | None = None,
    ) -> Generation:
        """Begin to answer a turn; when this returns, the first event has come.

        `client_id` says whose turn it is in queues. Tokens are charged to the `allowance`, and toolsets count
        in the `holding` until the request is answered. The deadline counts from `arrived`, a time of the
        monotonic clock, by default now.

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
            raise InvalidField(
                "n",
                f"at most {self._max_choices} choices are allowed; the request asks for {turn.num_choices}",
            )
        model, suffix = await self._model(turn)
        recorder = self._telemetry.record_turn(model.model_id)
        with recorder.beginning():
            async with deadline.enforced():
                revisions = await self._revisions((*turn.toolsets, *suffix), client_id, holding)
                prepared = await self._prepared(
                    turn, model, revisions, deadline, recorder=recorder, client_id=client_id
                )
                expected = expected_tokens(prepared.request, model.context_length)
                reservation = await allowance.reserve_tokens(expected.total) if allowance else None
            with metered(allowance, reservation, recorder, expected, turn.num_choices) as observer:
                return await self._begin_within_context(prepared, deadline, recorder, observer)

    async def _prepared(
        self,
        turn: Turn,
        model: ModelCard,
        revisions: tuple[Revision, ...],
        deadline: Deadline,
        *,
        recorder: TurnRecorder,
        client_id: str,
    ) -> _PreparedTurn:
        """The turn with its tools and grammar; raises what `start` raises before it calls the runtime."""
        recorder.record_toolsets(revisions)
        tools = await self._joined(revisions, turn.tools)
        tool_choice = check_tool_choice(turn, tools)
        tools, search_result = await self._searcher.find(
            turn, model, tools, revisions, client_id, remaining_s=deadline.remaining_s()
        )
        recorder.record_search(search_result)
        try:
            lookup = await self._lookup(
                turn, model, tools, tool_choice, revisions, recorder=recorder, client_id=client_id
            )
        except UnsupportedToolset as error:
            raise _with_index(error, turn.tools) from error
        ignored = self._ignored(turn, model, lookup)
        request = replace(
            generation_request(turn, model, tools, lookup, revisions),
            client_id=client_id,
            trace_headers=recorder.trace_headers(),
        )
        return _PreparedTurn(
            turn, model, tool_choice, tools, revisions, search_result, lookup, ignored, request
        )

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
        self, prepared: _PreparedTurn, deadline: Deadline, recorder: TurnRecorder, observer: Observer
    ) -> Generation:
        """Begin the generation of a turn; when this returns, the first event has come.

        If the turn allows it and the prompt is too long for the model, its oldest messages are left out. Each
        try renders the whole prompt, so each leaves out twice as many exchanges as the one before.
        """
        request, num_exchanges = prepared.request, 1
        while True:
            request = replace(request, timeout_s=deadline.remaining_s())
            recorder.record_request(request)
            generation = self._generation(prepared, request, deadline, observer)
            try:
                await generation.begin()
            except PromptTooLong as error:
                shorter = request.messages
                if prepared.turn.truncates:
                    shorter = await asyncio.to_thread(without_oldest, request.messages, error, num_exchanges)
                if len(shorter) == len(request.messages):
                    raise _with_remedy(
                        error, request.tools, prepared.revisions, prepared.search_result
                    ) from error
                request = replace(request, messages=shorter)
                num_exchanges *= 2
            else:
                return generation

    def _generation(
        self, prepared: _PreparedTurn, request: GenerationRequest, deadline: Deadline, observer: Observer
    ) -> Generation:
        """The generation for one request of a turn; `_begin_within_context` waits for its first event."""
        turn, tools = prepared.turn, prepared.tools
        return Generation(
            request_id=request.request_id,
            model_id=prepared.model.model_id,
            num_choices=turn.num_choices,
            sampling=request.sampling,
            is_named=prepared.tool_choice.is_named,
            has_logprobs=turn.num_logprobs is not None,
            toolsets=tuple(revision.summary for revision in prepared.revisions),
            lookup=prepared.lookup,
            tells_grammar_source=self._tenant is None,
            fingerprint=fingerprint(prepared.model),
            runtime_events=self._runtime.generate(request),
            observer=observer,
            deadline=deadline,
            custom=frozenset(tool.name for tool in tools if tool.custom and turn.has_custom_calls),
            inspected=InspectedTokens(tools, turn.response_format) if turn.is_inspected else None,
            ignored=prepared.ignored,
            num_dropped=len(turn.messages) - len(request.messages),
            search_result=prepared.search_result,
        )

    async def prompt_ids(
        self,
        turn: Turn,
        client_id: str = "",
        holding: Holding | None = None,
        *,
        arrived: float | None = None,
    ) -> list[int]:
        """The token ids of the turn's prompt; `client_id`, `holding` and `arrived` as in `start`.

        Raises:
            InvalidField, ToolspecsError, RuntimeFault: as `start` does.
        """
        deadline = Deadline(turn.timeout_s, self._request_seconds, since=arrived)
        model, suffix = await self._model(turn)
        async with deadline.enforced():
            revisions = await self._revisions((*turn.toolsets, *suffix), client_id, holding)
            tools = await self._joined(revisions, turn.tools)
            tools, search_result = await self._searcher.find(
                turn, model, tools, revisions, client_id, remaining_s=deadline.remaining_s()
            )
            request = generation_request(turn, model, tools, None, revisions)
            request = replace(request, timeout_s=deadline.remaining_s(), client_id=client_id)
            try:
                return await self._runtime.prompt_ids(request)
            except PromptTooLong as error:
                raise _with_remedy(error, request.tools, revisions, search_result) from error

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

    async def _revisions(
        self, references: Iterable[ToolsetReference], client_id: str, holding: Holding | None
    ) -> tuple[Revision, ...]:
        """The revisions, which are held; what is too large together is refused before more of it is read."""
        by_name: dict[str, Revision] = {}
        for reference in dict.fromkeys(references):
            revision = await self._catalog.resolve(reference)
            if holding is not None:
                holding.hold_toolset(client_id, revision.toolset)
            other = by_name.setdefault(reference.name, revision)
            if other.number != revision.number:
                reason = f"{reference.name!r} is named at revisions {other.number} and {revision.number}"
                raise InvalidField("toolset", f"{reason}; name it once, at the revision that you mean")
            check_together(tuple(by_name.values()), (), self._catalog.limits)
        return tuple(by_name.values())

    async def _joined(self, revisions: tuple[Revision, ...], inline: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """The tools of a request; a thread joins them if needed. Raises what `join_tools` raises."""
        if not inline and len(revisions) <= 1:
            return revisions[0].toolset.tools if revisions else ()
        return await asyncio.to_thread(join_tools, revisions, inline, self._catalog.limits)

    async def _lookup(
        self,
        turn: Turn,
        model: ModelCard,
        tools: tuple[Tool, ...],
        tool_choice: ToolChoice,
        revisions: tuple[Revision, ...],
        *,
        recorder: TurnRecorder,
        client_id: str,
    ) -> GrammarLookup | None:
        """The grammar of a turn, found or compiled; None if nothing constrains the answer."""
        # Some syntaxes put frames around plain text too. A grammar makes the model write them correctly.
        has_frames = find_syntax(model.syntax).frames_prose and turn.prompt is None
        if not tools and not turn.response_format and not has_frames:
            return None
        with recorder.finding_grammar(revisions) as span:
            if turn.response_format and (not tools or tool_choice.mode is ChoiceMode.NONE):
                lookup = await self._grammars.find_format(
                    turn.response_format,
                    prepared=model.prepared,
                    syntax=None if turn.prompt is not None else model.syntax,
                    key_order=turn.key_order or "declared",
                    client_id=client_id,
                )
            else:
                lookup = await self._grammars.find_toolset(
                    tools,
                    prepared=model.prepared,
                    syntax=model.syntax,
                    tool_choice=tool_choice,
                    is_parallel=turn.is_parallel and not tool_choice.is_named,
                    response_format=turn.response_format,
                    key_order=turn.key_order,
                    client_id=client_id,
                )
            span.record(lookup.grammar.digest, lookup.source, lookup.wait_ms)
            return lookup


def fingerprint(model: ModelCard) -> str:
    """What a model's answers depend on besides the request, as a short digest; the weights are not read."""
    parts = (VERSION, model.model_id, model.syntax, model.vocabulary.digest)
    return "fp_" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]


def check_tool_choice(turn: Turn, tools: tuple[Tool, ...]) -> ToolChoice:
    """The tool choice, or its default; raises InvalidField if it does not fit the tools."""
    if turn.tool_choice is None:
        return ToolChoice(ChoiceMode.AUTO if tools else ChoiceMode.NONE)
    if not tools and (turn.tool_choice.mode is ChoiceMode.REQUIRED or turn.tool_choice.allowed):
        raise InvalidField("tool_choice", "this choice needs tools: send `tools`, or name a `toolset`")
    names = dict.fromkeys(tool.name for tool in tools)
    for name in turn.tool_choice.allowed or ():
        if name not in names:
            reason = f"there is no tool {shorten(name, MAX_NAME)!r} in this request{instead(name, names)}"
            raise InvalidField("tool_choice", reason)
    return turn.tool_choice


def _with_index(error: UnsupportedToolset, inline: tuple[Tool, ...]) -> Exception:
    """The refusal, with the index of the first inline tool that it names, if any."""
    refused = {name for name, _ in error.refusals}
    index = next((i for i, tool in enumerate(inline) if tool.name in refused), None)
    return error if index is None else RefusedTool(index, str(error))


def _with_remedy(
    error: PromptTooLong,
    tools: tuple[Tool, ...],
    revisions: tuple[Revision, ...],
    search_result: ToolSearchResult | None,
) -> PromptTooLong:
    """The error, with advice on showing fewer tools if these are most of the prompt."""
    if len(tools) < 2:
        return error
    names = ", ".join(repr(str(revision.toolset.name)) for revision in revisions)
    whose = f"of the toolset{'s' if len(revisions) > 1 else ''} {names}" if revisions else "of the request"
    remedy = (
        f"a `limit` of `tool_search` below {len(search_result.tools)} shows fewer"
        if search_result
        else '`"tool_search": {"limit": 20}` shows only those that fit the conversation best'
    )
    reason = f"it shows {len(tools)} tools {whose}; {remedy}"
    return PromptTooLong(
        error.num_prompt_tokens, error.context_length, at_least=error.at_least, remedy=reason
    )
