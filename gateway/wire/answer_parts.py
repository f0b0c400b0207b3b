"""Parts of answers that several APIs have: token counts, log probabilities, ids of calls, and `callgate`.

The extension object `callgate` says of a generation what no API has a field for.
"""

import secrets

import msgspec

from gateway.generation.generation import Generation
from runtime.events import ClosedBy, GenerationStats, TokenLogprob, num_rescued
from toolspecs.json_value import JSON
from toolspecs.tool import ToolSearchResult


def usage(generation: Generation) -> JSON:
    """Token counts over all choices, as Chat Completions names them.

    The prompt counts once, because the choices share it.
    """
    stats = [finished.stats for finished in generation.finished]
    num_prompt = max((s.num_prompt_tokens for s in stats), default=0)
    num_output = sum(s.num_output_tokens for s in stats)
    return {
        "prompt_tokens": num_prompt,
        "completion_tokens": num_output,
        "total_tokens": num_prompt + num_output,
        "prompt_tokens_details": {
            "cached_tokens": max((s.num_cached_tokens for s in stats), default=0),
            "cache_write_tokens": 0,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": sum(s.num_thought_tokens for s in stats),
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def new_call_id() -> str:
    """A new, random id of a call."""
    return f"call_{secrets.token_hex(12)}"


def logprob(token: TokenLogprob) -> msgspec.Raw:
    """The log probability of a token, and those of its alternatives, as JSON.

    It is encoded as the token comes: encoding half a million of them at the end would block the event loop.
    """
    return msgspec.Raw(
        msgspec.json.encode(_token(token) | {"top_logprobs": [_token(other) for other in token.top]})
    )


def _token(token: TokenLogprob) -> JSON:
    return {"token": token.token, "logprob": token.logprob, "bytes": list(token.token_bytes)}


def extension(generation: Generation, *, closed_by: ClosedBy | None = None) -> JSON:
    """What Callgate adds to the API: which toolset and grammar answered, and what the mask did.

    The inspected tokens that a stream has sent already are left out.
    """
    prepared = generation.prepared
    toolsets = [{"name": r.toolset.name, "revision": r.number} for r in prepared.found.revisions]
    only: JSON = toolsets[0] if len(toolsets) == 1 else {}
    stats = [finished.stats for finished in generation.finished]
    in_order = sorted(generation.finished, key=lambda finished: finished.choice)
    lookup = prepared.lookup
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
        "dropped_messages": prepared.num_dropped,
        "tool_search": _search_json(prepared.found.search_result),
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
