"""docs/reliability.md, from what runs have found: `python -m chaos.report results.json … > docs/reliability.md`."""

import json
import os
import platform
import sys
from collections import Counter
from datetime import date
from pathlib import Path

HEAD = """\
# Reliability

What happens when something breaks, measured by `make chaos`: two gateways, two engines and a Redis on loopback, each a
process of its own, while {num_clients} clients of OpenAI's library call without a pause. The engines are stand-ins: they draw
random tokens under the masks of the real grammars, 10 ms a token. Every call is judged by jsonschema-rs. Toolsets are
registered all the time, and read back after each fault.

{machine}, {day}. Times are of this machine, which did much else.

**{num_answered} requests answered, each with a valid call; {num_refused} refused with a clear error; lost: {num_lost};
invalid: {num_invalid}; without an end in time: {num_endless}.**

| fault | answered | refused | longest answer | all served again after | seen |
|---|---|---|---|---|---|
"""
TAIL = """
*Refused* counts errors by their `code`, of clients that did not retry. *All served again* counts from when the cause was
gone. A process that is started needs seconds before that, which count as part of the fault.
"""


def main() -> None:
    results = [one for path in sys.argv[1:] for one in json.loads(Path(path).read_text())]
    tried = [one for one in results if one["seconds"]]
    print(page(tried), end="")


def page(tried: list[dict]) -> str:
    """The page."""
    head = HEAD.format(
        num_clients=6,
        machine=f"{os.cpu_count()} cores of {platform.machine()}",
        day=date.today().isoformat(),  # noqa: DTZ011 - a day
        num_answered=sum(one["num_answered"] for one in tried),
        num_refused=sum(sum(one["refused"].values()) for one in tried),
        num_lost=count(tried, "lost:"),
        num_invalid=count(tried, "an invalid call"),
        num_endless=count(tried, "no end after"),
    )
    return head + "".join(map(row, tried)) + TAIL


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
