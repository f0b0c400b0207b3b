"""The demo itself, over a real server on a free port: what it prints, and what its exit code means."""

import dataclasses
import io

import pytest
from rich.console import Console

from gateway.demo.run import run_demo
from gateway.demo.scenarios import SCENARIOS


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=110)


def test_the_demo_shows_valid_calls_in_several_modes_and_what_to_try_next(console, tmp_path):
    few = [
        s for s in SCENARIOS if s.mode in {"none", "json_schema"} or s.toolsets == ("calendar", "payments")
    ]
    assert run_demo(model="tiny", scenarios=few, data_dir=tmp_path, console=console) == 0
    printed = console.file.getvalue()
    assert printed.count("PUT /v1/toolsets/") == 4
    assert "every call valid" in printed
    next_lines = printed.split("Next:")[1].splitlines()
    assert len([line for line in next_lines if line.startswith("curl ")]) == 2


def test_a_mode_that_is_not_kept_fails_the_demo_and_says_why(console, tmp_path):
    impossible = dataclasses.replace(SCENARIOS[0], num_calls=(0, 0))
    unknown = dataclasses.replace(SCENARIOS[0], toolsets=("calender",))
    assert run_demo(model="tiny", scenarios=[impossible, unknown], data_dir=tmp_path, console=console) == 1
    printed = console.file.getvalue()
    assert "calls, at most 0 expected" in printed
    assert "NotFoundError" in printed
    assert "2 requests went wrong" in printed
