"""Sends a scenario through the official OpenAI client, reads the answer, and judges it.

The judge is jsonschema-rs with formats asserted, not Callgate itself.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import jsonschema_rs

from gateway.demo.scenarios import Scenario

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types.chat import ChatCompletion, ChatCompletionChunk


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    """A call as the client received it."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedAnswer:
    """What the client received. Times are in seconds; `first_token_s` is None if nothing was streamed."""

    calls: tuple[ReceivedCall, ...] = ()
    text: str = ""
    finish_reason: str = ""
    num_tokens: int = 0
    first_token_s: float | None = None
    total_s: float = 0.0
    grammar_source: str | None = None
    closed_by: str | None = None


def ask(client: "OpenAI", model: str, scenario: Scenario) -> ReceivedAnswer:
    """The answer to a scenario; raises what the client raises."""
    start = time.perf_counter()
    response = client.chat.completions.create(**request_of(scenario, model))
    if scenario.is_streamed:
        return read_stream(response, start)
    return read_completion(response, time.perf_counter() - start)


def request_of(scenario: Scenario, model: str) -> dict[str, Any]:
    """The arguments of `chat.completions.create`."""
    request: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": scenario.prompt}],
        "max_tokens": scenario.max_tokens,
        "temperature": 0,
        "stream": scenario.is_streamed,
    }
    if scenario.is_streamed:
        request["stream_options"] = {"include_usage": True}
    if scenario.tool_choice is not None:
        request["tool_choice"] = scenario.tool_choice
    if scenario.is_parallel is not None:
        request["parallel_tool_calls"] = scenario.is_parallel
    if scenario.inline:
        request["tools"] = list(scenario.inline)
    if scenario.schema is not None:
        json_schema = {"name": "answer", "schema": scenario.schema, "strict": True}
        request["response_format"] = {"type": "json_schema", "json_schema": json_schema}
    return request | _toolset_fields(scenario, model)


def _toolset_fields(scenario: Scenario, model: str) -> dict[str, Any]:
    """The fields that name a toolset; the client sends fields that it does not know as `extra_body`."""
    if not scenario.toolsets:
        return {}
    match scenario.named_by:
        case "model":
            [toolset] = scenario.toolsets
            return {"model": f"{model}:{toolset}"}
        case "header":
            return {"extra_headers": {"X-Toolset": ",".join(scenario.toolsets)}}
        case "body":
            first, *more = scenario.toolsets
            return {"extra_body": {"toolset": [first, *more] if more else first}}


def read_completion(completion: "ChatCompletion", total_s: float) -> ReceivedAnswer:
    """An answer that was not streamed."""
    [choice] = completion.choices
    calls = [call for call in choice.message.tool_calls or () if call.type == "function"]
    return ReceivedAnswer(
        calls=tuple(ReceivedCall(call.function.name, call.function.arguments) for call in calls),
        text=choice.message.content or "",
        finish_reason=choice.finish_reason,
        num_tokens=completion.usage.completion_tokens if completion.usage else 0,
        total_s=total_s,
        **_extension(completion),
    )


def read_stream(chunks: "Iterable[ChatCompletionChunk]", start: float) -> ReceivedAnswer:
    """A streamed answer; `start` is when the request was sent, by `time.perf_counter`."""
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    text = finish_reason = ""
    first_token_s: float | None = None
    num_tokens = 0
    extension: dict[str, Any] = {}
    for chunk in chunks:
        extension = _extension(chunk) or extension
        num_tokens = chunk.usage.completion_tokens if chunk.usage else num_tokens
        for choice in chunk.choices:
            finish_reason = choice.finish_reason or finish_reason
            text += choice.delta.content or ""
            for delta in choice.delta.tool_calls or ():
                function = delta.function
                names[delta.index] = names.get(delta.index, "") + ((function and function.name) or "")
                arguments[delta.index] = arguments.get(delta.index, "") + (
                    (function and function.arguments) or ""
                )
            if first_token_s is None and (choice.delta.content or choice.delta.tool_calls):
                first_token_s = time.perf_counter() - start
    return ReceivedAnswer(
        calls=tuple(ReceivedCall(names[index], arguments[index]) for index in sorted(names)),
        text=text,
        finish_reason=finish_reason,
        num_tokens=num_tokens,
        first_token_s=first_token_s,
        total_s=time.perf_counter() - start,
        **extension,
    )


def _extension(response: "ChatCompletion | ChatCompletionChunk") -> dict[str, Any]:
    """The part of Callgate's extension object that the demo shows."""
    fields = (response.model_extra or {}).get("callgate")
    return {name: fields.get(name) for name in ("grammar_source", "closed_by")} if fields else {}


def find_faults(scenario: Scenario, answer: ReceivedAnswer, parameters: Mapping[str, Any]) -> list[str]:
    """What is wrong with an answer; `parameters` are the schemas by tool name."""
    return [
        *_mode_faults(scenario, answer),
        *(fault for call in answer.calls for fault in _call_faults(call, scenario, parameters)),
        *_text_faults(scenario, answer),
    ]


def _mode_faults(scenario: Scenario, answer: ReceivedAnswer) -> Iterator[str]:
    least, most = scenario.num_calls
    num_calls = len(answer.calls)
    if num_calls < least:
        yield f"{num_calls} calls, at least {least} expected"
    if most is not None and num_calls > most:
        yield f"{num_calls} calls, at most {most} expected"
    if answer.finish_reason not in scenario.finish:
        yield f"finish_reason is {answer.finish_reason!r}, expected {' or '.join(sorted(scenario.finish))}"


def _call_faults(call: ReceivedCall, scenario: Scenario, parameters: Mapping[str, Any]) -> Iterator[str]:
    if call.name not in parameters:
        yield f"there is no tool {call.name!r}"
    elif scenario.only is not None and call.name not in scenario.only:
        yield f"{call.name} is not among the allowed tools"
    else:
        yield from (f"{call.name}: {fault}" for fault in schema_faults(call.arguments, parameters[call.name]))


def _text_faults(scenario: Scenario, answer: ReceivedAnswer) -> Iterator[str]:
    if scenario.schema is not None:
        yield from schema_faults(answer.text, scenario.schema)


def schema_faults(text: str, schema: Any) -> Iterator[str]:
    """Why `text` is not JSON that validates against `schema`; nothing if it is valid."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        yield f"not JSON: {error}"
        return
    validator = jsonschema_rs.validator_for(schema, validate_formats=True)
    yield from (f"{_pointer(error.instance_path)}: {error.message}" for error in validator.iter_errors(value))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _pointer(path: list[str | int]) -> str:
    return "".join(f"/{part}" for part in path) or "/"
