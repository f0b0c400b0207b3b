"""What an engine makes of a grammar in GBNF: its matcher over a vocabulary, by xgrammar, which reads GBNF.

xgrammar has no notation for single tokens. Such a token is written as what it spells to xgrammar here: a
marker's sentinel.
"""

import re
from functools import cache

import xgrammar as xgr

from compiler.prepared_vocabulary import PreparedVocabulary

_TOKEN = re.compile(r"<\[(\d+)\]>")
_LEXEME = re.compile(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|-')
_MISREAD = re.compile(r"(\\u00(?:[01].|7F|[89A-F].))(?=[0-9a-fA-F])", re.IGNORECASE)
"""See `compiler.grammar.grammar`."""


class GbnfMatcher:
    """Follows one output."""

    def __init__(self, gbnf: str, prepared: PreparedVocabulary) -> None:
        tokens = prepared.vocabulary.tokens

        def spelled(token: re.Match) -> str:
            return '"' + "".join(f"\\u{byte:04x}" for byte in tokens[int(token[1])]) + '"'

        text = _LEXEME.sub(_translated, _TOKEN.sub(spelled, gbnf))
        # no text holds a marker
        text = re.sub(r"(?<=[ |(])\.(?= )", r"[^\\u0001]", text).replace("[^", "[^\\u0001")
        self._matcher = xgr.GrammarMatcher(
            _compiler_of(prepared).compile_grammar(xgr.Grammar.from_ebnf(text))
        )

    def accept(self, token_id: int) -> bool:
        return self._matcher.accept_token(token_id)

    def fill_bitmask(self, bitmask, row: int) -> None:
        self._matcher.fill_next_token_bitmask(bitmask, row)

    def is_completed(self) -> bool:
        return self._matcher.is_completed()


@cache
def _compiler_of(prepared: PreparedVocabulary) -> xgr.GrammarCompiler:
    """Without a cache, since our own rewriting has not made these grammars safe for xgrammar's."""
    return xgr.GrammarCompiler(prepared.tokenizer_info, max_threads=1, cache_enabled=False)


def _translated(found: re.Match) -> str:
    """A lexeme as xgrammar reads it; its names have underscores instead of hyphens."""
    if found[0] == "-":
        return "_"
    return _MISREAD.sub(r'\1" "', found[0]) if found[0].startswith('"') else found[0]
