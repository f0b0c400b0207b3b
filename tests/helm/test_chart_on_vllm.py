"""What the chart starts vLLM with, read by a real vLLM."""

import pytest
from rendered_chart import NODES, VARIANTS, expanded_arguments, read_by_engine
from vllm_server import PYTHON

pytestmark = pytest.mark.engines
SET_BY_THE_CONTROLLER = {"LWS_WORKER_INDEX": "1", "LWS_LEADER_ADDRESS": "leader.example"}
READS = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser
for line in json.load(sys.stdin):
    parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(line)
    validate_parsed_serve_args(parsed)
    print(json.dumps({name: getattr(parsed, name) for name in %r}))
"""
NAMES = ("model_tag", "headless", "nnodes", "node_rank", "master_addr", "tensor_parallel_size")
NAMES += ("pipeline_parallel_size", "distributed_executor_backend")


def arguments(values):
    return expanded_arguments(values, ["vllm", "serve"], SET_BY_THE_CONTROLLER)


def read_by_vllm(lines):
    if not PYTHON.exists():
        pytest.skip("there is no environment with vLLM; `make test-engines` makes it")
    return read_by_engine(PYTHON, READS % (NAMES,), lines)


def test_vllm_knows_every_argument():
    lines = [line for values in VARIANTS.values() for line in arguments(values)]
    assert len(read_by_vllm(lines)) == len(lines) > 5


def test_vllm_reads_one_group_of_pods_out_of_leader_and_workers():
    leader, worker = read_by_vllm(arguments(NODES))
    group = {
        "model_tag": "Qwen/Qwen3-235B-A22B",
        "nnodes": 3,
        "master_addr": "leader.example",
        "tensor_parallel_size": 8,
        "pipeline_parallel_size": 3,
        "distributed_executor_backend": "mp",
    }
    assert leader == {**group, "headless": False, "node_rank": 0}
    assert worker == {**group, "headless": True, "node_rank": 1}
