"""The questions of an evaluation: those that come with the package, held out or everyday, and BFCL's."""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from runtime.errors import RequestRefused
from runtime.request import Message
from toolspecs.schemas.schema_check import FOREIGN_TYPES
from toolspecs.tool import Tool

HELD_OUT_FILE = Path(__file__).parent / "held_out.jsonl.gz"
"""Written by `python -m tiny_model.held_out` (tests/tiny_model): the tiny model was not trained on them."""
NUM_HELD_OUT = 1000

EVERYDAY_FILE = Path(__file__).parent / "everyday.json"
"""Requests for everyday tools as people write them, by hand. No model of ours may be trained on them."""


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt, the tools shown, and the one right call: its `name`, and the right values of each parameter.

    If `MISSING` is among the values, the parameter may be left out.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    name: str
    right_values: Mapping[str, Sequence[Any]]

    def is_right(self, name: str, arguments: Any) -> bool:
        """Whether a call is the right one, in each argument."""
        if name != self.name or not isinstance(arguments, dict) or set(arguments) - set(self.right_values):
            return False
        return all(
            any(_is_same(arguments.get(key, MISSING), value) for value in values)
            for key, values in self.right_values.items()
        )


MISSING = object()


def held_out(count: int) -> Iterator[Question]:
    """The first `count` held-out questions, each with four tools and one right call.

    Raises:
        RequestRefused: there are fewer.
    """
    if count > NUM_HELD_OUT:
        raise RequestRefused(f"count is {count}, but there are only {NUM_HELD_OUT} questions", "count")
    with gzip.open(HELD_OUT_FILE, "rt", encoding="utf-8") as lines:
        for line in islice(lines, count):
            item = json.loads(line)
            yield Question(
                tuple(Message(message["role"], message["content"]) for message in item["messages"]),
                tuple(Tool(tool["name"], tool["description"], tool["parameters"]) for tool in item["tools"]),
                item["name"],
                {key: (value,) for key, value in item["arguments"].items()},
            )


def everyday() -> Iterator[Question]:
    """The everyday questions: 30 toolsets of three to five tools, five requests each, toolset by toolset.

    In the file, a question has the right `arguments`. `or` has other right values of some parameters, and
    `may_be_absent` the names of the parameters that may be left out.
    """
    for toolset in json.loads(EVERYDAY_FILE.read_text(encoding="utf-8")):
        tools = tuple(Tool(**tool) for tool in toolset["tools"])
        for item in toolset["questions"]:
            arguments, others = item["arguments"], item.get("or", {})
            right = {
                name: (*([arguments[name]] if name in arguments else []), *others.get(name, []))
                for name in {**arguments, **others}
            }
            for name in item.get("may_be_absent", ()):
                right[name] = (*right.get(name, ()), MISSING)
            yield Question((Message("user", item["request"]),), tools, item["name"], right)


def bfcl(path: Path) -> Iterator[Question]:
    """The questions of a BFCL file that ask for exactly one call; `path` is a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            item = json.loads(line)
            (name, arguments), *others = (pair for call in item["ground_truth"] for pair in call.items())
            tools = tuple(
                Tool(tool["name"], tool["description"], _schema(tool["parameters"]))
                for tool in item["function"]
            )
            if not others:
                messages = tuple(Message(turn["role"], turn["content"]) for turn in item["question"][0])
                right = {key: _right_values(values) for key, values in arguments.items()}
                yield Question(messages, tools, name, right)


_TYPES = {kind: kind for kind in ("object", "array", "string", "integer", "number", "boolean", "null")}


def _schema(parameters: Any) -> Any:
    """A schema of BFCL as JSON Schema: types get their usual names, and defaults are dropped."""
    if not isinstance(parameters, dict):
        return parameters
    schema = {key: value for key, value in parameters.items() if key not in {"type", "optional", "default"}}
    kind = str(parameters.get("type", "")).lower()
    if type_name := _TYPES.get(kind) or FOREIGN_TYPES.get(kind):
        schema = {"type": type_name, **schema}
    if isinstance(schema.get("properties"), dict):
        schema["properties"] = {key: _schema(value) for key, value in schema["properties"].items()}
    if "items" in schema:
        schema["items"] = _schema(schema["items"])
    return schema


def _right_values(values: Any) -> tuple[Any, ...]:
    as_list = values if isinstance(values, list) else [values]
    return tuple(MISSING if value == "" else value for value in as_list)


def _is_same(value: Any, expected: Any) -> bool:
    """Whether two JSON values are equal; in objects, BFCL lists the right values of every key."""
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if isinstance(value, dict) and isinstance(expected, dict):
        keys = {*value, *expected}
        return all(
            any(_is_same(value.get(key, MISSING), option) for option in _options(expected.get(key, MISSING)))
            for key in keys
        )
    if isinstance(value, list) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(_is_same, value, expected))
    return bool(value == expected)


def _options(expected: Any) -> tuple[Any, ...]:
    return (expected, *_right_values(expected)) if isinstance(expected, list) else (expected,)
