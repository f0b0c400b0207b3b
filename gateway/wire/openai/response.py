"""Writes the events of a generation as a Chat Completions response, or as its chunks."""

import time
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field

import msgspec

from gateway.generation.generation import Generation
from gateway.http.error_shapes import Problem, openai_error
from gateway.wire.answer_parts import extension, logprob, new_call_id, usage
from runtime.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Finished,
    FinishReason,
    InspectedToken,
    TextDelta,
    ThoughtDelta,
)
from toolspecs.json_value import JSON

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

    async def answer(self) -> JSON:
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
        """The answer while it comes: for each choice a role, deltas and a finish reason; then the usage.

        Choices begin in their order, since OpenAI's client appends each new one to its list of choices.
        """
        generation = self._generation
        envelope = _envelope(generation, "chat.completion.chunk")
        if self._includes_usage:
            envelope["usage"] = None
        num_begun = 0
        async for event in generation.events():
            for choice in range(num_begun, event.choice + 1):
                has_no_text = choice == event.choice and isinstance(event, CallStarted)
                begun = {"role": "assistant", "content": None if has_no_text else "", "refusal": None}
                yield envelope | {"choices": [_chunk_choice(choice, begun)]}
            num_begun = max(num_begun, event.choice + 1)
            yield envelope | self._chunk(event)
        if self._includes_usage:
            yield envelope | {"choices": [], "usage": usage(generation), "callgate": extension(generation)}

    def failed(self, problem: Problem) -> tuple[JSON, ...]:
        """The last event of a stream that an error ends early."""
        return (openai_error(problem),)

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
    if finished.reason is FinishReason.TOOL_CALLS and generation.prepared.found.tool_choice.is_named:
        return "stop"
    return finished.reason.value


def _envelope(generation: Generation, kind: str) -> JSON:
    return {
        "id": f"chatcmpl-{generation.request_id}",
        "object": kind,
        "created": int(time.time()),
        "model": generation.prepared.model.model_id,
        "service_tier": "default",
        "system_fingerprint": generation.prepared.fingerprint,
    }


def _logprobs(tokens: Iterable[msgspec.Raw]) -> JSON:
    return {"content": list(tokens), "refusal": None}
