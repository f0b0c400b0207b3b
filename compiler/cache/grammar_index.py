"""The index of digests: the recipe by which a grammar was linked, and the key of each of its parts.

Digests stand in reports, traces and the answers of requests. The index knows those that this process has
used, as long as it has room; the grammars themselves are in the grammar cache.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.cache_entry import TOOL, CacheEntry
from compiler.grammar.grammar import Grammar
from compiler.grammar.json_form import grammar_from_json
from compiler.recipe import GrammarRecipe
from toolspecs.lru_cache import LruCache

_INDEX_BYTES = 8 << 20
_BYTES_PER_PART = 150


@dataclass(frozen=True, slots=True)
class CachedPart:
    """A part of a grammar. `name` is the tool's, empty for a format; `entry` is None if it left memory."""

    name: str
    kind: str
    key: str
    entry: CacheEntry | None


@dataclass(frozen=True, slots=True)
class CachedGrammar:
    """A grammar that was looked up: its parts, and the recipe that joins them, None for a part alone.

    `are_stored` tells by key whether the store has the parts; it was asked about some of them.
    """

    digest: str
    parts: tuple[CachedPart, ...]
    recipe: GrammarRecipe | None
    are_stored: Mapping[str, bool]


class GrammarIndex:
    """Recipes and keys by digest; the least recently used ones are forgotten first."""

    def __init__(self) -> None:
        self._recipes: LruCache[GrammarRecipe] = LruCache(_INDEX_BYTES)
        self._keys: LruCache[tuple[str, str]] = LruCache(_INDEX_BYTES)

    def add_recipe(self, digest: str, recipe: GrammarRecipe) -> None:
        """Remember the recipe of a grammar that was linked."""
        self._recipes.put(digest, recipe, _BYTES_PER_PART * (2 + len(recipe.tools)))

    def add_part(self, key: str, entry: CacheEntry) -> None:
        """Remember the key of an entry that came into memory."""
        self._keys.put(entry.compiled.digest, (key, entry.kind), _BYTES_PER_PART)

    def find(self, digest: str) -> tuple[GrammarRecipe | None, list[tuple[str, str, str]]]:
        """The recipe, and the name, kind and key of each part; no parts if the digest is not known."""
        if recipe := self._recipes.get(digest):
            parts = [(name, TOOL, key) for name, key in recipe.tools]
            return recipe, parts + ([("", recipe.answer.kind, recipe.answer.key)] if recipe.answer else [])
        if keys := self._keys.get(digest):
            key, kind = keys
            return None, [("", kind, key)]
        return None, []


def grammar_of(entry: CacheEntry) -> Grammar:
    """The grammar of an entry. A unit keeps none in memory, so it is read from the unit's source."""
    return grammar_from_json(entry.unit.source) if entry.is_of_tool else entry.compiled_format.grammar
