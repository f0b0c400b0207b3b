"""Draws requests of Chat Completions that use any features together."""

import random
from dataclasses import dataclass, field
from typing import Any

from request_fuzz.subjects import (
    ANY_OBJECT,
    CUSTOM,
    NUM_DRAWN,
    PIXEL,
    SCHEMAS,
    TEXT_FORMATS,
    Format,
    drawn_schema,
    json_fault,
)
from request_fuzz.worlds import World

TOOLSET = tuple(SCHEMAS)[:6]
"""The functions of the registered toolset `kit`."""
STOPS = (" ", "a", "e", "n", "th", "e ", "\n", "}", '"', "<", "zzz", "an", "nd", "é")
SYSTEMS = ("Be brief.", "You are a helpful assistant who knows the tools of the house. " * 2)


@dataclass
class Asked:
    """A request, and what must hold of its answer."""

    body: dict[str, Any]
    address: str
    names: tuple[str, ...] = ()
    """The tools that may be called."""
    schemas: dict[str, Any] = field(default_factory=dict)
    customs: dict[str, Any] = field(default_factory=dict)
    mode: str = "none"
    """`none`, `auto`, `required` or `named`."""
    answer_schema: Any = None
    answer_format: Format | None = None
    leaves_after: float | None = None
    has_drawn: bool = False
    """Whether a schema is made up, and may be refused."""

    @property
    def num_choices(self) -> int:
        return self.body.get("n", 1)

    @property
    def has_format(self) -> bool:
        return self.answer_schema is not None or self.answer_format is not None

    @property
    def is_repeatable(self) -> bool:
        """Whether the same request has the same answer again."""
        return "timeout" not in self.body and ("seed" in self.body or self.body["temperature"] == 0)

    @property
    def stops(self) -> list[str]:
        """The strings at which text ends: none before a required call."""
        return self.body.get("stop", []) if self.mode in {"auto", "none"} else []

    @property
    def features(self) -> list[str]:
        """What the request uses, for counting."""
        names = [name for name in self.body if name not in {"model", "messages", "callgate"}]
        names += [f"callgate.{name}" for name in self.body.get("callgate", {})]
        kind = self.answer_format.field["type"] if self.answer_format else "json_schema"
        names += [f"mode {self.mode}"] + ([f"format {kind}"] if self.has_format else [])
        names += (
            ["images"] if any(isinstance(each["content"], list) for each in self.body["messages"]) else []
        )
        return [*names, *(["leaves"] if self.leaves_after is not None else [])]

    def format_fault(self, text: str) -> str:
        """Why a text does not have the response format; empty if it does."""
        if self.answer_format is not None:
            return "" if self.answer_format.fits(text) else f"not of the format {self.answer_format.field}"
        return json_fault(self.answer_schema, text)


def draw_request(rng: random.Random, world: World) -> Asked:
    """A request to the engine `tight`."""
    body: dict[str, Any] = {"model": "tight", "messages": _messages(rng, world)}
    asked = Asked(body, f"10.0.0.{rng.randint(1, 3)}")
    if rng.random() < 0.75:
        _add_tools(rng, asked)
    if rng.random() < (0.25 if asked.mode in ("auto", "required") else 0.5):
        _add_format(rng, asked)
    _add_sampling(rng, body, world)
    _add_limits(rng, body, world)
    _add_details(rng, asked)
    if world.refused and rng.random() < 0.9:
        _leave_out(asked.body, world.refused)
    return asked


def _leave_out(body: dict[str, Any], names: frozenset[str]) -> None:
    """Leave fields out of a request, such as `min_tokens` and `callgate.inspect`."""
    for name in names:
        *_, last = name.split(".")
        (body.get("callgate", {}) if name.startswith("callgate.") else body).pop(last, None)
    if body.get("callgate") == {}:
        del body["callgate"]


def _words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(("red", "the", "of", "day", "pay", "on")) for _ in range(count))


