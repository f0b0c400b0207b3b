"""What is compiled for one vocabulary, and what else is found out about its grammar once that is needed."""

from functools import cached_property

import xgrammar as xgr

from compiler.grammar.grammar import Grammar
from compiler.grammar.shortest import Shortest
from compiler.guard.guard import Guard, guard_of
from compiler.recogniser.network import Network
from compiler.recogniser.recogniser import Recogniser
from compiler.vocabulary import Vocabulary


class Compiled:
    """A grammar for one vocabulary; shared and immutable."""

    grammar: Grammar
    vocabulary: Vocabulary

    @cached_property
    def compiled(self) -> xgr.CompiledGrammar:
        """The back end's compiled grammar."""
        return self.vocabulary.backend.compile(self.grammar.ebnf)

    @cached_property
    def guard(self) -> Guard | None:
        """What the rules leave to be guarded."""
        return guard_of(self.grammar.plan, self.vocabulary)

    @cached_property
    def network(self) -> Network:
        """The grammar as the recogniser reads it."""
        return Network(self.grammar)

    @cached_property
    def shortest(self) -> Shortest:
        """How short its sentences are, and how fast they can grow."""
        return Shortest(self.grammar)

    @cached_property
    def shortest_text(self) -> bytes:
        """Its shortest sentence."""
        return Recogniser.of(self.network).completion()
