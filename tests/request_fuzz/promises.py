"""What is promised of an answer, checked against the request alone."""

import math
from collections.abc import Iterator
from typing import Any

from request_fuzz.answers import Answer, Choice
from request_fuzz.drawing import Asked
from request_fuzz.subjects import input_fault, json_fault, order_fault, undeclared_key
from request_fuzz.worlds import World

ROUNDING = 1e-3
"""How much a sum of probabilities in single precision may be off."""


def broken_promises(asked: Asked, answer: Answer, world: World) -> Iterator[str]:
    """What is wrong with an answer; nothing if it keeps every promise."""
    yield from answer.faults
    for index, choice in enumerate(answer.choices):
        for fault in _choice_faults(asked, choice, answer, world):
            yield f"choice {index}: {fault}"
    yield from _usage_faults(asked, answer, world)
    yield from _extension_faults(answer, world)
    yield from _inspection_faults(answer)


def _choice_faults(asked: Asked, choice: Choice, answer: Answer, world: World) -> Iterator[str]:
    yield from _call_faults(asked, choice, world)
    yield from _text_faults(asked, choice, world)
    yield from _finish_faults(asked, choice, answer, world)
    if asked.body.get("logprobs"):
        yield from _logprob_faults(asked, choice, world)
    elif choice.logprobs is not None:
        yield "it has log probabilities that nobody asked for"


def _call_faults(asked: Asked, choice: Choice, world: World) -> Iterator[str]:
    calls = choice.calls
    if calls and asked.mode == "none":
        yield f"calls {calls} although the choice is none"
    if not calls and asked.mode in ("required", "named"):
        yield "no call"
    is_single = asked.mode == "named" or asked.body.get("parallel_tool_calls") is False
    if len(calls) > 1 and (is_single or world.syntax.separator is None):
        yield f"{len(calls)} calls"
    for kind, name, text in calls:
        if name not in asked.names:
            yield f"calls {name!r}, which is not allowed"
        elif (kind == "custom") != (name in asked.customs):
            yield f"calls {name!r} as {kind}"
        elif kind == "custom":
            if fault := input_fault(asked.customs[name], text):
                yield f"{name} has the input {text!r}: {fault}"
        elif fault := _argument_fault(asked, asked.schemas[name], text):
            yield f"{name} has the arguments {text!r}: {fault}"


def _argument_fault(asked: Asked, schema: Any, text: str) -> str:
    if fault := json_fault(schema, text):
        return fault
    if not text.startswith("{"):
        return "not an object"
    return "" if "$schema" in schema else _narrowed_fault(asked, schema, text)


def _narrowed_fault(asked: Asked, schema: Any, text: str) -> str:
    if key := undeclared_key(schema, text):
        return f"the key {key!r} is not declared"
    is_any = asked.body.get("callgate", {}).get("key_order") == "any"
    return "" if is_any else order_fault(schema, text)


def _text_faults(asked: Asked, choice: Choice, world: World) -> Iterator[str]:
    syntax, text = world.syntax, choice.content
    if choice.thought and not (syntax.thought or any(frame.is_thought for frame in syntax.messages)):
        yield f"a thought {choice.thought!r}"
    if not asked.has_format:
        for stop in asked.stops:
            if stop in text:
                yield f"the text {text!r} contains the stop string {stop!r}"
        if asked.mode != "none" and not world.has_markers and syntax.trigger and syntax.trigger in text:
            yield f"the text {text!r} contains the trigger"
    elif not choice.calls and asked.mode in {"auto", "none"}:
        if fault := _format_fault(asked, text):
            yield f"the answer {text!r}: {fault}"
    elif text.strip() and not syntax.messages:
        yield f"text {text!r} beside calls, although an answer has a format"


def _format_fault(asked: Asked, text: str) -> str:
    fault = asked.format_fault(text)
    if fault or asked.answer_schema is None or not text.startswith("{"):
        return fault
    return _narrowed_fault(asked, asked.answer_schema, text)


def _finish_faults(asked: Asked, choice: Choice, answer: Answer, world: World) -> Iterator[str]:
    finish = choice.finish
    if finish not in ("stop", "length", "tool_calls"):
        yield f"the finish reason {finish}"
    if finish == "tool_calls" and (not choice.calls or asked.mode == "named"):
        yield "ends in tool_calls"
    if choice.calls and finish == "stop" and asked.mode != "named":
        yield "calls, but ends in stop"
    if choice.calls and finish == "length" and answer.extension["closed_by"] not in world.closers:
        yield "calls and ends in length, but the budget closed nothing"


def _logprob_faults(asked: Asked, choice: Choice, world: World) -> Iterator[str]:
    tokens = choice.logprobs or []
    for token in tokens:
        yield from _alternative_faults(token, asked.body["top_logprobs"])
    written, text = (
        b"".join(bytes(token["bytes"]) for token in tokens).decode(errors="replace"),
        choice.content,
    )
    if written.endswith(text) and world.syntax.frames_prose:
        return  # a token may also end what comes before the text
    if not (world.tells_each_logprob or text.isascii()):
        return
    is_cut = bool(asked.body.get("stop") or choice.calls)
    if not (written.startswith(text) if is_cut else written == text) and "\ufffd" not in text:
        yield f"the tokens with log probabilities are {written!r}, but the text is {text!r}"


