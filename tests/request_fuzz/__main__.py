"""Fuzz requests: `PYTHONPATH=.:tests:tests/engines:tests/gateway python -m request_fuzz --minutes 10`.

Ends with 1 if anything was found. A round is made of its number, with each of the engines: `--round NUMBER
--engine vllm` runs one again.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from request_fuzz.rounds import WORLDS, run_round


def main() -> int:
    """Run rounds, and print what was asked and found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--first", type=int, default=0, help="the number of the first round")
    parser.add_argument("--round", type=int, help="run this round alone")
    parser.add_argument("--only", type=int, help="of that round, ask one request alone")
    parser.add_argument("--engine", choices=WORLDS, action="append", help="run rounds with this engine only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    num_found, number, start = 0, options.first, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        while True:
            chosen = options.round if options.round is not None else number
            for engine in options.engine or WORLDS:
                outcome = asyncio.run(run_round(chosen, Path(folder), engine=engine, only=options.only))
                counts += outcome.counts
                num_found += len(outcome.findings)
                for finding in outcome.findings:
                    print(finding, flush=True)
            number += 1
            if options.round is not None or time.monotonic() - start > 60 * options.minutes:
                break
    print(f"{number - options.first} rounds in {time.monotonic() - start:.0f} s, {num_found} findings")
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    return 1 if num_found else 0


if __name__ == "__main__":
    sys.exit(main())
