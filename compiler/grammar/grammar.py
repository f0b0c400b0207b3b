"""The grammar: rules over Unicode text, which every lowering produces.

An expression is one of `Literal`, `CharClass`, `Repeat`, `Concatenation`, `Choice`, `RuleRef` or
`GuardedText`; a rule's body can also be `Prose`. All are frozen and hashable, so equal grammars are equal
values. `to_ebnf` writes the text that xgrammar compiles.

Masks are fast with right recursion, with a lookahead where it is known what follows a rule, and with `Repeat`
only over single character classes. The lowering writes all other counts out as rules.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import overload

from compiler.errors import UnsupportedSchema
from compiler.guard.plan import GuardPlan, plan_to_json
from compiler.guard.string_automaton import StringAutomaton
from compiler.regular import charset
from compiler.regular.charset import Ranges, cached_if_small


@dataclass(frozen=True, slots=True)
class Literal:
    """Exactly this text, which may be empty."""

    text: str


@dataclass(frozen=True, slots=True)
class CharClass:
    """One character from inclusive ranges of code points: sorted, disjoint, without surrogates.

    There is at least one, except in `NOTHING`.
    """

    ranges: Ranges

    @classmethod
    def of(cls, *ranges: tuple[int, int] | str) -> "CharClass":
        """The class of some ranges and single characters, without surrogates, which UTF-8 cannot encode.

        >>> CharClass.of("b", (0x30, 0x39), "a")
        CharClass(ranges=((48, 57), (97, 98)))

        Raises:
            ValueError: nothing is left.
        """
        spans = ((ord(span), ord(span)) if isinstance(span, str) else span for span in ranges)
        characters = charset.intersection(charset.union(spans), charset.ALL)
        if not characters:
            raise ValueError("an empty character class matches nothing")
        return cls(characters)


@dataclass(frozen=True, slots=True)
class Repeat:
    """`item` from `low` to `high` times (None: any number of times)."""

    item: CharClass
    low: int = 0
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Concatenation:
    """The items one after the other."""

    items: tuple["Expr", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of the options; there is at least one."""

    options: tuple["Expr", ...]


@dataclass(frozen=True, slots=True)
class RuleRef:
    """A reference to the rule of that name."""

    name: str


@dataclass(frozen=True, slots=True)
class Prose:
    """Any bytes that contain none of these texts; only as the whole body of a rule.

    It becomes xgrammar's `TagDispatch`, which compiles fast whatever the texts are. An automaton over
    characters would take about 50 ms per state.
    """

    excludes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GuardedText:
    """The rest of a JSON string and the quote that closes it; a guard enforces the string's pattern.

    The recogniser reads `automaton`. xgrammar compiles `widened`, which admits the automaton's characters in
    any order, and the guard removes from masks what the automaton does not accept.
    """

    automaton: StringAutomaton
    widened: RuleRef


Expr = Literal | CharClass | Repeat | Concatenation | Choice | RuleRef | Prose | GuardedText

EMPTY = Literal("")
NOTHING = Repeat(CharClass(()), 1000, 1000)
"""No text fits it. Only in grammars for xgrammar, which may drop a shorter repetition of nothing."""

_MISREAD = re.compile(r"(?<=[\x00-\x1f\x7f-\xff])(?=[0-9a-fA-F])")
"""xgrammar 0.2.8 writes such characters as `\\xdf`, and reads a digit after that as a part of it."""

CONTROL_CHARACTERS: Ranges = ((0x00, 0x08), (0x0B, 0x0C), (0x0E, 0x1F))
"""Never written. Some of them stand for marker tokens (`compiler.vocabulary`)."""
ALLOWED_CHARACTERS = charset.complement(CONTROL_CHARACTERS)


