"""A vocabulary with what is prepared from it once, for every grammar that is compiled for it.

The runtime of a model prepares its vocabulary once and passes the result on: a loaded model, its card and
every compiled grammar refer to the same object. Each property is computed when it is first needed.
"""

from collections.abc import Callable
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import xgrammar as xgr

from compiler.errors import UnsupportedGrammar
from compiler.grammar.grammar import Grammar
from compiler.grammar.rule_cache import safe_to_cache
from compiler.guard.guarded_tokens import GuardedTokens
from compiler.held_memory import HeldMemory
from compiler.kept_sets import KeptSets
from compiler.timed_fills import TimedFills
from compiler.token_index import TokenIndex
from compiler.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CACHE_LIMIT_BYTES = 64 * 2**20
"""As xgrammar counts; the process takes about twice as much for it (docs/operations.md)."""

Value = TypeVar("Value")


class once(cached_property[Value]):  # noqa: N801 - used as a decorator
    """A `cached_property` that is computed once, however many threads first ask for it at the same time.

    Since Python 3.12, `cached_property` itself lets every one of them compute it.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        super().__init__(compute)
        self._lock = RLock()

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        """The value; the instance's `__dict__` holds it, so later reads do not come here."""
        if instance is None:
            return self
        with self._lock:
            return super().__get__(instance, owner)


class Backend:
    """The back end: xgrammar's compiler for one vocabulary; thread-safe.

    It caches the rules that it has compiled, up to `cache_limit_bytes`, so that a tool with the same rules
    compiles faster.
    """

    def __init__(self, tokenizer_info: xgr.TokenizerInfo, *, cache_limit_bytes: int) -> None:
        self._compiler = xgr.GrammarCompiler(
            tokenizer_info, max_threads=1, cache_limit_bytes=cache_limit_bytes
        )

    def compile_grammar(self, grammar: Grammar) -> xgr.CompiledGrammar:
        """Compile a grammar; raises UnsupportedGrammar if xgrammar refuses it."""
        return self.compile(safe_to_cache(grammar).ebnf)

    def compile(self, ebnf: str) -> xgr.CompiledGrammar:
        """Compile the text of a grammar whose root rule is `root`.

        Raises:
            UnsupportedGrammar: xgrammar refuses it; the message is xgrammar's.
        """
        try:
            return self._compiler.compile_grammar(ebnf)
        except (RuntimeError, ValueError) as error:
            raise UnsupportedGrammar(str(error).strip()) from error


class PreparedVocabulary:
    """A vocabulary, and what is prepared from it; thread-safe."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @once
    def tokenizer_info(self) -> xgr.TokenizerInfo:
        """The vocabulary as xgrammar reads it: raw bytes, markers as sentinels."""
        return xgr.TokenizerInfo(
            list(self.vocabulary.tokens),
            xgr.VocabType.RAW,
            vocab_size=self.vocabulary.width,
            stop_token_ids=list(self.vocabulary.stop_ids),
        )

    @once
    def backend(self) -> Backend:
        """The compiler of grammars for this vocabulary."""
        return Backend(self.tokenizer_info, cache_limit_bytes=CACHE_LIMIT_BYTES)

    @once
    def index(self) -> TokenIndex:
        """The tokens in the order of their bytes, for look-ups by prefix."""
        return TokenIndex(self.vocabulary)

    @once
    def timed_fills(self) -> TimedFills:
        """What fills masks that may take long."""
        return TimedFills()

    @once
    def held_memory(self) -> HeldMemory:
        """What bounds the memory of the matchers of clients' own grammars."""
        return HeldMemory()

    @once
    def kept_sets(self) -> KeptSets:
        """What bounds the sets of states that the networks of its grammars keep."""
        return KeptSets()

    @once
    def guarded(self) -> GuardedTokens:
        """The tokens that guards look at."""
        return GuardedTokens(self.vocabulary, self.index)


VocabularySource: TypeAlias = "PreparedVocabulary | Vocabulary | PreTrainedTokenizerBase | None"
"""What a vocabulary can be prepared from; PreTrainedTokenizerBase is a tokenizer of transformers."""

_PREPARED: WeakKeyDictionary[object, PreparedVocabulary] = WeakKeyDictionary()


def prepare(source: VocabularySource) -> PreparedVocabulary:
    """The prepared vocabulary of a tokenizer or a vocabulary; None is the vocabulary of bytes.

    The same tokenizer or vocabulary object gives the same result, for as long as the object lives.
    """
    if isinstance(source, PreparedVocabulary):
        return source
    if source is None:
        return PreparedVocabulary(Vocabulary.of_bytes())
    if isinstance(source, Vocabulary):
        # Kept in the object itself: the prepared vocabulary refers to it, so a weak dictionary would never
        # drop it.
        prepared: PreparedVocabulary = vars(source).setdefault("_prepared", PreparedVocabulary(source))
        return prepared
    if source not in _PREPARED:
        _PREPARED[source] = PreparedVocabulary(Vocabulary.from_tokenizer(source))
    return _PREPARED[source]
