"""The operator's redactor: a function that changes captured content before it is recorded."""

import pkgutil
from collections.abc import Callable

from gateway.errors import SettingsError
from gateway.settings import Settings

Redactor = Callable[[str, str], str | None]
"""Gets the name of an attribute and its text; returns the text to record, or None for none."""


def as_it_is(attribute: str, text: str) -> str:  # noqa: ARG001 - a redactor
    """The redactor that changes nothing."""
    return text


def read_redactor(settings: Settings) -> Redactor | None:
    """The redactor, None if no content is captured; imports the module that `content_redactor` names.

    Raises:
        SettingsError: there is no such function, or it would never be called because no content is captured.
    """
    name = settings.content_redactor
    if not settings.capture_content:
        if name is not None:
            reason = "no content is captured; set capture_content too, or leave this out"
            raise SettingsError("content_redactor", "", reason)
        return None
    if name is None:
        return as_it_is
    try:
        named = pkgutil.resolve_name(name)
    except Exception as error:
        reason = f"{name!r} cannot be imported: {type(error).__name__}: {error}"
        raise SettingsError("content_redactor", "", reason) from error
    if not callable(named):
        raise SettingsError("content_redactor", "", f"{name!r} is not a function")
    redactor: Redactor = named
    return redactor
