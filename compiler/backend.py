"""The back end: xgrammar's compiler for one vocabulary, kept, since what it has seen compiles faster."""

from typing import TYPE_CHECKING

import xgrammar as xgr

from compiler.errors import UnsupportedGrammar

if TYPE_CHECKING:
    from compiler.vocabulary import Vocabulary

CACHE_LIMIT_BYTES = 256 * 2**20


class Backend:
    """Compiles grammars for one vocabulary; thread-safe.

    `cache_limit_bytes` bounds what is kept of rules seen before, which is what makes the next tool cheap.
    """

    def __init__(
        self,
        vocabulary: "Vocabulary",
        *,
        max_threads: int = 1,
        cache_limit_bytes: int = CACHE_LIMIT_BYTES,
    ) -> None:
        self._compiler = xgr.GrammarCompiler(
            vocabulary.tokenizer_info,
            max_threads=max_threads,
            cache_limit_bytes=cache_limit_bytes,
        )

    def compile(self, ebnf: str) -> xgr.CompiledGrammar:
        """Compile a grammar whose root rule is `root`.

        Raises:
            UnsupportedGrammar: xgrammar refuses it; the message is xgrammar's.
        """
        try:
            return self._compiler.compile_grammar(ebnf)
        except (RuntimeError, ValueError) as error:
            raise UnsupportedGrammar(str(error).strip()) from error
