"""The target: what would repeat a key or an item if a text came to it."""

import json
import re
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHARACTER = re.compile(rb"\\u....|\\.|[\x00-\x21\x23-\x7f]|[\xc0-\xff][\x80-\xbf]+", re.DOTALL)
_SHORT = {json.loads(f'"\\{char}"'): b"\\" + char.encode() for char in '"\\/bfnrt'}


class Target(NamedTuple):
    """The rest of a key or an item seen before, in the canonical form; from its beginning, with a comma."""

    text: bytes
    can_run_out: bool
    """The keys or items that begin like it can run out (see `compiler.guard.dead_ends`)."""
    is_begun: bool
    """It must be written on: a container does not end here."""

    def past(self, escape: bytes) -> "Iterator[Target]":
        """What is left of it where an escape of its first character has begun, in each spelling of that."""
        char = _CHARACTER.match(self.text)
        if char is not None:
            for spelling in _spellings(char.group()):
                if spelling.startswith(escape):
                    yield self._replace(text=spelling[len(escape) :] + self.text[char.end() :])


@cache
def _spellings(canonical: bytes) -> tuple[bytes, ...]:
    """Every way to escape a character that is given as `json.dumps` spells it."""
    char = json.loads(b'"' + canonical + b'"')
    units = char.encode("utf-16-be").hex()
    escaped = b"".join(b"\\u" + units[at : at + 4].encode() for at in range(0, len(units), 4))
    cases = ((bytes([byte]), bytes([byte]).upper()) for byte in escaped)
    spelled = {b"".join(choice).replace(b"\\U", b"\\u") for choice in product(*cases)}
    short = _SHORT.get(char)
    return (*sorted(spelled), *(() if short is None else (short,)))
