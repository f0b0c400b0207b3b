"""The grammar: rules over Unicode text, the target of every lowering.

An expression is one of `Literal`, `CharClass`, `Repeat`, `Concatenation`, `Choice` or `RuleRef`; a rule's
body can be `Prose` instead. All are frozen and hashable, so equal grammars are equal values. `to_ebnf` writes
what xgrammar compiles.

Shapes that are fast to mask (docs/benchmarks.md): right recursion; a lookahead where what follows is
known; `Repeat` over single character classes only. Counts of anything else are unrolled by the lowering.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import overload

from compiler.errors import UnsupportedSchema
from compiler.guard.plan import GuardPlan, plan_to_json
from compiler.regular import charset
from compiler.regular.charset import Ranges


@dataclass(frozen=True, slots=True)
class Literal:
    """Exactly this text; the empty text is the empty sentence."""

    text: str


@dataclass(frozen=True, slots=True)
class CharClass:
    """One character out of inclusive code point ranges: sorted, disjoint, without surrogates, not empty."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, *ranges: tuple[int, int] | str) -> "CharClass":
        """Normalise ranges and single characters; surrogates are cut out, as no decoder takes them back.

        Raises:
            ValueError: nothing is left.
        """
        spans = ((ord(span), ord(span)) if isinstance(span, str) else span for span in ranges)
        kept = charset.intersection(charset.union(spans), charset.ALL)
        if not kept:
            raise ValueError("an empty character class matches nothing")
        return cls(kept)


@dataclass(frozen=True, slots=True)
class Repeat:
    """`item` from `low` to `high` times; `high` None is without bound."""

    item: CharClass
    low: int = 0
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Concatenation:
    """One after the other."""

    items: tuple["Expr", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of, at least one."""

    options: tuple["Expr", ...]


@dataclass(frozen=True, slots=True)
class RuleRef:
    """The rule of that name."""

    name: str


@dataclass(frozen=True, slots=True)
class Prose:
    """Any bytes that hold none of these texts; may only be the whole body of a rule.

    Written as xgrammar's `TagDispatch`, which compiles in no time whatever the texts are, where an automaton
    over characters takes some 50 ms a state.
    """

    excludes: tuple[str, ...]


Expr = Literal | CharClass | Repeat | Concatenation | Choice | RuleRef | Prose

EMPTY = Literal("")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule's body; `lookahead` is sound only if every use of the rule is followed by such a text.

    A lookahead never removes a sentence: it tells the engine what follows, so that masks can be
    precomputed across the rule's end. Choices in it need a rule of their own.
    """

    body: Expr
    lookahead: CharClass | RuleRef | None = None


@dataclass(frozen=True)
class Grammar:
    """Rules by name and the name of the root; names match `[a-zA-Z_][a-zA-Z0-9_]*`."""

    rules: Mapping[str, Rule]
    root: str = "root"
    plan: GuardPlan | None = None
    """What guards must look at; None if the rules say everything."""

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
    """
    flat: list[Expr] = []
    for item in items:
        if item is None:
            return None
        for part in item.items if isinstance(item, Concatenation) else (item,):
            if isinstance(part, Literal) and flat and isinstance(flat[-1], Literal):
                flat[-1] = Literal(flat[-1].text + part.text)
            elif part != EMPTY:
                flat.append(part)
    if not flat:
        return EMPTY
    return flat[0] if len(flat) == 1 else Concatenation(tuple(flat))


def choice(*options: Expr) -> Expr:
    """A choice, flattened, duplicates dropped, order kept."""
    flat: dict[Expr, None] = {}
    for option in options:
        for part in option.options if isinstance(option, Choice) else (option,):
            flat[part] = None
    if not flat:
        raise ValueError("a choice needs at least one option")
    return next(iter(flat)) if len(flat) == 1 else Choice(tuple(flat))


def optional(item: Expr) -> Expr:
    """`item` or nothing."""
    return choice(item, EMPTY)


def union(options: Iterable[Expr | None]) -> Expr | None:
    """A choice of what there is, where None has no sentence; None if all are."""
    live = [option for option in options if option is not None]
    return choice(*live) if live else None


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """The expression and everything written inside it, as a reader meets it; references are not followed."""
    pending = [expr]
    while pending:
        part = pending.pop()
        yield part
        match part:
            case Concatenation(inner) | Choice(inner):
                pending += reversed(inner)


def to_ebnf(grammar: Grammar) -> str:
    """The grammar in xgrammar's EBNF, root rule first."""
    names = {name: f"r_{name}" if name == "root" else name for name in grammar.rules}
    names[grammar.root] = "root"
    order = [grammar.root, *(name for name in grammar.rules if name != grammar.root)]
    lines = []
    for name in order:
        rule = grammar.rules[name]
        ahead = f" (= {_write(rule.lookahead, names)})" if rule.lookahead else ""
        body = _write(rule.body, names)
        if ahead:
            body = f"({body})"
        lines.append(f"{names[name]} ::= {body}{ahead}\n")
    return "".join(lines)


def _write(expr: Expr, names: Mapping[str, str]) -> str:  # noqa: PLR0911 - one case per kind of expression
    match expr:
        case Literal(text):
            return '"' + "".join(_escape(ord(c), in_class=False) for c in text) + '"'
        case CharClass(ranges):
            return _write_class(ranges)
        case Repeat(item, low, high):
            return _write(item, names) + _write_count(low, high)
        case Concatenation(items):
            return " ".join(
                f"({_write(i, names)})" if isinstance(i, Choice) else _write(i, names) for i in items
            )
        case Choice(options):
            return " | ".join(_write(o, names) for o in options)
        case RuleRef(name):
            return names[name]
        case Prose(excludes):
            texts = ", ".join(_write(Literal(text), names) for text in excludes)
            return f"TagDispatch(loop_after_dispatch=false, excludes=({texts}))"


def _write_count(low: int, high: int | None) -> str:
    if high is None and low < 2:
        return "*" if low == 0 else "+"
    return f"{{{low},{'' if high is None else high}}}"


@lru_cache(maxsize=4096)
def _write_class(ranges: tuple[tuple[int, int], ...]) -> str:
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


CONTROL_CHARACTERS: Ranges = ((0x00, 0x08), (0x0B, 0x0C), (0x0E, 0x1F))
"""Never written: among them are the characters that stand for marker tokens."""
ALLOWED_CHARACTERS = charset.complement(CONTROL_CHARACTERS)


def check_characters(text: str, pointer: str) -> None:
    """Refuse a text that holds what is never written; raises UnsupportedSchema."""
    for char in text:
        if not charset.contains(ALLOWED_CHARACTERS, ord(char)):
            kind = "a lone surrogate" if 0xD800 <= ord(char) <= 0xDFFF else "a control character"
            raise UnsupportedSchema(pointer, "", f"it holds {kind}, U+{ord(char):04X}", "Leave it out.")