def _messages(rng: random.Random, world: World) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": rng.choice(SYSTEMS)})
    for number in range(rng.choice((0, 0, 0, 1, 2, 12))):
        messages.append({"role": "user", "content": _words(rng, rng.randint(1, 10))})
        if rng.random() < 0.4:
            call = {"id": f"c{number}", "type": "function", "function": {"name": "now", "arguments": "{}"}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "12:00"})
        messages.append(
            {
                "role": "assistant",
                "content": rng.choice(("It is noon.", "<think>hm</think>No", "</tool_call>")),
            }
        )
    length = rng.choice((1, 3, 10, 30, rng.randint(0, world.context_length)))
    messages.append({"role": "user", "content": _words(rng, length) or "?"})
    if world.takes_images and rng.random() < 0.4:
        messages[-1]["content"] = _with_images(rng, messages[-1]["content"])
    if rng.random() < 0.1:
        messages.append({"role": "assistant", "content": rng.choice(("Sure, ", "{", "<think>"))})
    return messages


def _with_images(rng: random.Random, text: str) -> list[dict[str, Any]]:
    parts = [{"type": "text", "text": text}]
    for _ in range(rng.randint(1, 3)):
        image = {"type": "image_url", "image_url": {"url": PIXEL}}
        parts.insert(rng.randint(0, len(parts)), image)
    return parts


def _add_tools(rng: random.Random, asked: Asked) -> None:
    body = asked.body
    names = rng.sample(list(SCHEMAS), rng.choice((1, 1, 2, 3, 6)))
    if rng.random() < 0.3:
        body["toolset"] = "kit"
        names = [name for name in names if name not in TOOLSET]
        asked.schemas = {name: SCHEMAS[name] for name in TOOLSET}
        if rng.random() < 0.4:
            body["tool_search"] = {"limit": rng.randint(1, 3)}
    if names or rng.random() < 0.5:
        customs = rng.sample(list(CUSTOM), rng.choice((0, 0, 1, 2)))
        asked.schemas |= {name: SCHEMAS[name] for name in names}
        if names and rng.random() < 0.2:
            asked.schemas["drawn"] = drawn_schema(rng.randrange(NUM_DRAWN))
            names.append("drawn")
            asked.has_drawn = True
        asked.customs = {name: CUSTOM[name] for name in customs}
        tools = [_function(rng, name, asked.schemas[name]) for name in names] + [
            _custom(name) for name in customs
        ]
        rng.shuffle(tools)
        if tools:
            body["tools"] = tools
    asked.names = (*asked.schemas, *asked.customs)
    _add_choice(rng, asked)
    if rng.random() < 0.4:
        body["parallel_tool_calls"] = rng.random() < 0.5
    if rng.random() < 0.2:
        body["prompt_tools"] = rng.choice(("all", "allowed", "none"))


def _add_choice(rng: random.Random, asked: Asked) -> None:
    body = asked.body
    asked.mode = rng.choice(("auto", "auto", "required", "required", "named", "none"))
    if asked.mode == "named":
        name = rng.choice(asked.names)
        kind = "custom" if name in asked.customs else "function"
        body["tool_choice"] = {"type": kind, kind: {"name": name}}
        asked.names = (name,)
    elif asked.mode in ("auto", "required") and rng.random() < 0.3:
        asked.names = tuple(rng.sample(asked.names, rng.randint(1, len(asked.names))))
        kinds = {name: "custom" if name in asked.customs else "function" for name in asked.names}
        tools = [{"type": kind, kind: {"name": name}} for name, kind in kinds.items()]
        body["tool_choice"] = {"type": "allowed_tools", "allowed_tools": {"mode": asked.mode, "tools": tools}}
    elif asked.mode != "auto" or rng.random() < 0.5:
        body["tool_choice"] = asked.mode


def _function(rng: random.Random, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name, "description": f"Does {name}.", "parameters": schema}
    if rng.random() < 0.2:
        function["strict"] = True
    tool: dict[str, Any] = {"type": "function", "function": function}
    return tool


def _custom(name: str) -> dict[str, Any]:
    format_field = CUSTOM[name]
    return {"type": "custom", "custom": {"name": name, **({"format": format_field} if format_field else {})}}


