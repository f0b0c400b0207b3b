"""Random decoding over the corpora's schemas: how many outputs there were, and whether any was wrong.

PYTHONPATH=.:tests python tests/bench/bench_random_decoding.py [--per-schema 10] [--every 1] [--vocabulary qwen3]
"""

import argparse
import json
import sys
import time

from soundness.corpora import CORPORA, sample
from soundness.decoding import decode_schemas


def main() -> None:
    """Decode and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--corpus", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--vocabulary", choices=["qwen3", "mistral-v3", "bytes"], default="qwen3")
    parser.add_argument("--objects", choices=["schema", "closed"], default="schema")
    parser.add_argument("--key-order", choices=["declared", "any"], default="declared")
    parser.add_argument("--per-schema", type=int, default=10)
    parser.add_argument("--every", type=int, default=1, help="one schema in so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--holding", default="", help="only schemas whose text holds this, such as maxLength")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    for name in options.corpus:
        drawn = sample(name, every=options.every, seed=options.seed)
        cases = [case for case in drawn if options.holding in json.dumps(case.schema)]
        start = time.perf_counter()
        num_faults = 0
        found = decode_schemas(
            cases,
            options.vocabulary,
            options.per_schema,
            objects=options.objects,
            key_order=options.key_order,
            workers=options.workers,
            seed=options.seed,
        )
        for num_schemas, tally in enumerate(found, 1):
            for fault in tally.faults[num_faults:]:
                print(f"WRONG {fault}", flush=True)
            num_faults = len(tally.faults)
            if num_schemas % 100 == 0:
                print(
                    f"{name}, {num_schemas} of {len(cases)}: {dict(tally.counts)}",
                    file=sys.stderr,
                    flush=True,
                )
        print(f"{name}: {dict(tally.counts)}, {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
