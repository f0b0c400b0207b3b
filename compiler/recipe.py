"""The recipe of a grammar: what it is linked from, small enough to be sent to where the grammar is needed.

Two processes that read the same store link the same grammar from the same recipe: a gateway, and the plugin
inside an inference engine.

>>> keys = [("pay", "5f0c"), ("search", "91ab")]
>>> only_pay = ToolChoice.named("pay")
>>> recipe = GrammarRecipe.of_tools(
...     keys, vocabulary="d3", syntax="hermes", tool_choice=only_pay, is_parallel=False, answer=None
... )
>>> recipe.tools
(('pay', '5f0c'),)
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from compiler.cache_entry import TOOL, CacheEntry
from compiler.compiled_format import CompiledFormat
from compiler.linker.linker import FramedFormat, LinkedGrammar, link, link_format
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.syntaxes import find_syntax
from toolspecs.tool import ChoiceMode, ToolChoice

OwnGrammar = LinkedGrammar | FramedFormat | CompiledFormat
"""A constraint of Callgate's own."""


@dataclass(frozen=True, slots=True)
class FormatKey:
    """A response format: its kind, and the key of its cache entry."""

    kind: str
    key: str


@dataclass(frozen=True, slots=True)
class GrammarRecipe:
    """What a grammar is linked from; a value that names every part by its content.

    `vocabulary` is the digest of the vocabulary. `tools` are the tools that may be called, in order: the name
    of each with the key of its cache entry. `choice` None: the output is the answer alone. `syntax` None:
    nothing is written around the answer.
    """

    vocabulary: str
    syntax: str | None
    tools: tuple[tuple[str, str], ...] = ()
    choice: ToolChoice | None = None
    is_parallel: bool = True
    answer: FormatKey | None = None

    @classmethod
    def of_tools(
        cls,
        tools: Sequence[tuple[str, str]],
        *,
        vocabulary: str,
        syntax: str,
        tool_choice: ToolChoice,
        is_parallel: bool,
        answer: FormatKey | None,
    ) -> "GrammarRecipe":
        """The recipe of calls under a tool choice; tools that it leaves out are left out here."""
        if tool_choice.allowed is not None:
            allowed = frozenset(tool_choice.allowed)
            tools = [(name, key) for name, key in tools if name in allowed]
        elif tool_choice.mode is ChoiceMode.NONE:
            tools = ()
        return cls(vocabulary, syntax, tuple(tools), tool_choice, is_parallel, answer)

    @property
    def keys(self) -> dict[str, str]:
        """The keys of all entries that it needs, each with the kind of the entry."""
        kinds = {key: TOOL for _, key in self.tools}
        return kinds | ({self.answer.key: self.answer.kind} if self.answer else {})

    @property
    def digest(self) -> str:
        """SHA-256 over the recipe; recipes with equal digests link equal grammars."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """The recipe as JSON; equal recipes have equal bytes."""
        return msgspec.json.encode(self)

    def link(self, entries: Mapping[str, CacheEntry], prepared: PreparedVocabulary) -> OwnGrammar:
        """The grammar, linked from the entries of `keys`.

        Raises:
            UnsupportedToolset, UnsupportedGrammar, UnsupportedSchema: the parts do not fit each other, as
                `compiler.linker.linker.link` and `link_format` say.
        """
        assert prepared.vocabulary.digest == self.vocabulary, "entries are of one vocabulary"
        answer = entries[self.answer.key].compiled_format if self.answer else None
        if self.choice is None:
            return self._link_answer(answer, prepared)
        assert self.syntax is not None, "calls are written in a syntax"
        units = {name: entries[key].unit for name, key in self.tools}
        syntax = find_syntax(self.syntax)
        return link(units, syntax, prepared, self.choice, is_parallel=self.is_parallel, answer=answer)

    def _link_answer(self, answer: CompiledFormat | None, prepared: PreparedVocabulary) -> OwnGrammar:
        assert answer is not None, "there are no calls, so there is an answer"
        return link_format(answer, find_syntax(self.syntax), prepared) if self.syntax else answer
