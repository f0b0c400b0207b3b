"""What the demo prints."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gateway.demo.scenarios import Scenario
from gateway.demo.verdict import Answer

NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Result:
    """A scenario, its answer if one came, and what was wrong with it."""

    scenario: Scenario
    answer: Answer | None
    faults: tuple[str, ...] = ()


def print_results(console: Console, results: Sequence[Result]) -> None:
    """The table of requests, then every fault."""
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, header_style="bold")
    table.add_column("request", no_wrap=True)
    table.add_column("call", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("valid", justify="center")
    table.add_column("first token", justify="right", max_width=9)
    table.add_column("tokens", justify="right")
    table.add_column("grammar")
    for result in results:
        table.add_row(*_row(result))
    console.print(table)
    for result in results:
        for fault in result.faults:
            console.print(
                f"[red]{result.scenario.mode}, {escape(result.scenario.source)}:[/] {escape(fault)}"
            )


def _row(result: Result) -> list[str | Text]:
    """Two lines: the mode over the tools, the call over its arguments, the first token over all of them."""
    scenario, answer = result.scenario, result.answer
    request = Text.assemble(scenario.mode, "\n", (scenario.source, "dim"))
    valid = "[red]no[/]" if result.faults else "[green]yes[/]"
    if answer is None:
        return [request, NOTHING, valid, NOTHING, NOTHING, NOTHING]
    times = Text.assemble(_seconds(answer.first_token_s), "\n", (f"of {_seconds(answer.total_s)}", "dim"))
    grammar = answer.grammar_source or NOTHING
    return [request, _output(answer), valid, times, str(answer.num_tokens), grammar]


def _output(answer: Answer) -> Text:
    """Each call over its arguments, or the start of the text."""
    lines = []
    for call in answer.calls:
        lines += [Text(call.name, style="cyan"), Text(_printable(call.arguments))]
    if not lines:
        lines = [Text(_printable(answer.text) or NOTHING, style="dim")]
    if answer.closed_by:
        lines[0].append(f"  (closed by {answer.closed_by})", style="yellow")
    return Text("\n").join(lines)


def _printable(text: str, limit: int = 400) -> str:
    """On one line, whatever characters a model came up with."""
    return "".join(char if char.isprintable() else "·" for char in text[:limit])


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f} s"


def print_next(console: Console, *, model: str, toolset: str, document: str) -> None:
    """The two lines to try next, for a gateway with its default address."""
    url = "http://127.0.0.1:8080/v1"
    prompt = "Refund a payment: payment pay_4821, reason duplicate."
    body = json.dumps(
        {
            "model": f"{model}:{toolset}",
            "tool_choice": "required",
            "temperature": 0,
            "messages": [{"role": "user", "content": prompt}],
        }
    )
    console.print(
        "\nNext: leave a gateway running with `make serve` (or `callgate serve`), and in another terminal:\n"
    )
    console.print(
        f"curl -X PUT {url}/toolsets/{toolset} -H 'Content-Type: application/json' -d @{document}\n"
        f"curl {url}/chat/completions -H 'Content-Type: application/json' -d '{body}'",
        soft_wrap=True,
        markup=False,
        highlight=False,
    )
