"""The same requests in the other APIs, and what their answers say, to compare with Chat Completions."""

import json
from collections.abc import Callable
from typing import Any

from official_types import message_of

from request_fuzz.answers import Choice, Exchange
from request_fuzz.drawing import Asked

MESSAGES, RESPONSES, COMPLETIONS = "/v1/messages", "/v1/responses", "/v1/completions"
_SHARED = (
    "model", "toolset", "prompt_tools", "tool_search", "seed", "temperature", "top_p", "top_k", "min_p", "repetition_penalty",
    "chat_template_kwargs", "callgate",
)  # fmt: skip
_CHAT_ONLY = {"n", "logit_bias", "presence_penalty", "frequency_penalty", "logprobs", "min_tokens", "stop_token_ids", "truncation"}  # fmt: skip


def as_messages(asked: Asked) -> dict[str, Any] | None:
    """The request for Anthropic's API; None if that has no such field."""
    body = asked.body
    formats = asked.answer_schema if isinstance(asked.answer_schema, dict) else None
    if _CHAT_ONLY & body.keys() or asked.customs or (asked.has_format and formats is None):
        return None
    if (
        body["messages"][-1]["role"] == "assistant"
        or body.get("response_format", {}).get("type") == "json_object"
    ):
        return None
    sent = {name: body[name] for name in _SHARED if name in body}
    sent["messages"] = [_message(each) for each in body["messages"] if each["role"] != "system"]
    if body["messages"][0]["role"] == "system":
        sent["system"] = body["messages"][0]["content"]
    if limit := body.get("max_tokens") or body.get("max_completion_tokens"):
        sent["max_tokens"] = limit
    if "stop" in body:
        sent["stop_sequences"] = body["stop"]
    if "tools" in body:
        sent["tools"] = [
            {
                "name": each["function"]["name"],
                "description": each["function"]["description"],
                "input_schema": each["function"]["parameters"],
            }
            for each in body["tools"]
        ]
    if formats is not None:
        sent["output_config"] = {"format": {"type": "json_schema", "schema": formats}}
    return _with_choice(asked, sent)


def _with_choice(asked: Asked, sent: dict[str, Any]) -> dict[str, Any] | None:
    choice = asked.body.get("tool_choice")
    if isinstance(choice, dict) and choice["type"] == "allowed_tools":
        return None
    is_single = asked.body.get("parallel_tool_calls") is False
    if choice is None and not is_single:
        return sent
    if not asked.body.get("tools") and not asked.body.get("toolset"):
        return None if choice or is_single else sent
    kinds = {None: "auto", "auto": "auto", "required": "any", "none": "none"}
    chosen = (
        {"type": "tool", "name": choice["function"]["name"]}
        if isinstance(choice, dict)
        else {"type": kinds[choice]}
    )
    if is_single and chosen["type"] != "none":
        chosen["disable_parallel_tool_use"] = True
    return sent | {"tool_choice": chosen}


def _message(message: dict[str, Any]) -> dict[str, Any]:
    if message["role"] == "tool":
        result = {
            "type": "tool_result",
            "tool_use_id": message["tool_call_id"],
            "content": message["content"],
        }
        return {"role": "user", "content": [result]}
    if message.get("tool_calls"):
        used = [
            {
                "type": "tool_use",
                "id": call["id"],
                "name": call["function"]["name"],
                "input": json.loads(call["function"]["arguments"]),
            }
            for call in message["tool_calls"]
        ]
        return {"role": "assistant", "content": used}
    return {"role": message["role"], "content": _parts(message["content"], "text", _image_block)}


def _parts(content: Any, text: str, image: Callable[[str], dict[str, Any]]) -> Any:
    """The content of a message with images, if it has any; `text` is the type of its other parts."""
    if isinstance(content, str):
        return content
    return [
        {"type": text, "text": part["text"]} if part["type"] == "text" else image(part["image_url"]["url"])
        for part in content
    ]


def _image_block(url: str) -> dict[str, Any]:
    media_type, data = url.removeprefix("data:").split(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _input_image(url: str) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url}


def read_messages(exchange: Exchange) -> tuple[Choice, dict[str, Any]]:
    """The answer of Anthropic's API, whole or streamed, and its usage as Chat Completions counts it."""
    is_streamed = exchange.headers["content-type"].startswith("text/event-stream")
    message = message_of(exchange.events) if is_streamed else json.loads(exchange.content)
    choice = Choice()
    for block in message["content"]:
        choice.content += block.get("text", "")
        choice.thought += block.get("thinking", "")
        if block["type"] == "tool_use":
            choice.calls.append(("function", block["name"], json.dumps(block["input"])))
    choice.finish = message["stop_reason"]
    usage = message["usage"]
    prompt = usage["input_tokens"] + usage["cache_read_input_tokens"]
    return choice, {"prompt_tokens": prompt, "completion_tokens": usage["output_tokens"]}


