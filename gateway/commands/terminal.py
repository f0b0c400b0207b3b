"""What commands print: lines and tables with every character visible, and errors without a traceback."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from gateway.errors import GatewayError

_BLANK = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)
"""Characters that count as printable and show nothing: the letters and marks among Unicode's "default
ignorable" ones, and the empty Braille pattern. A text can be hidden in variation selectors."""

UNBOUNDED_WIDTH = 10_000
"""Wider than any table."""


@contextmanager
def errors_explained() -> Iterator[None]:
    """For expected errors, print only the message and exit with 1, without a traceback."""
    try:
        yield
    except Exception as error:
        if not _is_expected(error):
            raise
        say(Console(stderr=True), f"callgate: {error}", "red")
        raise typer.Exit(1) from error


def _is_expected(error: Exception) -> bool:
    """Whether the user's input or machine caused an error, so that its message is enough."""
    if isinstance(error, GatewayError):
        return True
    from compiler.errors import CompilerError  # noqa: PLC0415 - loads xgrammar
    from runtime.errors import RuntimeFault  # noqa: PLC0415
    from toolspecs.errors import ToolspecsError  # noqa: PLC0415

    return isinstance(error, RuntimeFault | ToolspecsError | CompilerError)


def output() -> Console:
    """Standard output; tables are fitted to the screen only if it is a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=UNBOUNDED_WIDTH)


class PlainTable(Table):
    """A table whose cells are plain text: strangers may have written them, so markup is not interpreted."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row of texts."""
        super().add_row(*(Text(visible(cell)) for cell in cells), **options)


def table(*columns: str) -> PlainTable:
    """A table that wraps long cells instead of cutting them."""
    return PlainTable(*(Column(name, overflow="fold") for name in columns), box=None, pad_edge=False)


def say(console: Console, line: str, style: str | None = None) -> None:
    """Print a line as it is, with every character visible: no markup, no `:name:` as an emoji, no folding."""
    console.print(visible(line), style=style, markup=False, emoji=False, highlight=False, soft_wrap=True)


def json_text(value: Any) -> str:
    """A value as JSON for people, with escapes for characters that a terminal would not show."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if text == visible(text) else json.dumps(value, indent=2)


def visible(text: str) -> str:
    r"""Untrusted text with every character made visible: none moves the cursor or hides others.

    >>> print(visible("Adds.\u202e\x1b[8m"))
    Adds.\u202e\x1b[8m
    """
    return "".join(
        char if char == "\n" or (char.isprintable() and char not in _BLANK) else ascii(char)[1:-1]
        for char in text
    )


def visible_line(text: str) -> str:
    r"""As `visible`, for text that stands in a line: it can begin no other.

    >>> print(visible_line("Shop\ntoolset pay: nothing differs"))
    Shop\ntoolset pay: nothing differs
    """
    return visible(text).replace("\n", "\\n")
