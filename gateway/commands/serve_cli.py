"""`callgate serve`, `settings` and `demo`: serves, lists what can be set, and shows what a gateway does."""

from typing import Any

import typer
from rich.console import Console

from gateway.commands.command_options import ConfigOption, with_settings
from gateway.commands.terminal import errors_explained, output, say, table
from gateway.setting_sources import load
from gateway.settings_table import settings_table


@with_settings
def serve(*, config: ConfigOption = None, **options: Any) -> None:
    """Serve until interrupted. Every setting is also an environment variable, CALLGATE_ and its name."""
    with errors_explained():
        settings = load(options, config=config)
        console = Console(stderr=True)
        say(console, f"loading {settings.spelled_models} …")
        from gateway.server import serve as run  # noqa: PLC0415 - loads the web framework

        run(settings, console)


def demo() -> None:
    """Start a gateway, register the demo toolsets, call them in every mode, and check every call."""
    from gateway.demo.run import run_demo  # noqa: PLC0415 - loads the web framework

    with errors_explained():
        raise typer.Exit(run_demo())


def show_settings() -> None:
    """List every setting with its environment variable, its default and its description."""
    listing = table("option", "environment", "default", "what")
    for setting in settings_table():
        listing.add_row(setting.option, setting.variable, setting.default, setting.description)
    output().print(listing)
