"""The shared corpora as cases: a schema, and instances that the corpus labels valid or invalid.

| corpus | schemas | instances |
|---|---|---|
| suite-2020-12, suite-7 | the JSON Schema Test Suite | its tests, where `format` is an annotation |
| formats-2020-12, formats-7 | its `optional/format` | its tests, where `format` is asserted |
| jsonschemabench | JSONSchemaBench and MaskBench | theirs, `format` asserted |
| mcp | the tools of real MCP servers | none |
| bfcl | BFCL's tools, types mapped | the expected calls that the schema admits |
| openapi | operations, as the gateway imports them | none |
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from corpus import corpus, json_lines, mcp_tools
from soundness import bfcl

from toolspecs.imports.openapi import import_openapi, unreachable


@dataclass(frozen=True, slots=True)
class Instance:
    """A value, and whether the schema admits it; `needs_format`: it is invalid only because of a format."""

    value: Any
    is_valid: bool
    note: str = ""
    needs_format: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A schema of a corpus, its instances, and the documents by URI that it may refer to."""

    corpus: str
    name: str
    schema: Any
    instances: tuple[Instance, ...] = ()
    documents: Mapping[str, Any] = field(default_factory=dict)


DIALECTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}


REMOTES = "http://localhost:1234/"
"""The URI of the suite's other documents; no server ever runs there."""


def remotes(draft: str) -> Mapping[str, Any]:
    """The documents that the suite's schemas of a draft refer to, by URI."""
    root = corpus("json-schema-test-suite", "remotes")
    paths = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.json"))}
    return {
        REMOTES + name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in paths.items()
        if name.startswith(draft) or not name.startswith("draft")
    }


def _suite(name: str, draft: str, *folders: str) -> Iterator[Case]:
    documents = remotes(draft)
    for path in sorted(corpus("json-schema-test-suite", draft, *folders).glob("*.json")):
        for case in json.loads(path.read_text(encoding="utf-8")):
            schema = case["schema"]
            if isinstance(schema, dict):
                schema = {"$schema": DIALECTS[draft], **schema}
            instances = (Instance(t["data"], t["valid"], t["description"]) for t in case["tests"])
            needed = documents if REMOTES in json.dumps(schema) else {}
            yield Case(name, f"{path.stem}: {case['description']}", schema, tuple(instances), needed)


def _jsonschemabench() -> Iterator[Case]:
    for path in sorted(corpus("jsonschemabench").glob("*.gz")):
        for case in json_lines(path):
            instances = (
                Instance(t["data"], t["valid"], t["description"], t.get("needs_format", False))
                for t in case["tests"]
            )
            yield Case(
                "jsonschemabench", f"{case['dataset']}/{case['name']}", case["schema"], tuple(instances)
            )


def _mcp() -> Iterator[Case]:
    for server, tool in mcp_tools():
        yield Case("mcp", f"{server}/{tool['name']}", tool["inputSchema"])


def _bfcl() -> Iterator[Case]:
    items = (item for path in sorted(corpus("bfcl").glob("*.gz")) for item in json_lines(path))
    for name, schema, calls in bfcl.tools(items):
        yield Case("bfcl", name, schema, tuple(Instance(call, is_valid=True) for call in calls))


def _openapi() -> Iterator[Case]:
    for path in sorted(corpus("openapi").glob("*.json")):
        for tool in import_openapi(path.as_uri(), path.read_text("utf-8"), unreachable).tools:
            yield Case("openapi", f"{path.stem}/{tool.name}", tool.parameters)


CORPORA: Mapping[str, Callable[[], Iterator[Case]]] = {
    "suite-2020-12": lambda: _suite("suite-2020-12", "draft2020-12"),
    "suite-7": lambda: _suite("suite-7", "draft7"),
    "formats-2020-12": lambda: _suite("formats-2020-12", "draft2020-12", "optional", "format"),
    "formats-7": lambda: _suite("formats-7", "draft7", "optional", "format"),
    "jsonschemabench": _jsonschemabench,
    "mcp": _mcp,
    "bfcl": _bfcl,
    "openapi": _openapi,
}


def sample(name: str, *, every: int = 1, seed: int = 0) -> Sequence[Case]:
    """A fixed share of a corpus, sampled with `seed`, in the order of the corpus."""
    cases = list(CORPORA[name]())
    chosen = sorted(random.Random(seed).sample(range(len(cases)), -(-len(cases) // every)))
    return [cases[index] for index in chosen]
