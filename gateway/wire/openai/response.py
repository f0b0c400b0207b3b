"""Writes the events of a generation as a Chat Completions response, or as its chunks."""

import secrets
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gateway.generation.turn import Generation
from gateway.http.problems import Problem, openai_error
from runtime.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Finished,
    FinishReason,
    GenerationStats,
    InspectedToken,
    TextDelta,
    ThoughtDelta,
    TokenLogprob,
    num_rescued,
)
from toolspecs.json_value import JSON
from toolspecs.tool import ToolSearchResult

DONE = "data: [DONE]\n\n"
"""What ends every stream of OpenAI's completions."""


class ChatWriter:
    """Writes one completion while it reads the generation.

    With `includes_usage`, the last chunk of its stream has the usage.
    """

    stream_end = DONE

    def __init__(self, generation: Generation, *, includes_usage: bool = False) -> None:
        self._generation = generation
        self._includes_usage = includes_usage
        self._custom: set[tuple[int, int]] = set()
        """The choice and index of each call of a custom tool."""

    async def whole(self) -> JSON:
        """The whole answer, when the last choice has finished."""
        generation = self._generation
        choices = [_ChoiceBuilder(i) for i in range(generation.num_choices)]
        async for event in generation.events():
            choices[event.choice].add(event)
        return {
            **_envelope(generation, "chat.completion"),
            "choices": [choice.as_json(generation) for choice in choices],
            "usage": usage(generation),
            "callgate": extension(generation),
        }

    async def events(self) -> AsyncGenerator[JSON]:
        """The answer while it comes: for each choice a role, deltas and a finish reason; then the usage."""
        generation = self._generation
        envelope = _envelope(generation, "chat.completion.chunk")
        if self._includes_usage:
            envelope["usage"] = None
        started: set[int] = set()
        async for event in generation.events():
            if event.choice not in started:
                started.add(event.choice)
                content = None if isinstance(event, CallStarted) else ""
                begun = {"role": "assistant", "content": content, "refusal": None}
                yield envelope | {"choices": [_chunk_choice(event.choice, begun)]}
            yield envelope | self._chunk(event)
        if self._includes_usage:
            yield envelope | {"choices": [], "usage": usage(generation), "callgate": extension(generation)}

    def failed(self, problem: Problem) -> JSON:
        """The last event of a stream that an error ends early."""
        return openai_error(problem)

    def _chunk(self, event: Event) -> JSON:
        """The chunk of an event, without its envelope."""
        generation = self._generation
        match event:
            case TextDelta(choice, text, logprobs):
                logprobs_json = _logprobs(map(logprob, logprobs)) if generation.has_logprobs else None
                return {"choices": [_chunk_choice(choice, {"content": text}, logprobs=logprobs_json)]}
            case ThoughtDelta(choice, text):
                return {"choices": [_chunk_choice(choice, {"reasoning_content": text})]}
            case CallStarted(choice, index, name):
                is_custom = name in generation.custom
                if is_custom:
                    self._custom.add((choice, index))
                begun = {"id": new_call_id(), **_call_fields("", name=name, is_custom=is_custom)}
                return {"choices": [_chunk_choice(choice, _call_delta(index, begun))]}
            case ArgumentsDelta(choice, index, text):
                more = _call_fields(text, is_custom=(choice, index) in self._custom)
                return {"choices": [_chunk_choice(choice, _call_delta(index, more))]}
            case InspectedToken(choice):
                assert generation.inspected is not None, "the turn asks for it"
                tokens = generation.inspected.take()
                return {"choices": [_chunk_choice(choice, {})], "callgate": {"tokens": tokens}}
            case Finished(choice):
                reason = finish_reason(event, generation)
                return {
                    "choices": [_chunk_choice(choice, {}, finish_reason=reason)],
                    "callgate": extension(generation, closed_by=event.closed_by),
                }


def _call_delta(index: int, fields: JSON) -> JSON:
    # Many clients need index and type in every delta, not only in the first.
    return {"tool_calls": [{"index": index, **fields}]}


def _call_fields(text: str, *, is_custom: bool, name: str | None = None) -> JSON:
    """A call's type and the object of that name, which holds its arguments or its input."""
    kind, content = ("custom", "input") if is_custom else ("function", "arguments")
    named = {} if name is None else {"name": name}
    return {"type": kind, kind: {**named, content: text}}


def _chunk_choice(
    index: int, delta: JSON, *, logprobs: JSON | None = None, finish_reason: str | None = None
) -> JSON:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}


