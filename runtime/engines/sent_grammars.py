"""How a grammar is sent to an engine, and what must be done before.

There are two kinds of engines. Those with the plugin read a mark, and the store if the mark does not carry
the parts of the grammar. Those without the plugin read a grammar.
"""

# ruff: noqa: B027 - nothing needs to be done for engines without the plugin

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from weakref import WeakSet

from compiler.cache.grammar_cache import GrammarCache, GrammarLookup
from compiler.grammar.grammar import Grammar
from compiler.grammar.plain_ebnf import is_longer
from compiler.recipe import GrammarRecipe
from compiler.vocabulary import Vocabulary
from runtime.engines.request_mark import PLUGIN_MISSING, RequestMark, spell_request_mark
from runtime.engines.verified_output import VerifiedOutput
from runtime.errors import PluginMissing
from runtime.text.detokenizer import TokenBytes
from runtime.written_token import SampledToken

MAX_GRAMMAR_CHARS = 200_000
"""An engine takes seconds to read a longer grammar. It gets none then, and its wrong tokens are refused."""


_MAX_EMPTY = 16
"""The most tokens without bytes in the text of an engine without the plugin."""


class PluginWatch:
    """Holds tokens back while they may begin the text that an engine without the plugin writes."""

    def __init__(self, engine: str, token_bytes: TokenBytes) -> None:
        self._engine = engine
        self._token_bytes = token_bytes
        self._text = b""
        self._held: list[SampledToken] | None = []

    def passed(self, tokens: Sequence[SampledToken], *, is_last: bool = False) -> Sequence[SampledToken]:
        """The tokens that are certainly not part of that text; raises PluginMissing once it is complete."""
        if self._held is None:
            return tokens
        self._held += tokens
        self._text += self._token_bytes.of(t.token_id for t in tokens if self._token_bytes.has(t.token_id))
        missing_text = PLUGIN_MISSING.encode()
        if self._text == missing_text:
            raise PluginMissing(self._engine)
        # Tokens without bytes could follow without end.
        are_few = len(self._held) <= len(self._text) + _MAX_EMPTY
        may_follow = not self._held or (are_few and missing_text.startswith(self._text))
        if may_follow and not is_last:
            return ()
        released, self._held = self._held, None
        return released


class SentGrammars(ABC):
    """How grammars are sent to engines of one kind. By default, nothing is needed but the text to send."""

    applies_guards: bool
    """Whether the engine applies guards. If not, it writes tokens that a guard forbids; instead of each, one
    of the allowed tokens is requested."""
    max_refused: int
    """How many tokens of an output may be refused before the closer completes it."""

    def start(self, grammars: GrammarCache) -> None:
        """Called once, before any request."""

    async def publish(
        self, recipe: GrammarRecipe | None, client_id: str | None, *, is_again: bool = False
    ) -> None:
        """Make sure that engines can get the grammar of a recipe; see `GrammarParts`."""

    @abstractmethod
    def of_output(self, output: VerifiedOutput) -> str | None:
        """The text to send for the rest of an output, None if it is not masked; may take long."""

    @abstractmethod
    def of_lookup(self, lookup: GrammarLookup, written_ids: tuple[int, ...]) -> str | None:
        """The text to send for the rest of an output of a grammar, after the tokens written so far."""

    def watch(self, engine: str) -> PluginWatch | None:  # noqa: ARG002 - errors of a watch name it
        """A watch for signs that the engine could not read the text; None if there are no such signs."""
        return None

    async def close(self) -> None:
        """End what runs in the background."""


