"""Tenants: each has its own part of the store for its toolsets."""

from toolspecs.namespaces import NamespacedStore
from toolspecs.store import Store

TENANTS = "tenants/"
"""Below it, a key for each tenant that ever had an API key."""


def store_of(store: Store, tenant: str) -> Store:
    """The part of a store that holds the toolsets of a tenant."""
    return NamespacedStore(store, f"tenant/{tenant}/")


async def all_stores(store: Store) -> list[Store]:
    """The store itself, for keys without a tenant, and the parts of it of all tenants."""
    tenants = [key.removeprefix(TENANTS) async for key in store.scan(TENANTS)]
    return [store, *(store_of(store, tenant) for tenant in sorted(tenants))]
