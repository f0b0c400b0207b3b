"""The `callgate` command: serve, demo, bench, study, settings, engines; the groups tools, keys, store."""

import runpy
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gateway.commands.command_options import errors_explained, output, table, with_settings
from gateway.commands.engines_cli import engines
from gateway.commands.import_cli import import_tools
from gateway.commands.keys_cli import keys
from gateway.commands.review_cli import accept_tools, decline_tools
from gateway.commands.tools_cli import tools
from gateway.commands.watch_cli import watch_tools
from gateway.errors import BenchMissing
from gateway.setting_sources import let_threads_wait, load
from gateway.settings_table import settings_table

cli = typer.Typer(
    help="A tool-calling gateway whose every output is a valid tool call.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
tools.command("import")(import_tools)
tools.command("accept")(accept_tools)
tools.command("decline")(decline_tools)
tools.command("watch")(watch_tools)
cli.add_typer(tools, name="tools")
store = typer.Typer(help="The store of toolsets.", no_args_is_help=True)
cli.add_typer(store, name="store")

QUICK = ("prompt", "retry", "callgate", "accept", "particles", "best", "draft")
"""The strategies of a quick study."""
QUICK_COUNT = 12
"""The questions of each set in a quick study."""

cli.command("engines")(engines)
cli.add_typer(keys, name="keys")


def _print_version(is_wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if is_wanted:
        typer.echo(f"callgate {version('callgate')}")
        raise typer.Exit


@cli.callback()
def _common(
    *,
    is_version_wanted: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of every command."""


def main() -> None:
    """The entry point."""
    let_threads_wait()
    cli()


@cli.command()
@with_settings
def serve(
    *, config: Annotated[Path | None, typer.Option(help="TOML file of settings.")] = None, **options: Any
) -> None:
    """Serve until interrupted. Every setting is also an environment variable, CALLGATE_ and its name."""
    with errors_explained():
        settings = load(options, config=config)
        from gateway.server import serve as run  # noqa: PLC0415 - loads the web framework

        run(settings, Console(stderr=True))


@cli.command()
def demo() -> None:
    """Start a gateway, register the demo toolsets, call them in every mode, and check every call."""
    from gateway.demo.run import run_demo  # noqa: PLC0415 - loads the web framework

    with errors_explained():
        raise typer.Exit(run_demo())


@cli.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
)
def bench(context: typer.Context) -> None:
    """Measure the engine beside others, in a clone; `callgate bench --help` lists the options."""
    with errors_explained():
        run_comparison(context.args)


@cli.command()
def study(
    *,
    model: Annotated[
        str | None, typer.Option(help="Model: a directory or a hub id; by default the one that is served.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few strategies and questions: minutes with the model `tiny`.")
    ] = False,
    count: Annotated[
        int | None, typer.Option(min=1, help="Questions in each set; by default 30, if quick 12.")
    ] = None,
    draws: Annotated[
        int, typer.Option(min=1, help="Times that each question is asked, with other seeds.")
    ] = 1,
    sets: Annotated[
        str | None, typer.Option(help="Sets of questions to ask, separated by commas; by default all.")
    ] = None,
    temperatures: Annotated[
        str | None, typer.Option(help="Temperatures, separated by commas; by default 0,0.7,1, if quick 1.")
    ] = None,
    strategies: Annotated[
        str | None, typer.Option(help="Strategies to compare, separated by commas; by default all.")
    ] = None,
    bfcl: Annotated[
        Path | None, typer.Option(help="Folder of BFCL's files, to add its questions, which people wrote.")
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, help="Questions that run at the same time.")] = 8,
    max_tokens: Annotated[int, typer.Option(min=16, help="Most tokens of an answer.")] = 256,
    device: Annotated[str | None, typer.Option(help="Device the model runs on: auto, cpu, cuda, …")] = None,
    num_threads: Annotated[
        str | None, typer.Option(help="Threads for a model on the CPU; by default torch chooses.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for tables, numbers, plots and answers.")] = Path(
        "callgate-study"
    ),
) -> None:
    """Measure what masking gains: valid and right calls, tokens and time, beside other strategies."""
    from gateway.commands.study_cli import study as run  # noqa: PLC0415 - loads torch

    with errors_explained():
        settings = load({"model": model, "device": device, "num_threads": num_threads})
        options = {
            "count": count or (QUICK_COUNT if quick else 30),
            "temperatures": _numbers(temperatures or ("1" if quick else "0,0.7,1")),
            "num_draws": draws,
            "sets": tuple(sets.split(",")) if sets else None,
            "strategies": tuple(strategies.split(",")) if strategies else QUICK if quick else None,
            "bfcl": bfcl,
            "num_at_once": at_once,
            "max_tokens": max_tokens,
        }
        raise typer.Exit(run(settings, options, out, Console()))


def _numbers(text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 <= number <= 2 for number in numbers):
        raise typer.BadParameter(
            f"expected numbers from 0 to 2, such as 0,0.7,1, got {text!r}", param_hint="--temperatures"
        )
    return numbers


@store.command("gc")
@with_settings
def collect(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings.")] = None,
    **options: Any,
) -> None:
    """Remove revisions that are too old, and what nothing refers to; gateways may run meanwhile.

    The settings store_revisions and store_deleted_days say what is kept. Gateways do this themselves about
    once an hour.
    """
    with errors_explained():
        from gateway.commands.store_cli import collect as run  # noqa: PLC0415 - opens a store

        output().print(run(load(options, config=config), is_dry_run=dry_run))


@cli.command("settings")
def show_settings() -> None:
    """List every setting with its environment variable, its default and its description."""
    listing = table("option", "environment", "default", "what")
    for setting in settings_table():
        listing.add_row(setting.option, setting.variable, setting.default, setting.description)
    output().print(listing)


def run_comparison(arguments: list[str]) -> None:
    """Run the comparison, which is not part of the installed package.

    Raises:
        BenchMissing: this is not a clone of the repository.
    """
    tests = Path(__file__).parents[1] / "tests"
    if not (tests / "bench").is_dir():
        raise BenchMissing
    sys.path[:0] = map(str, (tests / "bench", tests, tests / "runtime"))
    sys.argv[1:] = arguments
    runpy.run_module("side_by_side", run_name="__main__", alter_sys=True)
