"""The `callgate` command: its help and settings, the comparison with other engines, the study."""

import subprocess
import sys
import tempfile
from functools import partial
from importlib.metadata import version
from pathlib import Path

import corpus
import pytest
import torch
from typer.testing import CliRunner

from gateway.cli import cli
from gateway.settings_table import settings_table
from runtime.models.random_model import RandomModelSettings, ensure_random_model
from runtime.study.output_folder import NEEDED


def test_every_setting_is_an_option_and_in_the_table(run):
    helped, table = run("serve", "--help").stdout, run("settings").stdout
    for setting in settings_table():
        assert setting.option in helped
        assert setting.variable in table


def test_a_table_that_goes_to_no_screen_cuts_nothing_short():
    shown = CliRunner().invoke(cli, ["settings"], env={"COLUMNS": "80"}).stdout.splitlines()
    for setting, line in zip(settings_table(), shown[1:], strict=True):
        assert line.split()[:2] == [setting.option, setting.variable]
        assert line.rstrip().endswith(setting.description)


def test_the_version_is_told(run):
    assert run("--version").stdout == f"callgate {version('callgate')}\n"


def test_the_commands_are_there(run):
    helped = run("--help").stdout
    assert all(command in helped for command in ("serve", "tools", "demo", "bench", "study"))


def test_commands_that_load_no_model_wait_for_no_library_of_models():
    code = "import sys, gateway.cli; print({'torch', 'transformers', 'xgrammar'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_an_interrupt_while_the_command_is_imported_ends_it_without_a_traceback():
    code = """
import sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == "gateway.cli": raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from gateway.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.fixture
def bench(run, monkeypatch, tmp_path):
    """Runs `callgate bench`, which runs a program of the repository in this process; its files are in `tmp_path`."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["callgate", "bench"])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return partial(run, "bench")


def test_the_comparison_lists_what_can_be_chosen(bench):
    result = bench("--help")
    assert result.exit_code == 0
    assert "--vllm" in result.output
    assert torch.is_grad_enabled(), "it runs in this process, and leaves it as it was"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--vllm", "/nosuch"), "/nosuch is no interpreter"),
        (("--vllm", "/bin/false"), "/bin/false has no vLLM"),
        (("--out", "/proc/nosuch"), "cannot write to /proc/nosuch"),
        (("--at-once", "1,none"), "wanted a whole number above 0, got 'none'"),
        (("--rounds", "0"), "wanted a whole number above 0, got '0'"),
        ((), "no test data at /nosuch"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_told_before_it_begins(bench, monkeypatch, options, said):
    monkeypatch.setattr(corpus, "ROOT", Path("/nosuch"))
    result = bench(*options)
    assert isinstance(result.exception, SystemExit), "no traceback"
    assert result.exit_code not in {0, None}
    assert said in f"{result.stderr}{result.exception}"


def test_a_comparison_without_its_extra_makes_no_model_first(bench, monkeypatch, tmp_path):
    corpus.corpus()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = bench()
    assert str(result.exception).endswith("needs an optional dependency: pip install 'callgate[bench]'")
    assert list(tmp_path.iterdir()) == []


def test_the_comparison_is_no_part_of_the_package(run, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "gateway.commands.bench_cli.__file__", str(tmp_path / "gateway/commands/bench_cli.py")
    )
    result = run("bench")
    assert result.exit_code == 1
    assert "part of the repository" in result.stderr


def test_a_study_prints_its_tables_and_says_where_the_rest_is(run, tmp_path):
    model = ensure_random_model(tmp_path, RandomModelSettings(hidden_size=32, num_layers=1))
    options = ("--quick", "--count", "1", "--strategies", "prompt,callgate", "--max-tokens", "96")
    result = run("study", "--model", str(model), "--out", str(tmp_path / "out"), *options)
    assert result.exit_code == 0
    assert "valid JSON" in result.stdout
    assert "study.json: all numbers" in result.stdout
    assert "spending.svg: a picture" in result.stdout or NEEDED in result.stdout
    assert {"study.md", "study.json", "answers.jsonl"} <= {path.name for path in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--temperatures", "warm"), "numbers from 0 to 2"),
        (("--temperatures", "a"), "--temperatures"),
        (("--temperatures", "0,3"), "numbers from 0 to 2"),
        (("--count", "0"), "--count"),
        (("--model", "./nowhere"), "there is no such directory"),
        (("--num-threads", "0"), "num_threads"),
    ],
)
def test_a_study_that_cannot_begin_says_why(run, tmp_path, options, said):
    result = run("study", "--out", str(tmp_path), *options)
    assert result.exit_code != 0
    assert said in result.output
    assert "Traceback" not in result.output
