"""Conversations about everyday tools. A seed and a number determine a conversation."""

import json
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from tiny_model.conversations import Conversation

from adapter.sentences import Request, Template, domains, spelled, write
from runtime.request import Message
from toolspecs.tool import Tool, ToolCall

NO_CALL, PARALLEL, RESULT, SYSTEM, STRANGERS = 0.08, 0.1, 0.25, 0.2, 0.35
"""Shares: of turns that call nothing, that call several tools, and whose results come back; of conversations
with a system prompt, and with tools of a second domain."""
TURNS = 12
"""At most so many turns: definitions of tools are most of a conversation's tokens, and all turns share them."""

_SYSTEMS = ("You are a helpful assistant.", "Use the tools when they fit.", "Answer briefly.")
_BEFORE = (
    *("", "", "", "", "", "please ", "hi, ", "hey, ", "hello! ", "ok, ", "so, ", "could you help? "),
    *("quick one: ", "one more thing: ", "if you have a second: ", "um, "),
)
_BEHIND = (
    *("", "", "", "", "", "", " thanks", ", thank you", ", please", ", ok?", " - thanks!", " :)"),
    ", will you",
)
_SMALL_TALK = (
    ("hello", "Hello! What can I do for you?"),
    ("thanks, that's all", "You are welcome."),
    ("how are you today?", "I am fine, thank you. What can I do for you?"),
    ("good night", "Good night!"),
    ("you're great", "Thank you!"),
    ("who made you?", "I am a small model that calls tools."),
)
_DONE = ("Done.", "That is done.", "All set.", "It worked.")


@dataclass(frozen=True, slots=True)
class _Shown:
    """A tool as a conversation shows it: one of its names, and one of each parameter's."""

    template: Template
    tool: Tool
    names: dict[str, str]

    def call(self, request: Request, call_id: str) -> ToolCall:
        """The call that a request asks for, under the names that are shown."""
        arguments = {self.names[name]: value for name, value in request.arguments.items()}
        return ToolCall(call_id, self.tool.name, json.dumps(arguments, ensure_ascii=False))


def converse(seed: int, number: int) -> Conversation:
    """The conversation of a seed and a number; the same arguments give the same conversation."""
    rng = Random(f"everyday/{seed}/{number}")
    home, *others = rng.sample(list(domains()), 3)
    templates = list(domains()[home])
    if rng.random() < STRANGERS:
        templates += [template for other in others for template in domains()[other]]
    shown = _show(rng, rng.sample(templates, min(len(templates), rng.randint(2, 7))))
    absent = [template for template in domains()[others[-1]] if template not in templates]
    messages = [Message("system", rng.choice(_SYSTEMS))] if rng.random() < SYSTEM else []
    for _ in range(rng.randint(1, TURNS)):
        messages += _turn(rng, shown, absent, len(messages))
    return Conversation(tuple(one.tool for one in shown), tuple(messages))


def spell(seed: int, number: int) -> Conversation:
    """A conversation with a tool or two, whose texts are words of the vocabulary, to be copied."""
    rng = Random(f"spelling/{seed}/{number}")
    shown = _show(rng, [spelled(template) for template in rng.sample(_take_texts(), rng.randint(1, 2))])
    messages: list[Message] = []
    for _ in range(rng.randint(6, 9)):
        messages += _turn(rng, shown, [], len(messages))
    return Conversation(tuple(one.tool for one in shown), tuple(messages))


@cache
def _take_texts() -> tuple[Template, ...]:
    """The tools that take a text which is no choice."""
    every = (template for templates in domains().values() for template in templates)
    return tuple(template for template in every if spelled(template) != template)


def _show(rng: Random, templates: list[Template]) -> list[_Shown]:
    is_closed, is_described = rng.random() < 0.5, rng.random() < 0.85
    shown: dict[str, _Shown] = {}
    for template in templates:
        names = {parameter.names[0]: rng.choice(parameter.names) for parameter in template.parameters}
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {names[p.names[0]]: rng.choice(p.kind.schemas) for p in template.parameters},
        }
        if required := [names[p.names[0]] for p in template.parameters if not p.is_optional]:
            schema["required"] = required
        if is_closed:
            schema["additionalProperties"] = False
        tool = Tool(rng.choice(template.names), template.description if is_described else "", schema)
        shown[tool.name] = _Shown(template, tool, names)
    return list(shown.values())


def _turn(rng: Random, shown: list[_Shown], absent: list[Template], position: int) -> list[Message]:
    """A message and its answer; after calls, perhaps their results and a word about them."""
    if rng.random() < NO_CALL:
        return _without_call(rng, absent)
    count = rng.choice((2, 2, 3)) if rng.random() < PARALLEL else 1
    chosen = rng.choices(shown, k=count)
    requests = [write(rng, one.template) for one in chosen]
    calls = tuple(
        one.call(request, f"call_{position}_{index}")
        for index, (one, request) in enumerate(zip(chosen, requests, strict=True))
    )
    said = rng.choice((". ", " and ", ", then ", ". Also, ", "\n")).join(request.text for request in requests)
    asked = _mannered(rng, said, keeps_case=requests[0].begins_with_value)
    messages = [Message("user", asked), Message("assistant", calls=calls)]
    if rng.random() < RESULT:
        messages += [Message("tool", '{"ok": true}', call_id=call.call_id, name=call.name) for call in calls]
        messages.append(Message("assistant", rng.choice(_DONE)))
    return messages


def _without_call(rng: Random, absent: list[Template]) -> list[Message]:
    """Small talk, or a request for which no tool is shown."""
    if absent and rng.random() < 0.6:
        request = write(rng, rng.choice(absent))
        asked = _mannered(rng, request.text, keeps_case=request.begins_with_value)
        return [Message("user", asked), Message("assistant", "I have no tool for that.")]
    said, answer = rng.choice(_SMALL_TALK)
    return [Message("user", said), Message("assistant", answer)]


def _mannered(rng: Random, text: str, *, keeps_case: bool) -> str:
    """The request as a polite, a hasty or a careful writer puts it."""
    opening = rng.choice(_BEFORE)
    text = opening + text
    if text[-1].isalnum():
        text += rng.choice(_BEHIND)
    if rng.random() < 0.5 and (opening or not keeps_case):
        text = text[0].upper() + text[1:]
    if text[-1].isalnum():
        text += rng.choice(("", ".", ".", "!"))
    return text
