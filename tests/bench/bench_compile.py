"""What it takes to compile real tools: 473 MCP tools, Qwen 3's vocabulary, one thread, nothing cached.

OMP_NUM_THREADS=1 PYTHONPATH=.:tests python tests/bench/bench_compile.py
"""

import json
import time

import numpy as np
from corpus import corpus
from transformers import AutoTokenizer

from compiler.errors import UnsupportedSchema
from compiler.syntaxes import syntax
from compiler.toolset import lower_tool
from compiler.unit import compile_unit
from compiler.vocabulary import vocabulary_of
from toolspecs.tool import Tool


def tools() -> list[Tool]:
    files = (path for path in sorted(corpus("mcp").glob("*.json")) if path.stem != "SOURCES")
    listed = (tool for path in files for tool in json.loads(path.read_text(encoding="utf-8")))
    return [Tool(tool["name"], tool.get("description", ""), tool["inputSchema"]) for tool in listed]


def main() -> None:
    vocabulary = vocabulary_of(AutoTokenizer.from_pretrained(corpus("tokenizers", "qwen3")))
    hermes = syntax("hermes")
    lowering, compiling, stored, refused = [], [], [], []
    assert vocabulary.backend is not None
    for tool in tools():
        start = time.perf_counter()
        try:
            grammar = lower_tool(tool, hermes, vocabulary).grammar
        except UnsupportedSchema as refusal:
            refused.append(f"{tool.name}: {refusal}")
            continue
        middle = time.perf_counter()
        unit = compile_unit(grammar, hermes, vocabulary)
        lowering.append(middle - start)
        compiling.append(time.perf_counter() - middle)
        stored.append(len(unit.to_bytes(vocabulary)))
    both = np.add(lowering, compiling) * 1e3
    print(f"{len(both)} tools in {both.sum() / 1e3:.1f} s, refused: {refused}")
    print(
        f"one tool: p50 {np.percentile(both, 50):.1f} ms, p99 {np.percentile(both, 99):.1f} ms, max {both.max():.0f} ms"
    )
    print(
        f"of which lowering: p50 {np.percentile(lowering, 50) * 1e3:.1f} ms; stored: {np.mean(stored) / 1e3:.1f} KB on average"
    )


if __name__ == "__main__":
    main()
