"""The demo: start a gateway, register the toolsets over REST, call them in every mode, check every call."""

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.resources import as_file
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from rich.console import Console

from gateway.demo.documents import NAMES, document_file, parameters_by_tool, read_document
from gateway.demo.scenarios import SCENARIOS, Scenario
from gateway.demo.show import Result, print_next, print_results
from gateway.demo.verdict import find_faults
from gateway.errors import ExtraMissing
from gateway.settings import DEMO_MODEL, Settings

if TYPE_CHECKING:
    from openai import OpenAI

REGISTER_TIMEOUT_S = 300.0
ANSWER_TIMEOUT_S = 300.0
PIPE_WIDTH = 110


def run_demo(
    *,
    model: str = DEMO_MODEL,
    data_dir: Path | None = None,
    scenarios: Sequence[Scenario] = SCENARIOS,
    seed: int = 1,
    console: Console | None = None,
) -> int:
    """0 if every answer is valid and every mode behaved, else 1.

    The store lives in `data_dir`, or in a folder that is removed at the end. Raises what keeps the gateway
    from starting, and ExtraMissing without the official client.
    """
    _check_client()
    from gateway.demo.server import serve  # noqa: PLC0415 - starts to load torch, after the cheap checks

    console = console or _wide_enough(Console())
    with ExitStack() as stack:
        folder = (
            str(data_dir)
            if data_dir
            else stack.enter_context(tempfile.TemporaryDirectory(prefix="callgate-"))
        )
        settings = Settings(port=0, model=model, data_dir=folder, log_level="warning")
        with console.status("loading the libraries") as status:
            url = stack.enter_context(serve(settings, say=lambda what: status.update(f"{what} …")))
        console.print(f"Gateway ready at [bold]{url}[/], model {model}.")
        register(url, console)
        model_id, results = answer_all(url, scenarios, seed=seed, console=console)
    print_results(console, results)
    is_good = _print_summary(console, results)
    with as_file(document_file("payments")) as path:
        print_next(console, model=model_id, toolset="payments", document=_shown(path))
    return 0 if is_good else 1


def register(url: str, console: Console) -> None:
    """Put every demo toolset; raises `httpx.HTTPStatusError` with the gateway's reason."""
    with httpx.Client(base_url=url, timeout=REGISTER_TIMEOUT_S) as client:
        for name in NAMES:
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


def answer_all(
    url: str, scenarios: Sequence[Scenario], *, seed: int, console: Console
) -> tuple[str, list[Result]]:
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
                results.append(answer_one(client, model_id, scenario, seed=seed + number))
    return model_id, results


def answer_one(client: "OpenAI", model_id: str, scenario: Scenario, *, seed: int) -> Result:
    """Ask and judge; an error of the client is a fault like any other."""
    from openai import OpenAIError  # noqa: PLC0415 - an extra

    from gateway.demo.ask import ask  # noqa: PLC0415 - imports the extra

    try:
        answer = ask(client, model_id, scenario, seed=seed)
    except OpenAIError as error:
        return Result(scenario, None, (f"{type(error).__name__}: {error}",))
    return Result(scenario, answer, tuple(find_faults(scenario, answer, shown_parameters(scenario))))


def shown_parameters(scenario: Scenario) -> dict[str, Any]:
    """The schemas of the tools a scenario shows, by name, as they were registered or sent."""
    shown = parameters_by_tool({"tools": scenario.inline})
    for toolset in scenario.toolsets:
        shown |= parameters_by_tool(read_document(toolset))
    return shown


def _wide_enough(console: Console) -> Console:
    """A pipe has no width, and rich's guess for it is narrow."""
    return console if console.is_terminal else Console(width=PIPE_WIDTH)


def _check_client() -> None:
    try:
        import openai  # noqa: F401, PLC0415 - an extra, asked for before anything is started
    except ImportError as error:
        raise ExtraMissing("the demo", "demo") from error


def _print_summary(console: Console, results: Sequence[Result]) -> bool:
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


def _shown(path: Path) -> str:
    """A path as one would type it here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
