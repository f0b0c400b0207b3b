"""Random answers for `FakeRuntime`: any mix of thoughts, text and calls, of choices that come in any order."""

import json
from random import Random

from fake_runtime import STATS
from sample_tools import TIME, WEATHER

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

SQL = {"name": "sql", "description": "Runs SQL."}
FUNCTIONS = [tool["function"] for tool in (WEATHER, TIME)]

CHAT_TOOLS = [WEATHER, TIME, {"type": "custom", "custom": SQL}]
RESPONSES_TOOLS = [*({"type": "function", **each} for each in FUNCTIONS), {"type": "custom", **SQL}]
_INPUT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
MESSAGES_TOOLS = [
    *({"name": each["name"], "input_schema": each["parameters"]} for each in FUNCTIONS),
    {"name": "sql", "input_schema": _INPUT},
]


def text_of(rng: Random, most: int) -> str:
    return "".join(rng.choices('ab é😀\n\u2028"\\{<', k=rng.randint(1, most)))


def cut(rng: Random, text: str) -> list[str]:
    at = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, 4)))
    return [text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True) if end > start]


def token(character: str, *others: str) -> TokenLogprob:
    return TokenLogprob(character, character.encode(), -0.5, tuple(map(token, others)))


def choice_of(rng: Random, number: int, *, thinks: bool, max_calls: int) -> list[Event]:
    """Some thoughts, some text, some calls, and one of the ways to end."""
    events: list[Event] = [ThoughtDelta(number, text_of(rng, 5)) for _ in range(rng.randint(0, 2) * thinks)]
    for _ in range(rng.randint(0, 3)):
        text = text_of(rng, 5)
        events.append(TextDelta(number, text, tuple(token(each, each, "z") for each in text)))
    calls = rng.choices(["get_weather", "get_time", "sql"], k=rng.randint(0, max_calls))
    for index, name in enumerate(calls):
        arguments = json.dumps({"input" if name == "sql" else "place": text_of(rng, 8)})
        events.append(CallStarted(number, index, name))
        events += [ArgumentsDelta(number, index, piece) for piece in cut(rng, arguments)]
    reasons = [FinishReason.TOOL_CALLS if calls else FinishReason.STOP, FinishReason.LENGTH]
    reason = rng.choice(reasons)
    is_closed = bool(calls) and reason is FinishReason.LENGTH
    return [*events, Finished(number, reason, STATS, closed_by="budget" if is_closed else None)]


def script_of(rng: Random, num_choices: int = 1, *, thinks: bool = True, max_calls: int = 2) -> list[Event]:
    """The events of several choices, which come in any order."""
    pending = [choice_of(rng, i, thinks=thinks, max_calls=max_calls) for i in range(num_choices)]
    events = []
    while pending:
        events.append(rng.choice(pending).pop(0))
        pending = [choice for choice in pending if choice]
    return events
