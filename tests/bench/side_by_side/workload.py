"""Requests of the comparison: BFCL's questions, each shown the same tools, so that a call must be chosen."""

import itertools
import json
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
from corpus import corpus, json_lines
from soundness.bfcl import schema_of


@dataclass(frozen=True, slots=True)
class Workload:
    """`tools` in OpenAI's shape, which every request shows, and the `questions`; one answer takes `max_tokens`."""

    tools: tuple[dict[str, Any], ...]
    questions: tuple[str, ...]
    max_tokens: int

    def request(self, number: int) -> dict[str, Any]:
        """The body of Chat Completions that asks the question of this number; the questions come in turn."""
        return {
            "messages": [{"role": "user", "content": self.questions[number % len(self.questions)]}],
            "tools": list(self.tools),
            "tool_choice": "required",
            "parallel_tool_calls": False,
            "max_tokens": self.max_tokens,
            "temperature": 1.0,
        }

    def is_valid(self, call: dict[str, Any]) -> bool:
        """Whether a call, in OpenAI's shape, names a tool and its arguments validate."""
        by_name = {tool["function"]["name"]: tool["function"]["parameters"] for tool in self.tools}
        function = call["function"]
        try:
            arguments = json.loads(function["arguments"])
        except ValueError:
            return False
        schema = by_name.get(function["name"])
        return schema is not None and jsonschema_rs.is_valid(schema, arguments)


def bfcl_workload(*, num_tools: int, num_questions: int, max_tokens: int) -> Workload:
    """The first distinct tools of BFCL's `live_multiple` and `multiple`, and the questions they came with."""
    items = itertools.chain.from_iterable(
        json_lines(corpus("bfcl", f"{name}.jsonl.gz")) for name in ("multiple", "live_multiple")
    )
    tools: dict[str, dict[str, Any]] = {}
    questions: list[str] = []
    for item in items:
        if len(questions) < num_questions:
            questions.append(item["question"][0][-1]["content"])
        for tool in item["function"]:
            if len(tools) < num_tools:
                tools.setdefault(tool["name"], _openai(tool))
        if len(questions) == num_questions and len(tools) == num_tools:
            break
    return Workload(tuple(tools.values()), tuple(questions), max_tokens)


def _openai(tool: dict[str, Any]) -> dict[str, Any]:
    """OpenAI admits no dots in names; every engine gets the same ones."""
    name = tool["name"].replace(".", "_")
    function = {
        "name": name,
        "description": tool["description"],
        "parameters": schema_of(tool["parameters"]),
        "strict": True,  # without it, vLLM masks the arguments to be JSON, no more
    }
    return {"type": "function", "function": function}
