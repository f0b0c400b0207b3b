"""What every Python script asks, the tool that it runs, and how it tells what happened."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from pydantic import BaseModel, ConfigDict

URL = os.environ["CALLGATE_URL"]
FIRST = "Refund a payment: payment pay_4821, reason duplicate."
SECOND = "Refund a payment: payment pay_1765, reason fraud."
calls: list[dict[str, str]] = []


def refund_payment(payment: str, reason: str) -> str:
    """Refund a payment.

    Args:
        payment: The payment's id.
        reason: Why it is refunded.
    """
    assert isinstance(payment, str), payment
    assert isinstance(reason, str), reason
    calls.append({"payment": payment, "reason": reason})
    return '{"refund": "re_77"}'


class Review(BaseModel):
    """What a request is about."""

    model_config = ConfigDict(extra="forbid")  # a small model goes on and on where it may add keys

    reason: Literal["duplicate", "fraud", "other"]
    is_urgent: bool


@contextmanager
def step(name: str, num_calls: int = 0) -> Iterator[None]:
    """One step of the scenario, which must run the tool at least `num_calls` times."""
    before = len(calls)
    try:
        yield
        made = len(calls) - before
        why = f"{made} calls instead of {num_calls}" if made < num_calls else ""
    except Exception as error:  # noqa: BLE001 - whatever the client raised is the finding
        why = f"{type(error).__name__}: {error}"
    # On a line of its own, whatever the client printed.
    print("\n" + json.dumps({"step": name, "why": why, "calls": calls[before:]}), flush=True)
