"""Calls that a client sends back, and their results."""

import json
from collections.abc import Collection

from gateway.errors import InvalidField
from toolspecs.nearest import MAX_NAME, instead, shorten


def check_result(call_id: str, called: Collection[str], param: str) -> None:
    """Raise InvalidField unless a call before it has the id: a model would be shown a result of nothing."""
    if call_id not in called:
        reason = f"no call before it has the id {shorten(call_id, MAX_NAME)!r}{instead(call_id, called)}"
        raise InvalidField(param, f"{reason}; send the assistant's message with its calls first")


def check_arguments(arguments: str, param: str) -> None:
    """Raise InvalidField unless the arguments of a call are JSON, or empty, which templates take for none."""
    try:
        json.loads(arguments or "{}")
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidField(
            param, f"the arguments of a call are a JSON text; this is none: {reason}"
        ) from error
