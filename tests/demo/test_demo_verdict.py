"""The demo's own check: it must not be easier to please than the promise it shows."""

import pytest

from gateway.demo.ask import ReceivedAnswer, ReceivedCall, find_faults, schema_faults
from gateway.demo.scenarios import SCENARIOS, Scenario, allowed, named

PARAMETERS = {
    "pay": {
        "type": "object",
        "properties": {
            "value": {"type": "integer", "minimum": 1},
            "day": {"type": "string", "format": "date"},
        },
        "required": ["value"],
        "additionalProperties": False,
    },
    "get_balance": {"type": "object", "properties": {}, "additionalProperties": False},
}
PAY = ReceivedCall("pay", '{"value": 1}')
BALANCE = ReceivedCall("get_balance", "{}")
REQUIRED = Scenario(mode="required", prompt="", tool_choice="required")
ONE_CALL = Scenario(mode="one", prompt="", num_calls=(1, 1))
NONE = Scenario(
    mode="none", prompt="", tool_choice="none", num_calls=(0, 0), finish=frozenset({"stop", "length"})
)
ALLOWED = Scenario(
    mode="allowed", prompt="", tool_choice=allowed("required", "get_balance"), only=("get_balance",)
)
TYPED = Scenario(
    mode="json_schema",
    prompt="",
    schema={"type": "object", "required": ["a"]},
    num_calls=(0, 0),
    finish=frozenset({"stop"}),
)


@pytest.mark.parametrize(
    ("scenario", "answer"),
    [
        (REQUIRED, ReceivedAnswer(calls=(PAY,), finish_reason="tool_calls")),
        (REQUIRED, ReceivedAnswer(calls=(PAY, BALANCE), finish_reason="tool_calls")),
        (REQUIRED, ReceivedAnswer(calls=(PAY,), finish_reason="length", closed_by="budget")),
        (ONE_CALL, ReceivedAnswer(calls=(BALANCE,), finish_reason="tool_calls")),
        (NONE, ReceivedAnswer(text="a text", finish_reason="stop")),
        (ALLOWED, ReceivedAnswer(calls=(BALANCE,), finish_reason="tool_calls")),
        (TYPED, ReceivedAnswer(text='{"a": null}', finish_reason="stop")),
    ],
)
def test_what_a_mode_allows_has_no_faults(scenario, answer):
    assert find_faults(scenario, answer, PARAMETERS) == []


@pytest.mark.parametrize(
    ("scenario", "answer", "fault"),
    [
        (REQUIRED, ReceivedAnswer(finish_reason="tool_calls"), "0 calls, at least 1 expected"),
        (REQUIRED, ReceivedAnswer(calls=(PAY,), finish_reason="stop"), "finish_reason is 'stop'"),
        (
            ONE_CALL,
            ReceivedAnswer(calls=(PAY, PAY), finish_reason="tool_calls"),
            "2 calls, at most 1 expected",
        ),
        (NONE, ReceivedAnswer(calls=(PAY,), finish_reason="stop"), "1 calls, at most 0 expected"),
        (
            ALLOWED,
            ReceivedAnswer(calls=(PAY,), finish_reason="tool_calls"),
            "pay is not among the allowed tools",
        ),
        (
            REQUIRED,
            ReceivedAnswer(calls=(ReceivedCall("fly", "{}"),), finish_reason="tool_calls"),
            "there is no tool 'fly'",
        ),
        (
            REQUIRED,
            ReceivedAnswer(calls=(ReceivedCall("pay", '{"val'),), finish_reason="tool_calls"),
            "pay: not JSON",
        ),
        (
            REQUIRED,
            ReceivedAnswer(calls=(ReceivedCall("pay", '{"value": 0}'),), finish_reason="tool_calls"),
            "pay: /value: 0 is",
        ),
        (TYPED, ReceivedAnswer(text='{"b": 1}', finish_reason="stop"), '/: "a" is a required property'),
    ],
)
def test_what_a_mode_forbids_is_one_fault_that_says_so(scenario, answer, fault):
    [found] = find_faults(scenario, answer, PARAMETERS)
    assert found.startswith(fault)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "NaN",
        '{"value": 1, "day": "2026-02-31"}',
        '{"value": 1} x',
        '{"value": 1, "tip": 1}',
        '{"value": true}',
    ],
)
def test_a_value_that_does_not_validate_has_faults(text):
    """Formats are asserted, and what json.loads takes beyond JSON is not."""
    assert list(schema_faults(text, PARAMETERS["pay"]))


def test_the_table_of_scenarios_covers_every_mode():
    choices = [scenario.tool_choice for scenario in SCENARIOS]
    plain = {choice for choice in choices if isinstance(choice, str)}
    assert {"required", "auto", "none"} <= plain
    kinds = {choice["type"] for choice in choices if isinstance(choice, dict)}
    assert kinds == {"function", "allowed_tools"}
    assert {scenario.is_streamed for scenario in SCENARIOS} == {True, False}
    assert {len(scenario.toolsets) for scenario in SCENARIOS} >= {0, 1, 2}
    assert any(scenario.inline for scenario in SCENARIOS)
    assert any(scenario.schema for scenario in SCENARIOS)
    assert named("pay") == {"type": "function", "function": {"name": "pay"}}
