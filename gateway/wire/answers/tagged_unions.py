"""Unions of structs that tables describe: the events of streams, which are many and alike."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Union

from msgspec import defstruct

Row = tuple[str, str, Mapping[str, Any]]
"""The `type` of a struct, what it says, and its other fields with their types."""


def tagged_union(rows: Iterable[Row], module: str) -> Any:
    """The union of a struct for each row, with a name made from its type.

    >>> union = tagged_union([("ping", "It means nothing.", {}), ("message_stop", "The end.", {})], __name__)
    >>> [struct.__name__ for struct in union.__args__]
    ['Ping', 'MessageStop']
    """
    structs = tuple(
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
    return Union[structs]  # noqa: UP007 - it is made of a tuple
