"""`callgate store`: maintenance of a store."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.commands.command_options import errors_explained, output, with_settings
from gateway.data_dir import open_existing_store
from gateway.setting_sources import load
from gateway.settings import Settings
from gateway.store_upkeep import collect_all, retention_of
from toolspecs.collector import Collected

store = typer.Typer(help="The store of toolsets.", no_args_is_help=True)


@store.command("gc")
@with_settings
def collect(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings.")] = None,
    **options: Any,
) -> None:
    """Remove revisions that are too old, and what nothing refers to; gateways may run meanwhile.

    The settings store_revisions and store_deleted_days say what is kept. Gateways do this themselves about
    once an hour.
    """
    with errors_explained():
        collected = asyncio.run(_collect(load(options, config=config), is_dry_run=dry_run))
        output().print(_described(collected, is_dry_run=dry_run))


async def _collect(settings: Settings, *, is_dry_run: bool) -> Collected:
    existing = open_existing_store(settings)
    try:
        return await collect_all(existing, retention_of(settings), is_dry_run=is_dry_run)
    finally:
        await existing.close()


def _described(collected: Collected, *, is_dry_run: bool) -> str:
    done = "would be removed" if is_dry_run else "were removed"
    text = (
        f"{collected.num_revisions} revisions and {collected.num_contents} contents {done}:"
        f" {collected.num_bytes / 1e6:.1f} MB"
    )
    if collected.num_young:
        text += f"; {collected.num_young} unused contents wait, as somebody wrote them within the last hour"
    return text
