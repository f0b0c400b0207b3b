"""Fuzz the compiler: `PYTHONPATH=.:tests python -m fuzz --minutes 10 --seed 1 --jobs 1 --out build/fuzz`.

Ends with 1 if anything was found. A case is made of its seed and number: `--replay NUMBER` runs one again.
"""

import argparse
import random
import secrets
import sys
from pathlib import Path

from fuzz.ajv import Ajv, is_at_hand
from fuzz.driver import Settings, fuzz
from fuzz.harness import Harness
from fuzz.kinds import KINDS, case


def main() -> int:
    """Fuzz, and print what was looked at and found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(10**6), help="another every time, if not given"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--replay", type=int, help="run one case in this process, without limits")
    options = parser.parse_args()
    if not is_at_hand():
        print("Node or ajv is not at hand: jsonschema_rs and Python's jsonschema judge alone")
    print(f"seed {options.seed}")
    if options.replay is not None:
        return _replay(options.seed, options.replay)
    settings = Settings(options.minutes, options.seed, options.jobs, options.out)
    tally = fuzz(settings, lambda line: print(line, flush=True))
    print("\n".join(tally.lines()))
    if tally.found:
        print(f"shrunk, as tests and as JSON: {options.out / 'findings'}")
    return 1 if tally.found else 0


def _replay(seed: int, number: int) -> int:
    kind, subject, check_seed = case(seed, number)
    print(kind, subject)
    harness = Harness(ajv=Ajv() if is_at_hand() else None)
    outcome = KINDS[kind].check(subject, random.Random(check_seed), harness)
    print(dict(outcome.counts))
    print("\n".join(map(str, outcome.findings)))
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