def _add_format(rng: random.Random, asked: Asked) -> None:
    if rng.random() < 0.5:
        asked.answer_format = rng.choice(TEXT_FORMATS)
        asked.body["response_format"] = asked.answer_format.field
    elif rng.random() < 0.15:
        asked.answer_schema = ANY_OBJECT
        asked.body["response_format"] = {"type": "json_object"}
    else:
        others = (
            {"enum": [1, 2.5, "x", None, {"a": [1]}]},
            {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
            {"type": "string", "maxLength": 9},
        )
        asked.answer_schema = rng.choice((*SCHEMAS.values(), *others))
        named = {"name": "answer", "schema": asked.answer_schema}
        asked.body["response_format"] = {"type": "json_schema", "json_schema": named}
    if rng.random() < 0.2:
        asked.body["callgate"] = {"key_order": rng.choice(("any", "declared"))}


def _add_sampling(rng: random.Random, body: dict[str, Any], world: World) -> None:
    if rng.random() < 0.9:
        body["seed"] = rng.randrange(-5, 10**6)
    body["temperature"] = rng.choice((1, 1, 1, 1, 0, 0.3, 2))
    width = world.vocabulary.width
    options = {
        "top_p": lambda: rng.choice((0.9, 0.1)),
        "top_k": lambda: rng.choice((1, 5, 40)),
        "min_p": lambda: rng.choice((0.05, 0.5)),
        "presence_penalty": lambda: rng.choice((-2, 1.5)),
        "frequency_penalty": lambda: rng.choice((-1, 2)),
        "repetition_penalty": lambda: rng.choice((0.5, 1.3)),
        "logit_bias": lambda: {
            str(rng.choice((rng.randrange(width), *world.vocabulary.stop_ids))): rng.choice(
                (-100, -5, 5, 100)
            )
            for _ in range(rng.randint(1, 5))
        },
    }
    for name, value in options.items():
        if rng.random() < 0.1:
            body[name] = value()


def _add_limits(rng: random.Random, body: dict[str, Any], world: World) -> None:
    limit = rng.choice((None, rng.randint(1, 12), rng.randint(1, 40), 30, 60, 100, 1000))
    if limit is not None:
        body[rng.choice(("max_tokens", "max_completion_tokens"))] = limit
    if rng.random() < 0.25:
        body["stop"] = rng.sample(STOPS, rng.randint(1, 3))
    if rng.random() < 0.15 and "tools" not in body:
        body["min_tokens"] = rng.randint(0, limit or 10)
    if rng.random() < 0.1:
        body["stop_token_ids"] = [rng.randrange(world.vocabulary.width) for _ in range(40)]
    if rng.random() < 0.2:
        body["truncation"] = "auto"
    if rng.random() < 0.2:
        body["chat_template_kwargs"] = {"enable_thinking": rng.random() < 0.7}
    if rng.random() < 0.06:
        body["timeout"] = rng.choice((0.001, 0.03, 0.2))


def _add_details(rng: random.Random, asked: Asked) -> None:
    body = asked.body
    own = body.setdefault("callgate", {})
    if rng.random() < 0.25:
        body["n"] = rng.randint(2, 3)
    if rng.random() < 0.2:
        body["logprobs"] = True
        body["top_logprobs"] = rng.choice((0, 1, 5, 20))
    if rng.random() < 0.4:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    if rng.random() < 0.1:
        own["inspect"] = True
    if rng.random() < 0.3:
        own |= rng.choice(({"accept": 1}, {"accept": 3}, {"accept": 8}, {"particles": 3}, {"draft": True}))
        if own.get("accept", 1) > 1 or "particles" in own:
            body.pop("stop", None)
    if asked.mode != "none" and "key_order" not in own and rng.random() < 0.15:
        own["key_order"] = rng.choice(("any", "declared"))
    if not own:
        del body["callgate"]
    if rng.random() < 0.1:
        asked.leaves_after = rng.choice((0.0, 0.01, 0.05, 0.3))
