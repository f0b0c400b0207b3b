"""Stores around another one: out for a while, or with a driver that repeats commands."""

from toolspecs.errors import StoreUnavailable


class OutageStore:
    """A store that can be out."""

    def __init__(self, store):
        self._store = store
        self.is_out = False

    def __getattr__(self, name):
        if self.is_out:
            raise StoreUnavailable("a test", "it is out")
        return getattr(self._store, name)


class RepeatingStore:
    """A store whose driver loses the first answer to each change, and repeats the change."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        async def twice(*arguments):
            await getattr(self._store, name)(*arguments)
            return await getattr(self._store, name)(*arguments)

        return twice if name in {"compare_and_set", "delete"} else getattr(self._store, name)
