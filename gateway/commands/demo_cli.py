"""`callgate demo`: what a gateway does, shown by one."""

import typer

from gateway.commands.command_options import errors_explained


def demo() -> None:
    """Start a gateway, register the demo toolsets, call them in every mode, and check every call."""
    from gateway.demo.run import run_demo  # noqa: PLC0415 - loads the web framework

    with errors_explained():
        raise typer.Exit(run_demo())
