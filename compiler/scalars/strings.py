"""Lowering of JSON strings: constraints in, an expression over their JSON encodings out.

Patterns, formats, excluded values and `minLength` are kept by rules. Who keeps `maxLength` depends on what it
costs:

- without a pattern a guard does (`compiler.guard.string_bounds`), or where it may not, rules
  (`compiler.scalars.counted_repetition`);
- beside a pattern whose texts are all short enough, nobody has to;
- beside any other one a guard does, if it can tell how a text is ended in time (see `_guarded_bound`);
- or else rules do, which multiplies the states of the pattern by counts (`bounded_by_count`);
- and where these are too many, some long texts are left out (`bounded_by_tails`, or a lower bound).
"""

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace

from compiler.errors import UnsupportedKeyword
from compiler.grammar.grammar import CharClass, Expr, Literal, choice, concat
from compiler.grammar.rules import RuleSink
from compiler.guard.string_bounds import LengthBound, string_automaton
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.dfa import Dfa, TooManyStates
from compiler.regular.ecma import MAX_COUNT, PatternError
from compiler.regular.formats import BASE64, FORMATS, outer_pattern
from compiler.regular.language import PatternCondition, language
from compiler.report import Verdict
from compiler.scalars.char_encoding import QUOTE, CharEncoding, any_character, as_json
from compiler.scalars.counted_repetition import MAX_LENGTH, CountedRepetition
from compiler.scalars.length_bounds import (
    MAX_COST,
    MAX_COST_OF_KEYS,
    BoundedAutomaton,
    Suffix,
    bounded_by_count,
    bounded_by_tails,
    other_than,
)
from compiler.scalars.text_rules import text_rules

LATEST = 20
"""Draft 2020-12."""
LOWER_COUNTS = (64, 32, 16, 8)
"""Tried in turn where a pattern that counts higher has too many states."""
Note = tuple[str, Verdict, str]


@dataclass(frozen=True)
class StringConstraint:
    """Which strings are admitted; lengths count code points."""

    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[str, ...] = ()
    excluded_patterns: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    excluded_formats: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    content_media_types: tuple[str, ...] = ()
    content_encodings: tuple[str, ...] = ()
    draft: int = LATEST

    @property
    def only_excludes(self) -> bool:
        """Whether nothing but single values is left out: the undeclared keys of an open object."""
        return self == StringConstraint(
            self.min_length, self.max_length, excluded=self.excluded, draft=self.draft
        )

    @property
    def blamed(self) -> str:
        """The keyword to blame where the automaton is too large, or cannot be had."""
        if self.only_excludes:
            return "properties"
        return "pattern" if self.patterns or self.excluded_patterns else "format"

    def parts(self) -> tuple[list[PatternCondition], list[Note]]:
        """Everything but lengths and single values as patterns.

        Raises:
            UnsupportedKeyword: it says what is inside a string.
        """
        parts = [PatternCondition(pattern) for pattern in self.patterns]
        parts += [PatternCondition(pattern, is_excluded=True) for pattern in self.excluded_patterns]
        notes: list[Note] = []
        for name in self.formats:
            known = FORMATS.get(name)
            if known is None:
                continue  # the specification gives an unknown format no force; the report says so
            known = known.within(self.max_length)
            parts.append(PatternCondition(known.pattern))
            if known.excluded:
                parts.append(PatternCondition(known.excluded, is_excluded=True))
            if known.note:
                notes.append(("format", Verdict.NARROWED, known.note))
        for name in self.excluded_formats:
            parts.append(PatternCondition(outer_pattern(name, self.draft), is_excluded=True))
            notes.append(("format", Verdict.NARROWED, f"where no {name} may be, nothing like one"))
        if self.content_media_types or any(name != "base64" for name in self.content_encodings):
            raise UnsupportedKeyword("contentMediaType", "asserts what is inside a string", "Leave it out.")
        parts += [PatternCondition(BASE64) for _ in self.content_encodings]
        return parts, notes

    def within_reach(self) -> "tuple[StringConstraint, list[Note]]":
        """The same with a length bound that rules can count up to.

        Raises:
            UnsupportedKeyword: the strings must be longer.
        """
        if self.min_length > MAX_LENGTH:
            raise UnsupportedKeyword("minLength", f"is more than {MAX_LENGTH}", "Lower it.")
        if self.max_length is None:
            return self, []
        formats = [FORMATS[name].within(self.max_length) for name in self.formats if name in FORMATS]
        most = min([MAX_LENGTH, *(known.max_length for known in formats if known.max_length is not None)])
        if self.max_length <= most:
            return self, []
        note = ("maxLength", Verdict.NARROWED, f"at most {most} characters")
        return replace(self, max_length=most), [note]

    def automaton(self) -> Dfa:
        """What patterns, formats and exclusions admit whatever counts are narrowed, lengths aside.

        Raises:
            UnsupportedKeyword: a keyword cannot be upheld.
        """
        try:
            return language(self.parts()[0], self.excluded, most=LOWER_COUNTS[-1])
        except (PatternError, TooManyStates) as error:
            raise UnsupportedKeyword(self.blamed, str(error)) from error


