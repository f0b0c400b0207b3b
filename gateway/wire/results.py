"""Results that a client sends of calls."""

from collections.abc import Collection

from gateway.errors import InvalidField
from toolspecs.nearest import MAX_NAME, instead, shorten


def check_result(call_id: str, called: Collection[str], param: str) -> None:
    """Raise InvalidField unless a call before it has the id: a model would be shown a result of nothing."""
    if call_id not in called:
        reason = f"no call before it has the id {shorten(call_id, MAX_NAME)!r}{instead(call_id, called)}"
        raise InvalidField(param, f"{reason}; send the assistant's message with its calls first")
