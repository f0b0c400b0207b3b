"""What a schema says of a string, as a plain value."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from compiler.errors import UnsupportedKeyword
from compiler.regular.dfa import Dfa, TooManyStates
from compiler.regular.ecma import MAX_COUNT, disputed, meets_names
from compiler.regular.formats import BASE64, FORMATS, Format, WrittenTexts, outer_pattern
from compiler.regular.language import PatternCondition, language, text_length, union_of
from compiler.regular.pattern_tree import PatternError
from compiler.report import Note, Verdict
from compiler.scalars.counted_repetition import MAX_LENGTH
from toolspecs.schemas.drafts import NEWEST_DRAFT

LOWER_COUNTS = (64, 32, 16, 8)
"""Upper bounds of repetitions, tried in turn where a pattern with higher ones has too many states."""

_ASCII_WORDS = (
    r"\w is a letter, a digit or _ of ASCII, as ECMA-262 says; letters such as é are left out, which other "
    r"engines take for \w. To admit names of people, write [\p{L}\p{N}_]"
)
_DISPUTED = (
    "without texts beyond ASCII, or with line ends, on which engines disagree: they read {} differently"
)


@dataclass(frozen=True)
class StringConstraint:
    """Which strings a schema admits; lengths are in code points."""

    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[str, ...] = ()
    excluded_patterns: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    excluded_formats: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    content_media_types: tuple[str, ...] = ()
    content_encodings: tuple[str, ...] = ()
    draft: int = NEWEST_DRAFT
    alternatives: "tuple[StringConstraint, ...]" = ()
    """If there are any, the string must satisfy one of these; they have no `maxLength`."""

    @property
    def values(self) -> Mapping[str, Collection[Any]]:
        """The values of the keywords that it stems from, by keyword."""
        return {
            "minLength": (self.min_length,),
            "maxLength": (self.max_length,),
            "pattern": [
                pattern for constraint in (self, *self.alternatives) for pattern in constraint.patterns
            ],
            "format": [name for constraint in (self, *self.alternatives) for name in constraint.formats],
        }

    @property
    def has_only_lengths(self) -> bool:
        """Whether it only bounds lengths."""
        return self == StringConstraint(self.min_length, self.max_length, draft=self.draft)

    @property
    def only_excludes(self) -> bool:
        """Whether it only leaves out single values and bounds lengths, as for undeclared keys."""
        return self == StringConstraint(
            self.min_length, self.max_length, excluded=self.excluded, draft=self.draft
        )

    @property
    def only_excludes_patterns(self) -> bool:
        """Whether patterns must not match, none must, and no upper bound is given."""
        must_match = self.patterns or self.formats or self.content_encodings or self.alternatives
        return bool(self.excluded_patterns) and not must_match and self.max_length is None

    @property
    def has_patterns(self) -> bool:
        """Whether a pattern must match, or must not."""
        return bool(self.patterns or self.excluded_patterns or self.alternatives)

    @property
    def has_formats(self) -> bool:
        """Whether a format that has force must match."""
        return any(name in FORMATS for name in self.values["format"])

    @property
    def needs_guard(self) -> bool:
        """Whether rules of one of its formats, which count, take a second to compile."""
        return any(known.lengths is not None for known in self.known_formats)

    @property
    def can_be_joined(self) -> bool:
        """Whether it is made of patterns and formats, besides lengths, so that it can be an alternative."""
        describes_content = self.content_media_types or self.content_encodings
        return (self.has_patterns or self.has_formats) and not describes_content

    @classmethod
    def any_of(cls, alternatives: "Sequence[StringConstraint]") -> "StringConstraint":
        """What satisfies one of the alternatives, which `can_be_joined` and have the same upper bound."""
        low, first = min(constraint.min_length for constraint in alternatives), alternatives[0]
        unbounded = (
            replace(c, min_length=0 if c.min_length == low else c.min_length, max_length=None)
            for c in alternatives
        )
        return cls(low, first.max_length, draft=first.draft, alternatives=tuple(unbounded))

    @property
    def blamed_keyword(self) -> str:
        """The keyword to blame if the automaton is too large or cannot be built."""
        if self.only_excludes:
            return "properties"
        return "pattern" if self.has_patterns else "format"

    @property
    def known_formats(self) -> Sequence[Format]:
        """The formats that have force. By the specification an unknown one has none; the report says so."""
        return [FORMATS[name] for name in self.formats if name in FORMATS]

    @property
    def counted_formats(self) -> Sequence[WrittenTexts]:
        """What is written of the formats that have force where no guard counts."""
        return [known.where_counted(self.max_length) for known in self.known_formats]

    def conditions(self, *, is_guarded: bool = False) -> tuple[list[PatternCondition], list[Note]]:
        """The patterns and formats as conditions, and notes on the texts that these leave out.

        Lengths, single values and alternatives are not among them. With `is_guarded`, a guard enforces the
        lengths of formats and of their parts.

        Raises:
            UnsupportedKeyword: a keyword describes content inside the string.
        """
        conditions = [PatternCondition(pattern) for pattern in self.patterns]
        conditions += [PatternCondition(pattern, is_excluded=True) for pattern in self.excluded_patterns]
        notes = self._disputed()
        if any(map(meets_names, self.patterns)):
            notes.append(("pattern", Verdict.EXACT, _ASCII_WORDS))
        for texts in self.known_formats if is_guarded else self.counted_formats:
            conditions.append(PatternCondition(texts.pattern))
            if is_guarded and texts.lengths is not None:
                conditions.append(PatternCondition(texts.lengths))
            if texts.note:
                notes.append(("format", Verdict.NARROWED, texts.note))
        for name in self.excluded_formats:
            conditions.append(PatternCondition(outer_pattern(name, self.draft), is_excluded=True))
            notes.append(("not", Verdict.NARROWED, f"nothing that resembles a {name} is written"))
        if self.content_media_types or any(name != "base64" for name in self.content_encodings):
            reason = "describes the content of a string, which no mask can check"
            raise UnsupportedKeyword("contentMediaType", reason, "Leave it out.")
        conditions += [PatternCondition(BASE64) for _ in self.content_encodings]
        return conditions, notes

    def _disputed(self) -> list[Note]:
        """Notes on patterns that engines read differently; none on those that cannot be read at all."""
        notes: list[Note] = []
        for keyword, patterns in (("pattern", self.patterns), ("not", self.excluded_patterns)):
            for pattern in patterns:
                with suppress(PatternError):
                    if parts := disputed(pattern, is_outer=keyword == "not"):
                        notes.append((keyword, Verdict.NARROWED, _DISPUTED.format(", ".join(parts))))
        return notes

    def with_counts_as_lengths(
        self, conditions: list[PatternCondition]
    ) -> "tuple[list[PatternCondition], StringConstraint]":
        """The conditions and the constraint; patterns that count all characters bound the length instead.

        Raises:
            PatternError: a pattern cannot be read.
        """
        marked_conditions, low, high = [], self.min_length, self.max_length
        for condition in conditions:
            length = None if condition.is_excluded else text_length(condition.pattern)
            if length is not None:
                low, high = (
                    max(low, length[0]),
                    min((bound for bound in (high, length[1]) if bound is not None), default=None),
                )
            marked_conditions.append(replace(condition, is_counted=length is None))
        if high is not None and low > high:
            return conditions, self
        return marked_conditions, replace(self, min_length=low, max_length=high)

    def with_countable_length(self) -> "tuple[StringConstraint, list[Note]]":
        """The constraint with an upper bound that rules can count up to, and a note if it was lowered.

        Raises:
            UnsupportedKeyword: `minLength` is more than rules can count up to.
        """
        if self.min_length > MAX_LENGTH:
            raise UnsupportedKeyword("minLength", f"is more than {MAX_LENGTH}", "Lower it.")
        limits = (texts.max_length for texts in self.counted_formats)
        most = min([MAX_LENGTH, *(limit for limit in limits if limit is not None)])
        if self.max_length is None:
            return (self, []) if most == MAX_LENGTH else (replace(self, max_length=most), [])
        if self.max_length <= most:
            return self, []
        note = ("maxLength", Verdict.NARROWED, f"at most {most} characters")
        return replace(self, max_length=most), [note]

    def language(self, conditions: Iterable[PatternCondition], most: int = MAX_COUNT) -> Dfa:
        """The texts of any length that meet the conditions, and an alternative if there are any.

        Raises:
            PatternError: a pattern cannot be read.
            TooManyStates: the automaton is too large.
        """
        if not self.alternatives:
            return language(conditions, self.excluded, most=most)
        bounded = [alternative.with_countable_length()[0] for alternative in self.alternatives]
        return union_of(
            one.language(one.conditions()[0], most).of_length(one.min_length, one.max_length)
            for one in bounded
        )

    def automaton(self) -> Dfa:
        """The texts that are admitted however far counts are lowered; lengths are not considered.

        Raises:
            UnsupportedKeyword: a pattern cannot be read, or the automaton is too large.
        """
        try:
            return self.language(self.conditions()[0], most=LOWER_COUNTS[-1])
        except (PatternError, TooManyStates) as error:
            raise UnsupportedKeyword(self.blamed_keyword, str(error)) from error
