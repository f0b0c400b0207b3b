"""Where commands print."""

from rich.console import Console
from rich.table import Column, Table

UNBOUNDED = 10_000
"""Wider than any table."""


def output() -> Console:
    """Standard output; a table is fitted to the screen only where there is one."""
    console = Console()
    return console if console.is_terminal else Console(width=UNBOUNDED)


def table(*columns: str) -> Table:
    """A table that cuts no word short: what does not fit goes on in the next line."""
    return Table(*(Column(name, overflow="fold") for name in columns), box=None, pad_edge=False)
