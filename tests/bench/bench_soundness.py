"""Ours, xgrammar's own converter and llguidance on the same corpora: the table of docs/soundness.md.

PYTHONPATH=.:tests python tests/bench/bench_soundness.py [--corpus mcp] [--engine callgate] [--every 10] [--list]
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from soundness.comparison import Outcome, Score, as_json, outcomes, score
from soundness.corpora import CORPORA, sample
from soundness.engines import ENGINES

COLUMNS = (
    "corpus",
    "engine",
    "invalid instances accepted",
    "schemas compiled",
    "valid instances accepted, of compiled schemas",
    "the same, keys in declared order",
    "over 10 s or crashed",
    "seconds",
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--corpus", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--every", type=int, default=1, help="one schema in so many")
    parser.add_argument("--seed", type=int, default=0, help="draws the sample")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="refusals by reason, valid instances rejected")
    parser.add_argument("--out", type=Path, help="append each outcome to this file, as JSON lines")
    parser.add_argument("--again", type=Path, help="measure nothing, print what --out has kept")
    options = parser.parse_args()
    print_row(COLUMNS)
    print_row(["---"] * len(COLUMNS))
    for name in options.corpus:
        cases = sample(name, every=options.every, seed=options.seed)
        for engine in options.engine:
            start = time.perf_counter()
            if options.again:
                read = list(outcomes_from(options.again, engine, name))
                if not read:
                    continue
                total = score(cases[: len(read)], read)
            else:
                found = outcomes(engine, cases, workers=options.workers)
                total = score(cases, kept(found, engine, options.out) if options.out else found)
            print_row([name, engine, *total.row, f"{time.perf_counter() - start:.0f}"])
            if options.list:
                print_listing(total)


def kept(found: Iterable[Outcome], engine: str, path: Path) -> Iterator[Outcome]:
    """The same outcomes, each appended to a file as it comes."""
    with path.open("a", encoding="utf-8") as file:
        for outcome in found:
            print(as_json(engine, outcome), file=file, flush=True)
            yield outcome


def outcomes_from(path: Path, engine: str, corpus: str) -> Iterator[Outcome]:
    """What `kept` wrote of one engine and corpus, as far as it got."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            found = json.loads(line)
            if (found.pop("engine"), found["corpus"]) == (engine, corpus):
                yield Outcome(**found)


def print_row(cells: Iterable[str]) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def print_listing(total: Score) -> None:
    """Refusals grouped by keyword and reason, and the instances on the wrong side."""
    print(dict(Counter(total.tally)))
    for (keyword, why), names in sorted(total.refused.items(), key=lambda item: -len(item[1])):
        print(f"- {len(names)} x {keyword or '-'}: {why[:200]}")
        for name in names[:3]:
            print(f"    {name}")
    for title, instances in (
        ("invalid, accepted", total.wrong),
        ("valid, accepted with keys in declared order alone", total.disordered),
        ("valid, rejected", total.missed),
    ):
        print(f"{title}: {len(instances)}")
        for name, text in instances:
            print(f"    {name}: {text[:300]}")


if __name__ == "__main__":
    main()
