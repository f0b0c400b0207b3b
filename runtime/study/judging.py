"""Judges one output: is it valid, and is it the right call?"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from compiler.syntax import Syntax
from runtime.study.lenient_parser import OutputFault, ParsedCall, ParsedOutput, parse_output, schema_fault
from runtime.study.questions import Question


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is right and what is wrong with one output.

    `is_json`: it has calls in the model's syntax and nothing else, each with arguments that parse.
    `is_valid`: each call names a tool of the question, and its arguments are valid, with formats asserted and
    objects closed. `is_valid_open`: the same, but undeclared keys are allowed where the schema allows them.
    `is_tool`: the first call names the right tool. `is_right`: it is valid, and its only call is the right
    one. `fault` is None if and only if it is valid; `reason` is the fault in words. `calls`: name and
    arguments, as JSON, of a valid output's calls. `is_reordered`: it is valid, but keys are in another order
    than in the schema.
    """

    is_json: bool
    is_valid: bool
    is_valid_open: bool
    is_tool: bool
    is_right: bool
    fault: OutputFault | None = None
    reason: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    is_reordered: bool = False


REFUSED = Judgement(
    is_json=False,
    is_valid=False,
    is_valid_open=False,
    is_tool=False,
    is_right=False,
    fault=OutputFault.REFUSED,
)


def judge(
    question: Question,
    text: str,
    syntax: Syntax,
    *,
    is_whole: bool,
    is_utf8: bool = True,
    ignored: str | None = None,
) -> Judgement:
    """Judge an output. The argument `ignored` is removed first.

    `is_whole` says that it was not cut off, `is_utf8` that its bytes are text.
    """
    parsed = parse_output(text, syntax)
    calls = [_without(call, ignored) for call in parsed.calls]
    fault, reason = _first_fault(question, parsed, calls, is_whole=is_whole, is_utf8=is_utf8)
    is_json = is_whole and is_utf8 and parsed.is_json
    return Judgement(
        is_json=is_json,
        is_valid=fault is None,
        is_valid_open=fault is None or (is_json and _are_valid_open(question, calls)),
        is_tool=bool(calls) and calls[0].name == question.name,
        is_right=fault is None and len(calls) == 1 and question.is_right(calls[0].name, calls[0].arguments),
        fault=fault,
        reason=reason,
        calls=tuple(
            (call.name, json.dumps(call.arguments, sort_keys=True)) for call in calls if fault is None
        ),
        is_reordered=fault is None and not all(_is_in_order(question, call) for call in calls),
    )


def closed(schema: Any) -> Any:
    """The schema with undeclared keys forbidden, as in the grammar of calls."""
    match schema:
        case {"properties": dict() as properties, **rest}:
            inner = {key: closed(value) for key, value in properties.items()}
            return {"additionalProperties": False, **rest, "properties": inner}
        case {"items": items, **rest}:
            return {**rest, "items": closed(items)}
        case _:
            return schema


def _first_fault(
    question: Question, parsed: ParsedOutput, calls: Sequence[ParsedCall], *, is_whole: bool, is_utf8: bool
) -> tuple[OutputFault | None, str]:
    if not (is_whole and is_utf8):
        cut, broken_text = "the answer was cut off", "the answer is not UTF-8"
        return (OutputFault.BROKEN_UTF8, broken_text) if is_whole else (OutputFault.TRUNCATED, cut)
    if parsed.fault is not None:
        return parsed.fault, parsed.reason
    broken = next((call for call in calls if call.fault is not None), None)
    if broken is not None:
        return broken.fault, broken.reason
    schemas = {tool.name: tool.parameters for tool in question.tools}
    for call in calls:
        if call.name not in schemas:
            return OutputFault.UNKNOWN_TOOL, f"there is no tool {call.name!r}"
        errors = list(_validator(closed(dict(schemas[call.name]))).iter_errors(call.arguments))
        if errors:
            return schema_fault(errors), "; ".join(error.message for error in errors)
    return None, ""


def _are_valid_open(question: Question, calls: Sequence[ParsedCall]) -> bool:
    schemas = {tool.name: tool.parameters for tool in question.tools}
    return all(
        call.fault is None
        and call.name in schemas
        and _validator(dict(schemas[call.name])).is_valid(call.arguments)
        for call in calls
    )


def _is_in_order(question: Question, call: ParsedCall) -> bool:
    schema = next(tool.parameters for tool in question.tools if tool.name == call.name)
    return _has_declared_order(dict(schema), call.arguments)


def _has_declared_order(schema: Any, value: Any) -> bool:
    match schema, value:
        case {"properties": dict() as properties}, dict():
            declared = [key for key in properties if key in value]
            return [key for key in value if key in properties] == declared and all(
                _has_declared_order(properties[key], value[key]) for key in declared
            )
        case {"items": items}, list():
            return all(_has_declared_order(items, item) for item in value)
        case _:
            return True


def _validator(schema: Any) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(schema, validate_formats=True, offline=True)


def _without(call: ParsedCall, ignored: str | None) -> ParsedCall:
    if ignored is None or not isinstance(call.arguments, dict):
        return call
    return ParsedCall(
        call.name,
        {key: value for key, value in call.arguments.items() if key != ignored},
        call.fault,
        call.reason,
    )