@dataclass(frozen=True)
class LoweredString:
    """An expression of the encodings, quotes included, and what became of each keyword."""

    expr: Expr
    notes: tuple[Note, ...] = ()
    bound: LengthBound | None = None
    """What a guard must keep it to, if the expression does not."""
    is_plain: bool = False
    """From the second character on any may follow, and the end."""


SHORTEST_GUARDED = 8
"""Few tokens open a string and write more of it; lower bounds are left to rules, which all of them share."""
_VALUE_END = CharClass.of(",", "}", "]")
_KEY_END = CharClass.of(":")


def lower_string(
    constraint: StringConstraint,
    rules: RuleSink,
    *,
    in_container: bool = True,
    is_key: bool = False,
    is_guarded: bool = False,
) -> LoweredString | None:
    """The JSON encodings, quotes included, of the strings admitted; None if there is none.

    In a container a value is followed by `,`, `}` or `]`, and a key by `:`. Where it `is_guarded`, an upper
    bound may be left to a guard; it is then in the result.

    Raises:
        UnsupportedKeyword: a keyword cannot be upheld.
    """
    ahead = (_KEY_END if is_key else _VALUE_END) if in_container else None
    lowered = StringLowering(rules, ahead, is_guarded=is_guarded).lower(constraint)
    return lowered and replace(lowered, expr=concat(QUOTE, lowered.expr))


