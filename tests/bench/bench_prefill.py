"""How long prompts take that nothing has cached, beside vLLM: both servers run, and take turns.

PYTHONPATH=.:tests:tests/bench python tests/bench/bench_prefill.py --model DIRECTORY --vllm PYTHON [--rounds 15]

Each round asks both for one token after a prompt of its own (`/v1/completions`), the other being idle. The order
is reversed each round.
"""

import argparse
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from random import Random
from statistics import median

import httpx
from side_by_side.servers import Server, callgate, vllm
from transformers import AutoTokenizer

WARM_UP = 2


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a directory that both load")
    parser.add_argument("--vllm", type=Path, required=True, help="the interpreter of vLLM's environment")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--tokens", type=int, default=2500)
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    words = [token for token in sorted(tokenizer.get_vocab()) if token[1:].isalpha() and token.isascii()]
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    with (
        callgate(options.model, dtype=options.dtype, max_batch=8) as ours,
        vllm(
            options.model,
            python=options.vllm,
            dtype=options.dtype,
            max_batch=8,
            max_length=options.tokens + 1000,
        ) as theirs,
    ):
        servers = [("callgate", ours), ("vllm", theirs)]
        for number in range(-WARM_UP, options.rounds):
            prompt = " ".join(Random(str(number)).choices(words, k=options.tokens * 2 // 3))
            for name, server in servers if number % 2 else reversed(servers):
                took, num_tokens = first_token(server, prompt)
                if number >= 0:
                    seconds[name].append(took)
        print(f"load {os.getloadavg()[0]:.1f}; the last prompt has {num_tokens} tokens", file=sys.stderr)
    print("| | median s | shortest | longest |\n|---|--:|--:|--:|")
    for name, times in seconds.items():
        print(f"| {name} | {median(times):.2f} | {min(times):.2f} | {max(times):.2f} |")
    ratios = [a / b for a, b in zip(seconds["callgate"], seconds["vllm"], strict=True)]
    print(f"\ncallgate by vllm, round by round: median {median(ratios):.2f}")


def first_token(server: Server, prompt: str) -> tuple[float, int]:
    """Seconds of a request for one token, and the prompt's length in tokens."""
    body = {"model": server.model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
    start = time.perf_counter()
    answer = httpx.post(f"{server.url}/completions", json=body, timeout=600)
    took = time.perf_counter() - start
    answer.raise_for_status()
    return took, answer.json()["usage"]["prompt_tokens"]


if __name__ == "__main__":
    main()
