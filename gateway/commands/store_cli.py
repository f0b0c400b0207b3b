"""`callgate store`: maintenance of a store."""

import asyncio

from gateway.data_dir import open_existing_store
from gateway.settings import Settings
from gateway.store_upkeep import collect_all, retention_of
from toolspecs.collector import Collected


def collect(settings: Settings, *, is_dry_run: bool) -> str:
    """Remove what is old from the store in the settings; returns a description of what was removed.

    Raises:
        SettingsError, StoreError: the store does not exist, cannot be opened, or failed.
    """
    return _described(asyncio.run(_collect(settings, is_dry_run=is_dry_run)), is_dry_run=is_dry_run)


async def _collect(settings: Settings, *, is_dry_run: bool) -> Collected:
    store = open_existing_store(settings)
    try:
        return await collect_all(store, retention_of(settings), is_dry_run=is_dry_run)
    finally:
        await store.close()


def _described(collected: Collected, *, is_dry_run: bool) -> str:
    done = "would be removed" if is_dry_run else "were removed"
    text = (
        f"{collected.num_revisions} revisions and {collected.num_contents} contents {done}:"
        f" {collected.num_bytes / 1e6:.1f} MB"
    )
    if collected.num_young:
        text += f"; {collected.num_young} unused contents wait, as somebody wrote them within the last hour"
    return text
