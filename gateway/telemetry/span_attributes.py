"""The attributes of the spans of a turn.

The GenAI semantic conventions still change: `CONVENTIONS` holds the names of each version. Callgate's own
attributes are `callgate.*`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.telemetry.ended_turn import PROVIDER, EndedTurn
from gateway.telemetry.metrics import GRAMMAR_KIND, MODEL
from runtime.events import SelectionStats
from runtime.inspection import TokenPlace
from runtime.request import GenerationRequest
from toolspecs.tool import ToolSearchResult
from toolspecs.toolset import Revision

_COMMON = {
    "operation": "gen_ai.operation.name",
    "request_model": MODEL,
    "choice_count": "gen_ai.request.choice.count",
    "max_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "seed": "gen_ai.request.seed",
    "stop": "gen_ai.request.stop_sequences",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "response_id": "gen_ai.response.id",
    "response_model": "gen_ai.response.model",
    "finish_reasons": "gen_ai.response.finish_reasons",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
}
CONVENTIONS: Mapping[str, Mapping[str, str]] = {
    "1.36": _COMMON | {"provider": "gen_ai.system", "input": "gen_ai.prompt", "output": "gen_ai.completion"},
    "1.37": _COMMON
    | {
        "provider": "gen_ai.provider.name",
        "input": "gen_ai.input.messages",
        "output": "gen_ai.output.messages",
    },
}

_LARGEST = 2**63 - 1
"""The largest number that OTLP has. Clients may ask for more tokens, and exporters logged tracebacks."""


def turn_attributes(names: Mapping[str, str], operation: str, model_id: str) -> dict[str, Any]:
    """The attributes of every turn, however early it fails; `names` are those of a version of conventions."""
    return _named(names, {"operation": operation, "provider": PROVIDER, "request_model": model_id})


def request_attributes(names: Mapping[str, str], request: GenerationRequest) -> dict[str, Any]:
    """The attributes of a request to a runtime."""
    sampling = request.sampling
    attributes = _named(
        names,
        {
            "choice_count": request.num_choices if request.num_choices != 1 else None,
            "max_tokens": None if request.max_tokens is None else min(request.max_tokens, _LARGEST),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "seed": sampling.seed,
            "frequency_penalty": sampling.frequency_penalty or None,
            "presence_penalty": sampling.presence_penalty or None,
        },
    )
    return attributes | ({"callgate.grammar.digest": request.constraint.digest} if request.constraint else {})


def response_attributes(names: Mapping[str, str], turn: EndedTurn, request_id: str | None) -> dict[str, Any]:
    """The attributes of a turn whose choices have finished, and of its masks."""
    answered = _named(
        names,
        {
            "response_id": request_id,
            "response_model": turn.model_id,
            "finish_reasons": turn.finish_reasons,
            "input_tokens": turn.num_prompt_tokens,
            "output_tokens": turn.num_output_tokens,
        },
    )
    known = {
        "callgate.tokens.rescued": turn.num_rescued_tokens,
        "callgate.mass.removed": turn.mass_removed,
        "callgate.closed_by": turn.closed_by,
    }
    return {
        **answered,
        "callgate.mask.fill_us.sum": sum(stats.mask_fill_us_sum for stats in turn.stats),
        "callgate.mask.fill_us.max": max(stats.mask_fill_us_max for stats in turn.stats),
        "callgate.tokens.forced": turn.num_forced_tokens,
        **{name: value for name, value in known.items() if value is not None},
        **_selection_attributes([stats.selection for stats in turn.stats if stats.selection is not None]),
    }


def _selection_attributes(selections: Sequence[SelectionStats]) -> dict[str, Any]:
    """The attributes of how a turn's answers were selected, over all choices; empty if none was."""
    if not selections:
        return {}
    sizes = [selection.effective_size for selection in selections if selection.effective_size is not None]
    computed = [
        selection.num_computed_tokens for selection in selections if selection.num_computed_tokens is not None
    ]
    broken = [draft.place for selection in selections for draft in selection.broken]
    return {
        "callgate.selection.strategy": selections[0].strategy,
        "callgate.selection.answers": sum(selection.num_draws for selection in selections),
        "callgate.selection.accepted": sum(selection.is_exact for selection in selections),
        **({"callgate.selection.computed_tokens": sum(computed)} if computed else {}),
        **({"callgate.selection.broken": [_place(place) for place in broken]} if broken else {}),
        **({"callgate.selection.effective_size": min(sizes)} if sizes else {}),
    }


def _place(place: TokenPlace) -> str:
    """Where a draft left the grammar, without the pointer, which may contain keys that the model wrote."""
    return place.part if place.tool is None else f"{place.part} {place.tool}"


def toolset_attributes(revisions: Sequence[Revision]) -> dict[str, Any]:
    """The names and revisions of a turn's toolsets: plain values for one toolset, lists for several."""
    if len(revisions) == 1:
        [only] = revisions
        return {"callgate.toolset": only.toolset.name, "callgate.toolset.revision": only.number}
    return {
        "callgate.toolset": [r.toolset.name for r in revisions],
        "callgate.toolset.revision": [r.number for r in revisions],
    }


def search_attributes(result: ToolSearchResult) -> dict[str, Any]:
    """The tools that a search kept, and their scores."""
    return {
        "callgate.tool_search.searched": result.num_searched,
        "callgate.tool_search.by": result.by,
        "callgate.tool_search.names": [tool.name for tool in result.tools],
        "callgate.tool_search.scores": [tool.score for tool in result.tools],
    }


def compile_attributes(key: str, kind: str | None = None) -> dict[str, Any]:
    """The attributes of a compilation; `kind` None means that another request compiles the unit."""
    attributes: dict[str, Any] = {"callgate.unit.key": key, "callgate.compile.is_joined": kind is None}
    return attributes | ({GRAMMAR_KIND: kind} if kind else {})


def _named(names: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {names[key]: value for key, value in values.items() if value is not None}
