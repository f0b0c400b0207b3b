"""Options that commands have in common: those for settings, of which each has one."""

import inspect
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gateway.settings_table import settings_table

ConfigOption = Annotated[Path | None, typer.Option(help="TOML file of settings.")]


def with_settings(command: Callable[..., None], names: Collection[str] | None = None) -> Callable[..., None]:
    """Give a command an option for every setting; the command receives those that were given.

    With `names`, only for these settings.
    """
    options = [
        inspect.Parameter(
            setting.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                list[str] | None if setting.is_repeatable else str | None,
                typer.Option(
                    setting.option,
                    help=setting.description + (f" Default: {setting.default}." if setting.default else ""),
                    metavar=setting.type_name.upper() if " " not in setting.type_name else "WORD",
                    show_default=False,
                ),
            ],
        )
        for setting in settings_table()
        if names is None or setting.name in names
    ]
    own = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
    command.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*own, *options)}
    return command


def with_store(*others: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options for the settings that say where the store is, and for `others`."""
    return partial(with_settings, names=("data_dir", "store", "store_password", *others))
