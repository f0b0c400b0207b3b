"""The Triton kernel: right in Triton's interpreter, and compiled for Hopper. It has not run on a GPU here."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from paged_attention_cases import CASES, reference

from runtime.forward.gather_backend import GatherBackend
from runtime.forward.paged_triton_backend import QueryBlocks
from runtime.scheduling.batch import Chunk
from runtime.scheduling.sequence import Sequence

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def errors():
    pytest.importorskip("triton", reason="Triton, which comes with xgrammar on x86-64, is not installed")
    script = [sys.executable, str(HERE / "interpreted.py")]
    path = os.pathsep.join([str(HERE.parents[1]), *sys.path])
    done = subprocess.run(
        script, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_kernel_in_the_interpreter(case, errors):
    """Relative error against float64; keys that no query sees are NaN, and reach nothing."""
    assert errors[case.name] < (1e-5 if case.dtype == torch.float32 else 1e-3)


@pytest.mark.parametrize(
    "lengths", [((9, 1), (0, 1), (30, 1)), ((5, 7), (20, 1), (0, 3)), ((3, 40),)], ids=str
)
@pytest.mark.parametrize(
    "case", CASES[:1] + [c for c in CASES if c.name == "everything"], ids=lambda c: c.name
)
def test_query_blocks_of_chunks_give_what_gathering_gives(case, lengths):
    """The kernel's reference and the gather backend compute the same numbers."""
    _, keys, values, _, scoring = case.make()
    chunks, page = [], 1
    for before, pending in lengths:
        sequence = Sequence("s", [0] * (before + pending), 1)
        num_pages = -(-(before + pending) // 4)
        sequence.page_table = [1 + (page + i) % (len(keys) - 1) for i in range(num_pages)]
        page += num_pages
        chunks.append(Chunk(sequence, before, pending))
    query = torch.randn(sum(pending for _, pending in lengths), case.heads, case.dim).transpose(0, 1)
    keys, values = keys.nan_to_num(0.5), values.nan_to_num(0.5)
    queries = QueryBlocks.of(tuple(chunks), query.device)
    gathered = GatherBackend.of(tuple(chunks), 4, query.device).attend(query, keys, values, scoring)
    assert torch.allclose(reference(query, keys, values, queries, scoring), gathered, atol=1e-5)


def compiled(dtype, **constants):
    """The kernel as Hopper's machine code, for which Triton brings its own assembler."""
    triton = pytest.importorskip("triton", reason="Triton is not installed")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from runtime.forward.paged_triton_kernel import _attend

    types = dict.fromkeys(("query", "keys", "values", "sinks", "output"), f"*{dtype}")
    types |= {"tables": "*i32", "blocks": "*i32", "lses": "*fp32", "scale": "fp32", "softcap": "fp32"}
    signature = {name: types.get(name, "i32") for name in _attend.arg_names}
    signature |= dict.fromkeys(constants, "constexpr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Triton's own, about defaults that will change
        source = ASTSource(fn=_attend, signature=signature, constexprs=constants)
        return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


@pytest.mark.parametrize(("block_rows", "is_split"), [(16, True), (64, False)], ids=["decode", "prefill"])
def test_the_kernel_compiles_for_hopper(block_rows, is_split):
    """Llama 3.1 8B's shape; the assembler says no to what has too much shared memory or bad instructions."""
    shape = {"KEY_HEADS": 8, "REPEATS": 4, "PACK": 4, "DIM": 128, "VALUE_DIM": 128}
    blocks = {"BLOCK_DIM": 128, "BLOCK_VALUE_DIM": 128, "BLOCK_ROWS": block_rows, "BLOCK_KEYS": 64}
    scoring = {"WINDOW": 0, "HAS_SOFTCAP": True, "HAS_SINKS": True, "PAGE_SIZE": 16, "IS_SPLIT": is_split}
    kernel = compiled("bf16", **shape, **blocks, **scoring)
    assert len(kernel.asm["cubin"]) > 0
    assert kernel.metadata.shared <= 99 * 1024
