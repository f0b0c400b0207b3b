"""`callgate store`: maintenance of a store."""

import asyncio
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer

from gateway.commands.command_options import ConfigOption, with_store
from gateway.commands.terminal import errors_explained, output, say
from gateway.data_dir import open_existing_store
from gateway.errors import SettingsError
from gateway.setting_sources import load_with_sources
from gateway.settings import Settings
from gateway.store_upkeep import collect_all, retention_of
from toolspecs.revisions.collector import Collected
from toolspecs.store import Store

store = typer.Typer(help="The store of toolsets.", no_args_is_help=True)

_EVERYTHING: Mapping[str, Mapping[str, Any]] = {
    "store_revisions": {"revisions": sys.maxsize},
    "store_deleted_days": {"deleted_days": math.inf},
}
"""The settings that say what is kept, and the retention with which each would keep everything."""


@store.command("gc")
@with_store(*_EVERYTHING)
def collect(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove revisions though only a default says that they are too old.")
    ] = False,
    config: ConfigOption = None,
    **options: Any,
) -> None:
    """Remove revisions that are too old, and what nothing refers to; gateways may run meanwhile.

    The settings store_revisions and store_deleted_days say what is kept: give them as the gateways have them.
    Gateways do this themselves about once an hour.
    """
    with errors_explained():
        settings, source_of = load_with_sources(options, config=config)
        defaults = [] if yes or dry_run else [name for name in _EVERYTHING if name not in source_of]
        collected = asyncio.run(_collect(settings, defaults, is_dry_run=dry_run))
        say(output(), _kept(settings, source_of))
        output().print(_described(collected, is_dry_run=dry_run))


async def _collect(settings: Settings, defaults: Iterable[str], *, is_dry_run: bool) -> Collected:
    existing = open_existing_store(settings)
    try:
        await _check_defaults(existing, settings, defaults)
        return await collect_all(existing, retention_of(settings), is_dry_run=is_dry_run)
    finally:
        await existing.close()


async def _check_defaults(existing: Store, settings: Settings, defaults: Iterable[str]) -> None:
    """Refuse to remove revisions that are too old only by the `defaults` of settings: gateways may keep more.

    Raises:
        SettingsError: a default would remove revisions.
    """
    retention = retention_of(settings)
    for name in defaults:
        kept = replace(retention, **_EVERYTHING[name])
        removed, others = [
            (await collect_all(existing, each, is_dry_run=True)).num_revisions for each in (retention, kept)
        ]
        if removed > others:
            reason = (
                f"nothing sets it here, and its default, {getattr(settings, name):g}, would remove"
                f" {removed - others} revisions that gateways may keep; set it as they do, or add --yes"
            )
            raise SettingsError(name, "", reason)


def _kept(settings: Settings, source_of: Mapping[str, str]) -> str:
    revisions, days = (
        f"from {source_of[name]}" if name in source_of else "the default" for name in _EVERYTHING
    )
    return (
        f"kept: {settings.store_revisions} revisions of each toolset ({revisions}),"
        f" deleted toolsets for {settings.store_deleted_days:g} days ({days})"
    )


def _described(collected: Collected, *, is_dry_run: bool) -> str:
    done = "would be removed" if is_dry_run else "were removed"
    text = (
        f"{collected.num_revisions} revisions and {collected.num_contents} contents {done}:"
        f" {collected.num_bytes / 1e6:.1f} MB"
    )
    if collected.num_young:
        text += f"; {collected.num_young} unused contents wait, as somebody wrote them within the last hour"
    return text
