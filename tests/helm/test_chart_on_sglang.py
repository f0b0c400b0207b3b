"""What the chart starts SGLang with, read by the parser of a real SGLang; no server is started."""

import sys
from pathlib import Path

import pytest
from rendered_chart import SGLANG_ON_NODES, VARIANTS, expanded_arguments, read_by_engine

pytestmark = pytest.mark.engines
SGLANG = Path(__file__).resolve().parents[2] / "build" / "sglang"
EXPANDED = {"LWS_WORKER_INDEX": "1", "LWS_LEADER_ADDRESS": "leader.example", "SGLANG_API_KEY": "a-key"}
READS = """
import argparse, json, sys
from sglang.cli.serve import _normalize_positional_model_path
from sglang.srt.server_args import ServerArgs
for line in json.load(sys.stdin):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    ServerArgs.add_cli_args(parser)
    parsed = parser.parse_args(_normalize_positional_model_path(line)[0])
    print(json.dumps({name: getattr(parsed, name) for name in %r}))
"""
NAMES = ("model_path", "host", "port", "api_key", "grammar_backend", "incremental_streaming_output")
NAMES += ("enable_metrics", "nnodes", "node_rank", "dist_init_addr", "tp_size", "pp_size")


def arguments(values):
    return expanded_arguments(values, ["sglang", "serve"], EXPANDED)


def read_by_sglang(lines):
    if not SGLANG.exists():
        pytest.skip("there is no package of SGLang; `make test-engines` fetches it")
    return read_by_engine(sys.executable, READS % (NAMES,), lines, PYTHONPATH=str(SGLANG))


def test_sglang_knows_every_argument():
    lines = [line for values in VARIANTS.values() for line in arguments(values)]
    assert len(read_by_sglang(lines)) == len(lines) > 3


def test_sglang_reads_one_group_of_pods_out_of_leader_and_workers():
    leader, worker = read_by_sglang(arguments(SGLANG_ON_NODES))
    group = {
        "model_path": "Qwen/Qwen3-235B-A22B",
        "grammar_backend": "xgrammar",
        "incremental_streaming_output": True,
        "enable_metrics": True,
        "nnodes": 3,
        "dist_init_addr": "leader.example:20000",
        "tp_size": 24,
        "pp_size": 1,
    }
    assert (
        leader.items()
        >= (group | {"host": "0.0.0.0", "port": 8000, "api_key": "a-key", "node_rank": 0}).items()
    )
    assert worker.items() >= (group | {"host": "127.0.0.1", "api_key": None, "node_rank": 1}).items()
