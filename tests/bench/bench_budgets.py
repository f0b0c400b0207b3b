"""Outputs cut short at any budget: whether each is valid, and how many tokens were left where it was closed.

PYTHONPATH=.:tests python tests/bench/bench_budgets.py [--per-schema 6] [--every 1] [--vocabulary qwen3] [--key-order any]
"""

import argparse
import sys
import time

from soundness.budgets import outputs
from soundness.corpora import CORPORA, sample


def main() -> None:
    """Write and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--corpus", nargs="+", choices=CORPORA, default=["mcp", "jsonschemabench"])
    parser.add_argument("--vocabulary", choices=["qwen3", "mistral-v3", "bytes", "random"], default="qwen3")
    parser.add_argument("--per-schema", type=int, default=6)
    parser.add_argument("--every", type=int, default=1, help="one schema in so many")
    parser.add_argument("--key-order", choices=["declared", "any"], default="declared")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    for name in options.corpus:
        cases = sample(name, every=options.every, seed=options.seed)
        start = time.perf_counter()
        num_faults = 0
        found = outputs(
            cases,
            options.vocabulary,
            options.per_schema,
            workers=options.workers,
            seed=options.seed,
            key_order=options.key_order,
        )
        for num_schemas, tally in enumerate(found, 1):
            for fault in tally.faults[num_faults:]:
                print(f"WRONG {fault}", flush=True)
            num_faults = len(tally.faults)
            if num_schemas % 100 == 0:
                print(f"{name}, {num_schemas} of {len(cases)}: {tally}", file=sys.stderr, flush=True)
        print(f"{name}: {tally}, {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
