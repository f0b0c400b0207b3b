"""Compares an answer with what must be the same: alone, streamed or not, by another API, by its stop strings."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any, Protocol

from request_fuzz.answers import CHAT, MINIMUM, Answer, call, read_chat
from request_fuzz.drawing import Asked
from request_fuzz.other_apis import (
    COMPLETIONS,
    MESSAGES,
    RESPONSES,
    as_completion,
    as_messages,
    as_response,
    finish_in,
    read_messages,
    read_response,
)
from request_fuzz.promises import broken_promises
from request_fuzz.worlds import World


class Findings(Protocol):
    """Takes what is found, and counts what was compared."""

    counts: Counter[str]

    def find(self, fault: str, asked: Asked | None = None) -> None:
        """Note a fault."""


async def compare(outcome: Findings, opened: World, asked: Asked, answer: Answer) -> None:
    """The other engine writes the same alone, and in every other form that it can be asked for."""
    exchange = await call(opened.app, CHAT, {**asked.body, "model": "alone"})
    if exchange.status != 200 or exchange.error:
        outcome.find(f"alone, it is answered with {exchange.status}: {exchange.content[:300]!r}", asked)
        return
    alone = read_chat(exchange, asked.num_choices)
    _compare(outcome, asked, "alone", answer.what, alone.what)
    if answer.usage and alone.usage:
        usages = [{**each.usage, "prompt_tokens_details": None} for each in (answer, alone)]
        _compare(outcome, asked, "in the usage alone", *usages)
    own = asked.body.get("callgate", {})
    if opened.selection.size > 1 and not {"accept", "particles", "draft"} & own.keys():
        return  # the default selection depends on the form of the answer
    await _other_form(outcome, opened, asked, alone)
    await _other_apis(outcome, opened, asked, alone)
    await _sent_back(outcome, opened, asked, alone)
    await _completion(outcome, opened, asked)
    if "stop" in asked.body and not asked.has_format and "draft" not in own:
        await _stops(outcome, opened, asked, alone)


async def _other_form(outcome: Findings, opened: World, asked: Asked, expected: Answer) -> None:
    """A stream says what the whole answer says, and the other way round; inspecting changes nothing."""
    body = {**asked.body, "model": "alone"}
    if body.pop("stream", False):
        del body["stream_options"]
    else:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    own = asked.body.get("callgate", {})
    if "callgate.inspect" not in opened.refused:
        body["callgate"] = {**own, "inspect": not own.get("inspect", False)}
    other_form = replace(asked, body=body)
    other = await call(opened.app, CHAT, other_form.body)
    if other.status != 200 or other.error:
        outcome.find(f"in the other form: {other.status} {other.content[-300:]!r}", asked)
        return
    answer = read_chat(other, asked.num_choices)
    for fault in broken_promises(other_form, answer, opened):
        outcome.find(f"in the other form, {fault}", asked)
    _compare(outcome, asked, "in the other form", expected.what, answer.what)


async def _other_apis(outcome: Findings, opened: World, asked: Asked, expected: Answer) -> None:
    """The other APIs give the same answer, if they have all fields of the request."""
    for path, body, read in (
        (MESSAGES, as_messages(asked), read_messages),
        (RESPONSES, as_response(asked), read_response),
    ):
        if body is None:
            continue
        outcome.counts[f"also by {path}"] += 1
        is_streamed = asked.body.get("stream", False)
        exchange = await call(opened.app, path, {**body, "model": "alone", "stream": is_streamed})
        if exchange.status != 200 or exchange.error:
            outcome.find(f"{path} answers {exchange.status} {exchange.content[-400:]!r}", asked)
            continue
        choice, usage = read(exchange)
        [chat] = expected.choices
        calls = [(kind, name, _same(text)) for kind, name, text in chat.calls]
        ours = [chat.content, chat.thought, calls]
        theirs = [choice.content, choice.thought, [(k, n, _same(text)) for k, n, text in choice.calls]]
        _compare(outcome, asked, f"by {path}", ours, theirs)
        if choice.finish not in finish_in(path, asked, chat):
            outcome.find(f"{path} ends in {choice.finish}, but Chat Completions in {chat.finish}", asked)
        counted = {name: (expected.usage or {}).get(name) for name in usage}
        if usage != counted:
            outcome.find(f"{path} counts {usage}, but Chat Completions {counted}", asked)


async def _sent_back(outcome: Findings, opened: World, asked: Asked, answer: Answer) -> None:
    """An answer can be sent back, with results of its calls."""
    choice = answer.choices[0]
    calls = [
        {
            "id": f"s{i}",
            "type": kind,
            kind: {"name": name, "input" if kind == "custom" else "arguments": text},
        }
        for i, (kind, name, text) in enumerate(choice.calls)
    ]
    said = {"role": "assistant", "content": choice.content, "reasoning_content": choice.thought}
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in calls]
    sent = [*asked.body["messages"], said | ({"tool_calls": calls} if calls else {}), *results]
    body = {**asked.body, "model": "alone", "messages": [*sent, {"role": "user", "content": "More."}]}
    exchange = await call(opened.app, CHAT, body)
    if exchange.status == 200 and not exchange.error:
        outcome.counts["sent back"] += 1
        for fault in broken_promises(asked, read_chat(exchange, asked.num_choices), opened):
            outcome.find(f"sent back, {fault}", asked)
    elif exchange.error["code"] != "context_length_exceeded":  # type: ignore[index]
        outcome.find(f"sent back, {exchange.status} {exchange.content[-300:]!r}", asked)


async def _completion(outcome: Findings, opened: World, asked: Asked) -> None:
    """A prompt that is no conversation is completed in the same formats, by both engines alike."""
    if (body := as_completion(asked)) is None or opened.refused & set(asked.features):
        return
    tight, alone = [
        await call(opened.app, COMPLETIONS, {**body, "model": model}, address=asked.address)
        for model in ("tight", "alone")
    ]
    if tight.status != 200 or alone.status != 200:
        minimum = MINIMUM.search(tight.error["message"] if tight.error else "")
        if tight.status != alone.status or not minimum:
            outcome.find(f"as a completion, {tight.status} {tight.content[:300]!r}", asked)
        return
    outcome.counts["also as a completion"] += 1
    ours, theirs = (
        [(each["text"], each["finish_reason"]) for each in json.loads(exchange.content)["choices"]]
        for exchange in (tight, alone)
    )
    _compare(outcome, asked, "as a completion alone", ours, theirs)
    for text, _ in ours:
        if asked.has_format and (fault := asked.format_fault(text)):
            outcome.find(f"as a completion, {text!r}: {fault}", asked)
        if not asked.has_format and any(stop in text for stop in body.get("stop", ())):
            outcome.find(f"as a completion, {text!r} contains a stop string", asked)


def _same(text: str) -> str:
    """JSON in one spelling, and any other text as it is."""
    try:
        return json.dumps(json.loads(text))
    except ValueError:
        return text


async def _stops(outcome: Findings, opened: World, asked: Asked, stopped: Answer) -> None:
    """A stop string ends the text where it first comes in the answer without stop strings."""
    body = {**asked.body, "model": "alone"}
    del body["stop"]
    exchange = await call(opened.app, CHAT, body)
    for choice, whole in zip(stopped.choices, read_chat(exchange, asked.num_choices).choices, strict=True):
        at = min((whole.content.find(stop) for stop in asked.stops if stop in whole.content), default=-1)
        expected = [whole.content, whole.calls, whole.finish]
        if at >= 0:
            outcome.counts["stopped"] += 1
            expected = [whole.content[:at], [], "stop"]
        _compare(
            outcome, asked, "by its stop strings", [choice.content, choice.calls, choice.finish], expected
        )


def _compare(outcome: Findings, asked: Asked, what: str, ours: Any, theirs: Any) -> None:
    if ours != theirs:
        outcome.find(f"{what}, the answer is\n    {theirs}, but was\n    {ours}", asked)
