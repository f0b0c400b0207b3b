"""Rounds: a world, a batch of requests at once, and then each of them alone."""

import asyncio
import json
import logging
import random
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from request_fuzz.answers import CHAT, GONE, MINIMUM, Answer, Exchange, call, read_chat
from request_fuzz.comparisons import compare
from request_fuzz.drawing import TOOLSET, Asked, draw_request
from request_fuzz.engine_worlds import ENGINES, engine_world
from request_fuzz.promises import broken_promises
from request_fuzz.subjects import SCHEMAS
from request_fuzz.worlds import World, embedded_world

REPEATS = "repeats all log probabilities"
"""What an error says of an SGLang that is to be started otherwise."""
FAULT_CODES = {"engine_failed", "no_engine"}
"""Of the errors that a client gets if an engine breaks off."""


@dataclass
class Round:
    """What was asked in a round, and what was wrong."""

    number: int
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    is_faulty: bool = False
    """Whether an engine breaks off, which is logged."""

    def find(self, fault: str, asked: Asked | None = None) -> None:
        """Note a fault."""
        told = json.dumps(asked.body, ensure_ascii=False) if asked else ""
        self.findings.append(f"round {self.number}: {fault}\n    {told}")


WORLDS = {
    "embedded": embedded_world,
    **{kind: partial(engine_world, kind=kind) for kind in ENGINES},
}


async def run_round(
    number: int, folder: Path, *, engine: str = "embedded", num_requests: int = 16, only: int | None = None
) -> Round:
    """The round with a number, which says all that is drawn; `only` asks one of its requests."""
    rng, outcome = random.Random(f"round {number}"), Round(number)
    with _errors_logged(outcome):
        async with WORLDS[engine](rng, folder) as opened:
            outcome.is_faulty = opened.is_faulty
            outcome.counts[f"syntax {opened.syntax.name}"] += 1
            tools = [{"type": "function", "function": {"name": n, "parameters": SCHEMAS[n]}} for n in TOOLSET]
            await call(opened.app, "/v1/toolsets/kit", {"tools": tools}, method="PUT")
            batch = [draw_request(rng, opened) for _ in range(num_requests)]
            delays = [rng.choice((0, 0, 0.02, 0.1)) for _ in batch]
            batch = batch if only is None else batch[only : only + 1]
            try:
                exchanges = await asyncio.gather(*map(_ask_later, [opened] * len(batch), batch, delays))
                await opened.settle()
                for asked, exchange in zip(batch, exchanges, strict=True):
                    outcome.counts.update(asked.features)
                    await _check(outcome, opened, asked, exchange)
                await opened.settle()
                outcome.counts.update(opened.counts())
            except Exception:  # noqa: BLE001 - whatever is raised is a finding
                outcome.find(traceback.format_exc()[-1500:])
            outcome.findings = [f"{engine} {opened.told}\n  {finding}" for finding in outcome.findings]
    return outcome


async def _ask_later(opened: World, asked: Asked, delay: float) -> Exchange:
    await asyncio.sleep(delay)
    return await call(opened.app, CHAT, asked.body, address=asked.address, leaves_after=asked.leaves_after)


async def _check(outcome: Round, opened: World, asked: Asked, exchange: Exchange) -> None:
    """Check an answer, and what it is to be compared with."""
    outcome.counts[f"status {exchange.status}"] += 1
    if exchange.status == GONE:
        if asked.leaves_after is None:
            outcome.find("the request was given up", asked)
    elif exchange.error:
        await _check_error(outcome, opened, asked, exchange)
    else:
        answer = read_chat(exchange, asked.num_choices)
        if "callgate.inspect" in opened.refused & set(asked.features):
            outcome.find("an engine that tells no masks is inspected", asked)
        for fault in broken_promises(asked, answer, opened):
            outcome.find(fault, asked)
        _count(outcome.counts, answer)
        if asked.is_repeatable and opened.honours_seeds and not opened.is_faulty:
            await compare(outcome, opened, asked, answer)


def _count(counts: Counter[str], answer: Answer) -> None:
    counts["calls"] += sum(len(choice.calls) for choice in answer.choices)
    counts["closed by budget"] += answer.extension.get("closed_by") == "budget"
    counts["cached"] += bool(answer.usage and answer.usage["prompt_tokens_details"]["cached_tokens"])
    counts.update(f"ends in {choice.finish}" for choice in answer.choices)


async def _check_error(outcome: Round, opened: World, asked: Asked, exchange: Exchange) -> None:
    """Whether an error may be: a prompt or a budget that does not fit, or a deadline."""
    error = exchange.error
    assert error is not None
    code, message = error.get("code"), error["message"]
    outcome.counts[f"error {code}"] += 1
    if code == "context_length_exceeded" or (code == "deadline_exceeded" and "timeout" in asked.body):
        return
    if exchange.status == 400 and error.get("param") in opened.refused & set(asked.features):
        return
    if (opened.is_faulty and code in FAULT_CODES) or (opened.may_be_full and exchange.status == 429):
        return
    if code == "engine_refused" and REPEATS in message and "logprobs" in asked.body:
        return
    if code == "unsupported_schema" and (asked.has_drawn or "cannot be told from" in message):
        return
    limit = asked.body.get("max_tokens") or asked.body.get("max_completion_tokens")
    if exchange.status == 400 and (minimum := MINIMUM.search(message)):
        await _check_minimum(outcome, opened, asked, int(minimum[1]), limit)
        return
    outcome.find(f"{exchange.status} {error}", asked)


async def _check_minimum(
    outcome: Round, opened: World, asked: Asked, minimum: int, limit: int | None
) -> None:
    """With the named minimum as its budget, a request is answered, unless its prompt leaves too little."""
    if limit is not None and limit >= minimum and minimum < opened.context_length:
        outcome.find(f"{limit} tokens are refused, although {minimum} are enough", asked)
    body = {**asked.body, "model": "alone", "stream": False}
    for name in ("max_completion_tokens", "stream_options", "timeout"):
        body.pop(name, None)
    for budget in (minimum, minimum - 1):
        again = await call(opened.app, CHAT, {**body, "max_tokens": budget})
        if again.status == 200 and budget == minimum:
            at_minimum = replace(asked, body={**body, "max_tokens": budget})
            for fault in broken_promises(at_minimum, read_chat(again, asked.num_choices), opened):
                outcome.find(f"at the minimum {minimum}, {fault}", asked)
            outcome.counts["answered at the minimum"] += 1
        elif again.status != 400 or not (
            (again.error or {})["code"] == "context_length_exceeded"
            or (budget < minimum or minimum >= opened.context_length)
        ):
            outcome.find(f"with {budget} tokens of {minimum}, {again.status} {again.content[:300]!r}", asked)


@contextmanager
def _errors_logged(outcome: Round) -> Iterator[None]:
    """What is logged as an error is a finding."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if REPEATS in text or (outcome.is_faulty and "the engine 127.0.0.1" in text):
                return
            text += traceback.format_exc()[-1500:] if record.exc_info else ""
            outcome.find(f"logged: {text}")

    handler = Handler(logging.ERROR)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
