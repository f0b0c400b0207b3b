"""The table of settings, read from the fields of `Settings`.

Command line options, environment variables and `callgate settings` are made from it.

>>> next(row for row in settings_table() if row.name == "max_batch").variable
'CALLGATE_MAX_BATCH'
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from gateway.settings import Settings
from toolspecs.tool import ShownTools

PREFIX = "CALLGATE_"


def variable_of(name: str) -> str:
    """The name of a setting's environment variable: `CALLGATE_PORT` for `port`."""
    return f"{PREFIX}{name.upper()}"


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table of settings."""

    name: str
    type_name: str
    default: str
    description: str
    is_repeatable: bool = False

    @property
    def option(self) -> str:
        """The option of the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment variable."""
        return variable_of(self.name)


def settings_table() -> Iterator[Setting]:
    """Every setting, in the order of the fields."""
    hints = get_type_hints(Settings, include_extras=True)
    for field in msgspec.structs.fields(Settings):
        if get_origin(hints[field.name]) is not Annotated:
            continue  # tables of a TOML file
        value_type, meta = get_args(hints[field.name])
        default = _default_text(field)
        is_repeatable = get_origin(value_type) is tuple
        yield Setting(field.name, _type_name(value_type), default, meta.description, is_repeatable)


def _type_name(value_type: Any) -> str:
    if get_origin(value_type) is Literal:
        return ", ".join(map(str, get_args(value_type)))
    if value_type is ShownTools:
        return ", ".join(ShownTools)
    if args := get_args(value_type):  # optional, or with bounds
        return _type_name(args[0])
    return {str: "text", int: "integer", float: "number", bool: "true, false"}[value_type]


def _default_text(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return "the user's data directory"
    if isinstance(field.default, bool):
        return str(field.default).lower()
    return "" if field.default is None or field.default == () else str(field.default)
