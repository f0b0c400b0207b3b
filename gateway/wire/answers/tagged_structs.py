"""Structs that tables describe: the events of streams, which are many and alike."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import defstruct

Row = tuple[str, str, Mapping[str, Any]]
"""The `type` of a struct, what it says, and its other fields with their types."""


def tagged_structs(rows: Iterable[Row], module: str) -> tuple[Any, ...]:
    """A struct for each row, with a name made from its type.

    >>> tagged_structs([("message_stop", "A message is whole.", {})], __name__)[0].__name__
    'MessageStop'
    """
    return tuple(
        defstruct(
            re.sub(r"(?:^|[._])(.)", lambda initial: initial[1].upper(), kind),
            fields.items(),
            tag_field="type",
            tag=kind,
            namespace={"__doc__": says},
            module=module,
        )
        for kind, says, fields in rows
    )
