"""How an engine is told which grammar an output is of, and what has to be done before.

Two kinds of engines: those with the plugin read a mark, and the store if the mark does not bring the parts of
the grammar; those without it read a grammar.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

from compiler.cache.grammar_cache import GrammarCache, GrammarLookup
from compiler.grammar.grammar import Grammar
from compiler.grammar.plain_ebnf import is_longer
from compiler.recipe import GrammarRecipe
from compiler.vocabulary import Vocabulary
from runtime.engines.completion_request import SentinelWatch
from runtime.engines.mark import spell_mark
from runtime.engines.verified_output import VerifiedOutput
from runtime.errors import GrammarNotStored
from runtime.request import GenerationRequest
from runtime.text.detokenizer import TokenBytes

MAX_GRAMMAR_CHARS = 200_000
"""A longer grammar takes an engine seconds to read; without one it writes, and what is wrong is refused."""


class SentGrammars(Protocol):
    """How engines of one kind are told grammars.

    `holds_guards`: whether the engine keeps every constraint. Else, tokens against one are expected, and each
    is replaced by asking for one token of those that are allowed. `max_refused` is how many tokens of an
    output may be refused before the closer completes it.
    """

    holds_guards: bool
    max_refused: int

    def start(self, grammars: GrammarCache) -> None:
        """Called once, before any request."""

    async def publish(self, request: GenerationRequest, *, is_again: bool = False) -> None:
        """See that engines can have a request's grammar; `is_again`: an engine has just failed."""

    async def publish_own(self, found: GrammarLookup) -> None:
        """See that engines can have a grammar of the gateway itself, as far as the store answers."""

    def of_output(self, request: GenerationRequest, output: VerifiedOutput) -> str | None:
        """What is sent for the rest of an output, None if it is not masked; may take long."""

    def of_lookup(self, found: GrammarLookup) -> str | None:
        """What is sent for a whole output of a grammar."""

    def watch(self) -> SentinelWatch | None:
        """What looks whether the engine can read what is sent; None if there is nothing to look for."""

    async def close(self) -> None:
        """End what is being done."""


class GrammarParts(Protocol):
    """How the parts of grammars get to engines with the plugin: by the store, or with each mark."""

    def start(self, grammars: GrammarCache) -> None:
        """Take parts from this cache."""

    async def publish(self, recipe: GrammarRecipe, share: str | None) -> None:
        """See that engines can have the parts of a grammar, for the client of `share`; None: the gateway.

        Raises:
            RequestRefused: they cannot.
            GrammarNotStored: the store fails.
        """

    async def publish_again(self, recipe: GrammarRecipe, share: str | None) -> None:
        """As `publish`, whatever is remembered: an engine has just failed."""

    def parts(self, recipe: GrammarRecipe) -> Mapping[str, bytes]:
        """Those that go with the mark, signed, by their keys."""

    async def close(self) -> None:
        """End what is being published."""


class MarkedGrammars:
    """For engines with the plugin: a mark names the grammar, whose parts are in the store or in the mark."""

    holds_guards = True
    max_refused = 3

    def __init__(self, secret: bytes, token_bytes: TokenBytes, parts: GrammarParts) -> None:
        self._secret = secret
        self._token_bytes = token_bytes
        self._parts = parts

    def start(self, grammars: GrammarCache) -> None:
        """Publish grammars of this cache."""
        self._parts.start(grammars)

    async def publish(self, request: GenerationRequest, *, is_again: bool = False) -> None:
        """See that engines can have the parts of a grammar; see `GrammarParts`."""
        if request.recipe is not None:
            publish = self._parts.publish_again if is_again else self._parts.publish
            await publish(request.recipe, request.share)

    async def publish_own(self, found: GrammarLookup) -> None:
        """The same for a grammar of the gateway itself; an engine that has read it before needs no store."""
        with suppress(GrammarNotStored):
            await self._parts.publish_again(found.recipe, None)

    def of_output(self, request: GenerationRequest, output: VerifiedOutput) -> str | None:
        """A mark, with what is written."""
        if request.constraint is None or request.draft is not None:
            return None
        assert request.recipe is not None, "whoever compiles a grammar knows its recipe"
        return spell_mark(
            request.recipe,
            is_thinking=output.is_thinking,
            secret=self._secret,
            written_ids=tuple(output.ids),
            parts=self._parts.parts(request.recipe),
        )

    def of_lookup(self, found: GrammarLookup) -> str | None:
        """A mark."""
        parts = self._parts.parts(found.recipe)
        return spell_mark(found.recipe, is_thinking=False, secret=self._secret, parts=parts)

    def watch(self) -> SentinelWatch | None:
        """An engine without the plugin writes a sentinel."""
        return SentinelWatch(self._token_bytes)

    async def close(self) -> None:
        """End what is being published."""
        await self._parts.close()


WriteGrammar = Callable[[Grammar, Vocabulary], str]
"""Writes a grammar as an engine reads it; it may admit more texts than the grammar, and never fewer calls."""


class RestGrammars:
    """For engines without a plugin that read grammars: that of what may follow, wider where it must be."""

    holds_guards = False
    max_refused = 64

    def __init__(self, vocabulary: Vocabulary, write: WriteGrammar) -> None:
        self._vocabulary = vocabulary
        self._write = write
        self._without: WeakSet[VerifiedOutput] = WeakSet()

    def start(self, grammars: GrammarCache) -> None:
        """Nothing is needed."""

    async def publish(self, request: GenerationRequest, *, is_again: bool = False) -> None:
        """Nothing is needed: the grammar goes with the request."""

    async def publish_own(self, found: GrammarLookup) -> None:
        """Nothing is needed either."""

    def of_output(self, request: GenerationRequest, output: VerifiedOutput) -> str | None:
        """The grammar of the rest. An output for which it was too long once is sent none any more."""
        if request.constraint is None or request.draft is not None or output in self._without:
            return None
        grammar = output.rest_grammar()
        written = self._written(grammar)
        if grammar is not None and written is None:
            self._without.add(output)
        return written

    def of_lookup(self, found: GrammarLookup) -> str | None:
        """The grammar of the whole."""
        closer = found.grammar.closer()
        return None if closer is None else self._written(closer.rest_grammar())

    def watch(self) -> SentinelWatch | None:
        """There is nothing to look for."""
        return None

    async def close(self) -> None:
        """Nothing is being done."""

    def _written(self, grammar: Grammar | None) -> str | None:
        if grammar is None or is_longer(grammar, MAX_GRAMMAR_CHARS):
            return None
        text = self._write(grammar, self._vocabulary)
        return text if len(text) <= MAX_GRAMMAR_CHARS else None
