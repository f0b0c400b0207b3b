"""The `callgate` command: the table of its commands, which are in `gateway/commands/`."""

from typing import Annotated

import typer

from gateway.commands.bench_cli import bench
from gateway.commands.engines_cli import engines
from gateway.commands.import_cli import import_tools
from gateway.commands.keys_cli import keys
from gateway.commands.review_cli import accept_tools, decline_tools
from gateway.commands.serve_cli import demo, serve, show_settings
from gateway.commands.store_cli import store
from gateway.commands.study_cli import study
from gateway.commands.tools_cli import tools
from gateway.commands.watch_cli import watch_tools
from gateway.setting_sources import let_threads_wait
from gateway.version import VERSION

cli = typer.Typer(
    help="A tool-calling gateway. Every tool call that it returns is valid.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
cli.command("engines")(engines)
cli.command("serve")(serve)
cli.command("demo")(demo)
cli.command(
    "bench",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
)(bench)
cli.command("study")(study)
cli.command("settings")(show_settings)
tools.command("import")(import_tools)
tools.command("accept")(accept_tools)
tools.command("decline")(decline_tools)
tools.command("watch")(watch_tools)
cli.add_typer(tools, name="tools")
cli.add_typer(store, name="store")
cli.add_typer(keys, name="keys")


def _print_version(is_wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if is_wanted:
        typer.echo(f"callgate {VERSION}")
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
