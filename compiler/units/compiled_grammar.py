"""A grammar compiled for one vocabulary, and the matcher of such a grammar by itself."""

from collections.abc import Sequence
from copy import copy
from functools import cached_property

import xgrammar as xgr

from compiler.client_grammar_matcher import ClientGrammarMatcher
from compiler.grammar.grammar import Grammar
from compiler.guard.guard import Guard, GuardState
from compiler.guard.key_marks import accept_text
from compiler.matcher import Bitmask
from compiler.output_parts import OutputPart, TextPart
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.recogniser.network import Network
from compiler.recogniser.recogniser import Recogniser
from compiler.recogniser.search_budget import SearchBudget
from compiler.vocabulary import Vocabulary

_BYTES_TO_READ = 1 << 16
"""What it costs, once for each grammar, to read the grammar and to find its shortest sentence, in the bytes
by which a search budget counts completions. A small grammar takes twenty milliseconds."""


class CompiledGrammar:
    """A grammar for one vocabulary; shared and immutable. A property is computed when it is first needed."""

    grammar: Grammar
    prepared: PreparedVocabulary

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary it is compiled for."""
        return self.prepared.vocabulary

    @cached_property
    def compiled(self) -> xgr.CompiledGrammar:
        """The grammar as xgrammar compiles it."""
        return self.prepared.backend.compile_grammar(self.grammar)

    def compile(self) -> None:
        """Compile the grammar now, if that was not done yet; raises UnsupportedGrammar."""
        _ = self.compiled

    @property
    def is_compiled(self) -> bool:
        """Whether that was done yet; it may take a tenth of a second."""
        return "compiled" in vars(self)

    @cached_property
    def guard(self) -> Guard | None:
        """The guard, which enforces what the rules cannot; None if they enforce everything."""
        plan = self.grammar.plan
        return None if plan is None else Guard(plan, self.prepared.guarded)

    @property
    def may_search(self) -> bool:
        """Whether a mask or a completion may take long to find: keys or items of the guard can run out.

        So may a mask of rules that a client wrote.
        """
        return self.is_client_grammar or (self.grammar.plan is not None and self.grammar.plan.can_run_out)

    @property
    def is_client_grammar(self) -> bool:
        """Whether a client wrote the rules, so that very many derivations may fit a text."""
        return self.grammar.is_client_grammar

    def unguarded_matcher(self) -> xgr.GrammarMatcher | ClientGrammarMatcher:
        """A matcher at the beginning that knows nothing of the guard."""
        matcher = xgr.GrammarMatcher(self.compiled)
        if not self.is_client_grammar:
            return matcher
        return ClientGrammarMatcher(matcher, self.prepared.timed_fills, self.prepared.held_memory)

    def guard_state(self) -> GuardState | None:
        """The guard's state at the beginning; None without a guard."""
        return None if self.guard is None else GuardState.begin(self.guard)

    def guarded_matcher(self) -> "GuardedMatcher":
        """A matcher at the beginning, with the guard if there is one."""
        return GuardedMatcher(self.unguarded_matcher(), self.guard_state(), self.vocabulary)

    @cached_property
    def network(self) -> Network:
        """The grammar as the recogniser reads it."""
        return Network(self.grammar, self.prepared.kept_sets)

    def shortest_texts(self, budget: SearchBudget) -> Sequence[bytes]:
        """Its shortest sentence; empty if no search found one that the guard allows.

        It is searched for once. The result is also empty if the budget has no room for that search.
        """
        num_attempts = budget.num_left
        for num_tried, texts in list(self._shortest_texts.items()):
            if texts or num_tried >= num_attempts:
                budget.has_given_up |= not texts
                return texts
        if not budget.try_spend_bytes(_BYTES_TO_READ):
            return ()
        texts = (*Recogniser.of(self.network).completions(budget),)
        self._shortest_texts[num_attempts] = texts
        return texts

    @cached_property
    def _shortest_texts(self) -> dict[int, Sequence[bytes]]:
        """What searches for the shortest sentence found, by the attempts that each was allowed."""
        return {}