def _alternative_faults(token: dict[str, Any], num_asked: int) -> Iterator[str]:
    values, logprob = [other["logprob"] for other in token["top_logprobs"]], token["logprob"]
    if not (math.isfinite(logprob) and logprob <= ROUNDING):
        yield f"the log probability {logprob} of {token['token']!r}"
    if len(values) > num_asked:
        yield f"{len(values)} alternatives"
    if sum(map(math.exp, values)) > 1 + ROUNDING:
        yield f"the alternatives of {token['token']!r} have more than 1 together"
    if values != sorted(values, reverse=True):
        yield "the alternatives are not in order"
    if values and logprob > values[0] + ROUNDING:
        yield f"{token['token']!r} is more probable than the most probable one"


def _usage_faults(asked: Asked, answer: Answer, world: World) -> Iterator[str]:
    usage = answer.usage
    if usage is None:
        yield "no usage"
        return
    written = usage["completion_tokens"]
    if usage["total_tokens"] != usage["prompt_tokens"] + written:
        yield f"the usage does not add up: {usage}"
    if usage["completion_tokens_details"]["reasoning_tokens"] > written:
        yield f"more thoughts than tokens: {usage}"
    if usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"]:
        yield f"more was cached than the prompt: {usage}"
    limit = asked.body.get("max_tokens") or asked.body.get("max_completion_tokens") or world.context_length
    room = min(limit, world.context_length - usage["prompt_tokens"])
    if written > asked.num_choices * room:
        yield f"{written} tokens, although each of {asked.num_choices} choices has room for {room}"
    if asked.num_choices == 1:
        most = world.default_max_tokens if limit == world.context_length else limit
        yield from _single_faults(asked, answer, world, written, min(room, most))
    if asked.body.get("callgate", {}).get("inspect") and len(answer.tokens) != written:
        yield f"{len(answer.tokens)} tokens were inspected, but {written} written"


def _single_faults(asked: Asked, answer: Answer, world: World, written: int, most: int) -> Iterator[str]:
    """Of an answer with one choice, which has so many tokens of the most that it may have."""
    [choice] = answer.choices
    has_ended = choice.finish != "length" or answer.extension["closed_by"] in world.closers
    if not has_ended and written < most and not _is_after_draft(answer):
        yield f"ends in length after {written} tokens of {most}"
    if written < world.least_tokens:
        yield "no tokens"
    # Nothing is wrong with a text that a faulty engine ends early.
    may_stop = world.is_faulty or world.syntax.frames_prose
    if choice.finish == "stop" and written < _least(asked) and not may_stop:
        yield f"ends after {written} tokens, although it is to have {_least(asked)}"


def _least(asked: Asked) -> int:
    """How many tokens the request wants at least; a grammar may end its answer before."""
    is_free = not (asked.names or asked.has_format)
    return asked.body.get("min_tokens", 0) if is_free else 0


def _is_after_draft(answer: Answer) -> bool:
    """Whether the prompt of the answer also had a broken draft, which leaves less of the context."""
    return any(told["broken"] and told["strategy"] == "draft" for told in answer.extension["selections"])


def _extension_faults(answer: Answer, world: World) -> Iterator[str]:
    extension, usage = answer.extension, answer.usage
    if extension["closed_by"] not in {None, *world.closers}:
        yield f"{extension['closed_by']} closed it"
    if usage and extension["forced_tokens"] > usage["completion_tokens"]:
        yield f"{extension['forced_tokens']} forced tokens of {usage['completion_tokens']}"
    if extension["closed_by"] and not any(choice.finish == "length" for choice in answer.choices):
        yield "the budget closed a choice, but none ends in length"
    for told in extension["selections"]:
        if told["log_weight"] is not None and told["log_weight"] > ROUNDING:
            yield f"a weight above 1: {told}"


def _inspection_faults(answer: Answer) -> Iterator[str]:
    for token in answer.tokens:
        removed = token["mass_removed"]
        if removed is not None and not 0 <= removed <= 1:
            yield f"the mask removed {removed}"
        if sum(each["probability"] for each in token["candidates"]) > 1 + ROUNDING:
            yield f"the candidates of {token['text']!r} have more than 1 together"
        own = [each for each in token["candidates"] if each["id"] == token["id"]]
        if any(each["removed"] for each in own) or (token["candidates"] and not own):
            yield f"the mask removed {token['text']!r}, which was written"
        removed_first, kept_first = (
            max(
                (each["probability"] for each in token["candidates"] if each["removed"] == is_removed),
                default=0,
            )
            for is_removed in (True, False)
        )
        if token["cause"] == "free" and removed_first > kept_first:
            yield f"{token['text']!r} is free, but the first choice was removed"
