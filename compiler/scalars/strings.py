"""Lowering of JSON strings: what a schema says of a string becomes the rules of its JSON texts.

Rules enforce patterns, formats, excluded values and `minLength`. Without a pattern, a guard enforces a
`minLength` above `LONGEST_BY_RULES`, since every counted character costs some 20 ms to compile. What enforces
`maxLength` depends on its cost:

- Without a pattern, a guard does (`compiler.guard.string_bounds`). Bounds below `SHORTEST_GUARDED` are too
  tight for it. There rules do, and wherever a guard may not count (`compiler.scalars.counted_repetition`).
- Beside a pattern whose texts are all short enough, nothing has to.
- Beside any other pattern a guard does, if it can tell how to end a text in time (see `_guarded_bound`).
- Otherwise rules do: each state of the pattern gets a copy for each count (`bounded_by_count`).
- If such rules cost too much, a guard enforces the whole pattern, if it can (`_lower_guarded_pattern`). A
  count of all characters beside lookaheads, as in patterns of passwords, then becomes a bound on the length.
- If a guard cannot, some long texts are left out (`bounded_by_suffixes`, or a lower bound on the length).

A guard may not count in keys, in strings without quotes, beside a pattern in items that must be distinct, or
where it could not tell a string from others at the same place (see `Lowering.string`).
"""

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from typing import NamedTuple

from compiler.errors import UnsupportedKeyword
from compiler.grammar.grammar import CharClass, Expr, GuardedText, Literal, RuleRef, choice, concat
from compiler.grammar.rules import RuleTable
from compiler.guard.string_automaton import string_automaton
from compiler.guard.string_bounds import UNBOUNDED, LengthBound
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.dfa import Dfa, TooManyStates
from compiler.regular.ecma import MAX_COUNT
from compiler.regular.formats import COMPILED_AHEAD
from compiler.regular.language import PatternCondition, language
from compiler.regular.pattern_tree import PatternError
from compiler.report import Note, Verdict
from compiler.scalars.char_encoding import QUOTE, CharEncoding, any_json_char, as_json
from compiler.scalars.counted_repetition import CountedRepetition
from compiler.scalars.length_bounds import (
    MAX_COST,
    MAX_COST_OF_KEYS,
    BoundedAutomaton,
    Suffix,
    bounded_by_count,
    bounded_by_suffixes,
    other_than,
)
from compiler.scalars.string_constraint import LOWER_COUNTS, StringConstraint
from compiler.scalars.text_rules import TextRules
from compiler.vocabulary import KEY_MARK


@dataclass(frozen=True)
class LoweredString:
    """The texts of a set of strings, quotes included, and notes on how keywords are enforced."""

    expr: Expr
    notes: tuple[Note, ...] = ()
    bound: LengthBound | None = None
    """The bound that a guard must enforce, if the expression does not."""
    is_plain: bool = False
    """Whether from the second character on any character, or the end, may follow."""


LONGEST_BY_RULES = 16
"""The largest `minLength` that rules count where a guard could: priming compiles the rules up to 12."""
MAX_COST_OF_COUNTS = 100
"""The largest cost of rules of patterns that must not match; if they cost more, their counts are lowered."""
MAX_COST_EXCLUDED = 40
"""The same limit where texts can be left out instead: the exact rules take ten times as long to compile."""
MAX_COST_BESIDE_GUARD = 40
"""The largest `BoundedAutomaton.cost` of rules where a guard could enforce the whole pattern: 100 ms."""
SHORTEST_GUARDED = 8
"""Rules count bounds below this one: with a short bound most tokens are too long, and a guard is slow."""
_VALUE_END = CharClass.of(",", "}", "]")
_KEY_END = CharClass.of(":", KEY_MARK)


def lower_string(
    constraint: StringConstraint,
    rules: RuleTable,
    *,
    in_container: bool = True,
    is_key: bool = False,
    is_guarded: bool = False,
    is_distinct: bool = False,
) -> LoweredString | None:
    """The JSON texts, quotes included, of the strings that a constraint admits; None if there are none.

    `in_container`: a value is followed by `,`, `}` or `]`, a key by `:`. `is_guarded`: an upper bound may be
    left to a guard; it is then in the result. `is_distinct`: a guard compares the string with others.

    Raises:
        UnsupportedKeyword: a keyword cannot be enforced.
    """
    ahead = (_KEY_END if is_key else _VALUE_END) if in_container else None
    lowered = StringLowering(rules, ahead, is_guarded=is_guarded, is_distinct=is_distinct).lower(constraint)
    return lowered and replace(lowered, expr=concat(QUOTE, lowered.expr))


