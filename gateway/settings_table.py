"""The table of settings: what the command line takes and prints."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from gateway.settings import Settings, variable_of


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table of settings."""

    name: str
    type_name: str
    default: str
    description: str

    @property
    def option(self) -> str:
        """The command line's spelling."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment's spelling."""
        return variable_of(self.name)


def settings_table() -> Iterator[Setting]:
    """Every setting, in order."""
    hints = get_type_hints(Settings, include_extras=True)
    for field in msgspec.structs.fields(Settings):
        value_type, meta = get_args(hints[field.name])
        default = _default_text(field)
        yield Setting(field.name, _type_name(value_type), default, meta.description)


def _type_name(value_type: Any) -> str:
    if get_origin(value_type) is Literal:
        return ", ".join(map(str, get_args(value_type)))
    if args := get_args(value_type):  # optional, or with bounds
        return _type_name(args[0])
    return {str: "text", int: "integer", float: "number", bool: "true, false"}[value_type]


def _default_text(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return "the user's data directory"
    if isinstance(field.default, bool):
        return str(field.default).lower()
    return "" if field.default is None else str(field.default)
