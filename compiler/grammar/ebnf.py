"""Reading a grammar that a client sends, in EBNF as xgrammar and llama.cpp (GBNF) have it.

xgrammar parses and normalises the text. Its serialized form is read into our rules, because the budget closer
needs these. The grammar that is compiled in the end is written from our rules again.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any

import xgrammar as xgr

from compiler.errors import UnsupportedSchema
from compiler.grammar.ambiguity import doubly_recursive, most_nullable_in_a_row
from compiler.grammar.grammar import (
    ALLOWED_CHARACTERS,
    EMPTY,
    CharClass,
    Expr,
    Grammar,
    Literal,
    Repeat,
    Rule,
    check_characters,
    choice,
    concat,
    optional,
)
from compiler.grammar.passes import inline_loops, prune
from compiler.grammar.rules import RuleTable
from compiler.grammar.shortest import NEVER, ShortestSentences
from compiler.regular import charset

MAX_NESTING = 200
MAX_COUNT = 1_000
MAX_IN_A_ROW = 64
MAX_SHORTEST_BYTES = 1 << 16
"""The longest shortest text of a rule; a longer one fits no context window."""

_POINTER = "/grammar"
_UNBOUNDED = -1
_UNSET = (False, -1, "", None)
_LEXEME = re.compile(r'"(?:[^"\\]|\\.)*+"|\[(?:[^\]\\]|\\.)*+\]|\#[^\n]*|[()]', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{3,})|.)", re.DOTALL)
_PLACE_IN_SOURCE = re.compile(r"^\[[\d:]+\] \S+: ")


def ebnf_grammar(text: str) -> Grammar:
    """The grammar of an EBNF text whose root rule is `root`.

    >>> print(ebnf_grammar('root ::= "a" root | "b"').ebnf, end="")
    root ::= "a" root | "b"

    Raises:
        UnsupportedSchema: the text cannot be parsed, has an escape that llama.cpp reads otherwise, uses
            lookaheads or macros, counts too far, or has a rule that no text or no short text completes, or
            that is too ambiguous.
    """
    _check_nesting(text)
    _check_escapes(text)
    try:
        source = json.loads(xgr.Grammar.from_ebnf(text).serialize_json())
    except (RuntimeError, ValueError) as error:
        raise _refusal(_PLACE_IN_SOURCE.sub("", str(error).strip())) from error
    grammar = replace(_SerializedGrammar(source).grammar(), is_client_grammar=True)
    pruned = prune(inline_loops(grammar))
    assert pruned is not None, "every rule is productive"
    return pruned


def _refusal(reason: str, suggestion: str = "") -> UnsupportedSchema:
    return UnsupportedSchema(_POINTER, "", reason, suggestion)


def _check_nesting(text: str) -> None:
    """Refuse groups so deep that they would exhaust the parser's stack."""
    depth = 0
    for lexeme in _LEXEME.findall(text):
        depth += {"(": 1, ")": -1}.get(lexeme, 0)
        if depth > MAX_NESTING:
            raise _refusal(f"nests groups more than {MAX_NESTING} levels deep", "Use rules.")


def _check_escapes(text: str) -> None:
    r"""Refuse `\x` before more than two digits: llama.cpp reads two of them, xgrammar all."""
    for lexeme in _LEXEME.findall(text):
        escapes = _ESCAPE.finditer(lexeme) if lexeme[0] in '"[' else ()
        for digits in filter(None, (escape[1] for escape in escapes)):
            reason = f"engines read \\x{digits[:8]} differently: llama.cpp takes two digits, xgrammar all"
            raise _refusal(reason, "Write \\u and four digits, or \\U and eight.")


class _Kind(IntEnum):
    """xgrammar's numbers for the kinds of expressions; all other kinds are macros."""

    TEXT = 0
    CHAR_CLASS = 1
    CHAR_CLASS_STAR = 2
    EMPTY = 3
    RULE = 4
    SEQUENCE = 5
    CHOICE = 6
    REPEAT = 8


