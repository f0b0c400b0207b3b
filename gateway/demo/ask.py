"""Sending a scenario through the official client, and reading what comes back."""

import time
from collections.abc import Iterable
from typing import Any

from openai import OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from gateway.demo.scenarios import Scenario
from gateway.demo.verdict import Answer, Call


def ask(client: OpenAI, model: str, scenario: Scenario, *, seed: int) -> Answer:
    """The answer to a scenario; raises what the client raises."""
    start = time.perf_counter()
    response = client.chat.completions.create(**request_of(scenario, model, seed=seed))
    if scenario.is_streamed:
        return read_stream(response, start)
    return read_completion(response, time.perf_counter() - start)


def request_of(scenario: Scenario, model: str, *, seed: int) -> dict[str, Any]:
    """The arguments of `chat.completions.create`."""
    request: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": scenario.prompt}],
        "max_tokens": scenario.max_tokens,
        "seed": seed,
        "temperature": 0,
        "stream": scenario.is_streamed,
    }
    if scenario.is_streamed:
        request["stream_options"] = {"include_usage": True}
    if scenario.choice is not None:
        request["tool_choice"] = scenario.choice
    if scenario.is_parallel is not None:
        request["parallel_tool_calls"] = scenario.is_parallel
    if scenario.inline:
        request["tools"] = list(scenario.inline)
    if scenario.schema is not None:
        json_schema = {"name": "answer", "schema": scenario.schema, "strict": True}
        request["response_format"] = {"type": "json_schema", "json_schema": json_schema}
    return request | _toolset_fields(scenario, model)


def _toolset_fields(scenario: Scenario, model: str) -> dict[str, Any]:
    """The three ways to name a toolset; `extra_body` is the client's way to send a field it does not know."""
    if not scenario.toolsets:
        return {}
    match scenario.named_by:
        case "model":
            [toolset] = scenario.toolsets
            return {"model": f"{model}:{toolset}"}
        case "header":
            return {"extra_headers": {"X-Toolset": ",".join(scenario.toolsets)}}
        case "body":
            one, *more = scenario.toolsets
            return {"extra_body": {"toolset": [one, *more] if more else one}}


def read_completion(completion: ChatCompletion, total_s: float) -> Answer:
    """An answer that came whole."""
    [choice] = completion.choices
    calls = [call for call in choice.message.tool_calls or () if call.type == "function"]
    return Answer(
        calls=tuple(Call(call.function.name, call.function.arguments) for call in calls),
        text=choice.message.content or "",
        finish_reason=choice.finish_reason,
        num_tokens=completion.usage.completion_tokens if completion.usage else 0,
        total_s=total_s,
        **_extension(completion),
    )


def read_stream(chunks: Iterable[ChatCompletionChunk], start: float) -> Answer:
    """An answer put together from its deltas; `start` is when it was asked for, by `time.perf_counter`."""
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
    return Answer(
        calls=tuple(Call(names[index], arguments[index]) for index in sorted(names)),
        text=text,
        finish_reason=finish_reason,
        num_tokens=num_tokens,
        first_token_s=first_token_s,
        total_s=time.perf_counter() - start,
        **extension,
    )


def _extension(response: ChatCompletion | ChatCompletionChunk) -> dict[str, Any]:
    """What Callgate adds to the API, as far as the demo shows it."""
    fields = (response.model_extra or {}).get("callgate")
    return {name: fields.get(name) for name in ("grammar_source", "closed_by")} if fields else {}
