"""How many of the tools that a request wants `tool_search` finds, and how long that takes.

OMP_NUM_THREADS=1 PYTHONPATH=.:tests python tests/bench/bench_tool_search.py [--missed] [--embeddings minilm]

Two toolsets: all distinct functions of BFCL, with its questions as requests, and the tools of 44 MCP servers,
with the hundred requests of `mcp_requests.json`. Of namesakes any one counts. What the search does was chosen on the
half of BFCL's questions whose identifiers have an even hash; the counts of the other half and of the hundred requests
were seen meanwhile, so neither is held out strictly. Times are of the processor. With `--embeddings`, tools are searched
by words and by the vectors of a model, as with the setting `tool_embeddings`.
"""

import argparse
import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from corpus import corpus, json_lines, mcp_tools

from gateway.generation.tool_search import fused
from gateway.generation.tool_vectors import Embedder, meaning_scores
from runtime.sentence_embedder import SentenceEmbedder
from toolspecs.search.tool_index import ToolIndex, described, parts_of
from toolspecs.tool import Tool

LIMIT = 20
REQUESTS = Path(__file__).with_name("mcp_requests.json")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request, and the names of the tools that it wants: all of them, or (`any_does`) any."""

    group: str
    text: str
    names: frozenset[str]
    any_does: bool = False
    is_tuned: bool = False

    def is_met(self, found: Iterable[str]) -> bool:
        """Whether the tools found are enough."""
        return not self.names.isdisjoint(found) if self.any_does else self.names <= set(found)


def bfcl() -> tuple[list[Tool], list[Wanted]]:
    """The functions, under the names that they have, and the questions that have an expected call."""
    tools: dict[tuple[str, str], Tool] = {}
    wanted = []
    for path in sorted(corpus("bfcl").glob("*.jsonl.gz")):
        for item in json_lines(path):
            for function in item["function"]:
                key = function["name"], function["description"]
                tools.setdefault(key, Tool(*key, function["parameters"]))
            if item["ground_truth"]:
                names = frozenset(name for call in item["ground_truth"] for name in call)
                said = [m["content"] for turn in item["question"] for m in turn if m["role"] == "user"]
                is_tuned = hashlib.sha256(item["id"].encode()).digest()[0] % 2 == 0
                wanted.append(Wanted(item["category"], " ".join(said), names, is_tuned=is_tuned))
    return list(tools.values()), wanted


def mcp() -> tuple[list[Tool], list[str], list[Wanted]]:
    """The tools of all servers, what tells them apart (`server/tool`), and the hundred requests."""
    tools, places = [], []
    for server, tool in mcp_tools():
        tools.append(Tool(tool["name"], tool.get("description") or "", tool["inputSchema"]))
        places.append(f"{server}/{tool['name']}")
    rows: list[dict[str, Any]] = json.loads(REQUESTS.read_text("utf-8"))
    return (
        tools,
        places,
        [Wanted("mcp", row["request"], frozenset(row["finds"]), any_does=True) for row in rows],
    )


class Hybrid:
    """Words and meaning, as the gateway fuses them, with all vectors there."""

    def __init__(self, tools: Sequence[Tool], embedder: Embedder) -> None:
        self._words = ToolIndex(tools)
        self._embedder = embedder
        self._vectors = np.stack([embedder.document(described(tool)) for tool in tools])
        self.num_bytes = self._words.num_bytes + self._vectors.nbytes

    def scores(self, texts: Mapping[str, float]) -> list[float]:
        """As `ToolIndex.scores`."""
        asked = {text: self._embedder.query(parts_of(text)) for text in texts}
        return fused(self._words.scores(texts), meaning_scores(self._vectors, asked, texts))


Index = ToolIndex | Hybrid


def found_by(index: Index, names: list[str], text: str) -> list[str]:
    """The names of the tools that a search shows."""
    scores = index.scores({text: 1.0})
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    return [names[i] for i in order[:LIMIT]]


def count(
    index: Index, names: list[str], wanted: Iterable[Wanted], *, shows_missed: bool
) -> Mapping[str, str]:
    """Per group, how many requests are met: of all, of the half that was tuned on, of the other."""
    met: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for one in wanted:
        is_met = one.is_met(found_by(index, names, one.text))
        if shows_missed and not is_met:
            print(f"missed, {one.group}: {one.text[:150]!r} wants {sorted(one.names)}")
        for half in ("all", "tuned" if one.is_tuned else "other"):
            total[one.group, half] += 1
            met[one.group, half] += is_met
    return {
        group: "  ".join(
            f"{half} {100 * met[group, half] / total[group, half]:5.1f}% of {total[group, half]}"
            for half in ("all", "tuned", "other")
            if total[group, half]
        )
        for group, half in total
        if half == "all"
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missed", action="store_true", help="print the requests that are not met")
    parser.add_argument("--embeddings", help="search by this model's vectors too: minilm, or a directory")
    options = parser.parse_args()
    shows_missed = options.missed
    open_index = (
        partial(Hybrid, embedder=SentenceEmbedder.load(options.embeddings))
        if options.embeddings
        else ToolIndex
    )
    tools, wanted = bfcl()
    start = time.process_time()
    index = open_index(tools)
    built = time.process_time() - start
    print(f"{len(tools)} functions of BFCL: indexed in {built:.2f} s, {index.num_bytes / 1e6:.1f} MB")
    times = []
    for one in wanted:
        start = time.process_time()
        index.scores({one.text: 1.0})
        times.append(time.process_time() - start)
    times.sort()
    print(
        f"one search: median {times[len(times) // 2] * 1e3:.1f} ms, p99 {times[len(times) * 99 // 100] * 1e3:.1f} ms"
    )
    for group, line in count(index, [tool.name for tool in tools], wanted, shows_missed=shows_missed).items():
        print(f"  {group:24s} {line}")
    tools, places, wanted = mcp()
    servers = [
        Tool(f"{place.split('/')[0]}.{tool.name}", tool.description, tool.parameters)
        for place, tool in zip(places, tools, strict=True)
    ]
    for label, named in (("bare names", tools), ("names after their server's", servers)):
        line = count(open_index(named), places, wanted, shows_missed=shows_missed)["mcp"]
        print(f"{len(named)} tools of MCP servers, {label}: {line}")


if __name__ == "__main__":
    main()
