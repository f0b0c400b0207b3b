"""A fault of xgrammar 0.2.8: its cache of compiled rules takes different rules for equal. We write rules that it tells apart.

Callgate compiles all grammars of a vocabulary by one compiler, whose cache makes later grammars cheap.
"""

import random
from dataclasses import replace
from functools import partial

import pytest
import xgrammar as xgr
from fuzz.schemas import make_schema
from xgrammar_faults import mended_in_0_2_9

from compiler.errors import UnsupportedSchema
from compiler.grammar.ebnf import ebnf_grammar
from compiler.grammar.grammar import Grammar, Literal, Rule, RuleRef, concat
from compiler.grammar.rule_cache import safe_to_cache
from compiler.lowering.json_text import FLEXIBLE, SPACED
from compiler.schema import lower_schema

CIRCLE_TOKENS = (b"ay", b"az", b"aby", b"abz", b"y5", b"z5")
JSON_TOKENS = (
    b"[[", b'{"', b"{}", b"[]", b'""', b'{"a', b"[{", b"]}", b"},", b"],", b'","', b'"b', b'"a"', b'"b"', b'"a":', b'", "', b'": ', b': {"', b': "',
    b"}}", b"}]", b"1}", b"1,", b'}, "', b'"]', b'"}', b'["', b"null}",
)  # fmt: skip


def circles(char: str) -> str:
    """Rules in two circles, `q`, behind a rule with a lookahead, `r`; they begin with a character."""
    return f"""
root ::= "[" r p "]"
r ::= [a-b] [a-b] [a-b]
p ::= "x" "." | q
q ::= "{char}" q1 q2 | "{char}."
q1 ::= "1" q | "2" q2 | "5"
q2 ::= "3" q | "4" q1 | "6"
"""


class Masks:
    """Masks of grammars over a vocabulary of all bytes and some longer tokens."""

    def __init__(self, *longer: bytes) -> None:
        self.tokens = [*(bytes([byte]) for byte in range(256)), *longer, b""]
        num = len(self.tokens)
        self._info = xgr.TokenizerInfo(
            self.tokens, xgr.VocabType.RAW, vocab_size=num, stop_token_ids=[num - 1]
        )
        self.new_compiler = partial(xgr.GrammarCompiler, self._info, max_threads=1)

    def of(self, matcher) -> set[bytes]:
        """The tokens that a matcher allows."""
        bitmask = xgr.allocate_token_bitmask(1, len(self.tokens))
        matcher.fill_next_token_bitmask(bitmask)
        return {token for i, token in enumerate(self.tokens) if bitmask[0][i >> 5].item() >> (i & 31) & 1}

    def after(self, compiler, grammar: str, prefix: bytes) -> set[bytes]:
        """The tokens that a grammar allows after a prefix."""
        matcher = xgr.GrammarMatcher(compiler.compile_grammar(grammar))
        assert matcher.accept_string(prefix)
        return self.of(matcher)

    def differences(self, first: str, second: str, prefix: bytes) -> tuple[set[bytes], set[bytes]]:
        """The tokens that the second grammar allows too many, and too few, after the first was compiled."""
        compiler = self.new_compiler()
        compiler.compile_grammar(first)
        alone = self.after(self.new_compiler(cache_enabled=False), second, prefix)
        found = self.after(compiler, second, prefix)
        return found - alone, alone - found


def nested(grammar: Grammar) -> Grammar:
    """The grammar with the rule `p` written out in the root rule, as a choice inside it."""
    root = concat(Literal("["), RuleRef("r"), grammar.rules["p"].body, Literal("]"))
    return replace(grammar, rules=dict(grammar.rules) | {"root": Rule(root)})


FIRST, SECOND = ebnf_grammar(circles("y")), ebnf_grammar(circles("z"))
PREFIXES = (b"[", b"[a", b"[aa", b"[aaa")


@mended_in_0_2_9
def test_the_cache_takes_rules_for_equal_that_are_not():
    """Without this fault, `safe_to_cache` can go."""
    masks = Masks(*CIRCLE_TOKENS)
    assert masks.differences(FIRST.ebnf, SECOND.ebnf, b"[aa") == ({b"ay"}, {b"az"})


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    ("first", "second"),
    [(FIRST, SECOND), (SECOND, FIRST), (nested(FIRST), nested(SECOND)), (FIRST, nested(SECOND))],
)
def test_rules_that_are_told_apart_are_not(first, second, prefix):
    masks = Masks(*CIRCLE_TOKENS)
    told = safe_to_cache(first).ebnf, safe_to_cache(second).ebnf
    assert masks.differences(*told, prefix) == (set(), set())


def test_only_rules_that_the_cache_takes_for_others_get_another_alternative():
    told = safe_to_cache(FIRST)
    changed = {name for name, rule in told.rules.items() if rule != FIRST.rules[name]}
    assert changed == {"p"}
    recursive = ebnf_grammar('root ::= "a" root | "b"')
    assert safe_to_cache(recursive) is recursive


def test_the_other_alternative_changes_no_mask():
    masks = Masks(b"aa", b"ab", b"ba", b"bab", b"aba")
    definition = 'root ::= r\nr ::= "a" (r | "b" (r "a" | ""))'
    told = safe_to_cache(ebnf_grammar(definition))
    assert "[^" in told.ebnf
    compiler = masks.new_compiler(cache_enabled=False)
    for prefix in (b"", b"a", b"ab", b"aba", b"abab", b"aaab", b"ababaa"):
        assert masks.after(compiler, told.ebnf, prefix) == masks.after(compiler, definition, prefix)


def test_masks_of_made_up_schemas_do_not_depend_on_what_was_compiled_before():
    masks = Masks(*JSON_TOKENS)
    shared, alone = masks.new_compiler(), masks.new_compiler(cache_enabled=False)
    num_changed = 0
    for number in range(60):
        rng = random.Random(f"rule cache {number}")
        try:
            grammar = lower_schema(make_schema(rng), formatting=rng.choice((SPACED, FLEXIBLE))).grammar
        except UnsupportedSchema:
            continue
        told = safe_to_cache(grammar)
        if told.ebnf == grammar.ebnf or len(told.ebnf) > 20_000:
            continue
        num_changed += 1
        ours = xgr.GrammarMatcher(shared.compile_grammar(told.ebnf))
        theirs = xgr.GrammarMatcher(alone.compile_grammar(grammar.ebnf))
        for _ in range(25):
            allowed = masks.of(theirs)
            assert masks.of(ours) == allowed
            token = rng.choice(sorted(allowed, key=lambda token: (len(token) < 2, token))[:12])
            if token == b"":
                break
            assert ours.accept_string(token)
            assert theirs.accept_string(token)
    assert num_changed > 10
