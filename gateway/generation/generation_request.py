"""Makes the generation request of a turn: the tools that the prompt shows, and the messages that fit."""

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate, chain, dropwhile, takewhile
from typing import Any

from compiler.cache.grammar_cache import GrammarLookup
from compiler.report import ReportEntry
from gateway.generation.tool_finder import FoundTools
from gateway.generation.turn import Turn
from gateway.http.error_details import field_path
from runtime.errors import PromptTooLong
from runtime.protocol import ModelCard
from runtime.request import GenerationRequest, Message, Sampling
from runtime.selection import Selection
from toolspecs.json_pointer import child
from toolspecs.tool import ChoiceMode, ShownTools, Tool, ToolChoice
from toolspecs.toolset import Revision

_THINKING_SWITCHES = ("enable_thinking", "thinking")
"""The variables by which chat templates switch thinking on and off (Qwen, GLM; DeepSeek)."""


def shown_tools(
    turn: Turn, model: ModelCard, tools: tuple[Tool, ...], revisions: Iterable[Revision]
) -> tuple[Tool, ...]:
    """The tools whose definitions the prompt shows; the grammar decides which tools may be called.

    The request decides, or else the tool's toolset, or else the model's settings.
    """
    tool_choice = turn.tool_choice or ToolChoice()
    toolsets = [revision.toolset for revision in revisions if revision.toolset.prompt_tools]
    by_tool = {tool.name: toolset.prompt_tools for toolset in toolsets for tool in toolset.tools}
    allowed = None if tool_choice.allowed is None else frozenset(tool_choice.allowed)

    def is_shown(tool: Tool) -> bool:
        match turn.prompt_tools or by_tool.get(tool.name) or model.prompt_tools:
            case ShownTools.NONE:
                return False
            case ShownTools.ALLOWED:
                return tool_choice.mode is not ChoiceMode.NONE and (allowed is None or tool.name in allowed)
        return True

    return tuple(filter(is_shown, tools))


def generation_request(
    turn: Turn, model: ModelCard, found: FoundTools, lookup: GrammarLookup | None
) -> GenerationRequest:
    """The generation request of a turn with its tools; `lookup` has its grammar, if it has one.

    Where calls are required, no text is the answer in the format: models that frame prose may write some
    first.
    """
    must_call = found.tool_choice.mode is ChoiceMode.REQUIRED
    return GenerationRequest(
        request_id=uuid.uuid4().hex,
        model=model.model_id,
        client_id=turn.client_id,
        messages=turn.messages,
        prompt=turn.prompt,
        tools=shown_tools(turn, model, found.tools, found.revisions),
        constraint=lookup.grammar if lookup else None,
        recipe=lookup.recipe if lookup else None,
        sampling=sampling_of(turn, model),
        stop=turn.stop,
        stop_token_ids=turn.stop_token_ids,
        min_tokens=turn.min_tokens,
        max_tokens=turn.max_tokens,
        num_choices=turn.num_choices,
        num_logprobs=turn.num_logprobs,
        template_options={**thinking_options(turn.reasoning_effort, model), **turn.template_options},
        selection=Selection() if _draws_the_same(turn, model) else turn.selection,
        is_streamed=turn.is_streamed,
        is_inspected=turn.is_inspected,
        must_call=must_call,
        text_is_json=turn.answers_in_json and not must_call,
    )


def sampling_of(turn: Turn, model: ModelCard) -> Sampling:
    """How the tokens of a turn are sampled: as the request says, and else as the model's card does."""
    return replace(model.sampling, **turn.sampling)


def thinking_options(effort: str | None, model: ModelCard) -> dict[str, Any]:
    """The chat template options that set a reasoning effort; empty if the template has none.

    Some templates take the effort itself, others only a switch for thinking.
    """
    if effort is None:
        return {}
    known_options = {"reasoning_effort": effort, **dict.fromkeys(_THINKING_SWITCHES, effort != "none")}
    return {name: value for name, value in known_options.items() if name in model.template_variables}


def without_oldest(
    messages: tuple[Message, ...], error: PromptTooLong, num_exchanges: int = 1
) -> tuple[Message, ...]:
    """The messages without the oldest exchanges: at least so many, and as many as the excess probably needs.

    An exchange begins with a message of the user and is dropped whole, so that no result loses its call.
    Messages before the first exchange are kept, and so is the last exchange.

    >>> asked, answered = Message("user", "Hi"), Message("assistant", "Hello")
    >>> chat = (Message("system", "Be brief."), asked, answered, asked, answered, asked)
    >>> [message.role for message in without_oldest(chat, PromptTooLong(110, 100))]
    ['system', 'user', 'assistant', 'user']
    """
    starts = [i for i, message in enumerate(messages) if message.role == "user"]
    if len(starts) < 2:
        return messages
    first, *later = starts
    sizes = [1 + message.num_characters for message in messages]
    excess = sum(sizes) * (1 - error.context_length / max(error.num_prompt_tokens, error.context_length + 1))
    up_to = list(accumulate(sizes, initial=0))
    ends = later[num_exchanges - 1 :]
    end = next((end for end in ends if up_to[end] - up_to[first] >= excess), later[-1])
    return messages[:first] + messages[end:]


def ignored_keywords(turn: Turn, lookup: GrammarLookup) -> Iterator[tuple[str, ReportEntry]]:
    """The keywords without effect in the schemas that a request brings, slips first, with their paths in it.

    The paths are as in Chat Completions, except that `schema` stands for the field of a tool's schema, which
    has another name in each shape. Toolsets have warned when they were registered.
    """
    if not lookup.ignored:
        return
    recipe = lookup.recipe
    keys = dict(recipe.tools)
    schemas = [(f"/tools/{i}/schema", keys.get(tool.name, "")) for i, tool in enumerate(turn.tools)]
    if recipe.answer:
        schemas.append(("/response_format/json_schema/schema", recipe.answer.key))
    ignored = [(base, lookup.ignored[key]) for base, key in schemas if key in lookup.ignored]
    slips = ((base, entry) for base, entries in ignored for entry in takewhile(_is_slip, entries))
    others = ((base, entry) for base, entries in ignored for entry in dropwhile(_is_slip, entries))
    for base, entry in chain(slips, others):
        yield field_path(child(base + entry.pointer, entry.keyword)), entry


def _is_slip(entry: ReportEntry) -> bool:
    return entry.is_slip


def _draws_the_same(turn: Turn, model: ModelCard) -> bool:
    """Whether a turn asks for several draws, and each would be the same: an engine that selects searches."""
    if turn.selection is None or model.selects:
        return False
    return turn.selection.repeats_drafts(is_greedy=sampling_of(turn, model).is_greedy)


def without_effect(turn: Turn, model: ModelCard, lookup: GrammarLookup | None) -> Iterator[str]:
    """The fields of a turn that have no effect with this model or together with a grammar."""
    if turn.reasoning_effort and not thinking_options(turn.reasoning_effort, model):
        yield "reasoning_effort"
    if turn.selection and (lookup is None or _draws_the_same(turn, model)):
        yield f"callgate.{turn.selection.strategy}"
    if turn.key_order and lookup is None:
        yield "callgate.key_order"
    if lookup is not None:
        yield from (name for name in ("min_tokens", "stop_token_ids") if getattr(turn, name))