@dataclass
class _ChoiceBuilder:
    """Collects the events of one choice."""

    index: int
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    logprobs: list[msgspec.Raw] = field(default_factory=list)
    calls: list[tuple[str, list[str]]] = field(default_factory=list)
    finished: Finished | None = None

    def add(self, event: Event) -> None:
        match event:
            case TextDelta(text=text, logprobs=logprobs):
                self.texts.append(text)
                self.logprobs += map(logprob, logprobs)
            case ThoughtDelta(text=text):
                self.thoughts.append(text)
            case CallStarted(name=name):
                self.calls.append((name, []))
            case ArgumentsDelta(index=index, text=text):
                self.calls[index][1].append(text)
            case Finished():
                self.finished = event

    def as_json(self, generation: Generation) -> JSON:
        assert self.finished, "a runtime finishes every choice or raises"
        text = "".join(self.texts)
        message: JSON = {
            "role": "assistant",
            "content": None if self.calls and not text else text,
            "refusal": None,
            "annotations": [],
        }
        if self.thoughts:
            message["reasoning_content"] = "".join(self.thoughts)
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": new_call_id(),
                    **_call_fields("".join(texts), name=name, is_custom=name in generation.custom),
                }
                for name, texts in self.calls
            ]
        return {
            "index": self.index,
            "message": message,
            "logprobs": _logprobs(self.logprobs) if generation.has_logprobs else None,
            "finish_reason": finish_reason(self.finished, generation),
        }


def finish_reason(finished: Finished, generation: Generation) -> str:
    """The API's finish reason; it is `stop` after the choice of a function by name."""
    if finished.reason is FinishReason.TOOL_CALLS and generation.is_named:
        return "stop"
    return finished.reason.value


def usage(generation: Generation) -> JSON:
    """Token counts over all choices; the prompt counts once, because they share it."""
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


def extension(generation: Generation, *, closed_by: str | None = None) -> JSON:
    """What Callgate adds to the API: which toolset and grammar answered, and what the mask did.

    The inspected tokens that a stream has sent already are left out.
    """
    toolsets = [{"name": r.name, "revision": r.number} for r in generation.toolsets]
    only: Mapping[str, Any] = toolsets[0] if len(toolsets) == 1 else {}
    stats = [finished.stats for finished in generation.finished]
    grammar = generation.grammar
    shown_grammar = grammar if generation.tells_source else None
    tokens = generation.inspected.take() if generation.inspected else []
    return {
        "toolset": only.get("name"),
        "revision": only.get("revision"),
        "toolsets": toolsets,
        "grammar_digest": grammar.grammar.digest if grammar else None,
        "grammar_source": shown_grammar.source if shown_grammar else None,
        "grammar_wait_ms": round(shown_grammar.wait_ms, 3) if shown_grammar else None,
        "closed_by": closed_by or next((f.closed_by for f in generation.finished if f.closed_by), None),
        "forced_tokens": sum(s.num_forced_tokens for s in stats),
        "rescued_tokens": num_rescued(stats),
        "dropped_messages": generation.num_dropped,
        "tool_search": _search_result(generation.search_result),
        "selections": [_selection(f.choice, f.stats) for f in generation.finished if f.stats.selection],
        **({"tokens": tokens} if tokens else {}),
    }


def _selection(choice: int, stats: GenerationStats) -> JSON:
    """How one answer was selected from several."""
    assert stats.selection is not None, "the caller asked"
    return {
        "index": choice,
        "strategy": stats.selection.strategy,
        "answers": stats.selection.num_sequences,
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


def _search_result(result: ToolSearchResult | None) -> JSON | None:
    """The tools that a search found for the prompt."""
    if result is None:
        return None
    tools = [{"name": tool.name, "score": tool.score, "reason": tool.reason} for tool in result.tools]
    return {"searched": result.num_searched, "by": result.by, "shown": tools}


def new_call_id() -> str:
    """A new, random id."""
    return f"call_{secrets.token_hex(12)}"


def _envelope(generation: Generation, kind: str) -> JSON:
    return {
        "id": f"chatcmpl-{generation.request_id}",
        "object": kind,
        "created": int(time.time()),
        "model": generation.model_id,
        "service_tier": "default",
        "system_fingerprint": generation.fingerprint,
    }


def _logprobs(tokens: Iterable[msgspec.Raw]) -> JSON:
    return {"content": list(tokens), "refusal": None}


def logprob(token: TokenLogprob) -> msgspec.Raw:
    """The log probability of a token, and those of its alternatives, as JSON.

    It is encoded as the token comes: encoding half a million of them at the end would block the event loop.
    """
    return msgspec.Raw(
        msgspec.json.encode(_token(token) | {"top_logprobs": [_token(other) for other in token.top]})
    )


def _token(token: TokenLogprob) -> JSON:
    return {"token": token.token, "logprob": token.logprob, "bytes": list(token.token_bytes)}
