"""A response format compiled for one vocabulary."""

from dataclasses import dataclass

from compiler.closing.closer import Closer, ParsedText
from compiler.constraint import ParameterTypes
from compiler.errors import CorruptUnit
from compiler.grammar.grammar import Grammar
from compiler.grammar.json_form import grammar_from_json, grammar_to_json
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.recogniser.recogniser import Recogniser
from compiler.report import EnforcementReport
from compiler.units.compiled_grammar import CompiledGrammar, GuardedMatcher
from compiler.units.stored import BYTES_PER_CHAR, pack, unpack
from compiler.vocabulary import RESERVED

_STORED_KIND = "schema"


@dataclass(frozen=True)
class CompiledFormat(CompiledGrammar):
    """A schema, a pattern, a list of texts or a grammar, compiled for one vocabulary; shared and immutable.

    A `Constraint` whose outputs are the answer alone, without thoughts or calls.
    """

    grammar: Grammar
    report: EnforcementReport
    prepared: PreparedVocabulary

    @property
    def digest(self) -> str:
        """SHA-256 of the grammar; it does not depend on the vocabulary."""
        return self.grammar.digest

    @property
    def num_bytes(self) -> int:
        """The memory of the compiled grammar and of what is read from its source."""
        return int(self.compiled.memory_size_bytes) + BYTES_PER_CHAR * len(self.grammar.ebnf)

    def to_bytes(self) -> bytes:
        """The bytes that a store keeps, without the report."""
        return pack(self.digest, _STORED_KIND, grammar_to_json(self.grammar), self.vocabulary)

    @classmethod
    def from_bytes(
        cls, data: bytes, report: EnforcementReport, prepared: PreparedVocabulary
    ) -> "CompiledFormat":
        """Read what `to_bytes` wrote; the caller has authenticated the bytes.

        Raises:
            CorruptUnit: truncated, altered, of another vocabulary or of another xgrammar.
        """
        _, kind, source = unpack(data, prepared.vocabulary)
        if kind != _STORED_KIND:
            raise CorruptUnit(f"a stored unit of {kind!r}, where a format was expected")
        try:
            return cls(grammar_from_json(source), report, prepared)
        except ValueError as error:
            raise CorruptUnit(f"not a stored format: {error}") from error

    @property
    def syntax(self) -> None:
        """None: all of an output is the answer."""

    def parameter_types(self, name: str) -> ParameterTypes:  # noqa: ARG002 - the protocol's
        """No tool is called."""
        return {}

    def matcher(self, *, is_thinking: bool = False) -> GuardedMatcher:  # noqa: ARG002 - the protocol's
        """A fresh matcher at the start; no thought comes before the text."""
        return self.guarded_matcher()

    def closer(self, *, is_thinking: bool = False) -> Closer:  # noqa: ARG002 - the protocol's
        """A fresh budget closer at the start."""
        return Closer(self.prepared, ParsedText(Recogniser.of(self.network), self.shortest_texts))

    def fits(self, text: bytes) -> bool:
        """Whether some sentence begins with `text`."""
        return self.matcher().read(text)

    def accepts(self, text: str) -> bool:
        """Whether the mask lets a model write `text` and then stop."""
        try:
            data = text.encode()
        except UnicodeEncodeError:
            return False
        matcher = self.matcher()
        return RESERVED.isdisjoint(data) and matcher.read(data) and matcher.is_completed()