class _SerializedGrammar:
    """The serialized form of one of xgrammar's grammars, to be read into our rules."""

    def __init__(self, source: dict[str, Any]) -> None:
        self._source = source
        self._names: list[str] = [name for name, *_ in source["rules"]]
        self._table = RuleTable()
        self._refs = [self._table.reserve(name) for name in self._names]

    def grammar(self) -> Grammar:
        for ref, (name, body, *attributes) in zip(self._refs, self._source["rules"], strict=True):
            if any(attribute not in _UNSET for attribute in attributes):
                raise _refusal(f"rule {name!r} has a lookahead or another attribute", "Leave it out.")
            self._table.fill(ref, Rule(self._expr(body)))
        root = self._refs[self._source["root_rule_id"]]
        grammar = Grammar(self._table.rules, root.name)
        shortest = ShortestSentences(grammar)
        self._check_lengths(shortest)
        self._check_ambiguity(grammar, shortest)
        return grammar

    def _check_lengths(self, shortest: ShortestSentences) -> None:
        for name, ref in zip(self._names, self._refs, strict=True):
            length = shortest.length(ref)
            if length >= NEVER:
                raise _refusal(f"no text completes rule {name!r}", "Give it an alternative that ends.")
            if length > MAX_SHORTEST_BYTES:
                size = f"more than {MAX_SHORTEST_BYTES} bytes"
                raise _refusal(f"the shortest text of rule {name!r} has {size}", "Lower its counts.")

    def _check_ambiguity(self, grammar: Grammar, shortest: ShortestSentences) -> None:
        names = {ref.name: name for name, ref in zip(self._names, self._refs, strict=True)}
        rule = doubly_recursive(grammar, shortest)
        if rule is not None:
            reason = f"texts of rule {names.get(rule, rule)!r} may begin and end with texts of the same rule"
            advice = (
                'Recurse on one side only, as in `e ::= t ("+" t)*`, and do not repeat what may be empty.'
            )
            raise _refusal(reason, advice)
        rule, num_parts = most_nullable_in_a_row(grammar, shortest)
        if num_parts > MAX_IN_A_ROW:
            reason = f"rule {names.get(rule, rule)!r} has too many parts in a row that may be empty"
            raise _refusal(reason, "Write one loop instead of several, or lower the counts.")

    def _expr(self, expr_id: int) -> Expr:  # noqa: PLR0911 - one case per kind of expression
        kind, content = self._node(expr_id)
        match kind:
            case _Kind.TEXT:
                return _literal(bytes(byte % 256 for byte in content))  # those of a class are signed
            case _Kind.CHAR_CLASS:
                return _char_class(content)
            case _Kind.CHAR_CLASS_STAR:
                return Repeat(_char_class(content))
            case _Kind.EMPTY:
                return EMPTY
            case _Kind.RULE:
                return self._refs[content[0]]
            case _Kind.SEQUENCE:
                return concat(*map(self._expr, content))
            case _Kind.CHOICE:
                return choice(*map(self._expr, content))
            case _Kind.REPEAT:
                return self._repeat(*content)
            case _:
                raise _refusal(
                    "it uses a macro such as TagDispatch or Token", "Use only rules, literals and classes."
                )

    def _node(self, expr_id: int) -> tuple[int, list[int]]:
        numbers, start = self._source["grammar_expr_data"], self._source["grammar_expr_indptr"][expr_id]
        kind, length = numbers[start : start + 2]
        return kind, numbers[start + 2 : start + 2 + length]

    def _repeat(self, rule_id: int, low: int, high: int) -> Expr:
        """A rule `low` to `high` times, written out, except that xgrammar itself counts single characters."""
        if max(low, high) > MAX_COUNT:
            raise _refusal(f"counts to {max(low, high)}, more than {MAX_COUNT}", "Use `*`, or lower it.")
        item: Expr = self._refs[rule_id]
        body = self._expr(self._source["rules"][rule_id][1])
        if isinstance(body, CharClass):
            return Repeat(body, low, None if high == _UNBOUNDED else high)
        rest: Expr = EMPTY
        if high == _UNBOUNDED:
            rest = self._table.shared(f"more_{rule_id}", lambda ref: Rule(optional(concat(item, ref))))
        for _ in range(high - low):
            rest = self._table.define("some", Rule(optional(concat(item, rest))))
        return concat(*[item] * low, rest)


def _literal(spelled: bytes) -> Expr:
    try:
        text = spelled.decode()
    except UnicodeDecodeError:
        raise _refusal(
            "it has an escape that is not a character (perhaps a lone surrogate)", "Leave it out."
        ) from None
    check_characters(text, _POINTER)
    return Literal(text)


def _char_class(content: Sequence[int]) -> CharClass:
    """A class without the characters that are never written."""
    is_negated, *bounds = content
    ranges = charset.union(tuple(zip(bounds[::2], bounds[1::2], strict=True)))
    ranges = charset.intersection(charset.complement(ranges) if is_negated else ranges, ALLOWED_CHARACTERS)
    if not ranges:
        raise _refusal("a character class has only control characters or surrogates", "Leave it out.")
    return CharClass(ranges)
