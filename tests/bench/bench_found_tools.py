"""Whether a small model calls as well among tools that were found as among few: right calls, by what it is shown.

OMP_NUM_THREADS=1 PYTHONPATH=.:tests python tests/bench/bench_found_tools.py [--count 26] [--model tiny]

Held-out questions of the study, temperature 0. Each has four tools of its own; the toolset has 200, of other questions
too. What is shown: the question's own tools as they are, and in the order of their names; then those that `tool_search`
finds, for several limits. `called` counts the wanted tool with any arguments.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import httpx

from gateway.demo.gateway_thread import serve
from gateway.settings import Settings
from runtime.study.questions import NUM_HELD_OUT, Question, held_out
from toolspecs.search.tool_index import ToolIndex
from toolspecs.shapes import Shape, write_tool
from toolspecs.tool import Tool

NUM_TOOLS = 200
LIMITS = (1, 2, 4, 8)
Shown = Mapping[str, Any]
"""Fields of a request that say which tools are shown."""


def toolset_of(questions: Sequence[Question]) -> tuple[Tool, ...]:
    """The tools of the questions, and of further ones, until there are enough; of namesakes the first."""
    tools: dict[str, Tool] = {tool.name: tool for question in questions for tool in question.tools}
    others = (
        tool for question in islice(held_out(NUM_HELD_OUT), len(questions), None) for tool in question.tools
    )
    for tool in others:
        if len(tools) >= NUM_TOOLS:
            break
        tools.setdefault(tool.name, tool)
    return tuple(tools.values())


def is_posable(question: Question, tools: Mapping[str, Tool]) -> bool:
    """Whether its own tools are in the toolset as they are: another question may have a namesake."""
    return all(tools[tool.name].digest == tool.digest for tool in question.tools)


def is_found_first(question: Question, tools: Sequence[Tool]) -> bool:
    """Whether no tool fits the question better than the wanted one."""
    [said] = [message.content for message in question.messages if message.role == "user"]
    scores = ToolIndex(tools).scores({said: 1.0})
    return scores[[tool.name for tool in tools].index(question.name)] == max(scores)


def own(tools: Sequence[Tool]) -> Shown:
    """A question's own tools."""
    return {"tools": [write_tool(tool, Shape.OPENAI) for tool in tools]}


def ways(question: Question) -> Mapping[str, Shown]:
    """What is shown, by a label."""
    found = {
        f"found, limit {limit}": {"toolset": "many", "tool_search": {"limit": limit}} for limit in LIMITS
    }
    by_name = sorted(question.tools, key=lambda tool: tool.name)
    return {"own four": own(question.tools), "own four, by name": own(by_name), **found}


def ask(client: httpx.Client, question: Question, shown: Shown) -> tuple[bool, bool, bool]:
    """Whether the wanted tool was shown, whether it was called, and whether the call is right."""
    body = {
        "model": client.get("/v1/models").json()["data"][0]["id"],
        "messages": [{"role": each.role, "content": each.content} for each in question.messages],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "temperature": 0,
        **shown,
    }
    answer = client.post("/v1/chat/completions", json=body).raise_for_status().json()
    [call] = answer["choices"][0]["message"]["tool_calls"]
    name, arguments = call["function"]["name"], httpx.Response(200, text=call["function"]["arguments"]).json()
    found = answer["callgate"]["tool_search"]
    was_shown = found is None or question.name in {entry["name"] for entry in found["shown"]}
    return was_shown, name == question.name, question.is_right(name, arguments)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=26)
    parser.add_argument("--model", default="tiny")
    options = parser.parse_args()
    candidates = list(held_out(options.count))
    tools = toolset_of(candidates)
    questions = [each for each in candidates if is_posable(each, {tool.name: tool for tool in tools})]
    totals: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=folder, port=0, model=options.model, device="cpu", compile_workers=1)
        with serve(settings, say=lambda _: None) as url, httpx.Client(base_url=url, timeout=600) as client:
            listed = [write_tool(tool, Shape.OPENAI) for tool in tools]
            client.put("/v1/toolsets/many", json={"tools": listed}).raise_for_status()
            first = sum(is_found_first(question, tools) for question in questions)
            print(
                f"{len(questions)} questions of {len(candidates)}, {len(tools)} tools; {first} found first",
                flush=True,
            )
            for number, question in enumerate(questions, 1):
                for label, shown in ways(question).items():
                    result = ask(client, question, shown)
                    totals[label] = [
                        total + was for total, was in zip(totals.get(label, [0] * 3), result, strict=True)
                    ]
                told = "; ".join(f"{label}: {right}" for label, (_, _, right) in totals.items())
                print(f"{number}: {told}", flush=True)
    for label, (shown_, called, right) in totals.items():
        print(f"{label:20s} shown {shown_:3d}  called {called:3d}  right {right:3d}  of {len(questions)}")


if __name__ == "__main__":
    main()
