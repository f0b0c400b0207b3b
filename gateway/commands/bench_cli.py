"""`callgate bench`: runs the comparison of `tests/bench/`, which is not part of the installed package."""

import runpy
import sys
from pathlib import Path

import typer

from gateway.commands.terminal import errors_explained
from gateway.errors import BenchMissing


def bench(context: typer.Context) -> None:
    """Measure the engine beside others, in a clone; `callgate bench --help` lists the options."""
    with errors_explained():
        run_comparison(context.args)


def run_comparison(arguments: list[str]) -> None:
    """Run the comparison with the arguments of its own command line.

    Raises:
        BenchMissing: this is not a clone of the repository.
    """
    tests = Path(__file__).parents[2] / "tests"
    if not (tests / "bench").is_dir():
        raise BenchMissing
    sys.path[:0] = map(str, (tests / "bench", tests, tests / "runtime"))
    sys.argv[1:] = arguments
    runpy.run_module("side_by_side", run_name="__main__", alter_sys=True)
