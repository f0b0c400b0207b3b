"""JSON Pointers (RFC 6901)."""

from typing import Any

from toolspecs.bundle import pointer_keys


def escape(token: str) -> str:
    """A reference token as a pointer spells it."""
    return token.replace("~", "~0").replace("/", "~1")


def child(pointer: str, *tokens: str) -> str:
    """The pointer to a descendant."""
    return "".join((pointer, *(f"/{escape(token)}" for token in tokens)))


def resolve(document: Any, pointer: str) -> Any:
    """The value at `pointer`, or None where there is none."""
    value = document
    for key in pointer_keys(pointer):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
