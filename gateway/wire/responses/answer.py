"""Writes the events of a generation as a response, or as the events of its stream."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

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
    TextDelta,
    ThoughtDelta,
    TokenLogprob,
)
from toolspecs.json_value import JSON


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a type of item is written: the prefix of its id, the name of its deltas, and the place of its text.

    The text is in a content part of the type `part`, or in the field `field` of the item itself.
    """

    prefix: str
    deltas: str
    part: str | None = None
    field: str = ""


_KINDS = {
    "reasoning": _Kind("rs", "response.reasoning_text", "reasoning_text"),
    "message": _Kind("msg", "response.output_text", "output_text"),
    "function_call": _Kind("fc", "response.function_call_arguments", field="arguments"),
    "custom_tool_call": _Kind("ctc", "response.custom_tool_call_input", field="input"),
}


_SAMPLING = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
"""The fields of a response that say how its tokens were sampled; a request cannot set the last two."""


@dataclass
class _Item:
    """An item of the output, while it is written."""

    index: int
    kind: str
    request_id: str
    fields: JSON = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    logprobs: list[msgspec.Raw] = field(default_factory=list)

    @property
    def item_id(self) -> str:
        """Its id; `StoredResponses` finds the response in it."""
        return f"{self.form.prefix}_{self.request_id}{self.index:02x}"

    @property
    def position(self) -> JSON:
        """The fields that say where its deltas belong."""
        content = {"content_index": 0} if self.form.part else {}
        return {"item_id": self.item_id, "output_index": self.index, **content}

    @property
    def form(self) -> _Kind:
        """How its type is written."""
        return _KINDS[self.kind]

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def part(self) -> JSON:
        """The part that holds its text."""
        is_message = self.kind == "message"
        notes = {"annotations": [], "logprobs": list(self.logprobs)} if is_message else {}
        return {"type": self.form.part, "text": self.text, **notes}

    def as_json(self, status: str, *, has_text: bool = True) -> JSON:
        """The item; `has_text` False leaves out its text, for an item that has just begun."""
        item: JSON = {"id": self.item_id, "type": self.kind, "status": status, **self.fields}
        if self.form.part:
            return item | {"content": [self.part()] if has_text else []}
        return item | {self.form.field: self.text if has_text else ""}


