"""Maintains the store while the gateway serves: about once an hour it removes what is old.

If several gateways share a store, one of them does so each time.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from gateway.access.api_keys import list_tenant_stores
from gateway.settings import Settings
from toolspecs.errors import StoreError, StoreFull
from toolspecs.revisions.collector import Collected, Collector, Retention
from toolspecs.store import Store

FIRST_AFTER_S = 60.0
EVERY_S = 3600.0
COLLECTED = "toolset/collected"
"""A key that stands until it is time to collect again."""

_log = logging.getLogger(__name__)


def retention_of(settings: Settings) -> Retention:
    """The retention that the settings ask for."""
    return Retention(settings.store_revisions, settings.store_deleted_days)


@asynccontextmanager
async def collecting(store: Store, retention: Retention) -> AsyncIterator[None]:
    """Collect regularly for the length of the block."""
    task = asyncio.create_task(_collect_regularly(store, retention))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _collect_regularly(store: Store, retention: Retention) -> None:
    pause = FIRST_AFTER_S
    while True:
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 (spreads gateways)
        pause = EVERY_S
        try:
            await collect_if_due(store, retention)
        except StoreError as error:
            _log.warning("old revisions could not be collected now: %s", error)
        except Exception:  # noqa: BLE001 - a bug here must not end what the gateway serves
            _log.exception("collecting old revisions failed")


async def collect_all(store: Store, retention: Retention, *, is_dry_run: bool = False) -> Collected:
    """Collect what is old, including the tenants' parts of the store.

    One damaged entry must not end it for all tenants, so the error of one part is logged.

    Raises:
        StoreUnavailable: the store failed in every part.
    """
    started = time.time()  # before keys are listed: whatever is written from now on is too new to be removed
    parts: list[Store] = [store, *await list_tenant_stores(store)]
    total, num_failed = Collected(), 0
    for part in parts:
        try:
            total += await Collector(part, retention, started, is_dry_run=is_dry_run).collect()
        except StoreError as error:
            num_failed += 1
            if num_failed == len(parts):
                raise
            _log.warning("old revisions of %r could not be collected now: %s", part, error)
        except Exception:  # noqa: BLE001 - a bug here must not end it for the other tenants
            _log.exception("collecting old revisions of %r failed", part)
    return total


async def collect_if_due(store: Store, retention: Retention) -> bool:
    """Collect, unless a gateway did so within the last hour; returns whether it did."""
    if await store.get(COLLECTED) is not None:
        return False
    with suppress(StoreFull):
        await store.set(COLLECTED, b"", EVERY_S)
    collected = await collect_all(store, retention)
    if collected.num_revisions or collected.num_contents:
        _log.info(
            "collected %d revisions and %d contents, %d bytes",
            collected.num_revisions,
            collected.num_contents,
            collected.num_bytes,
        )
    return True
