"""The extension object `callgate`: what a generation's answer says beyond the API that asked for it."""

from gateway.generation.turn import Generation
from runtime.events import GenerationStats, num_rescued
from toolspecs.json_value import JSON
from toolspecs.tool import ToolSearchResult


def extension(generation: Generation, *, closed_by: str | None = None) -> JSON:
    """What Callgate adds to the API: which toolset and grammar answered, and what the mask did.

    The inspected tokens that a stream has sent already are left out.
    """
    toolsets = [{"name": r.name, "revision": r.number} for r in generation.toolsets]
    only: JSON = toolsets[0] if len(toolsets) == 1 else {}
    stats = [finished.stats for finished in generation.finished]
    in_order = sorted(generation.finished, key=lambda finished: finished.choice)
    lookup = generation.lookup
    shown_lookup = lookup if generation.tells_grammar_source else None
    tokens = generation.inspected.take() if generation.inspected else []
    return {
        "toolset": only.get("name"),
        "revision": only.get("revision"),
        "toolsets": toolsets,
        "grammar_digest": lookup.grammar.digest if lookup else None,
        "grammar_source": shown_lookup.source if shown_lookup else None,
        "grammar_wait_ms": round(shown_lookup.wait_ms, 3) if shown_lookup else None,
        "closed_by": closed_by or next((f.closed_by for f in generation.finished if f.closed_by), None),
        "forced_tokens": sum(s.num_forced_tokens for s in stats),
        "rescued_tokens": num_rescued(stats),
        "dropped_messages": generation.num_dropped,
        "tool_search": _search_json(generation.search_result),
        "selections": [_selection_json(f.choice, f.stats) for f in in_order if f.stats.selection],
        **({"tokens": tokens} if tokens else {}),
    }


def _selection_json(choice: int, stats: GenerationStats) -> JSON:
    """How one answer was selected from several."""
    assert stats.selection is not None, "the caller asked"
    return {
        "index": choice,
        "strategy": stats.selection.strategy,
        "answers": stats.selection.num_draws,
        "accepted": stats.selection.is_exact,
        "log_weight": stats.log_weight,
        "computed_tokens": stats.selection.num_computed_tokens,
        "broken": [
            {
                "tokens": draft.num_good,
                "part": draft.place.part,
                "tool": draft.place.tool,
                "pointer": draft.place.pointer,
            }
            for draft in stats.selection.broken
        ],
    }


def _search_json(result: ToolSearchResult | None) -> JSON | None:
    """The tools that a search found for the prompt."""
    if result is None:
        return None
    tools = [{"name": tool.name, "score": tool.score, "reason": tool.reason} for tool in result.tools]
    return {"searched": result.num_searched, "by": result.by, "shown": tools}
