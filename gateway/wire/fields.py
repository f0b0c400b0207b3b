"""Fields that the APIs of OpenAI's kind share."""

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

from gateway.errors import InvalidField
from toolspecs.errors import InvalidName
from toolspecs.nearest import MAX_NAME, instead, shorten
from toolspecs.tool import ChoiceMode, ToolChoice
from toolspecs.toolset import ToolsetReference

MAX_TOOLSETS = 64
"""Of one request; each is looked up."""

Fixed = Mapping[str, tuple[tuple[Any, ...], str]]
"""Fields of which some values ask for no more than what happens anyway: these values, and why no others."""


def supported(
    body: Any, *, ignored: Collection[str], fixed: Fixed, refused: Mapping[str, str]
) -> dict[str, Any]:
    """The fields of a body that are left to be read.

    Raises:
        InvalidField: the body is no object, a field is `refused`, or has none of its `fixed` values.
    """
    if not isinstance(body, dict):
        raise InvalidField("", "the body must be a JSON object")
    for name, (values, reason) in fixed.items():
        if body.get(name) is not None and body[name] not in values:
            shown = shorten(json.dumps(body[name]), MAX_NAME)
            wanted = " or ".join(map(json.dumps, values))
            raise InvalidField(name, f"{shown} is not supported: {reason}; leave it out, or write {wanted}")
    for name, reason in refused.items():
        if body.get(name) is not None:
            raise InvalidField(name, reason)
    read = {*ignored, *fixed, *refused}
    return {name: value for name, value in body.items() if name not in read}


def read_toolsets(field: str | list[str] | None, header: str | None) -> tuple[ToolsetReference, ...]:
    """`toolset` and `X-Toolset`, each named once; raises InvalidField."""
    named = [field] if isinstance(field, str) else field or []
    refs: dict[ToolsetReference, None] = {}
    for source, texts in (("toolset", named), ("X-Toolset", header.split(",") if header else [])):
        if len(texts) > MAX_TOOLSETS:
            raise InvalidField(source, f"at most {MAX_TOOLSETS} are joined, this names {len(texts)}")
        for text in texts:
            try:
                refs[ToolsetReference.parse(text.strip())] = None
            except InvalidName as error:
                raise InvalidField(source, str(error)) from error
    return tuple(refs)


def read_timeout(field: float | None, header: str | None) -> float | None:
    """Seconds; the shorter of `timeout` and `X-Request-Timeout`. Raises InvalidField."""
    timeouts = [field] if field is not None else []
    if header is not None:
        try:
            timeouts.append(float(header))
        except ValueError:
            timeouts.append(math.nan)
    if not all(0 < timeout < math.inf for timeout in timeouts):
        raise InvalidField("X-Request-Timeout", f"{header!r} is no number of seconds above 0")
    return min(timeouts, default=None)


def allowed_choice(mode: str, names: Collection[str], param: str) -> ToolChoice:
    """The choice among some functions, listed at `param`; raises InvalidField."""
    if not names:
        raise InvalidField(param, "it is empty; use `none` for no tool at all")
    return ToolChoice(ChoiceMode(mode), tuple(dict.fromkeys(names)))


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