@dataclass(frozen=True)
class StringLowering:
    """Strings of one place in a grammar, up to the text that closes them, without the quote that opens them.

    `ahead` is what is known to follow `close`, and `name` begins the names of the rules that strings spelled
    alike share. Characters of `left_out` are never written.
    """

    rules: RuleSink
    ahead: CharClass | None
    close: Literal = QUOTE
    _: KW_ONLY
    name: str = "chars"
    encode: CharEncoding = as_json
    left_out: Ranges = ()
    is_guarded: bool = False

    def lower(self, constraint: StringConstraint) -> LoweredString | None:
        """The strings admitted and what closes them; None if there is none.

        Raises:
            UnsupportedKeyword: a keyword cannot be upheld.
        """
        low, high = constraint.min_length, constraint.max_length
        is_bare = constraint == StringConstraint(low, high, draft=constraint.draft)
        if is_bare and self.is_guarded and high is not None and max(low, SHORTEST_GUARDED) <= high:
            lowered = self.lower(replace(constraint, max_length=None))
            return lowered and _guarded(lowered, LengthBound(high))
        constraint, more = constraint.within_reach()
        parts, notes = constraint.parts()
        if not parts and not constraint.excluded:
            body = self._tail(Suffix(charset.ALL, constraint.min_length, constraint.max_length))
            is_plain = constraint.min_length < 2 and constraint.max_length is None
            return LoweredString(body, (*notes, *more), is_plain=is_plain)
        try:
            lowered = self._matching(parts, constraint)
        except PatternError as error:
            raise UnsupportedKeyword(constraint.blamed, str(error), "Write it without.") from error
        except TooManyStates as error:
            raise UnsupportedKeyword(constraint.blamed, str(error), "Simplify it.") from error
        return lowered and replace(lowered, notes=(*notes, *more, *lowered.notes))

    def _matching(self, parts: list[PatternCondition], constraint: StringConstraint) -> LoweredString | None:
        """Strings that meet every part; patterns count less far where that needs too many states."""
        if constraint.only_excludes and (constraint.min_length, constraint.max_length) == (0, None):
            return self._of_bounded(other_than(constraint.excluded))
        counts = [MAX_COUNT, *(LOWER_COUNTS if constraint.patterns else ())]
        for most in counts:
            try:
                lowered = self._of_dfa(language(parts, constraint.excluded, most=most), constraint)
            except (TooManyStates, UnsupportedKeyword):
                if most == counts[-1]:
                    raise
                continue
            if lowered is None or most == MAX_COUNT:
                return lowered
            note = ("pattern", Verdict.NARROWED, f"counts to {most} at most")
            return replace(lowered, notes=(*lowered.notes, note))
        raise AssertionError("the last count returns or raises")

    def _of_dfa(self, dfa: Dfa, constraint: StringConstraint) -> LoweredString | None:
        """Strings of an automaton within the length bounds; a bound too large to count is narrowed."""
        low, high = constraint.min_length, constraint.max_length
        longest = dfa.max_length
        if longest is not None and high is not None and longest <= high:
            high = None
        max_cost = MAX_COST_OF_KEYS if constraint.only_excludes else MAX_COST
        bound = None if high is None or not self.is_guarded else _guarded_bound(dfa, low, high)
        if bound is not None:
            with suppress(TooManyStates):
                lowered = self._of_bounded(bounded_by_count(dfa, low, None, max_cost=max_cost))
                return lowered and _guarded(lowered, bound)
        try:
            return self._of_bounded(bounded_by_count(dfa, low, high, max_cost=max_cost))
        except TooManyStates as error:
            if high is None:
                keyword = "minLength" if low else constraint.blamed
                raise UnsupportedKeyword(keyword, str(error), "Simplify it.") from error
        return self._narrowed(dfa, low, high)

    def _narrowed(self, dfa: Dfa, low: int, high: int) -> LoweredString:
        """Strings up to a bound that is quicker to count."""
        with suppress(TooManyStates):
            by_tails = bounded_by_tails(dfa, low, high)
            if by_tails is not None and (lowered := self._of_bounded(by_tails[0])) is not None:
                note = f"up to {by_tails[1]} characters less beside the pattern"
                return LoweredString(lowered.expr, (("maxLength", Verdict.NARROWED, note),))
        while high > max(low, 1):
            high = max(low, high * 3 // 4)
            with suppress(TooManyStates):
                lowered = self._of_bounded(bounded_by_count(dfa, low, high))
                if lowered is None:
                    break
                note = f"at most {high} characters beside the pattern"
                return LoweredString(lowered.expr, (("maxLength", Verdict.NARROWED, note),))
        raise UnsupportedKeyword("maxLength", "is too large to be counted beside a pattern", "Lower it.")

    def _of_bounded(self, texts: BoundedAutomaton | None) -> LoweredString | None:
        if texts is not None and self.left_out:
            texts = texts.without(self.left_out)
        if texts is None:
            return None
        body = text_rules(
            texts, self.rules, encode=self.encode, tail=self._tail, close=self.close, ahead=self.ahead
        )
        return LoweredString(body)

    def _tail(self, tail: Suffix) -> Expr:
        """Strings of characters of one set."""
        ranges = charset.intersection(tail.ranges, charset.complement(self.left_out))
        return self._repetition(ranges).between(tail.low, tail.high) if ranges else self.close

    def _repetition(self, ranges: Ranges) -> CountedRepetition:
        key = "_".join([self.name, *(f"{low:x}_{high:x}" for low, high in ranges)])

        def one_of_them(rest: Expr) -> Expr:
            return choice(*(concat(char, rest) for char in self.encode(ranges)))

        key, encode = ("any_chars", any_character) if ranges == charset.ALL else (key, one_of_them)
        return CountedRepetition(key, encode, self.ahead, self.rules, self.close)


def _guarded_bound(dfa: Dfa, low: int, high: int) -> LengthBound | None:
    """What a guard may keep the texts of an automaton to; None where rules must count them."""
    settled = dfa.always_accepts_after
    if settled is not None and max(settled, low, SHORTEST_GUARDED) <= high:
        return LengthBound(high)
    try:
        pattern = string_automaton(dfa, low)
    except TooManyStates:
        return None
    is_free = pattern.num_unchecked(high, SHORTEST_GUARDED) == SHORTEST_GUARDED
    return LengthBound(high, pattern) if is_free and pattern.is_shortest_in_bytes else None


def _guarded(lowered: LoweredString, bound: LengthBound) -> LoweredString:
    note = ("maxLength", Verdict.GUARDED, "counted while the string is written")
    return replace(lowered, notes=(*lowered.notes, note), bound=bound)