class GrammarParts(Protocol):
    """How the parts of grammars reach engines with the plugin: through the store, or in each mark."""

    def start(self, grammars: GrammarCache) -> None:
        """Begin to serve; `grammars` is the cache that has the parts."""

    async def publish(self, recipe: GrammarRecipe, client_id: str | None, *, is_again: bool = False) -> None:
        """Make sure that engines can get the parts of a grammar, for a client; None is the gateway.

        `is_again`: an engine has just failed, so what was published before is checked, too.

        Raises:
            RequestRefused: they cannot.
            GrammarNotStored: the store fails.
        """

    def parts(self, recipe: GrammarRecipe) -> Mapping[str, bytes]:
        """The signed parts to put into the mark, by their keys."""

    async def close(self) -> None:
        """End what is being published."""


class MarkedGrammars(SentGrammars):
    """For engines with the plugin: a mark names the grammar, whose parts are in the store or in the mark."""

    applies_guards = True
    max_refused = 3

    def __init__(self, secret: bytes, token_bytes: TokenBytes, parts: GrammarParts) -> None:
        self._secret = secret
        self._token_bytes = token_bytes
        self._parts = parts

    def start(self, grammars: GrammarCache) -> None:
        """Publish grammars of this cache."""
        self._parts.start(grammars)

    async def publish(
        self, recipe: GrammarRecipe | None, client_id: str | None, *, is_again: bool = False
    ) -> None:
        """Make sure that engines can get the parts of a grammar; see `GrammarParts`."""
        if recipe is not None:
            await self._parts.publish(recipe, client_id, is_again=is_again)

    def of_output(self, output: VerifiedOutput) -> str | None:
        """A mark that includes the tokens written so far, and those that are left out from here on."""
        request = output.request
        if request.constraint is None or request.draft is not None:
            return None
        assert request.recipe is not None, "a compiled grammar comes with its recipe"
        mark = RequestMark(
            request.recipe,
            is_thinking=output.is_thinking,
            written_ids=tuple(output.ids),
            parts=self._parts.parts(request.recipe),
            left_out_ids=tuple(sorted(output.left_out_ids)),
        )
        return spell_request_mark(mark, self._secret)

    def of_lookup(self, lookup: GrammarLookup, written_ids: tuple[int, ...]) -> str | None:
        """A mark."""
        parts = self._parts.parts(lookup.recipe)
        mark = RequestMark(lookup.recipe, written_ids=written_ids, parts=parts)
        return spell_request_mark(mark, self._secret)

    def watch(self, engine: str) -> PluginWatch | None:
        """Watch for the text that an engine without the plugin writes."""
        return PluginWatch(engine, self._token_bytes)

    async def close(self) -> None:
        """End what is being published."""
        await self._parts.close()


WriteGrammar = Callable[[Grammar, Vocabulary], str]
"""Writes a grammar as an engine reads it; it may admit more texts than the grammar, and never fewer calls."""


class RestGrammars(SentGrammars):
    """For engines without the plugin: sends the grammar of the rest of an output, or a wider one."""

    applies_guards = False
    max_refused = 64

    def __init__(self, vocabulary: Vocabulary, write: WriteGrammar) -> None:
        self._vocabulary = vocabulary
        self._write = write
        self._unmasked: WeakSet[VerifiedOutput] = WeakSet()

    def of_output(self, output: VerifiedOutput) -> str | None:
        """The grammar of the rest; None from the first time on that it is too long for this output."""
        request = output.request
        if request.constraint is None or request.draft is not None or output in self._unmasked:
            return None
        grammar = output.position.rest_grammar()
        written = self._written(grammar)
        if grammar is not None and written is None:
            self._unmasked.add(output)
        return written

    def of_lookup(self, lookup: GrammarLookup, written_ids: tuple[int, ...]) -> str | None:
        """The grammar of the rest."""
        closer = lookup.grammar.closer()
        if closer is None:
            return None
        for token_id in written_ids:
            closer.accepted(token_id)
        return self._written(closer.rest_grammar())

    def _written(self, grammar: Grammar | None) -> str | None:
        if grammar is None or is_longer(grammar, MAX_GRAMMAR_CHARS):
            return None
        text = self._write(grammar, self._vocabulary)
        return text if len(text) <= MAX_GRAMMAR_CHARS else None
