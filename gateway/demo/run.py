"""Runs the demo: start a gateway, register the toolsets, send every scenario, print what came back."""

import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import as_file
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gateway.demo.ask import ReceivedAnswer, ask, find_faults
from gateway.demo.scenarios import (
    SCENARIOS,
    TOOLSETS,
    Scenario,
    document_file,
    parameters_by_tool,
    read_document,
)
from gateway.errors import ExtraMissing
from gateway.settings import Settings
from runtime.models import DEMO_MODEL, spell_model

if TYPE_CHECKING:
    from openai import OpenAI

REGISTER_TIMEOUT_S = 300.0
ANSWER_TIMEOUT_S = 300.0
PIPE_WIDTH = 110
NOTHING = "-"
MAX_SHOWN = 400
"""Characters of an answer that are shown."""


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """A scenario, its answer if there was one, and what was wrong with it."""

    scenario: Scenario
    answer: ReceivedAnswer | None
    faults: tuple[str, ...] = ()


def run_demo(
    *,
    model: str = DEMO_MODEL,
    data_dir: Path | None = None,
    scenarios: Sequence[Scenario] = SCENARIOS,
    console: Console | None = None,
) -> int:
    """Run the demo; returns 0 if every answer is valid and allowed in its mode, else 1.

    The store is in `data_dir`, or in a folder that is removed at the end. Raises ExtraMissing without the
    official client, and every error that keeps the gateway from starting.
    """
    _check_client()
    from gateway.demo.gateway_thread import serve  # noqa: PLC0415 - loads torch, after the cheap checks

    console = console or _wide_enough(Console(emoji=False))
    with ExitStack() as stack:
        folder = (
            str(data_dir)
            if data_dir
            else stack.enter_context(tempfile.TemporaryDirectory(prefix="callgate-"))
        )
        settings = Settings(port=0, model=model, data_dir=folder, log_level="warning")
        with console.status("loading the libraries") as status:
            url = stack.enter_context(serve(settings, say=lambda what: status.update(f"{what} …")))
        console.print(f"Gateway ready at [bold]{url}[/], model {spell_model(model)}.")
        register(url, console)
        model_id, results = answer_all(url, scenarios, console)
    print_results(console, results)
    is_good = _print_summary(console, results)
    with as_file(document_file("payments")) as path:
        print_next(console, model=model_id, toolset="payments", document=_relative_path(path))
    return 0 if is_good else 1


def register(url: str, console: Console) -> None:
    """Put every demo toolset; raises `httpx.HTTPStatusError` with the gateway's reason."""
    with httpx.Client(base_url=url, timeout=REGISTER_TIMEOUT_S) as client:
        for name in TOOLSETS:
            document = read_document(name)
            with console.status(f"registering {name} …"):
                response = client.put(f"/v1/toolsets/{name}", json=document)
            if response.is_error:
                raise httpx.HTTPStatusError(response.text, request=response.request, response=response)
            console.print(
                f"PUT /v1/toolsets/{name}  {response.status_code}  {len(document['tools'])} tools"
                f"  {response.elapsed.total_seconds():.2f} s",
                highlight=False,
            )


def answer_all(url: str, scenarios: Sequence[Scenario], console: Console) -> tuple[str, list[ScenarioResult]]:
    """The id of the model served, and every scenario's result, in order."""
    from openai import OpenAI  # noqa: PLC0415 - an extra

    results = []
    with OpenAI(
        base_url=f"{url}/v1", api_key="none-needed", max_retries=0, timeout=ANSWER_TIMEOUT_S
    ) as client:
        model_id = client.models.list().data[0].id
        for number, scenario in enumerate(scenarios, start=1):
            with console.status(
                f"request {number} of {len(scenarios)}: {scenario.mode}, {scenario.source} …"
            ):
                results.append(answer_one(client, model_id, scenario))
    return model_id, results


def answer_one(client: "OpenAI", model_id: str, scenario: Scenario) -> ScenarioResult:
    """Send one scenario and judge the answer; an error of the client is a fault like any other."""
    from openai import OpenAIError  # noqa: PLC0415 - an extra

    try:
        answer = ask(client, model_id, scenario)
    except OpenAIError as error:
        return ScenarioResult(scenario, None, (f"{type(error).__name__}: {error}",))
    return ScenarioResult(scenario, answer, tuple(find_faults(scenario, answer, shown_parameters(scenario))))


def shown_parameters(scenario: Scenario) -> dict[str, Any]:
    """The schemas of a scenario's tools, registered and inline, by name."""
    parameters = parameters_by_tool({"tools": scenario.inline})
    for toolset in scenario.toolsets:
        parameters |= parameters_by_tool(read_document(toolset))
    return parameters


def _wide_enough(console: Console) -> Console:
    """The console; a pipe has no width, and the default of rich is too narrow."""
    return console if console.is_terminal else Console(width=PIPE_WIDTH, emoji=False)


def _check_client() -> None:
    try:
        import openai  # noqa: F401, PLC0415 - an extra, checked before anything starts
    except ImportError as error:
        raise ExtraMissing("the demo", "demo") from error


def _print_summary(console: Console, results: Sequence[ScenarioResult]) -> bool:
    num_calls = sum(len(result.answer.calls) for result in results if result.answer)
    num_bad = sum(bool(result.faults) for result in results)
    counted = f"{num_calls} calls in {len(results)} requests"
    if num_bad:
        console.print(f"[red bold]{counted}; {num_bad} requests went wrong.[/]")
    else:
        console.print(
            f"[green bold]{counted}: every call valid, every mode kept, as jsonschema-rs sees it.[/]"
        )
    return num_bad == 0


def _relative_path(path: Path) -> str:
    """A path, relative to the current folder if it is inside."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def print_results(console: Console, results: Sequence[ScenarioResult]) -> None:
    """Print the table of requests, then every fault."""
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, header_style="bold")
    table.add_column("request", no_wrap=True)
    table.add_column("call", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("valid", justify="center")
    table.add_column("first token", justify="right", max_width=11)
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


def _row(result: ScenarioResult) -> list[str | Text]:
    """The cells of a result, in two lines each: mode and tools, call and arguments, first and last token."""
    scenario, answer = result.scenario, result.answer
    request = Text.assemble(scenario.mode, "\n", (scenario.source, "dim"))
    valid = "[red]no[/]" if result.faults else "[green]yes[/]"
    if answer is None:
        return [request, NOTHING, valid, NOTHING, NOTHING, NOTHING]
    times = Text.assemble(_seconds(answer.first_token_s), "\n", (f"of {_seconds(answer.total_s)}", "dim"))
    grammar = answer.grammar_source or NOTHING
    return [request, _output(answer), valid, times, str(answer.num_tokens), grammar]


def _output(answer: ReceivedAnswer) -> Text:
    """Each call with its arguments below, or the beginning of the text."""
    lines = []
    for call in answer.calls:
        lines += [Text(call.name, style="cyan"), Text(_printable(call.arguments))]
    if not lines:
        lines = [Text(_printable(answer.text) or NOTHING, style="dim")]
    if answer.closed_by:
        lines[0].append(f"  (closed by {answer.closed_by})", style="yellow")
    return Text("\n").join(lines)


def _printable(text: str) -> str:
    """The beginning of a text, on one line; characters that cannot be printed are replaced."""
    return "".join(char if char.isprintable() else "·" for char in text[:MAX_SHOWN])


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f} s"


def print_next(console: Console, *, model: str, toolset: str, document: str) -> None:
    """Print two commands to try next, for a gateway at its default address."""
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
