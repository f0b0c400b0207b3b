"""The strategies: how a question is shown, which grammar its outputs have, how many attempts there are."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from runtime.errors import RequestRefused
from runtime.request import Message
from runtime.selection import Selection
from runtime.study import output_grammars
from runtime.study.output_grammars import MakeGrammar
from runtime.study.questions import Question
from runtime.study.studied_model import StudiedModel
from toolspecs.nearest import instead
from toolspecs.tool import Tool, ToolCall

Show = Callable[[Question], Question]


def as_asked(question: Question) -> Question:
    """The question, unchanged."""
    return question


EXAMPLE_TOOL = Tool(
    "set_alarm",
    "Set an alarm.",
    {
        "type": "object",
        "properties": {
            "time": {"type": "string", "description": "The time as HH:MM."},
            "label": {"type": "string"},
            "repeat": {"type": "integer", "minimum": 0},
        },
        "required": ["time"],
    },
)
_EXAMPLE = (
    Message("user", "Set an alarm: time 07:30 and label Morning run."),
    Message(
        "assistant",
        calls=(ToolCall("call_example", EXAMPLE_TOOL.name, '{"time": "07:30", "label": "Morning run"}'),),
    ),
    Message("tool", '{"ok": true}', call_id="call_example", name=EXAMPLE_TOOL.name),
    Message("assistant", "The alarm is set."),
)


def with_example(question: Question) -> Question:
    """Insert a complete exchange, after a system message; its tool is shown with the others."""
    at = sum(message.role == "system" for message in question.messages[:1])
    messages = (*question.messages[:at], *_EXAMPLE, *question.messages[at:])
    return replace(question, messages=messages, tools=(*question.tools, EXAMPLE_TOOL))


def reasoning_key(question: Question) -> str:
    """A key for the model's reasoning, different from all keys of the tools."""
    property_names = {key for tool in question.tools for key in tool.parameters.get("properties", {})}
    key = "reasoning"
    while key in property_names:
        key += "_"
    return key


REASONING_CHARACTERS = 160


def with_reasoning(question: Question) -> Question:
    """Add a required text for reasoning as the first parameter of every tool."""
    key = reasoning_key(question)
    text = {
        "type": "string",
        "maxLength": REASONING_CHARACTERS,
        "description": "Why this call and these arguments, in a sentence.",
    }
    tools = tuple(
        replace(
            tool,
            parameters={
                **tool.parameters,
                "properties": {key: text, **tool.parameters.get("properties", {})},
                "required": [key, *tool.parameters.get("required", [])],
            },
        )
        for tool in question.tools
    )
    return replace(question, tools=tools)


_NO_SELECTION = Selection()


@dataclass(frozen=True, slots=True)
class Strategy:
    """One row of the tables.

    `show` makes the question that the model sees, `judged` the one whose tools an output is judged by. The
    argument `ignored` is not judged. If the strategy `complains`, further attempts are shown the last one and
    what was wrong with it; otherwise they get the same prompt. Seeds depend on the question and the attempt
    only, so that all strategies sample with the same random numbers. Unless it `jumps`, forced tokens are
    sampled too. The answer is selected from several sequences as `selection` says, or is the most likely of
    `num_compared`. With a `draft`, the first of two attempts is written without the mask, and is the answer
    if it is valid token for token. The second attempt is shown the draft, or not.
    """

    name: str
    title: str
    show: Show = as_asked
    judged: Show = as_asked
    grammar: MakeGrammar = output_grammars.unconstrained
    ignored: Callable[[Question], str] | None = None
    max_attempts: int = 1
    complains: bool = False
    thinks: bool = False
    jumps: bool = True
    selection: Selection = _NO_SELECTION
    num_compared: int = 1
    draft: Literal["shown", "not shown"] | None = None

    @property
    def is_masked(self) -> bool:
        """Whether the strategy masks."""
        return self.grammar is not output_grammars.unconstrained


STRATEGIES = (
    Strategy("prompt", "prompt only"),
    Strategy("example", "prompt with an example", show=with_example, judged=with_example),
    Strategy("retry", "draw until valid, at most 10", max_attempts=10),
    Strategy("complaint", "say what was wrong, at most 3", max_attempts=3, complains=True),
    Strategy("insert", "insert schema tokens", grammar=output_grammars.json_types_only),
    Strategy("xgrammar", "xgrammar's conversion", grammar=output_grammars.xgrammar_conversion),
    Strategy("callgate", "Callgate, plain mask", grammar=output_grammars.callgate),
    Strategy("drawn", "Callgate, jump-forward off", grammar=output_grammars.callgate, jumps=False),
    Strategy("compact", "Callgate, no blanks", grammar=output_grammars.callgate_compact),
    Strategy(
        "accept_4",
        "Callgate, accept, at most 4",
        grammar=output_grammars.callgate,
        selection=Selection("accept", 4),
    ),
    Strategy(
        "accept",
        "**Callgate, accept, at most 8**",
        grammar=output_grammars.callgate,
        selection=Selection("accept", 8),
    ),
    Strategy(
        "particles",
        "Callgate, 4 particles",
        grammar=output_grammars.callgate,
        selection=Selection("particles", 4),
    ),
    Strategy(
        "particles_8",
        "Callgate, 8 particles",
        grammar=output_grammars.callgate,
        selection=Selection("particles", 8),
    ),
    Strategy(
        "best",
        "Callgate, best of 4 by likelihood",
        grammar=output_grammars.callgate,
        num_compared=4,
    ),
    Strategy(
        "draft",
        "Callgate, draft first",
        grammar=output_grammars.callgate,
        max_attempts=2,
        draft="shown",
    ),
    Strategy(
        "redraw",
        "Callgate, draft first, not shown",
        grammar=output_grammars.callgate,
        max_attempts=2,
        draft="not shown",
    ),
    Strategy("any_order", "Callgate, any key order", grammar=output_grammars.callgate_in_any_order),
    Strategy(
        "reasoning",
        "Callgate, reasoning field first",
        show=with_reasoning,
        grammar=output_grammars.callgate,
        ignored=reasoning_key,
    ),
    Strategy(
        "thinking",
        "Callgate, free thinking first",
        grammar=output_grammars.callgate_after_thought,
        thinks=True,
    ),
)
_BY_NAME = {strategy.name: strategy for strategy in STRATEGIES}
PROMPT, CALLGATE = _BY_NAME["prompt"], _BY_NAME["callgate"]


def strategies_for(subject: StudiedModel, names: Iterable[str] | None = None) -> tuple[Strategy, ...]:
    """The strategies of some names, or all of them; thinking is left out if the model cannot think.

    Raises:
        RequestRefused: there is no such strategy.
    """
    chosen_names = list(_BY_NAME) if names is None else list(dict.fromkeys(names))
    if unknown := [name for name in chosen_names if name not in _BY_NAME]:
        raise RequestRefused(
            f"there is no strategy {unknown[0]!r}{instead(unknown[0], _BY_NAME)}", "strategies"
        )
    return tuple(_BY_NAME[n] for n in chosen_names if subject.thinking_syntax or not _BY_NAME[n].thinks)
