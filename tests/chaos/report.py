"""The figures of docs/reliability.md, from what runs have found: `python -m chaos.report results.json …`."""

import json
import os
import platform
import sys
from collections import Counter
from datetime import date
from pathlib import Path

HEAD = """\
**{num_answered} requests answered, each with a valid call; {num_refused} refused with a clear error; lost: {num_lost};
invalid: {num_invalid}; without an end in time: {num_endless}.**

{machine}, {day}.

| fault | answered | refused | longest answer | all served again after | seen |
|---|---|---|---|---|---|
"""


def main() -> None:
    results = [one for path in sys.argv[1:] for one in json.loads(Path(path).read_text())]
    tried = [one for one in results if one["seconds"]]
    print(page(tried), end="")


def page(tried: list[dict]) -> str:
    """The totals and the table of the page."""
    head = HEAD.format(
        machine=f"{os.cpu_count()} cores of {platform.machine()}",
        day=date.today().isoformat(),  # noqa: DTZ011 - a day
        num_answered=sum(one["num_answered"] for one in tried),
        num_refused=sum(sum(one["refused"].values()) for one in tried),
        num_lost=count(tried, "lost:"),
        num_invalid=count(tried, "an invalid call"),
        num_endless=count(tried, "no end after"),
    )
    return head + "".join(map(row, tried))


def count(tried: list[dict], what: str) -> int:
    return sum(what in line for one in tried for line in one["wrong"])


def row(one: dict) -> str:
    refused = ", ".join(f"{number} `{code}`" for code, number in one["refused"].items()) or "none"
    lines = Counter(line.partition(": ")[2] for line in one["wrong"])
    wrong = [f"**{number} x {line}**" for line, number in lines.items()]
    cells = [
        one["what"],
        str(one["num_answered"]),
        refused,
        f"{one['longest_s']:.1f} s" if one["longest_s"] else "",
        "at once" if one["recovery_s"] < 0.05 else f"{one['recovery_s']:.1f} s",
        "; ".join([*one["notes"], *wrong]),
    ]
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    main()
