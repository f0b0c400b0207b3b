"""Catalogs and collectors whose clock tests move."""

import random

from toolspecs import Catalog, Collector, Retention, Tool, Toolset
from toolspecs.revisions.quota import Usage


def toolset(name, content, size=200):
    rng = random.Random(content)  # what cannot be compressed
    description = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(size))
    return Toolset(name, (Tool("f", description, {"type": "object", "title": str(content)}),))


def catalog_of(store, clock, **options):
    return Catalog(store, clock=clock, **options)


def collector_of(store, clock, *, is_dry_run=False, **retention):
    return Collector(store, Retention(**retention), clock.timestamp(), is_dry_run=is_dry_run)


async def usage(store, owner):
    counters = [await store.get(f"toolset/usage/{kind}/{owner}") for kind in ("bytes", "toolsets")]
    return Usage(*[int(counter or 0) for counter in counters])
