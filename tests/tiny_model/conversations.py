"""Synthetic conversations. A seed and a number determine a conversation."""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from runtime.request import Message
from tiny_model import domains, phrases, words
from tiny_model.domains import Domain
from tiny_model.parameters import Value, draw, invent
from tiny_model.tools import Invented, ToolStyle, invent_tools
from toolspecs.tool import Tool, ToolCall

_PLAIN = ToolStyle()


@dataclass(frozen=True, slots=True)
class Mix:
    """The kinds and shares that conversations are made of, in a stage of the curriculum or in a test."""

    domains: tuple[Domain, ...] = domains.TRAINING
    style: ToolStyle = _PLAIN
    num_tools: tuple[int, int] = (1, 6)
    num_turns: tuple[int, int] = (1, 4)
    no_call: float = 0.12
    parallel: float = 0.15
    result: float = 0.35


HELD_OUT = Mix(
    domains=domains.HELD_OUT,
    style=ToolStyle(held_out_shapes=True),
    num_tools=(4, 4),
    num_turns=(1, 1),
    no_call=0.0,
    parallel=0.0,
    result=0.0,
)
"""Unseen domains and shapes, four tools, one call."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The tools that are shown, and messages, of which the last is the assistant's."""

    tools: tuple[Tool, ...]
    messages: tuple[Message, ...]

    @property
    def prompt(self) -> tuple[Message, ...]:
        """The messages before the last answer."""
        return self.messages[:-1]

    @property
    def expected(self) -> tuple[ToolCall, ...]:
        """The calls of the last answer."""
        return self.messages[-1].calls


def converse(seed: int, number: int, mix: Mix) -> Conversation:
    """The conversation of a seed and a number; the same arguments give the same conversation."""
    rng = Random(f"{seed}/{number}")
    tools = invent_tools(rng, mix.domains, mix.style, rng.randint(*mix.num_tools))
    rng.shuffle(tools)
    messages = [Message("system", _system(rng, mix))] if rng.random() < 0.2 else []
    for _ in range(rng.randint(*mix.num_turns)):
        messages += _turn(rng, mix, tools, len(messages))
    return Conversation(tuple(tool.tool for tool in tools), tuple(messages))


def _system(rng: Random, mix: Mix) -> str:
    date = f"{rng.randint(2020, 2030)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    return rng.choice(phrases.SYSTEMS).format(domain=rng.choice(mix.domains).name, date=date)


def _turn(rng: Random, mix: Mix, tools: list[Invented], position: int) -> list[Message]:
    """A message and its answer; after calls, perhaps their results and a sentence about them."""
    if rng.random() < mix.no_call:
        return _without_call(rng, mix, tools)
    count = rng.choice((2, 2, 3)) if rng.random() < mix.parallel else 1
    chosen = rng.choices(tools, k=count)
    arguments = [_arguments(rng, tool) for tool in chosen]
    asked = [phrases.request(rng, tool, values) for tool, values in zip(chosen, arguments, strict=True)]
    calls = tuple(
        ToolCall(f"call_{position}_{index}", tool.tool.name, _text_of(values))
        for index, (tool, values) in enumerate(zip(chosen, arguments, strict=True))
    )
    messages = [Message("user", phrases.joined(rng, asked) if count > 1 else asked[0])]
    messages.append(Message("assistant", calls=calls))
    if rng.random() < mix.result:
        results = [_result(rng, mix) for _ in calls]
        messages += [
            Message("tool", json.dumps(result), call_id=call.call_id, name=call.name)
            for call, result in zip(calls, results, strict=True)
        ]
        messages.append(Message("assistant", " ".join(map(phrases.told, results))))
    return messages


def _without_call(rng: Random, mix: Mix, tools: list[Invented]) -> list[Message]:
    kind = rng.random()
    if kind < 0.4:
        said, answer = rng.choice(phrases.SMALL_TALK)
    elif kind < 0.5:
        said, answer = rng.choice(phrases.NAME_TOOLS), phrases.tool_names(tools)
    else:
        taken = {action for tool in tools for action in tool.actions}
        (other,) = invent_tools(rng, mix.domains, mix.style, 1)
        action = other.actions[0]
        if taken & {*other.actions}:
            return _without_call(rng, mix, tools)
        said, answer = phrases.request(rng, other, _arguments(rng, other)), phrases.no_tool(action)
        if len(other.actions) > 1:  # the answer repeats what was asked
            said = phrases.request(rng, Invented(other.tool, other.parameters, (action,)), {})
    return [Message("user", said), Message("assistant", answer)]


def _arguments(rng: Random, tool: Invented) -> dict[str, Value]:
    """Values in the declared order; half of the optional parameters are left out."""
    return {
        parameter.name: draw(rng, parameter)
        for parameter in tool.parameters
        if parameter.is_required or rng.random() < 0.5
    }


def _text_of(values: dict[str, Value]) -> str:
    return json.dumps({name: value.json for name, value in values.items()}, ensure_ascii=False)


def _result(rng: Random, mix: Mix) -> dict[str, Any]:
    if rng.random() < 0.15:
        return {"error": f"{rng.choice(('no such', 'unknown', 'cannot find'))} {words.code(rng)}"}
    domain = rng.choice(mix.domains)
    chosen = rng.sample([a for a in domain.attributes if a[1] in _REPORTED], rng.randint(1, 2))
    return {name: draw(rng, invent(rng, name, kind, (), is_required=True)).json for name, kind in chosen}


_REPORTED = {domains.TEXT, domains.PERSON, domains.CODE, domains.COUNT, domains.AMOUNT, domains.DATE}
