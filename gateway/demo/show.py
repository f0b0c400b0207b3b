"""What the demo prints."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

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
    table = Table(
        expand=True, header_style="bold", caption="first token: of streamed answers", pad_edge=False
    )
    table.add_column("mode", no_wrap=True)
    table.add_column("tools")
    table.add_column("call", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("valid", justify="center")
    table.add_column("first token", justify="right")
    table.add_column("total", justify="right", no_wrap=True)
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
    scenario, answer = result.scenario, result.answer
    valid = "[red]no[/]" if result.faults else "[green]yes[/]"
    if answer is None:
        return [scenario.mode, scenario.source, Text(NOTHING), valid, *[NOTHING] * 4]
    return [
        scenario.mode,
        scenario.source or NOTHING,
        _output(answer),
        valid,
        _seconds(answer.first_token_s),
        _seconds(answer.total_s),
        str(answer.num_tokens),
        answer.grammar_source or NOTHING,
    ]


def _output(answer: Answer) -> Text:
    """One call a line, or the start of the text."""
    lines = [Text.assemble((call.name, "cyan"), f" {_printable(call.arguments)}") for call in answer.calls]
    if not lines:
        lines = [Text(_printable(answer.text), style="dim" if answer.text else "")]
    if answer.closed_by:
        lines[-1].append(f"  (closed by {answer.closed_by})", style="yellow")
    return Text("\n").join(lines)


def _printable(text: str, limit: int = 400) -> str:
    """On one line, whatever characters a model with random weights came up with."""
    return "".join(char if char.isprintable() else "·" for char in text[:limit])


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f} s"


def print_next(console: Console, *, model: str, toolset: str, document: str) -> None:
    """The two lines to try next, for a gateway with its default address."""
    url = "http://127.0.0.1:8080/v1"
    message = {"role": "user", "content": "Charge 19.99 euros"}
    body = json.dumps({"model": f"{model}:{toolset}", "tool_choice": "required", "messages": [message]})
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
