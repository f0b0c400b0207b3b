"""The logs of only a few toolsets, for a catalog that must not see others."""

from collections.abc import Collection, Sequence

from toolspecs.errors import DamagedEntry, ForbiddenToolset
from toolspecs.store import Store
from toolspecs.toolset_logs import HEADS, Record, ToolsetLogs


class NarrowedLogs(ToolsetLogs):
    """The logs of the toolsets `allowed`. Methods that name another one raise ForbiddenToolset."""

    def __init__(self, store: Store, allowed: Collection[str]) -> None:
        super().__init__(store)
        self._allowed = frozenset(allowed)

    async def names(self) -> list[str]:
        """See `ToolsetLogs.names`; one read, since a store may hold very many others."""
        allowed = sorted(self._allowed)
        heads = await self._store.get_many([HEADS + name for name in allowed])
        return [name for name, head in zip(allowed, heads, strict=True) if head is not None]

    async def head(self, name: str) -> Record | None:
        """See `ToolsetLogs.head`."""
        self._check(name)
        return await super().head(name)

    async def heads(self, names: Sequence[str]) -> list[Record | DamagedEntry | None]:
        """See `ToolsetLogs.heads`."""
        for name in names:
            self._check(name)
        return await super().heads(names)

    async def record(self, name: str, number: int) -> Record | None:
        """See `ToolsetLogs.record`."""
        self._check(name)
        return await super().record(name, number)

    async def first_kept(self, name: str) -> int:
        """See `ToolsetLogs.first_kept`."""
        self._check(name)
        return await super().first_kept(name)

    async def used(self, name: str) -> list[int]:
        """See `ToolsetLogs.used`."""
        self._check(name)
        return await super().used(name)

    async def append(self, record: Record) -> bool:
        """See `ToolsetLogs.append`."""
        self._check(record.summary.name)
        return await super().append(record)

    def _check(self, name: str) -> None:
        if name not in self._allowed:
            raise ForbiddenToolset(name, self._allowed)
