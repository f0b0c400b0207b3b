"""Lowering of JSON strings: constraints in, an expression over their JSON encodings out."""

from contextlib import suppress
from dataclasses import dataclass, field, replace

from compiler.errors import UnsupportedKeyword
from compiler.grammar import CharClass, Expr, Literal, choice, sequence
from compiler.guard.pattern import Bound, pattern_of
from compiler.lengths import QUOTE, Texts
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.counted import MAX_COST, MAX_COST_OF_KEYS, Tail, Walk, counted, late_tails
from compiler.regular.dfa import Dfa, TooManyStates
from compiler.regular.ecma import MAX_COUNT, PatternError
from compiler.regular.encode import Spelling, encode
from compiler.regular.language import Part, language
from compiler.report import Verdict
from compiler.rules import RuleSink
from compiler.string_constraint import LOWER_COUNTS, Note, StringConstraint


@dataclass(frozen=True)
class LoweredString:
    """An expression of the encodings, quotes included, and what became of each keyword."""

    expr: Expr
    notes: tuple[Note, ...] = ()
    bound: Bound | None = None
    """What a guard must keep it to, if the expression does not."""
    is_plain: bool = False
    """From the second character on any may follow, and the end."""


SHORTEST_GUARDED = 8
"""Few tokens open a string and write more of it; lower bounds are left to rules, which all of them share."""
_SAFE = CharClass.of((0x20, 0x21), (0x23, 0x5B), (0x5D, charset.LAST))
_SHORT_ESCAPE = CharClass.of(*'"\\/bfnrt')
_HEX = CharClass.of((0x30, 0x39), (0x41, 0x46), (0x61, 0x66))
_D = CharClass.of("D", "d")
_UNICODE_ESCAPES: tuple[tuple[Expr, ...], ...] = (
    (CharClass.of(*"0123456789ABCEFabcef"), _HEX, _HEX, _HEX),
    (_D, CharClass.of(*"01234567"), _HEX, _HEX),
    (_D, CharClass.of(*"89ABab"), _HEX, _HEX, Literal("\\u"), _D, CharClass.of(*"CDEFcdef"), _HEX, _HEX),
)
"""Four digits, but for surrogates; and a pair of these for one character outside the basic plane."""
_VALUE_END = CharClass.of(",", "}", "]")
_KEY_END = CharClass.of(":")


def lower_string(
    constraint: StringConstraint,
    rules: RuleSink,
    *,
    in_container: bool = True,
    is_key: bool = False,
    ascii_escapes: bool = False,
    is_guarded: bool = False,
) -> LoweredString | None:
    """The JSON encodings, quotes included, of the strings admitted; None if there is none.

    In a container a value is followed by `,`, `}` or `]`, and a key by `:`. Where it `is_guarded`, an upper
    bound may be left to a guard; it is then in the result.

    Raises:
        UnsupportedKeyword: a keyword cannot be upheld.
    """
    ahead = (_KEY_END if is_key else _VALUE_END) if in_container else None
    texts = AllTexts(ahead, rules, Spelling(rules, ascii_escapes), is_guarded=is_guarded)
    lowered = texts.lower(constraint)
    return lowered and replace(lowered, expr=sequence(QUOTE, lowered.expr))


