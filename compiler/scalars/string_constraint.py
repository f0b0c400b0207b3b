"""The constraint of strings: what a schema says of them, as patterns, lengths and what is left out."""

from dataclasses import dataclass, replace

from compiler.errors import UnsupportedKeyword
from compiler.regular.dfa import Dfa, TooManyStates
from compiler.regular.ecma import PatternError
from compiler.regular.formats import BASE64, FORMATS, wide
from compiler.regular.language import Part, language
from compiler.report import Verdict
from compiler.scalars.repetition import MAX_LENGTH

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

    def parts(self) -> tuple[list[Part], list[Note]]:
        """Everything but lengths and single values as patterns.

        Raises:
            UnsupportedKeyword: it says what is inside a string.
        """
        parts = [Part(pattern) for pattern in self.patterns]
        parts += [Part(pattern, is_excluded=True) for pattern in self.excluded_patterns]
        notes: list[Note] = []
        for name in self.formats:
            known = FORMATS.get(name)
            if known is None:
                continue  # the specification gives an unknown format no force; the report says so
            known = known.within(self.max_length)
            parts.append(Part(known.pattern))
            if known.excluded:
                parts.append(Part(known.excluded, is_excluded=True))
            if known.note:
                notes.append(("format", Verdict.NARROWED, known.note))
        for name in self.excluded_formats:
            parts.append(Part(wide(name, self.draft), is_excluded=True))
            notes.append(("format", Verdict.NARROWED, f"where no {name} may be, nothing like one"))
        if self.content_media_types or any(name != "base64" for name in self.content_encodings):
            raise UnsupportedKeyword("contentMediaType", "asserts what is inside a string", "Leave it out.")
        parts += [Part(BASE64) for _ in self.content_encodings]
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
        most = min([MAX_LENGTH, *(known.longest for known in formats if known.longest is not None)])
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