def as_response(asked: Asked) -> dict[str, Any] | None:
    """The request for OpenAI's Responses; None if that has no such field."""
    body = asked.body
    if (_CHAT_ONLY | {"stop"}) & body.keys():
        return None
    sent = {name: body[name] for name in (*_SHARED, "parallel_tool_calls") if name in body}
    sent["store"] = False
    sent["input"] = [item for each in body["messages"] for item in _items(each)]
    if limit := body.get("max_tokens") or body.get("max_completion_tokens"):
        sent["max_output_tokens"] = limit
    if "tools" in body:
        sent["tools"] = [_flat_tool(each) for each in body["tools"]]
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        if choice["type"] == "allowed_tools":
            allowed = choice["allowed_tools"]
            choice = {
                "type": "allowed_tools",
                "mode": allowed["mode"],
                "tools": [_flat_choice(each) for each in allowed["tools"]],
            }
        else:
            choice = _flat_choice(choice)
    if choice is not None:
        sent["tool_choice"] = choice
    if (form := body.get("response_format")) is not None:
        if form["type"] == "json_schema":
            form = {"type": "json_schema", **form["json_schema"]}
        sent["text"] = {"format": form}
    return sent


def _flat_choice(choice: dict[str, Any]) -> dict[str, Any]:
    return {"type": choice["type"], **choice[choice["type"]]}


def _flat_tool(tool: dict[str, Any]) -> dict[str, Any]:
    flat = _flat_choice(tool)
    if flat.get("format", {}).get("type") == "grammar":
        flat["format"] = {"type": "grammar", **flat["format"]["grammar"]}
    return flat


def _items(message: dict[str, Any]) -> list[dict[str, Any]]:
    if message["role"] == "tool":
        return [
            {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
        ]
    if message.get("tool_calls"):
        return [
            {"type": "function_call", "call_id": call["id"], **call["function"]}
            for call in message["tool_calls"]
        ]
    return [{"role": message["role"], "content": _parts(message["content"], "input_text", _input_image)}]


def read_response(exchange: Exchange) -> tuple[Choice, dict[str, Any]]:
    """The answer of Responses, from its last event if it is streamed, and its usage as Chat Completions counts it."""
    if exchange.headers["content-type"].startswith("text/event-stream"):
        response = exchange.events[-1]["response"]
    else:
        response = json.loads(exchange.content)
    choice = Choice()
    for item in response["output"]:
        match item["type"]:
            case "message":
                choice.content += "".join(part["text"] for part in item["content"])
            case "reasoning":
                choice.thought += "".join(part["text"] for part in item["content"])
            case "custom_tool_call":
                choice.calls.append(("custom", item["name"], item["input"]))
            case "function_call":
                choice.calls.append(("function", item["name"], item["arguments"]))
    choice.finish = response["status"]
    usage = response["usage"]
    return choice, {"prompt_tokens": usage["input_tokens"], "completion_tokens": usage["output_tokens"]}


def as_completion(asked: Asked) -> dict[str, Any] | None:
    """A request without tools as one that completes what the user said; None if it has other fields."""
    left_out = {"messages", "stream", "stream_options", "logprobs", "top_logprobs", "max_completion_tokens", "truncation", "chat_template_kwargs"}  # fmt: skip
    if {"tools", "toolset"} & asked.body.keys() or "inspect" in asked.body.get("callgate", {}):
        return None
    if not isinstance(asked.body["messages"][-1]["content"], str):
        return None
    sent = {name: value for name, value in asked.body.items() if name not in left_out}
    sent["prompt"] = asked.body["messages"][-1]["content"][:60] or "a"
    if limit := asked.body.get("max_completion_tokens"):
        sent["max_tokens"] = limit
    return sent


def finish_in(path: str, asked: Asked, choice: Choice) -> set[str]:
    """How an answer of Chat Completions may end in another API."""
    if path == RESPONSES:
        return {"incomplete" if choice.finish == "length" else "completed"}
    if choice.finish == "length":
        return {"max_tokens"}
    return (
        {"tool_use"} if choice.calls else {"end_turn", *(["stop_sequence"] if "stop" in asked.body else [])}
    )
