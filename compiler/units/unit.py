"""The unit: one tool's arguments and the rest of its call, compiled for one vocabulary.

A unit ends with the fixed end of its call, so its sentences are prefix-free: no sentence begins with another.
The linker relies on that, and on knowing the bytes that arguments can start with.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec
import xgrammar as xgr

from compiler.errors import CorruptUnit, UnsupportedGrammar
from compiler.grammar.grammar import (
    EMPTY,
    CharClass,
    Expr,
    Grammar,
    Literal,
    Repeat,
    Rule,
    choice,
    concat,
    items_of,
    options_of,
)
from compiler.grammar.json_form import grammar_from_json, grammar_to_json, is_of_client_grammar
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.syntax import Syntax
from compiler.units.compiled_grammar import CompiledGrammar, forced_text
from compiler.units.stored import BYTES_PER_CHAR, VERSIONS, pack, unpack
from compiler.vocabulary import Vocabulary

_MAX_DIGITS = 3
"""The most digits of a call's number, in syntaxes that number calls."""


@dataclass(frozen=True, eq=False)
class Unit(CompiledGrammar):
    """One tool's unit, addressed by its content's `digest`; `source` is the JSON form of `grammar`.

    `types` says what tagged parameters may be read as (see `LoweredSchema`). A unit that was read from a
    store is compiled when it is first used, since a generation calls few of a toolset's many tools.
    """

    digest: str
    syntax: str
    source: str = field(repr=False)
    prepared: PreparedVocabulary = field(repr=False)
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    _starts: dict[bytes, int | None] = field(default_factory=dict, repr=False)

    @cached_property
    def grammar(self) -> Grammar:  # type: ignore[override] # it is frozen in every subclass
        """The lowered grammar that was compiled, the call's end included."""
        return grammar_from_json(self.source)

    @property
    def is_client_grammar(self) -> bool:
        """Whether a client wrote the rules, known without reading them."""
        return is_of_client_grammar(self.source)

    @cached_property
    def num_bytes(self) -> int:
        """The memory of the compiled grammar and of what is read from its source."""
        return int(self.compiled.memory_size_bytes) + BYTES_PER_CHAR * len(self.source)

    def consumed(self, start: bytes) -> int | None:
        """How many bytes of `start` the unit consumes at its beginning; None if `start` does not fit.

        It consumes fewer than all only if the unit is complete after them. Answers are cached: a vocabulary
        has few tokens that reach into a unit.
        """
        if not start:
            return 0  # known without compiling the unit
        if start not in self._starts:
            self._starts[start] = self._consume(start)
        return self._starts[start]

    @cached_property
    def forced_start(self) -> bytes:
        """What every sentence begins with."""
        return forced_text(self.unguarded_matcher(), self.guard_state())

    def _consume(self, start: bytes) -> int | None:
        matcher = self.guarded_matcher()
        if matcher.read(start):
            return len(start)
        for at in range(len(start)):
            if matcher.is_completed():
                return at
            if not matcher.read(start[at : at + 1]):
                return None
        raise AssertionError("a text was accepted byte by byte but not whole")

    def to_bytes(self) -> bytes:
        """The bytes that a store keeps."""
        return pack(self.digest, self.syntax, f"{json.dumps(self.types)}\n{self.source}", self.vocabulary)

    @classmethod
    def from_bytes(cls, data: bytes, prepared: PreparedVocabulary) -> "Unit":
        """Read what `to_bytes` wrote; the caller has authenticated the bytes.

        Raises:
            CorruptUnit: truncated, altered, of another vocabulary or of another xgrammar.
        """
        digest, syntax, source = unpack(data, prepared.vocabulary)
        try:
            written_types, source = source.split("\n", 1)
            types = msgspec.json.decode(written_types, type=dict[str, tuple[str, ...]])
            msgspec.json.decode(source, type=msgspec.Raw)  # whole, and read when it is first used
        except ValueError as error:
            raise CorruptUnit(f"not a stored unit: {error}") from error
        return cls(digest, syntax, source, prepared, types)