@dataclass(frozen=True)
class AllTexts:
    """What follows the opening quote, for strings of one place in a grammar."""

    ahead: CharClass | None
    rules: RuleSink
    spelling: Spelling
    is_guarded: bool = field(default=False, kw_only=True)

    def lower(self, constraint: StringConstraint) -> LoweredString | None:
        """The strings admitted and the closing quote; None if there is none.

        Raises:
            UnsupportedKeyword: a keyword cannot be upheld.
        """
        low, high = constraint.min_length, constraint.max_length
        is_bare = constraint == StringConstraint(low, high, draft=constraint.draft)
        if is_bare and self.is_guarded and high is not None and max(low, SHORTEST_GUARDED) <= high:
            lowered = self.lower(replace(constraint, max_length=None))
            return lowered and _guarded(lowered, Bound(high))
        constraint, more = constraint.within_reach()
        parts, notes = constraint.parts()
        if not parts and not constraint.excluded:
            body = self.of_tail(Tail(charset.ALL, constraint.min_length, constraint.max_length))
            is_plain = constraint.min_length < 2 and constraint.max_length is None
            return LoweredString(body, (*notes, *more), is_plain=is_plain)
        try:
            lowered = self._counted(parts, constraint)
        except PatternError as error:
            raise UnsupportedKeyword(constraint.blamed, str(error), "Write it without.") from error
        except TooManyStates as error:
            raise UnsupportedKeyword(constraint.blamed, str(error), "Simplify it.") from error
        return lowered and replace(lowered, notes=(*notes, *more, *lowered.notes))

    def _counted(self, parts: list[Part], constraint: StringConstraint) -> LoweredString | None:
        """Strings that meet every part; patterns count less far where that needs too many states."""
        counts = [MAX_COUNT, *(LOWER_COUNTS if constraint.patterns else ())]
        for most in counts:
            try:
                lowered = self.of_dfa(language(parts, constraint.excluded, most=most), constraint)
            except (TooManyStates, UnsupportedKeyword):
                if most == counts[-1]:
                    raise
                continue
            if lowered is None or most == MAX_COUNT:
                return lowered
            note = ("pattern", Verdict.NARROWED, f"counts to {most} at most")
            return replace(lowered, notes=(*lowered.notes, note))
        raise AssertionError("the last count returns or raises")

    def of_tail(self, tail: Tail) -> Expr:
        """Strings of one set of characters."""
        return self.of(tail.ranges).between(tail.low, tail.high)

    def of(self, ranges: Ranges) -> Texts:
        """Strings of characters of a set."""
        if ranges == charset.ALL:
            return Texts("any_chars", _character, self.ahead, self.rules)
        key = "_".join(["chars", *(f"{low:x}_{high:x}" for low, high in ranges)])
        if self.spelling.ascii_escapes:
            key = f"escaped_{key}"
        return Texts(key, self.spelling.before(ranges), self.ahead, self.rules)

    def of_dfa(self, dfa: Dfa, constraint: StringConstraint) -> LoweredString | None:
        """Strings of an automaton within the length bounds; a bound too large to count is narrowed."""
        low, high = constraint.min_length, constraint.max_length
        longest = dfa.longest
        if longest is not None and high is not None and longest <= high:
            high = None
        max_cost = MAX_COST_OF_KEYS if constraint.only_excludes else MAX_COST
        bound = None if high is None or not self.is_guarded else _bound(dfa, low, high)
        if bound is not None:
            with suppress(TooManyStates):
                lowered = self.of_walk(counted(dfa, low, None, max_cost=max_cost))
                return lowered and _guarded(lowered, bound)
        try:
            return self.of_walk(counted(dfa, low, high, max_cost=max_cost))
        except TooManyStates as error:
            if high is None:
                keyword = "minLength" if low else constraint.blamed
                raise UnsupportedKeyword(keyword, str(error), "Simplify it.") from error
        return self._narrowed(dfa, low, high)

    def _narrowed(self, dfa: Dfa, low: int, high: int) -> LoweredString:
        """Strings up to a bound that is quicker to count."""
        with suppress(TooManyStates):
            late = late_tails(dfa, low, high)
            if late is not None and (lowered := self.of_walk(late[0])) is not None:
                note = f"up to {late[1]} characters less beside the pattern"
                return LoweredString(lowered.expr, (("maxLength", Verdict.NARROWED, note),))
        while high > max(low, 1):
            high = max(low, high * 3 // 4)
            with suppress(TooManyStates):
                lowered = self.of_walk(counted(dfa, low, high))
                if lowered is None:
                    break
                note = f"at most {high} characters beside the pattern"
                return LoweredString(lowered.expr, (("maxLength", Verdict.NARROWED, note),))
        raise UnsupportedKeyword("maxLength", "is too large to be counted beside a pattern", "Lower it.")

    def of_walk(self, walk: Walk | None) -> LoweredString | None:
        """Strings of a walk."""
        if walk is None:
            return None
        body = encode(walk, self.rules, ahead=self.ahead, tail=self.of_tail, spell=self.spelling)
        return LoweredString(body)


def _bound(dfa: Dfa, low: int, high: int) -> Bound | None:
    """What a guard may keep the texts of an automaton to; None where rules must count them."""
    settled = dfa.settled_after
    if settled is not None and max(settled, low, SHORTEST_GUARDED) <= high:
        return Bound(high)
    try:
        pattern = pattern_of(dfa, low)
    except TooManyStates:
        return None
    is_free = pattern.num_free(high, SHORTEST_GUARDED) == SHORTEST_GUARDED
    return Bound(high, pattern) if is_free and pattern.ends_in_bytes_as_in_characters else None


def _guarded(lowered: LoweredString, bound: Bound) -> LoweredString:
    note = ("maxLength", Verdict.GUARDED, "counted while the string is written")
    return replace(lowered, notes=(*lowered.notes, note), bound=bound)


def _character(rest: Expr) -> Expr:
    """One character in any spelling, then `rest`.

    All in one rule: behind a rule of escapes, xgrammar would look at each token that goes on by itself.
    """
    return choice(
        sequence(_SAFE, rest),
        sequence(Literal("\\"), _SHORT_ESCAPE, rest),
        *(sequence(Literal("\\u"), *digits, rest) for digits in _UNICODE_ESCAPES),
    )