@dataclass(frozen=True)
class StringLowering:
    """Lowers strings without the quote that opens them, each followed by `close`.

    `ahead` is what is known to follow `close`. `name` begins the names of the rules that all strings with the
    same encoding share. Characters of `left_out` are never written.
    """

    rules: RuleTable
    ahead: CharClass | None
    close: Literal = QUOTE
    _: KW_ONLY
    name: str = "chars"
    encode: CharEncoding = as_json
    left_out: Ranges = ()
    is_guarded: bool = False
    is_distinct: bool = False

    def lower(self, constraint: StringConstraint) -> LoweredString | None:
        """The strings that a constraint admits, each followed by `close`; None if there are none.

        Raises:
            UnsupportedKeyword: a keyword cannot be enforced.
        """
        if self.is_guarded:
            guarded = self._lower_guarded_lengths(constraint) or self._lower_guarded_formats(constraint)
            if guarded is not None:
                return guarded
        constraint, length_notes = constraint.with_countable_length()
        conditions, notes = constraint.conditions()
        notes += length_notes
        if not conditions and not constraint.excluded and not constraint.alternatives:
            low, high = constraint.min_length, constraint.max_length
            body = self._lower_suffix(Suffix(charset.ALL, low, high))
            return LoweredString(body, tuple(notes), is_plain=low < 2 and high is None)
        try:
            if self.is_guarded:
                conditions, constraint = constraint.with_counts_as_lengths(conditions)
            lowered = self._lower_patterns(conditions, constraint)
        except PatternError as error:
            raise UnsupportedKeyword(constraint.blamed_keyword, str(error), error.suggestion) from error
        except TooManyStates as error:
            raise UnsupportedKeyword(constraint.blamed_keyword, str(error), "Simplify it.") from error
        return lowered and replace(lowered, notes=(*notes, *lowered.notes))

    def lower_dfa(self, dfa: Dfa) -> Expr | None:
        """The texts of an automaton, each followed by `close`; None if there are none.

        Raises:
            TooManyStates: the rules would cost too much.
        """
        lowered = self._lower_bounded(bounded_by_count(dfa, 0, None))
        return None if lowered is None else lowered.expr

    def _lower_patterns(
        self, conditions: list[PatternCondition], constraint: StringConstraint
    ) -> LoweredString | None:
        """Strings that meet every condition.

        Counts in a pattern are lowered if it has too many states. In a pattern that must not match they are
        also lowered if that makes its complement much cheaper.
        """
        if constraint.only_excludes and (constraint.min_length, constraint.max_length) == (0, None):
            return self._lower_bounded(other_than(constraint.excluded))
        *attempts, last = _attempts(constraint)
        for attempt in attempts:
            with suppress(TooManyStates, UnsupportedKeyword):
                lowered = self._try(attempt, conditions, constraint)
                if lowered is not None or not attempt.excludes_beginnings:
                    return lowered
        return self._try(last, conditions, constraint)

    def _try(
        self, attempt: "_Attempt", conditions: list[PatternCondition], constraint: StringConstraint
    ) -> LoweredString | None:
        """Strings that meet every condition as one attempt reads it."""
        read = [
            replace(condition, excludes_beginnings=attempt.excludes_beginnings) for condition in conditions
        ]
        lowered = self._lower_dfa(constraint.language(read, attempt.most), constraint, attempt.max_cost)
        return lowered and replace(lowered, notes=(*lowered.notes, *attempt.notes(constraint)))

    def _lower_guarded_lengths(self, constraint: StringConstraint) -> LoweredString | None:
        """Strings that only their length bounds restrict, if a guard counts them; None if rules do."""
        if not constraint.has_only_lengths:
            return None
        low, high = constraint.min_length, constraint.max_length
        if not self.is_distinct and low > LONGEST_BY_RULES:
            keywords = ("minLength", "maxLength")
            if (lowered := self._lower_guarded_pattern(language([]), low, high, keywords)) is not None:
                return lowered
        if high is None or max(low, SHORTEST_GUARDED) > high:
            return None
        lowered = self.lower(replace(constraint, max_length=None))
        return lowered and _with_guarded_bound(lowered, LengthBound(high))

    def _lower_guarded_formats(self, constraint: StringConstraint) -> LoweredString | None:
        """Strings of formats whose lengths a guard enforces; None if it need not, or cannot.

        If a format bounds the lengths of parts, such as the labels of a host name, the guard enforces the
        whole pattern: rules would take many states.

        Raises:
            UnsupportedKeyword: a keyword describes content inside the string.
        """
        formats = constraint.known_formats
        highs = [constraint.max_length, *(known.max_length for known in formats)]
        high = min((high_bound for high_bound in highs if high_bound is not None), default=None)
        if high is None or all(known.counted is None for known in formats):
            return None
        conditions, notes = constraint.conditions(is_guarded=True)
        low, lowered = constraint.min_length, None
        with suppress(PatternError, TooManyStates):
            texts = language(conditions, constraint.excluded)
            if any(known.lengths is not None for known in formats):
                lowered = self._lower_guarded_pattern(texts, low, high, _guarded_keywords(constraint))
            elif (bound := _guarded_bound(texts, low, high)) is not None:
                lowered = self._lower_bounded(bounded_by_count(texts, low, None))
                lowered = lowered and _with_guarded_bound(lowered, bound)
        return lowered and replace(lowered, notes=(*notes, *lowered.notes))

    def _lower_dfa(self, dfa: Dfa, constraint: StringConstraint, max_cost: int) -> LoweredString | None:
        """Strings of an automaton within the length bounds; an upper bound that costs too much is lowered."""
        low, high = constraint.min_length, constraint.max_length
        if high is not None and dfa.max_length is not None and dfa.max_length <= high:
            high = None
        if (
            self.is_guarded
            and _is_costly(dfa, constraint)
            and (whole := self._lower_guarded_pattern(dfa, low, high, _guarded_keywords(constraint)))
        ):
            return whole
        bound = None if high is None or not self.is_guarded else _guarded_bound(dfa, low, high)
        if bound is not None:
            with suppress(TooManyStates):
                lowered = self._lower_bounded(bounded_by_count(dfa, low, None, max_cost=max_cost))
                return lowered and _with_guarded_bound(lowered, bound)
        try:
            return self._lower_bounded(bounded_by_count(dfa, low, high, max_cost=max_cost))
        except TooManyStates as error:
            if high is None:
                keyword = "minLength" if low else constraint.blamed_keyword
                raise UnsupportedKeyword(keyword, str(error), "Simplify it.") from error
        return self._lower_in_part(dfa, low, high)

    def _lower_guarded_pattern(
        self, dfa: Dfa, low: int, high: int | None, keywords: tuple[str, ...]
    ) -> LoweredString | None:
        """Strings whose pattern and lengths a guard enforces; None if it cannot, or there are none.

        With an upper bound, the ending of fewest bytes must also have fewest characters, because that is the
        ending which the closer writes.
        """
        try:
            automaton = string_automaton(dfa, low, enforces_pattern=True)
        except TooManyStates:
            return None
        bound = LengthBound(UNBOUNDED if high is None else high, automaton)
        if not automaton.characters:  # the empty string is all there is
            return None
        if automaton.distance[0] > bound.max_length or not (high is None or automaton.is_shortest_in_bytes):
            return None
        characters = self._repetition(f"{self.name}_as_json", automaton.characters, as_json)
        widened = characters.between(0, None)
        assert isinstance(widened, RuleRef), "a repetition without bounds is one rule"
        reason = "followed while the string is written"
        notes = tuple((keyword, Verdict.GUARDED, reason) for keyword in keywords)
        return LoweredString(GuardedText(automaton, widened), notes, bound, is_plain=True)

    def _lower_in_part(self, dfa: Dfa, low: int, high: int) -> LoweredString:
        """Those strings within the length bounds that cost less to count."""
        with suppress(TooManyStates):
            by_suffixes = bounded_by_suffixes(dfa, low, high)
            if by_suffixes is not None and (lowered := self._lower_bounded(by_suffixes[0])) is not None:
                note = f"up to {by_suffixes[1]} characters less, because of the pattern"
                return LoweredString(lowered.expr, (("maxLength", Verdict.NARROWED, note),))
        while high > max(low, 1):
            high = max(low, high * 3 // 4)
            with suppress(TooManyStates):
                lowered = self._lower_bounded(bounded_by_count(dfa, low, high))
                if lowered is None:
                    break
                note = f"at most {high} characters, because of the pattern"
                return LoweredString(lowered.expr, (("maxLength", Verdict.NARROWED, note),))
        raise UnsupportedKeyword(
            "maxLength", "is too large to be counted together with the pattern", "Lower it."
        )

    def _lower_bounded(self, texts: BoundedAutomaton | None) -> LoweredString | None:
        """The texts of an automaton, without those that have left-out characters; None if there are none."""
        if texts is not None and self.left_out:
            texts = texts.without(self.left_out)
        if texts is None:
            return None
        text_rules = TextRules(
            texts,
            self.rules,
            encode=self.encode,
            lower_suffix=self._lower_suffix,
            close=self.close,
            ahead=self.ahead,
        )
        return LoweredString(text_rules.lower())

    def _lower_suffix(self, suffix: Suffix) -> Expr:
        """The texts of a suffix, each followed by `close`."""
        ranges = charset.intersection(suffix.ranges, charset.complement(self.left_out))
        if not ranges:
            return self.close
        if ranges == charset.ALL:
            chars = CountedRepetition("any_chars", any_json_char, self.ahead, self.rules, self.close)
        else:
            chars = self._repetition(self.name, ranges, self.encode)
        return chars.between(suffix.low, suffix.high)

    def _repetition(self, name: str, ranges: Ranges, encode: CharEncoding) -> CountedRepetition:
        """Texts of characters of a set; `name` begins the names of their rules."""
        key = "_".join([name, *(f"{low:x}_{high:x}" for low, high in ranges)])

        def one_and(rest: Expr) -> Expr:
            return choice(*(concat(char, rest) for char in encode(ranges)))

        return CountedRepetition(key, one_and, self.ahead, self.rules, self.close)


class _Attempt(NamedTuple):
    """A way to read patterns: the highest count in them, and what their rules may then cost.

    `excludes_beginnings`: texts that begin like one that must not match are left out.
    """

    most: int
    max_cost: int
    excludes_beginnings: bool = False

    def notes(self, constraint: StringConstraint) -> tuple[Note, ...]:
        """What is left out."""
        if self.excludes_beginnings:
            note = "texts are left out that begin like one that does not match"
            return (("not", Verdict.NARROWED, note),)
        if self.most == MAX_COUNT:
            return ()
        if not constraint.only_excludes_patterns:
            return (("pattern", Verdict.NARROWED, f"repetitions in it go up to {self.most} at most"),)
        note = f"texts are left out that do not match only because of a count beyond {self.most}"
        return (("not", Verdict.NARROWED, note),)


def _attempts(constraint: StringConstraint) -> list[_Attempt]:
    """The ways to read the patterns, tried in turn."""
    if constraint.only_excludes:
        return [_Attempt(MAX_COUNT, MAX_COST_OF_KEYS)]
    counts = (MAX_COUNT, *(LOWER_COUNTS if constraint.has_patterns else ()))
    of_any_cost = [_Attempt(most, MAX_COST) for most in counts]
    if not constraint.only_excludes_patterns:
        return of_any_cost
    cheap = [
        _Attempt(MAX_COUNT, MAX_COST_EXCLUDED),
        _Attempt(MAX_COUNT, MAX_COST_EXCLUDED, excludes_beginnings=True),
    ]
    return [*cheap, *(_Attempt(most, MAX_COST_OF_COUNTS) for most in counts), *of_any_cost]


def _is_costly(dfa: Dfa, constraint: StringConstraint) -> bool:
    """Whether rules of the patterns, `minLength` counted, take longer to compile than a guard may cost."""
    if not constraint.has_patterns and set(constraint.formats) <= {*COMPILED_AHEAD}:
        return False
    try:
        texts = bounded_by_count(dfa, constraint.min_length, None, max_cost=MAX_COST_BESIDE_GUARD)
    except TooManyStates:
        return True
    return texts is not None and texts.cost_of_suffixes > MAX_COST_BESIDE_GUARD


def _guarded_keywords(constraint: StringConstraint) -> tuple[str, ...]:
    """The keywords that a guard enforces when it enforces a whole pattern."""
    return (*(["format"] if constraint.has_formats else ()), "pattern", "minLength", "maxLength")


def _guarded_bound(dfa: Dfa, low: int, high: int) -> LengthBound | None:
    """The upper bound if a guard can enforce it for the texts of an automaton; None if rules must."""
    accepts_after = dfa.always_accepts_after
    if accepts_after is not None and max(accepts_after, low, SHORTEST_GUARDED) <= high:
        return LengthBound(high)
    try:
        pattern = string_automaton(dfa, low)
    except TooManyStates:
        return None
    starts_unchecked = pattern.num_unchecked(high, SHORTEST_GUARDED) == SHORTEST_GUARDED
    return LengthBound(high, pattern) if starts_unchecked and pattern.is_shortest_in_bytes else None


def _with_guarded_bound(lowered: LoweredString, bound: LengthBound) -> LoweredString:
    note = ("maxLength", Verdict.GUARDED, "counted while the string is written")
    return replace(lowered, notes=(*lowered.notes, note), bound=bound)