class GuardedMatcher:
    """A `compiler.matcher.Matcher` of one grammar: xgrammar's matcher, and the guard if there is one."""

    def __init__(
        self,
        matcher: xgr.GrammarMatcher | ClientGrammarMatcher,
        guard_state: GuardState | None,
        vocabulary: Vocabulary,
    ) -> None:
        self._matcher = matcher
        self._guarded = [] if guard_state is None else [guard_state]
        self._tokens = vocabulary.tokens
        self._accepted: list[int] = []

    def fork(self) -> "GuardedMatcher":
        """A second matcher at the same point, which cannot be rolled back to before that point."""
        twin = copy(self)
        twin._matcher = self._matcher.fork()  # noqa: SLF001 - of its own class, as below
        twin._guarded = [guarded.fork() for guarded in self._guarded[-1:]]  # noqa: SLF001
        twin._accepted = list(self._accepted)  # noqa: SLF001
        return twin

    @property
    def num_accepted(self) -> int:
        """Number of tokens that were accepted."""
        return len(self._accepted)

    def read(self, text: bytes) -> bool:
        """Read bytes before the first token, which are never rolled back; False if no sentence begins so."""
        if not text:
            return True
        if not self._guarded:
            return bool(self._matcher.accept_string(text))
        if not accept_text(self._matcher, text, self._guarded[-1].marked):
            return False
        guarded = self._guarded[-1].read(text)
        if guarded is None:
            self._matcher.rollback(1)
            return False
        self._guarded.append(guarded)
        return True

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite `bitmask[row]` with the tokens that may come next."""
        matcher = self._matcher
        if not self._guarded:
            matcher.fill_next_token_bitmask(bitmask, row)
            return
        words = bitmask[row]
        self._guarded[-1].fill(words, matcher, lambda: matcher.fill_next_token_bitmask(bitmask, row))

    def inner_matcher(self) -> xgr.GrammarMatcher | None:
        """The matcher of xgrammar, unless there is a guard, or its masks may take long."""
        return None if self._guarded or isinstance(self._matcher, ClientGrammarMatcher) else self._matcher

    def complete_mask(self, bitmask: Bitmask, row: int) -> None:
        """Do nothing: the mask of xgrammar's matcher is complete."""

    def accept(self, token_id: int) -> bool:
        """Advance by a token; False, and no change, if the grammar or the guard does not allow it."""
        if self._matcher.is_terminated() or not self._matcher.accept_token(token_id):
            return False
        if self._guarded:
            guarded = self._guarded[-1].advance(self._matcher, token_id)
            if guarded is None:
                return False
            self._guarded.append(guarded)
        self._accepted.append(token_id)
        return True

    def rollback(self, num_tokens: int) -> None:
        """Undo the last accepted tokens."""
        if num_tokens:
            del self._accepted[-num_tokens:]
            self._matcher.rollback(num_tokens)
            del self._guarded[-num_tokens:]

    def forced_text(self) -> bytes:
        """What every continuation begins with, as far as the grammar tells without its guard."""
        if self._matcher.is_terminated():
            return b""
        return forced_text(self._matcher, self._guarded[-1] if self._guarded else None)

    def parts(self) -> tuple[OutputPart, ...]:
        """What the last accepted token settled: all of it is text."""
        text = self._tokens[self._accepted[-1]] if self._accepted else b""
        return (TextPart(text),) if text else ()

    def pending_parts(self) -> tuple[OutputPart, ...]:
        """Nothing: every token is settled at once."""
        return ()

    def is_in_thought(self) -> bool:
        """Nothing but an answer is written here."""
        return False

    def is_in_free_text(self) -> bool:
        """All of an answer is constrained."""
        return False

    def is_completed(self) -> bool:
        """Whether what was accepted is a whole sentence."""
        return bool(self._matcher.is_completed())

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted after a whole sentence."""
        return bool(self._matcher.is_terminated())


def forced_text(matcher: xgr.GrammarMatcher, guard_state: GuardState | None = None) -> bytes:
    """What every continuation begins with, as xgrammar's matcher finds it; empty where the text may end.

    xgrammar's matcher stops at a mark, so it is asked again after each one.
    """
    text = _forced_text(matcher)
    if guard_state is None or not text:
        return text
    marked, state = guard_state.marked(text), guard_state.read(text)
    if len(marked) == len(text) or state is None or not matcher.accept_string(marked):
        return text
    more = forced_text(matcher, state)
    matcher.rollback(1)
    return text + more


def _forced_text(matcher: xgr.GrammarMatcher) -> bytes:
    try:
        return str(matcher.find_jump_forward_string()).encode()
    except UnicodeDecodeError as error:  # inside a character, its other bytes are no text by themselves
        return error.object
