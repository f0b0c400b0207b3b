"""The demo's requests, every mode at least once, and its toolsets."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A request, and what its answer may be.

    `num_calls` are the least and the most calls allowed, None for no limit; `only` the tools that may be
    called, None for every tool shown; `finish` the finish reasons allowed.
    """

    mode: str
    prompt: str
    toolsets: tuple[str, ...] = ()
    named_by: Literal["body", "model", "header"] = "body"
    inline: tuple[dict[str, Any], ...] = ()
    tool_choice: Any = None
    is_parallel: bool | None = None
    is_streamed: bool = False
    max_tokens: int = 768
    schema: dict[str, Any] | None = None
    num_calls: tuple[int, int | None] = (1, None)
    only: tuple[str, ...] | None = None
    finish: frozenset[str] = field(default=frozenset({"tool_calls", "length"}))

    @property
    def source(self) -> str:
        """Where the tools come from, in words."""
        spelled = {"body": " + ".join(self.toolsets), "model": f"model:{'+'.join(self.toolsets)}"}
        spelled["header"] = f"X-Toolset: {','.join(self.toolsets)}"
        inline = f"{len(self.inline)} inline" if self.inline else ""
        parts = [
            spelled[self.named_by] if self.toolsets else "",
            inline,
            "response_format" if self.schema else "",
        ]
        return " + ".join(part for part in parts if part)


def named(tool: str) -> dict[str, Any]:
    """OpenAI's choice of one function."""
    return {"type": "function", "function": {"name": tool}}


def allowed(mode: str, *tools: str) -> dict[str, Any]:
    """OpenAI's choice among some functions."""
    return {
        "type": "allowed_tools",
        "allowed_tools": {"mode": mode, "tools": [named(tool) for tool in tools]},
    }


WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather at a place, now or on a day to come.",
        "parameters": {
            "type": "object",
            "properties": {
                "latitude": {"type": "number", "minimum": -90, "maximum": 90},
                "longitude": {"type": "number", "minimum": -180, "maximum": 180},
                "day": {"anyOf": [{"const": "now"}, {"type": "string", "format": "date"}]},
                "units": {"type": "string", "enum": ["metric", "imperial"]},
            },
            "required": ["latitude", "longitude", "day"],
            "additionalProperties": False,
        },
    },
}

TICKET: dict[str, Any] = {
    "type": "object",
    "properties": {
        "sentiment": {"type": "string", "enum": ["angry", "neutral", "happy"]},
        "topics": {
            "type": "array",
            "items": {"enum": ["billing", "delivery", "product", "other"]},
            "minItems": 1,
            "maxItems": 3,
        },
        "order_id": {"anyOf": [{"type": "string", "pattern": "^[0-9]{3}-[0-9]{7}$"}, {"type": "null"}]},
        "needs_human": {"type": "boolean"},
    },
    "required": ["sentiment", "topics", "order_id", "needs_human"],
    "additionalProperties": False,
}

NAMED_FINISH = frozenset({"stop", "length"})
"""The finish reason of OpenAI for the choice of a function by name is `stop`."""

ANY_FINISH = frozenset({"tool_calls", "stop", "length"})

