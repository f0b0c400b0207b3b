"""A fault of xgrammar: its cache of compiled rules takes different rules for equal.

Callgate compiles all grammars of a vocabulary by one compiler, whose cache makes later grammars cheap. In this
pair, shrunk from schemas made up at random, the mask of the second grammar is wrong after the first was
compiled: it allows a token that the grammar does not read. docs/soundness.md says what that means.
"""

import pytest
import xgrammar as xgr

FIRST = r"""
root ::= (pick_4 "}")
pick_4 ::= more_3
any ::= any_object
any_array ::= (any "]")
any_object ::= (undeclared more "}")
undeclared ::= any_chars_before_1_any_number (": " ":") any
any_chars_before_1_any_number ::= ("\"" [0-9A-Fa-f] any_chars_before_1_any_number) (= [:])
more ::= (", " ",") undeclared
r_1_2 ::= any_array
more_3 ::= (", " ",") more_2
undeclared_2 ::= (": " ":") additionalProperties
additionalProperties ::= "\"b\"" | r_1_2
more_2 ::= (", " ",") undeclared_2
"""

SECOND = r"""
root ::= "{\"a\"" (": " | ":") a (", " | ",") "\"b\"" (": " | ":") b
a ::= "{" (pick | "}")
pick ::= undeclared_2
b ::= "\"b\"" | b_2
b_2 ::= (": " ":") a (", " ",") (": " ":")
undeclared_2 ::= (": " ":") any
any ::= any_object
any_object ::= (undeclared_2 more_3 "}")
more_3 ::= (", " ",") undeclared_2
"""

PREFIX = b'{"a": {}, "b": '
TOKENS = [bytes([byte]) for byte in range(256)] + [b'"c', b'"b', b'{"', b"[[", b'"c"', b""]


def mask_of(compiler, grammar):
    """The tokens that the grammar's mask allows after the prefix."""
    matcher = xgr.GrammarMatcher(compiler.compile_grammar(grammar))
    assert matcher.accept_string(PREFIX)
    bitmask = xgr.allocate_token_bitmask(1, len(TOKENS))
    matcher.fill_next_token_bitmask(bitmask)
    return {token for i, token in enumerate(TOKENS) if bitmask[0][i >> 5].item() >> (i & 31) & 1}


@pytest.mark.xfail(strict=True, reason="xgrammar 0.2.8; the fault is gone when this test passes")
def test_a_mask_does_not_depend_on_what_was_compiled_before():
    info = xgr.TokenizerInfo(
        TOKENS, xgr.VocabType.RAW, vocab_size=len(TOKENS), stop_token_ids=[len(TOKENS) - 1]
    )
    compiler = xgr.GrammarCompiler(info, max_threads=1)
    compiler.compile_grammar(FIRST)
    alone = mask_of(xgr.GrammarCompiler(info, max_threads=1, cache_enabled=False), SECOND)
    assert mask_of(compiler, SECOND) == alone
