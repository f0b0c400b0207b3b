r"""Where engines of regular expressions read a pattern differently, and what is refused because of it.

A table with a row for each construct. A row has an example pattern, an example text, and what five engines
say of them: `+` the pattern matches somewhere in the text, `-` it does not, `.` the engine rejects the
pattern. The engines, in this order:

1. ECMA-262 with the flag `u`
2. ECMA-262 without it (Annex B)
3. Python's `re` before Python 3.14, which reads `\z`, and has `\B` match the empty text
4. Rust's `fancy_regex`, as `jsonschema_rs` uses it
5. Rust's `regex`, as `jsonschema_rs` uses it where it is asked to

All other constructs are read (`compiler.regular.ecma`), in the inner or the outer reading: a text on which
engines disagree is never written. `tests/compiler/read_constructs.py` has a table of these. An engine that
rejects a pattern says nothing about texts, so it disagrees with none.

JSON Schema asks for `u`. Where ECMA-262 reads a pattern in both modes and they disagree, `u` decides: `\p{L}`
is a letter, and a character beyond U+FFFF is one character.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache


class Place(Enum):
    """Where in a pattern a construct begins."""

    ATOM = auto()
    CLASS_MEMBER = auto()
    AFTER_ASSERTION = auto()
    AFTER_COUNT = auto()


@dataclass(frozen=True, slots=True)
class RefusedConstruct:
    """A row. The construct is refused where `opening` (a pattern for Python's `re`) matches."""

    name: str
    pattern: str
    text: str
    answers: str
    opening: str
    instead: str
    places: tuple[Place, ...]

    @property
    def is_disputed(self) -> bool:
        """Whether the engines that read the example disagree on it."""
        return {"+", "-"} <= set(self.answers)

    def reason(self, written: str, position: int) -> str:
        """What is wrong with a pattern in which the construct is written like this at a position."""
        verdict = "engines read differently" if self.is_disputed else "not every engine has"
        return f"has {self.name} ({written}) at position {position}, which {verdict}"


def _refused(  # noqa: PLR0917 - the columns of a table
    name: str, pattern: str, text: str, answers: str, opening: str, instead: str, *places: Place
) -> RefusedConstruct:
    return RefusedConstruct(name, pattern, text, answers, opening, instead, places or (Place.ATOM,))


_CLASS = Place.CLASS_MEMBER
_BOTH = (Place.ATOM, Place.CLASS_MEMBER)
_ASSERTION = Place.AFTER_ASSERTION
_COUNTED = Place.AFTER_COUNT
_CHARACTER = r"Write the character itself, or its number as in \x41 or \u0041."
_LISTED = r"Write a class of characters, such as [ \t]."
_ENDS = "Write ^ for the start and $ for the end."
_BOUNDED = "Write {0,n}."
_ALONE = "Leave out the count."
_LETTERS = "Write classes such as [aA]."
_NO_LOWER = r"\{\s*,\s*[0-9]*\s*\}"
_BLANK = r"\{(?=[0-9\s,]*\s)\s*[0-9]+\s*(?:,\s*[0-9]*\s*)?\}"
_COUNT = r"[*+?]|\{[0-9]+(?:,[0-9]*)?\}"
_GROUP = r"\(\?(?![:=!<#(]|P<)[^):]*"
_NO_DIGITS = r"\\u(?![0-9A-Fa-f]{4}|\{[0-9A-Fa-f]+\})"
_HALF = r"\\u[Dd][89A-Fa-f][0-9A-Fa-f]{2}"
_OTHER_LETTER = r"\\[CEGHIJKLMOQRTVXYeghijlmoqyz]"

REFUSED = (
    _refused("a count without a lower bound", "^a{,2}$", "aa", ".-+..", _NO_LOWER, _BOUNDED),
    _refused("a count without a lower bound", "^(?=a{,2}$)", "aa", ".-++.", _NO_LOWER, _BOUNDED),
    _refused("a blank in a count", "^a{2, 3}$", "aa", ".---+", _BLANK, "Leave out the blank."),
    _refused("a possessive quantifier", "^a?+$", "aa", "..--+", r"\+", "Leave out the +.", _COUNTED),
    _refused(
        "a count of a count", "^a{1,2}{3}$", "aaa", "...-+", _COUNT, "Group what is repeated.", _COUNTED
    ),
    _refused("a count of an anchor or a lookaround", "^{2}a", "a", "...++", _COUNT, _ALONE, _ASSERTION),
    _refused("a count of an anchor or a lookaround", "(?!a)*a", "a", ".++..", _COUNT, _ALONE, _ASSERTION),
    _refused("a brace after a boundary", r"\b{start}a", "a", ".--++", r"\\[bB]\{", r"Write \b alone."),
    _refused("a boundary of a word", r"\<a", "a", ".--++", r"\\[<>]", r"Write \b."),
    _refused("an anchor by a letter", r"\A", "", ".-+++", r"\\A", _ENDS),
    _refused("an anchor by a letter", r"a\Z", "a", ".-+..", r"\\Z", _ENDS),
    _refused("an anchor by a letter", r"a\z", "a", ".-.++", r"\\z", _ENDS),
    _refused("an escaped letter", r"^\a$", "a", ".+-..", r"\\a", _CHARACTER),
    _refused("an escaped letter", r"^[\a]$", "a", ".+---", r"\\a", _CHARACTER, _CLASS),
    _refused("a character by its number", r"^\U00000041$", "A", ".-+++", r"\\U", _CHARACTER, *_BOTH),
    _refused("a character by its name", r"^\N{DIGIT ONE}$", "1", ".-+..", r"\\N", _CHARACTER, *_BOTH),
    _refused("an escaped letter", r"^\h$", "h", ".+...", _OTHER_LETTER, _LISTED, *_BOTH),
    _refused("an escaped letter", r"^[\B]$", "B", ".+...", r"\\[ABZk]", _CHARACTER, _CLASS),
    _refused("an octal escape", r"^\012$", "\n", ".++..", r"\\0[0-7]", _CHARACTER, *_BOTH),
    _refused("an octal escape", r"^[\12]$", "\n", ".++..", r"\\[1-9]", _CHARACTER, _CLASS),
    _refused("a control escape", r"^\c$", r"\c", ".+...", r"\\c(?![A-Za-z])", _CHARACTER, *_BOTH),
    _refused(
        "a number of a character", r"^\x{41}$", "A", ".-.++", r"\\x(?![0-9A-Fa-f]{2})", _CHARACTER, *_BOTH
    ),
    _refused("a number of a character", r"^\u41$", "u41", ".+...", _NO_DIGITS, _CHARACTER, *_BOTH),
    _refused("half a character", r"^\ud83d\ude00$", "\U0001f600", "++-..", _HALF, _CHARACTER),
    _refused("half a character", r"^[\ud83d\ude00]$", "\U0001f600", "+--..", _HALF, _CHARACTER, _CLASS),
    _refused("a category without braces", r"^\pL$", "a", ".-.++", r"\\[pP](?!\{)", r"Write \p{L}.", *_BOTH),
    _refused("a backreference", r"^(?:(b)|a)\1$", "a", "++--.", r"\\[1-9]", "Write out what is repeated."),
    _refused("a backreference", r"^(?<x>a)\k<x>$", "aa", "++...", r"\\k", "Write out what is repeated."),
    _refused("a group of flags", "(?i)a", "A", "..+++", _GROUP, _LETTERS),
    _refused("a comment", "^(?#x)a$", "a", "..+..", r"\(\?#", "Leave it out."),
    _refused("a condition", "^(a)?(?(1)b|c)$", "c", "..+..", r"\(\?\(", "Write alternatives."),
    _refused("an empty class", "^[]a]$", "a", ".-+++", r"\[\]", r"Write \] for the bracket."),
    _refused("an empty class", "^[^]$", "a", "++...", r"\[\^\]", r"Write [\s\S] for any character."),
)


def refused_at(pattern: str, position: int, place: Place) -> tuple[RefusedConstruct, str] | None:
    """The construct that begins at a position of a pattern, if it is refused, and how it is written.

    >>> construct, written = refused_at("a{,2}", 1, Place.ATOM)
    >>> construct.name, written
    ('a count without a lower bound', '{,2}')
    """
    for opening, construct in _openings(place):
        if match := opening.match(pattern, position):
            return construct, match.group()
    return None


@cache
def _openings(place: Place) -> tuple[tuple[re.Pattern[str], RefusedConstruct], ...]:
    rows = {row.opening: row for row in reversed(REFUSED) if place in row.places}
    return tuple((re.compile(opening), row) for opening, row in reversed(rows.items()))


def may_be_disputed(pattern: str) -> bool:
    """Whether a pattern may have what engines read differently; for patterns that cannot be parsed."""
    openings = [row.opening for row in REFUSED if row.is_disputed and _COUNTED not in row.places]
    return re.search("|".join(openings), pattern) is not None