@dataclass(frozen=True)
class Rule:
    """A rule's body; every use of the rule must be followed by a text that `lookahead` admits.

    So a lookahead removes no sentence: it tells xgrammar what follows, which can then precompute masks across
    the rule's end. A choice in it needs a rule of its own.

    Passes keep most rules as they are, so their references and texts are found once for several grammars.
    """

    body: Expr
    lookahead: CharClass | RuleRef | None = None

    @cached_property
    def references(self) -> tuple[str, ...]:
        """The names of the rules that the lookahead and then the body refer to, in reading order."""
        ahead = [self.lookahead.name] if isinstance(self.lookahead, RuleRef) else []
        return (*ahead, *[part.name for part in subexpressions(self.body) if isinstance(part, RuleRef)])

    @cached_property
    def ebnf(self) -> str:
        """What xgrammar's EBNF has on the right of `::=`, if all rules are written by their own names."""
        return _write_rule(self, {})


@dataclass(frozen=True)
class Grammar:
    """Rules by name and the name of the root; names match `[a-zA-Z_][a-zA-Z0-9_]*`."""

    rules: Mapping[str, Rule]
    root: str = "root"
    plan: GuardPlan | None = None
    """What guards must check; None if the rules say everything."""
    is_client_grammar: bool = False
    """A client wrote the rules, so very many derivations may fit a text."""

    def __post_init__(self) -> None:
        """Freeze the mapping."""
        object.__setattr__(self, "rules", MappingProxyType(dict(self.rules)))

    @cached_property
    def ebnf(self) -> str:
        """The text that xgrammar compiles; the root rule is always called `root`."""
        return to_ebnf(self)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `ebnf` and the plan, hexadecimal."""
        plan = "" if self.plan is None else json.dumps(plan_to_json(self.plan), sort_keys=True)
        return hashlib.sha256(f"{self.ebnf}{plan}".encode()).hexdigest()


@overload
def concat(*items: Expr) -> Expr: ...
@overload
def concat(*items: Expr | None) -> Expr | None: ...
def concat(*items: Expr | None) -> Expr | None:
    """The items one after the other, flattened, adjacent literals joined.

    None stands for an expression without sentences: with one of these among the items, the result is None.

    >>> concat(Literal("a"), concat(Literal("b"), RuleRef("rest")))
    Concatenation(items=(Literal(text='ab'), RuleRef(name='rest')))
    """
    flat: list[Expr] = []
    for item in items:
        if item is None:
            return None
        for part in items_of(item):
            if not isinstance(part, Literal):
                flat.append(part)
            elif flat and isinstance(before := flat[-1], Literal):
                flat[-1] = Literal(before.text + part.text)
            elif part.text:
                flat.append(part)
    if not flat:
        return EMPTY
    return flat[0] if len(flat) == 1 else Concatenation(tuple(flat))


def choice(*options: Expr) -> Expr:
    """Any of the options in their order, flattened, without duplicates.

    >>> choice(Literal("a"), choice(Literal("b"), Literal("a")))
    Choice(options=(Literal(text='a'), Literal(text='b')))

    Raises:
        ValueError: there are no options.
    """
    flat = tuple(dict.fromkeys(chain.from_iterable(map(options_of, options))))
    if not flat:
        raise ValueError("a choice needs at least one option")
    return flat[0] if len(flat) == 1 else Choice(flat)


def items_of(expr: Expr) -> tuple[Expr, ...]:
    """The items of a concatenation; any other expression is its only item."""
    return expr.items if isinstance(expr, Concatenation) else (expr,)


def options_of(expr: Expr) -> tuple[Expr, ...]:
    """The options of a choice; any other expression is its only option."""
    return expr.options if isinstance(expr, Choice) else (expr,)


def optional(item: Expr) -> Expr:
    """`item` or nothing."""
    return choice(item, EMPTY)


def union(options: Iterable[Expr | None]) -> Expr | None:
    """A choice of those options that are not None; None if all are. None has no sentences."""
    live = [option for option in options if option is not None]
    return choice(*live) if live else None


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """The expression and all expressions inside it, in reading order; references are not followed."""
    pending = [expr]
    while pending:
        part = pending.pop()
        yield part
        match part:
            case Concatenation():
                pending += part.items[::-1]
            case Choice():
                pending += part.options[::-1]
            case GuardedText():
                pending.append(part.widened)


def to_ebnf(grammar: Grammar) -> str:
    """The grammar in xgrammar's EBNF, root rule first.

    >>> digits = Rule(Repeat(CharClass.of("1", "2"), low=1))
    >>> rules = {"root": Rule(concat(Literal("["), RuleRef("n"))), "n": digits}
    >>> print(to_ebnf(Grammar(rules)), end="")
    root ::= "[" n
    n ::= [1-2]+
    """
    renamed = {} if grammar.root == "root" else {"root": "r_root", grammar.root: "root"}
    lines = []
    for name in (grammar.root, *(name for name in grammar.rules if name != grammar.root)):
        rule = grammar.rules[name]
        text = rule.ebnf if renamed.keys().isdisjoint(rule.references) else _write_rule(rule, renamed)
        lines.append(f"{renamed.get(name, name)} ::= {text}\n")
    return "".join(lines)


def _write_rule(rule: Rule, renamed: Mapping[str, str]) -> str:
    body = _write(rule.body, renamed)
    return f"({body}) (= {_write(rule.lookahead, renamed)})" if rule.lookahead else body


def _write(expr: Expr, renamed: Mapping[str, str]) -> str:  # noqa: PLR0911 - one case per kind of expression
    match expr:  # patterns with arguments would take half as long again
        case RuleRef():
            return renamed.get(expr.name, expr.name)
        case GuardedText():
            return renamed.get(expr.widened.name, expr.widened.name)
        case Literal():
            return _write_text(expr.text)
        case Concatenation():
            written = [(item, _write(item, renamed)) for item in expr.items]
            return " ".join([f"({text})" if isinstance(item, Choice) else text for item, text in written])
        case Choice():
            return " | ".join([_write(option, renamed) for option in expr.options])
        case CharClass():
            return _write_class(expr.ranges)
        case Repeat():
            return _write(expr.item, renamed) + _write_count(expr.low, expr.high)
        case Prose():
            texts = ", ".join(map(_quoted, expr.excludes))
            return f"TagDispatch(loop_after_dispatch=false, excludes=({texts}))"


def _write_text(text: str) -> str:
    if text.isascii() and text.isprintable():
        return _quoted(text)
    return " ".join(map(_quoted, _MISREAD.split(text)))


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _write_count(low: int, high: int | None) -> str:
    if high is None and low < 2:
        return "*" if low == 0 else "+"
    return f"{{{low},{'' if high is None else high}}}"


@cached_if_small
def _write_class(ranges: Ranges) -> str:
    if not ranges:
        return "[^\\u0000-\\U0010ffff]"
    return "[" + "".join(map(_write_range, ranges)) + "]"


def _write_range(span: tuple[int, int]) -> str:
    low, high = span
    first = _escape(low, in_class=True)
    return first if low == high else f"{first}-{_escape(high, in_class=True)}"


def _escape(code: int, *, in_class: bool) -> str:
    char = chr(code)
    if char in {'"', "\\"} or (in_class and char in "]-^["):
        return "\\" + char
    if 0x20 <= code < 0x7F:
        return char
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


class _Escapes(dict[int, str]):
    """How characters are written in quotes, by code point."""

    def __missing__(self, code: int) -> str:
        return _escape(code, in_class=False)


_ESCAPES = _Escapes((code, _escape(code, in_class=False)) for code in range(0x80))


def check_characters(text: str, pointer: str) -> None:
    """Refuse a text with a character that is never written; raises UnsupportedSchema."""
    for char in text:
        if not charset.contains(ALLOWED_CHARACTERS, ord(char)):
            kind = "a lone surrogate" if 0xD800 <= ord(char) <= 0xDFFF else "a control character"
            raise UnsupportedSchema(pointer, "", f"it holds {kind}, U+{ord(char):04X}", "Leave it out.")
