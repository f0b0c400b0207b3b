"""How requests, results and answers are worded."""

from random import Random
from typing import Any

from tiny_model.domains import DATE, FLAG, PERSON, RECORD, TIME
from tiny_model.parameters import Parameter, Value
from tiny_model.tools import Invented

_OPENINGS = (
    "{0}",
    "{0}",
    "Please {1}",
    "Can you {1}",
    "Could you {1}",
    "I need to {1}",
    "I want to {1}",
    "I would like to {1}",
    "Help me {1}",
    "Hi, {1}",
    "Let us {1}",
    "It is time to {1}",
)
_MENTIONS = (
    "{label} {value}",
    "{label} {value}",
    "{label}: {value}",
    "{label} = {value}",
    "{name}={value}",
    "{name}: {value}",
    "the {label} is {value}",
    "the {label} should be {value}",
    "set {label} to {value}",
    "{value} as {label}",
    "{value} as the {label}",
    "{label} being {value}",
)
_NATURAL = {DATE: ("on {value}", "for {value}"), TIME: ("at {value}",), PERSON: ("for {value}",)}
_JOINTS = (" with ", ", ", ": ", ". Use ", " using ", " - ")
_BETWEEN = (", ", ", ", " and ", "; ", ", and ")


def request(rng: Random, tool: Invented, values: dict[str, Value]) -> str:
    """A sentence that asks for a call of `tool` with these values."""
    action = rng.choice(tool.actions)
    opening = rng.choice(_OPENINGS).format(action[0].upper() + action[1:], action)
    spoken = [parameter for parameter in tool.parameters if parameter.name in values]
    rng.shuffle(spoken)
    if not spoken:
        return opening + rng.choice((".", "", "!"))
    natural: list[str] = []
    stated: list[str] = []
    for parameter in spoken:
        is_natural = _is_clear(parameter, tool) and rng.random() < 0.4
        (natural if is_natural else stated).append(
            _mention(rng, parameter, values[parameter.name], is_natural=is_natural)
        )
    text = " ".join([opening, *natural])
    if stated:
        text += rng.choice(_JOINTS) + rng.choice(_BETWEEN).join(stated)
    return text + rng.choice((".", ".", "", "?" if opening[:3] in {"Can", "Cou"} else "."))


def _is_clear(parameter: Parameter, tool: Invented) -> bool:
    """Whether a value with a preposition shows which parameter it is for."""
    others = [other for other in tool.parameters if other is not parameter]
    if parameter.kind not in _NATURAL or any(other.kind == parameter.kind for other in others):
        return False
    return parameter.tells_kind or not any(other.schema["type"] == "string" for other in others)


def _mention(rng: Random, parameter: Parameter, value: Value, *, is_natural: bool) -> str:
    if is_natural:
        return rng.choice(_NATURAL[parameter.kind]).format(value=value.spoken)
    if parameter.kind == FLAG and rng.random() < 0.4:
        return f"{'with' if value.json else 'without'} {parameter.label}"
    forms = _MENTIONS[:8] if parameter.kind == RECORD else _MENTIONS
    return rng.choice(forms).format(name=parameter.name, label=parameter.label, value=value.spoken)


def joined(rng: Random, requests: list[str]) -> str:
    """Several requests in one message, in order."""
    then = rng.choice((" Also: ", " And then: ", " ", " Next, ", "\n"))
    return then.join(text if text[-1] in ".?!" else text + "." for text in requests)


SYSTEMS = (
    "You are a helpful assistant.",
    "You help with {domain}.",
    "Use the tools when they fit.",
    "Answer briefly. Today is {date}.",
)

SMALL_TALK = (
    ("Hello!", "Hello! What can I do for you?"),
    ("Hi there", "Hello! What can I do for you?"),
    ("Good morning.", "Good morning! What can I do for you?"),
    ("Thanks!", "You are welcome."),
    ("Thank you very much.", "You are welcome."),
    ("Who are you?", "I am a small model that calls tools."),
    ("What are you?", "I am a small model that calls tools."),
    ("Tell me a joke.", "I only know how to call tools."),
    ("What is the meaning of life?", "I only know how to call tools."),
    ("Goodbye.", "Goodbye!"),
    ("Bye", "Goodbye!"),
    ("That is all for today.", "Goodbye!"),
)
"""Messages and answers without any tool."""

NAME_TOOLS = ("What can you do?", "Which tools do you have?", "List your tools.", "How can you help me?")


def no_tool(action: str) -> str:
    """The answer to a request that no tool serves."""
    return f"I have no tool to {action}."


def tool_names(tools: list[Invented]) -> str:
    """The answer to a question for the tools."""
    return "I can call " + ", ".join(tool.tool.name for tool in tools) + "."


def told(result: dict[str, Any]) -> str:
    """A tool's result in a sentence."""
    if "error" in result:
        return f"That did not work: {result['error']}."
    parts = [f"{key.replace('_', ' ')} is {_plain(value)}" for key, value in result.items()]
    return "Done: " + ", ".join(parts) + "."


def _plain(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
