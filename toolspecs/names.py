"""The names of toolsets and tools, and references to them such as `name@revision`."""

import re
from dataclasses import dataclass

from toolspecs.errors import InvalidName

TOOLSET_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
TOOLSET_RULE = "1 to 64 of a-z, 0-9, '.', '_' and '-', the first a letter or a digit"

_PART = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9_.:-]+"
TOOL_NAME = re.compile(f"{_PART}(?:/{_PART})*")
"""A tool's name ends the path of its URL, so no part of it is one that a path is rid of on its way."""
TOOL_RULE = "letters, digits, '_', '.', ':', '/' and '-', without '.', '..' or nothing between two '/'"

_REVISION = re.compile(r"[1-9][0-9]{0,17}")


def check_toolset_name(name: str) -> None:
    """Raise `InvalidName` unless `name` names a toolset."""
    if not TOOLSET_NAME.fullmatch(name):
        raise InvalidName("toolset name", name, TOOLSET_RULE)


@dataclass(frozen=True, slots=True)
class ToolsetReference:
    """A toolset by name, at one revision or (`number` None) at its current one."""

    name: str
    number: int | None = None

    @classmethod
    def parse(cls, text: str) -> "ToolsetReference":
        """Read `name` or `name@revision`.

        Raises:
            InvalidName: it is neither.
        """
        name, at, number = text.partition("@")
        check_toolset_name(name)
        if not at:
            return cls(name)
        if not _REVISION.fullmatch(number):
            rule = f"write {name!r} for the current revision, or {f'{name}@1'!r} for the first"
            raise InvalidName("reference to a toolset", text, rule)
        return cls(name, int(number))

    def __str__(self) -> str:
        return self.name if self.number is None else f"{self.name}@{self.number}"