SCENARIOS = (
    Scenario(
        mode="required",
        toolsets=("calendar",),
        prompt="Cancel an event with event id ev-31.",
        tool_choice="required",
    ),
    Scenario(
        mode="required",
        toolsets=("issues",),
        prompt="Please close an issue: issue WEB-12, resolution duplicate.",
        tool_choice="required",
        is_streamed=True,
    ),
    Scenario(
        mode="required, one call",
        toolsets=("files",),
        prompt="Read a file with path /notes.txt.",
        tool_choice="required",
        is_parallel=False,
        num_calls=(1, 1),
    ),
    Scenario(
        mode="named",
        toolsets=("payments",),
        prompt="Charge a customer: customer cus_4821, amount 19.99, currency eur, reference 'Order 302'.",
        tool_choice=named("create_payment"),
        only=("create_payment",),
        finish=NAMED_FINISH,
    ),
    Scenario(
        mode="named",
        toolsets=("files",),
        prompt="Edit a file: path /src/main.py, old 'colour', new 'color'.",
        tool_choice=named("edit_file"),
        is_streamed=True,
        only=("edit_file",),
        finish=NAMED_FINISH,
    ),
    Scenario(
        mode="auto",
        toolsets=("calendar",),
        prompt="Answer an invitation with event id ev-12 and answer accepted.",
        tool_choice="auto",
        max_tokens=256,
        num_calls=(0, None),
        finish=ANY_FINISH,
    ),
    Scenario(
        mode="auto",
        toolsets=("payments",),
        prompt="Can you read the balance with currency gbp?",
        tool_choice="auto",
        is_streamed=True,
        max_tokens=256,
        num_calls=(0, None),
        finish=ANY_FINISH,
    ),
    Scenario(
        mode="none",
        toolsets=("issues",),
        prompt="Who are you?",
        tool_choice="none",
        max_tokens=64,
        num_calls=(0, 0),
        finish=frozenset({"stop", "length"}),
    ),
    Scenario(
        mode="none",
        toolsets=("files",),
        prompt="Tell me a joke.",
        tool_choice="none",
        is_streamed=True,
        max_tokens=64,
        num_calls=(0, 0),
        finish=frozenset({"stop", "length"}),
    ),
    Scenario(
        mode="allowed, required",
        toolsets=("payments",),
        prompt="Refund a payment: payment pay_90417, amount 7.5, reason not_delivered.",
        tool_choice=allowed("required", "list_transactions", "refund_payment"),
        only=("list_transactions", "refund_payment"),
    ),
    Scenario(
        mode="allowed, auto",
        toolsets=("files",),
        prompt="Search for 'licence' below the root /docs.",
        tool_choice=allowed("auto", "list_folder", "read_file", "search_files"),
        is_streamed=True,
        max_tokens=256,
        num_calls=(0, None),
        only=("list_folder", "read_file", "search_files"),
        finish=ANY_FINISH,
    ),
    Scenario(
        mode="required",
        toolsets=("payments",),
        prompt="Charge customer cus_77: amount 120, currency usd, reference 'Order 7'."
        " Also: Refund a payment: payment pay_5526, reason requested.",
        tool_choice="required",
    ),
    Scenario(
        mode="required",
        toolsets=("calendar", "payments"),
        prompt="Refund a payment: payment pay_5526, reason requested."
        " Also: Refund a payment: payment pay_77, reason duplicate.",
        tool_choice="required",
        is_streamed=True,
    ),
    Scenario(
        mode="required",
        inline=(WEATHER,),
        prompt="Get the weather: latitude 52.5, longitude 13.4, day 2026-11-22, units metric.",
        tool_choice="required",
    ),
    Scenario(
        mode="named",
        toolsets=("calendar",),
        inline=(WEATHER,),
        prompt="Get the weather for latitude 59.9, longitude 10.7, day now.",
        tool_choice=named("get_weather"),
        is_streamed=True,
        only=("get_weather",),
        finish=NAMED_FINISH,
    ),
    Scenario(
        mode="required",
        toolsets=("issues",),
        named_by="model",
        prompt="Search the issues: text 'crash', limit 5.",
        tool_choice="required",
        is_streamed=True,
    ),
    Scenario(
        mode="required",
        toolsets=("calendar", "files"),
        named_by="header",
        prompt="Read a file with path /docs/plan.md.",
        tool_choice="required",
        is_streamed=True,
    ),
    Scenario(
        mode="json_schema",
        schema=TICKET,
        prompt="sentiment=happy, topics=delivery, order_id=417-7654321, needs_human=false",
        max_tokens=256,
        num_calls=(0, 0),
        finish=frozenset({"stop", "length"}),
    ),
    Scenario(
        mode="json_schema",
        schema=TICKET,
        prompt="sentiment: neutral, topics: delivery, order_id: null, needs_human: false",
        is_streamed=True,
        max_tokens=256,
        num_calls=(0, 0),
        finish=frozenset({"stop", "length"}),
    ),
)


TOOLSETS = ("calendar", "issues", "files", "payments")


def document_file(toolset: str) -> Traversable:
    """The file of a toolset: the body of its `PUT /v1/toolsets/{toolset}`."""
    return files("gateway.demo") / "toolsets" / f"{toolset}.json"


def read_document(toolset: str) -> dict[str, Any]:
    """The content of that file."""
    document: dict[str, Any] = json.loads(document_file(toolset).read_text("utf-8"))
    return document


def parameters_by_tool(document: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of every tool's arguments, by name, of `{"tools": [...]}` in OpenAI or MCP shape."""
    parameters = {}
    for tool in document["tools"]:
        fields = tool.get("function", tool)
        parameters[fields["name"]] = fields["parameters"] if "parameters" in fields else fields["inputSchema"]
    return parameters
