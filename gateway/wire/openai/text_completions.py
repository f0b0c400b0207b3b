"""OpenAI's Completions: a prompt that the client wrote for the model itself, and the text that continues it.

The API is old, and vLLM's users know it: the prompt may be token ids, and a `response_format` holds as in
Chat Completions. There are no tools here.
"""

import time
from collections.abc import AsyncGenerator, Iterable
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gateway.errors import InvalidField
from gateway.generation.generation import Generation
from gateway.http.conversion import convert
from gateway.http.error_shapes import Problem, openai_error
from gateway.wire.answer_parts import extension, usage
from gateway.wire.field_reader import FieldReader, FieldRules, RequestBody
from gateway.wire.field_rules import rules_of
from gateway.wire.openai.request import (
    ChatRequest,
    FormatFields,
    OpenAIFields,
    read_biased_sampling,
    read_response_format,
    read_stream_options,
)
from gateway.wire.openai.response import DONE, finish_reason
from gateway.wire.response_formats import StructuredOutputsField, read_any_format
from gateway.wire.turn_fields import NO_HEADERS, TurnHeaders, read_stop, read_turn
from runtime.events import Event, Finished, InspectedToken, TextDelta, TokenLogprob
from toolspecs.json_value import JSON

DEFAULT_MAX_TOKENS = 16
"""This API's own default."""

_NO_TOOLS = "use /v1/chat/completions: there are no tools here"

TokenIds = Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=1)]


class CompletionFields(OpenAIFields, forbid_unknown_fields=True, kw_only=True):
    """The fields that are honoured."""

    prompt: Any
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None


class PromptField(msgspec.Struct):
    """The field of the prompt."""

    prompt: str | list[str | int | TokenIds]


_NAMES = {"messages": "prompt", "system": "prompt"}
"""The names here of what Chat Completions calls otherwise."""

RULES = rules_of(
    CompletionFields,
    _NAMES,
    FieldRules(
        hints={"add_special_tokens": (True,)},
        fixed={
            "best_of": ((1,), "every choice is returned"),
            "suffix": (("",), "nothing is inserted into a text"),
        },
        refused={
            "function_call": _NO_TOOLS,
            "functions": _NO_TOOLS,
            "messages": "use /v1/chat/completions",
        },
    ),
    absent=("parallel_tool_calls", "reasoning_effort", "tool_choice", "tools"),
)

BODY = RequestBody(CompletionFields, (), (PromptField, FormatFields, StructuredOutputsField), RULES)


def read_request(body: Any, headers: TurnHeaders = NO_HEADERS, *, is_strict: bool = False) -> ChatRequest:
    """Read a decoded body; as `gateway.wire.openai.request.read_request` does."""
    reader = FieldReader(is_strict=is_strict)
    fields = reader.convert(reader.apply_rules(RULES, body), CompletionFields)
    for name in ("tools", "tool_choice", "toolset"):
        if getattr(fields, name) is not None:
            raise InvalidField(name, _NO_TOOLS)
    if headers.toolset is not None:
        raise InvalidField("X-Toolset", _NO_TOOLS)
    for name in (
        "chat_template_kwargs",
        "parallel_tool_calls",
        "prompt_tools",
        "tool_search",
        "top_logprobs",
    ):
        if getattr(fields, name) is not None:
            reader.ignore(name)
    includes_usage = read_stream_options(fields, reader)
    own_format = read_response_format(fields.response_format)
    asked_format = read_any_format(own_format, "response_format", fields)
    turn = replace(
        read_turn(fields, headers),
        prompt=read_prompt(fields.prompt),
        response_format=asked_format.format,
        sampling=read_biased_sampling(fields),
        stop=read_stop(fields.stop, asked_format.format, reader),
        max_tokens=fields.max_tokens or DEFAULT_MAX_TOKENS,
        num_choices=fields.n or 1,
        num_logprobs=fields.logprobs,
    )
    return ChatRequest(
        turn=turn,
        ignored=reader.ignored,
        names={**_NAMES, **asked_format.names},
        includes_usage=includes_usage,
    )


