"""Publishes grammars: external engines read the parts of a grammar from the store."""

import math
import time
from collections.abc import Mapping

from compiler.cache.grammar_cache import GrammarCache
from compiler.cache.single_flight import SingleFlight
from compiler.recipe import GrammarRecipe
from runtime.errors import GrammarNotStored, RequestRefused
from toolspecs.errors import StoreUnavailable

PUBLISHED_S = 300.0
"""How long a part counts as published before the store is asked for it again."""
_MAX_PUBLISHED = 65_536


class PublishedGrammars:
    """Publishes the grammars of requests, and remembers for a while that the store has their parts.

    Looking for a part in the store reads all of it. Grammars of the same tools have the same parts, whatever
    the tool choice.
    """

    def __init__(self) -> None:
        self._grammars: GrammarCache | None = None
        self._seen_at: dict[str, float] = {}
        self._publishing: SingleFlight[bool] = SingleFlight()

    def start(self, grammars: GrammarCache) -> None:
        """Begin to publish grammars of this cache."""
        self._grammars = grammars

    def parts(self, recipe: GrammarRecipe) -> Mapping[str, bytes]:  # noqa: ARG002 - the protocol's
        """No parts: engines read them from the store."""
        return {}

    async def publish(self, recipe: GrammarRecipe, client_id: str | None, *, is_again: bool = False) -> None:
        """Make sure that the store has the parts of a grammar; new entries count for the client.

        The client None is the gateway itself. `is_again`: an engine has just failed. The store may have lost
        a part, and vLLM's error does not tell, so it is looked for in any case.

        Raises:
            RequestRefused: the parts cannot be stored. No engine is asked, so none looks broken.
            GrammarNotStored: the store fails, and is not known to have the parts.
        """
        grammars, now = self._grammars, time.monotonic()
        assert grammars is not None, "no request comes before the start"
        if is_again:
            self._seen_at |= dict.fromkeys(recipe.keys, -math.inf)
        keys = [key for key in recipe.keys if now - self._seen_at.get(key, -math.inf) >= PUBLISHED_S]
        if not keys:
            return
        try:
            is_stored = await self._publishing.join(
                f"{client_id} {hash(tuple(keys))} {recipe.digest}", lambda: grammars.publish(keys, client_id)
            )
        except StoreUnavailable as error:
            if all(key in self._seen_at for key in keys):  # engines that have read them keep them in memory
                return
            raise GrammarNotStored from error
        if not is_stored:
            raise RequestRefused(
                "external engines cannot read the compiled grammar of this request: this client has used up"
                " its room for stored grammars for now, or the gateway's memory has no room; send tools and"
                " formats that were sent before, or fewer of them",
                "tools",
            )
        if len(self._seen_at) >= _MAX_PUBLISHED:
            self._seen_at.clear()
        self._seen_at |= dict.fromkeys(keys, time.monotonic())

    async def close(self) -> None:
        """Cancel what is being published."""
        await self._publishing.cancel()