def compile_unit(
    grammar: Grammar,
    syntax: Syntax,
    prepared: PreparedVocabulary,
    types: Mapping[str, tuple[str, ...]] | None = None,
) -> Unit:
    """Compile an arguments grammar together with the end of a call in `syntax`.

    Raises:
        UnsupportedGrammar: xgrammar refuses it, or some sentence does not begin as arguments do.
    """
    vocabulary = prepared.vocabulary
    whole = call_of(grammar, syntax, vocabulary)
    digest, source = unit_digest(whole, syntax, vocabulary), grammar_to_json(whole)
    unit = Unit(digest, syntax.name, source, prepared, types or {})
    vars(unit)["grammar"] = whole  # saves reading it back
    unit.compile()
    starts = argument_starts(syntax, vocabulary)
    if not (_begins_with(whole, starts) or set(_first_bytes(unit.compiled)) <= set(starts)):
        first = " or ".join(repr(chr(byte)) for byte in starts)
        raise UnsupportedGrammar(f"the arguments of a call must begin with {first} in every sentence")
    return unit


def argument_starts(syntax: Syntax, vocabulary: Vocabulary) -> bytes:
    """The bytes that a unit can begin with: of an object, of a number, or of a tag or the call's end."""
    if syntax.after_number is not None:
        return b"0123456789"
    if syntax.tags is None:
        return b"{"
    texts = (syntax.tags.begin, syntax.end)
    return bytes(sorted({vocabulary.spell(text).encode()[0] for text in texts}))


def unit_tail(syntax: Syntax, vocabulary: Vocabulary) -> bytes:
    """What every unit ends with."""
    return (b"}" if syntax.tags is None else b"") + vocabulary.spell(syntax.end).encode()


def unit_digest(whole: Grammar, syntax: Syntax, vocabulary: Vocabulary) -> str:
    """The digest of the unit that this grammar compiles to; the call's end is part of the grammar."""
    content = json.dumps([whole.digest, syntax.name, vocabulary.digest, *VERSIONS])
    return hashlib.sha256(content.encode()).hexdigest()


def call_of(grammar: Grammar, syntax: Syntax, vocabulary: Vocabulary) -> Grammar:
    """The grammar of a unit: the call's number, if the syntax has one, the arguments, the call's end."""
    number: Expr = EMPTY
    if syntax.after_number is not None:
        digits = Repeat(CharClass.of((0x30, 0x39)), 0, _MAX_DIGITS - 1)
        counted = choice(Literal("0"), concat(CharClass.of((0x31, 0x39)), digits))
        number = concat(counted, Literal(vocabulary.spell(syntax.after_number)))
    return _enclosed(grammar, number, vocabulary.spell(syntax.end))


def _enclosed(grammar: Grammar, begin: Expr, end: str) -> Grammar:
    """The grammar of `grammar`'s sentences, each between `begin` and `end`.

    The root's body is inlined, so that xgrammar knows what follows it when it precomputes masks. The old root
    rule stays only if the grammar is recursive through it.
    """
    rules = dict(grammar.rules)
    body = rules[grammar.root].body
    if not any(grammar.root in rule.references for rule in rules.values()):
        del rules[grammar.root]
    root = "call"
    while root in rules:
        root += "_"
    return replace(grammar, rules={root: Rule(concat(begin, body, Literal(end))), **rules}, root=root)


def _begins_with(grammar: Grammar, starts: bytes) -> bool:
    """Whether every sentence certainly begins with one of these bytes: each option begins with a text."""
    firsts = [items_of(option)[0] for option in options_of(grammar.rules[grammar.root].body)]
    return all(
        isinstance(first, Literal) and first.text != "" and first.text.encode()[0] in starts
        for first in firsts
    )


def _first_bytes(compiled: xgr.CompiledGrammar) -> bytes:
    matcher = xgr.GrammarMatcher(compiled)
    firsts = []
    for byte in range(256):
        if matcher.accept_string(bytes([byte])):
            matcher.rollback(1)
            firsts.append(byte)
    return bytes(firsts)