class ResponseWriter:
    """Writes one response while it reads the generation.

    `save` stores the complete response, before a client can refer to it; it returns whether it did.
    """

    stream_end = ""

    def __init__(
        self,
        generation: Generation,
        echoed: Mapping[str, Any],
        save: Callable[[JSON], Awaitable[bool]] | None = None,
    ) -> None:
        self._generation = generation
        self._echoed = echoed
        self._save = save
        self._is_stored = save is not None
        self._created_at = int(time.time())
        self._output: list[JSON] = []
        self._open: _Item | None = None
        self._num_events = 0

    async def answer(self) -> JSON:
        """The complete response."""
        last: JSON = {}
        async for event in self.events():
            last = event
        response: JSON = last["response"]
        return response

    async def events(self) -> AsyncGenerator[JSON]:
        """The events of its stream; the last holds the complete response."""
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, response=self._response("in_progress"))
        async for event in self._generation.events():
            for kind, fields in self._read(event):
                if self._save and isinstance(event, Finished) and "response" in fields:
                    fields["response"]["store"] = await self._save(fields["response"])
                yield self._event(kind, **fields)

    def failed(self, problem: Problem) -> tuple[JSON, ...]:
        """The last events of a stream that an error ends early: the error, and the response that it failed.

        OpenAI documents the members of `error` in the event itself, and sends them in the object. Its clients
        raise an error only for that object; they return a failed response as if it were complete.
        """
        error = openai_error(problem)["error"]
        told = {name: error[name] for name in ("code", "message", "param")}
        # A response has a closed list of codes; `type` is the error's own.
        code = "rate_limit_exceeded" if problem.status == HTTPStatus.TOO_MANY_REQUESTS else "server_error"
        response = self._response("failed") | {"error": {**told, "code": code, "type": problem.kind}}
        return (
            self._event("error", **told, error=error),
            self._event("response.failed", response=response),
        )

    def _event(self, kind: str, **fields: Any) -> JSON:
        self._num_events += 1
        return {"type": kind, "sequence_number": self._num_events - 1, **fields}

    def _read(self, event: Event) -> Iterator[tuple[str, JSON]]:
        match event:
            case ThoughtDelta(text=text):
                yield from self._write("reasoning", text, summary=[])
            case TextDelta(text=text, logprobs=logprobs):
                yield from self._write("message", text, logprobs, role="assistant")
            case CallStarted(name=name):
                kind = "custom_tool_call" if name in self._generation.custom else "function_call"
                yield from self._begin(kind, call_id=new_call_id(), name=name)
            case ArgumentsDelta(text=text):
                yield from self._delta(text)
            case Finished():
                yield from self._finish(event)

    def _write(
        self, kind: str, text: str, logprobs: tuple[TokenLogprob, ...] = (), **fields: Any
    ) -> Iterator[tuple[str, JSON]]:
        if self._open is None or self._open.kind != kind:
            yield from self._begin(kind, **fields)
        yield from self._delta(text, logprobs)

    def _begin(self, kind: str, **fields: Any) -> Iterator[tuple[str, JSON]]:
        yield from self._end("completed")
        item = self._open = _Item(len(self._output), kind, self._generation.request_id, fields)
        item_json = item.as_json("in_progress", has_text=False)
        yield "response.output_item.added", {"output_index": item.index, "item": item_json}
        if item.form.part:
            yield "response.content_part.added", {**item.position, "part": item.part()}

    def _delta(self, text: str, logprobs: tuple[TokenLogprob, ...] = ()) -> Iterator[tuple[str, JSON]]:
        item = self._open
        assert item, "a delta belongs to an item"
        item.texts.append(text)
        written = list(map(logprob, logprobs))
        logprobs_member = {"logprobs": written} if item.kind == "message" else {}
        if self._generation.has_logprobs:
            item.logprobs += written
        yield f"{item.form.deltas}.delta", {**item.position, "delta": text, **logprobs_member}

    def _end(self, status: str) -> Iterator[tuple[str, JSON]]:
        item, self._open = self._open, None
        if item is None:
            return
        item_json = item.as_json(status)
        if item.form.part:
            part = item.part()
            logprobs = {"logprobs": part["logprobs"]} if "logprobs" in part else {}
            yield f"{item.form.deltas}.done", {**item.position, "text": item.text, **logprobs}
            yield "response.content_part.done", {**item.position, "part": part}
        else:
            yield (
                f"{item.form.deltas}.done",
                {**item.position, "name": item.fields["name"], item.form.field: item.text},
            )
        yield "response.output_item.done", {"output_index": item.index, "item": item_json}
        self._output.append(item_json)

    def _finish(self, finished: Finished) -> Iterator[tuple[str, JSON]]:
        is_cut = finished.reason is FinishReason.LENGTH
        if self._open is None and not self._output:
            yield from self._begin("message", role="assistant")
        # A call that the budget closer closed is complete, although the model would have gone on.
        yield from self._end("incomplete" if is_cut and not finished.closed_by else "completed")
        status = "incomplete" if is_cut else "completed"
        yield f"response.{status}", {"response": self._response(status)}

    def _response(self, status: str) -> JSON:
        is_over = status in {"completed", "incomplete"}
        return {
            "id": f"resp_{self._generation.request_id}",
            "object": "response",
            "created_at": self._created_at,
            "completed_at": int(time.time()) if status == "completed" else None,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "model": self._generation.prepared.model.model_id,
            "output": list(self._output),
            "background": False,
            "service_tier": "default",
            "store": self._is_stored,
            **self._echoed,
            **{name: getattr(self._generation.prepared.request.sampling, name) for name in _SAMPLING},
            "usage": self._usage() if is_over else None,
            "callgate": extension(self._generation) if is_over else None,
        }

    def _usage(self) -> JSON:
        counts = usage(self._generation)
        num_cached = counts["prompt_tokens_details"]["cached_tokens"]
        num_thought = counts["completion_tokens_details"]["reasoning_tokens"]
        return {
            "input_tokens": counts["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": num_cached, "cache_write_tokens": 0},
            "output_tokens": counts["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": num_thought},
            "total_tokens": counts["total_tokens"],
        }
