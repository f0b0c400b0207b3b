"""`python -m chaos --minutes 8 --only redis-killed engine-killed --out build/chaos`: see `chaos`.

Ends with 1 if anything was lost, invalid, or without an end.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from chaos.run import FAULT_NAMES, Result, run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--only", nargs="+", choices=FAULT_NAMES, metavar="FAULT", help=" ".join(FAULT_NAMES))
    parser.add_argument("--times", type=int, default=1, help="how often each fault is tried")
    parser.add_argument("--out", type=Path, default=Path("build/chaos"))
    options = parser.parse_args()
    options.out = options.out.resolve()  # some programs are started in folders of their own
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="chaos-", dir=options.out) as folder:
        results = asyncio.run(
            run(Path(folder), 60 * options.minutes, options.only, options.times, partial(write, options.out))
        )
    wrong = [line for one in results for line in one.wrong]
    print(
        "\n".join(wrong) or f"{len(results)} faults: nothing lost, nothing invalid, every request has ended"
    )
    return 1 if wrong else 0


def write(out: Path, results: Sequence[Result]) -> None:
    """Print the last result, and write all."""
    print("\n".join([results[-1].line(), *results[-1].wrong[:5]]), flush=True)
    (out / "results.json").write_text(json.dumps([one.as_json() for one in results], indent=1))


if __name__ == "__main__":
    sys.exit(main())
