"""Whether an answer is what its scenario allows, judged from outside: by jsonschema-rs, formats asserted."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import jsonschema_rs

from gateway.demo.scenarios import Scenario


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the client received it."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the client received. Times in seconds; `first_token_s` None where nothing was streamed."""

    calls: tuple[Call, ...] = ()
    text: str = ""
    finish_reason: str = ""
    num_tokens: int = 0
    first_token_s: float | None = None
    total_s: float = 0.0
    grammar_source: str | None = None
    closed_by: str | None = None


def find_faults(scenario: Scenario, answer: Answer, parameters: Mapping[str, Any]) -> list[str]:
    """What is wrong with an answer; `parameters` are the schemas of the tools shown, by name."""
    return [
        *_mode_faults(scenario, answer),
        *(fault for call in answer.calls for fault in _call_faults(call, scenario, parameters)),
        *_text_faults(scenario, answer),
    ]


def _mode_faults(scenario: Scenario, answer: Answer) -> Iterator[str]:
    least, most = scenario.num_calls
    num_calls = len(answer.calls)
    if num_calls < least:
        yield f"{num_calls} calls, at least {least} expected"
    if most is not None and num_calls > most:
        yield f"{num_calls} calls, at most {most} expected"
    if answer.finish_reason not in scenario.finish:
        yield f"finish_reason is {answer.finish_reason!r}, expected {' or '.join(sorted(scenario.finish))}"


def _call_faults(call: Call, scenario: Scenario, parameters: Mapping[str, Any]) -> Iterator[str]:
    if call.name not in parameters:
        yield f"there is no tool {call.name!r}"
    elif scenario.only is not None and call.name not in scenario.only:
        yield f"{call.name} is not among the allowed tools"
    else:
        yield from (f"{call.name}: {fault}" for fault in schema_faults(call.arguments, parameters[call.name]))


def _text_faults(scenario: Scenario, answer: Answer) -> Iterator[str]:
    if scenario.schema is not None:
        yield from schema_faults(answer.text, scenario.schema)


def schema_faults(text: str, schema: Any) -> Iterator[str]:
    """Why `text` is not JSON that validates against `schema`; nothing if it is."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        yield f"not JSON: {error}"
        return
    validator = jsonschema_rs.validator_for(schema, validate_formats=True)
    yield from (f"{_pointer(error.instance_path)}: {error.message}" for error in validator.iter_errors(value))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _pointer(path: list[str | int]) -> str:
    return "".join(f"/{part}" for part in path) or "/"