def read_prompt(value: Any) -> str | tuple[int, ...]:
    """A prompt: text or token ids, alone or as the only member of a list. Raises InvalidField."""
    prompt = convert({"prompt": value}, PromptField).prompt
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        if len(prompt) > 1:
            raise InvalidField("prompt", "one prompt is answered at a time; send a request for each")
        [prompt] = prompt  # type: ignore[assignment]
    if isinstance(prompt, str):
        return prompt
    if not prompt or not all(isinstance(member, int) for member in prompt):
        raise InvalidField("prompt", "it must be a text or a list of token ids")
    return tuple(prompt)  # type: ignore[arg-type]


class TextCompletionWriter:
    """Writes one completion of a prompt while it reads the generation.

    With `includes_usage`, the last chunk of its stream has the usage.
    """

    stream_end = DONE

    def __init__(self, generation: Generation, *, includes_usage: bool = False) -> None:
        self._generation = generation
        self._includes_usage = includes_usage
        self._envelope = {
            "id": f"cmpl-{generation.request_id}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": generation.prepared.model.model_id,
            "system_fingerprint": generation.prepared.fingerprint,
        }
        self._offsets = [0] * generation.num_choices

    async def answer(self) -> JSON:
        """The whole answer, once the last choice has finished."""
        numbers = range(self._generation.num_choices)
        texts: list[list[str]] = [[] for _ in numbers]
        logprobs = [self._logprobs(i, []) for i in numbers]
        choices: list[JSON] = [{} for _ in numbers]
        async for event in self._generation.events():
            match event:
                case TextDelta(choice, text, tokens):
                    texts[choice].append(text)
                    for name, values in self._logprobs(choice, tokens).items():
                        logprobs[choice][name] += values
                case Finished(choice):
                    choices[choice] = self._choice(choice, "".join(texts[choice]), logprobs[choice], event)
        return self._envelope | self._with_usage(choices)

    async def events(self) -> AsyncGenerator[JSON]:
        """The answer while it comes; then the usage."""
        generation = self._generation
        async for event in generation.events():
            if isinstance(event, InspectedToken) and generation.inspected is not None:
                yield self._envelope | {"choices": [], "callgate": {"tokens": generation.inspected.take()}}
            choice = self._delta(event)
            if choice is not None:
                yield self._envelope | {"choices": [choice]}
        if self._includes_usage:
            yield self._envelope | self._with_usage([])

    def failed(self, problem: Problem) -> tuple[JSON, ...]:
        """The last event of a stream that an error ends early."""
        return (openai_error(problem),)

    def _with_usage(self, choices: list[JSON]) -> JSON:
        generation = self._generation
        return {"choices": choices, "usage": usage(generation), "callgate": extension(generation)}

    def _delta(self, event: Event) -> JSON | None:
        match event:
            case TextDelta(choice, text, tokens):
                return self._choice(choice, text, self._logprobs(choice, tokens), None)
            case Finished(choice):
                return self._choice(choice, "", self._logprobs(choice, []), event)
            case _:
                return None

    def _choice(self, index: int, text: str, logprobs: JSON, finished: Finished | None) -> JSON:
        return {
            "index": index,
            "text": text,
            "logprobs": logprobs if self._generation.has_logprobs else None,
            "finish_reason": finish_reason(finished, self._generation) if finished else None,
        }

    def _logprobs(self, index: int, tokens: Iterable[TokenLogprob]) -> JSON:
        """The log probabilities as lists over the tokens; offsets are into the answer."""
        logprobs: JSON = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        for token in tokens:
            logprobs["tokens"].append(token.token)
            logprobs["token_logprobs"].append(token.logprob)
            top = {other.token: other.logprob for other in token.top}
            logprobs["top_logprobs"].append(msgspec.Raw(msgspec.json.encode(top)))
            logprobs["text_offset"].append(self._offsets[index])
            self._offsets[index] += len(token.token)
        return logprobs
