"""The `callgate` command."""

import inspect
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gateway.errors import BenchMissing, GatewayError
from gateway.settings import load, settings_table
from gateway.tools_cli import output, table, tools

cli = typer.Typer(
    help="A tool-calling gateway whose every output is a valid tool call.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
cli.add_typer(tools, name="tools")

FAILED = 1


def _print_version(is_wanted: bool) -> None:  # noqa: FBT001 - as typer calls it
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
    cli()


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for every setting, from their table; it gets those that were given."""
    options = [
        inspect.Parameter(
            setting.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None,
                typer.Option(
                    setting.option,
                    help=setting.description + (f" Default: {setting.default}." if setting.default else ""),
                    metavar=setting.type_name.upper() if " " not in setting.type_name else "WORD",
                    show_default=False,
                ),
            ],
        )
        for setting in settings_table()
    ]
    own = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
    command.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*own, *options)}
    return command


@cli.command()
@with_settings
def serve(
    *, config: Annotated[Path | None, typer.Option(help="TOML file of settings.")] = None, **options: Any
) -> None:
    """Serve until interrupted. Every setting is also an environment variable, CALLGATE_ and its name."""
    with explained():
        settings = load(options, config=config)
        from gateway.server import serve as run  # noqa: PLC0415 - loads the web framework

        run(settings, Console(stderr=True))


@cli.command()
def demo() -> None:
    """Start a gateway, register the demo toolsets, call them in every mode, check every call."""
    from gateway.demo.run import run_demo  # noqa: PLC0415 - loads the web framework

    with explained():
        raise typer.Exit(run_demo())


@cli.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
)
def bench(context: typer.Context) -> None:
    """Measure the engine beside others, from a clone; `callgate bench --help` lists what can be chosen."""
    with explained():
        run_beside_others(context.args)


@cli.command()
def study(
    *,
    model: Annotated[
        str | None, typer.Option(help="A directory or a hub id; by default the one that is served.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Questions of each set.")] = 30,
    temperatures: Annotated[str, typer.Option(help="Separated by commas.")] = "0,0.7,1",
    strategies: Annotated[
        str | None, typer.Option(help="Which rows, separated by commas; by default all.")
    ] = None,
    bfcl: Annotated[
        Path | None, typer.Option(help="Folder of BFCL's files, for questions of people, too.")
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, help="Questions open at a time.")] = 8,
    max_tokens: Annotated[int, typer.Option(min=16, help="Longest answer.")] = 256,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, …")] = None,
    num_threads: Annotated[
        str | None, typer.Option(help="Threads a model on the CPU computes with; by default torch's choice.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for tables, numbers, pictures and answers.")] = Path(
        "callgate-study"
    ),
) -> None:
    """Measure what masking buys: valid and right calls, tokens and time, beside six other ways."""
    from gateway.study_cli import study as run  # noqa: PLC0415 - loads torch

    with explained():
        settings = load({"model": model, "device": device, "num_threads": num_threads})
        options = {
            "count": count,
            "temperatures": _numbers(temperatures),
            "strategies": strategies and tuple(strategies.split(",")),
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
            f"wanted numbers from 0 to 2, such as 0,0.7,1, got {text!r}", param_hint="--temperatures"
        )
    return numbers


@cli.command("settings")
def show_settings() -> None:
    """Every setting, its environment variable, its default, and what it does."""
    shown = table("option", "environment", "default", "what")
    for setting in settings_table():
        shown.add_row(setting.option, setting.variable, setting.default, setting.description)
    output().print(shown)


def run_beside_others(arguments: list[str]) -> None:
    """Run the comparison, which is no part of the package.

    Raises:
        BenchMissing: this is no clone of the repository.
    """
    tests = Path(__file__).parents[1] / "tests"
    if not (tests / "bench").is_dir():
        raise BenchMissing
    sys.path[:0] = map(str, (tests / "bench", tests, tests / "runtime"))
    sys.argv[1:] = arguments
    runpy.run_module("side_by_side", run_name="__main__", alter_sys=True)


@contextmanager
def explained() -> Iterator[None]:
    """End with exit code 1 and the message, without a traceback, where the message says it all."""
    try:
        yield
    except Exception as error:
        if not is_expected(error):
            raise
        console = Console(stderr=True)
        console.print(f"callgate: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(FAILED) from error


def is_expected(error: Exception) -> bool:
    """Whether a message says all there is to say: the user's input or machine is at fault, not the code."""
    if isinstance(error, GatewayError):
        return True
    from compiler.errors import CompilerError  # noqa: PLC0415 - loads xgrammar
    from runtime.errors import RuntimeFault  # noqa: PLC0415
    from toolspecs.errors import ToolspecsError  # noqa: PLC0415

    return isinstance(error, RuntimeFault | ToolspecsError | CompilerError)
