r"""Where engines of regular expressions read a pattern differently, and what we do about it.

Two tables, a row for each construct. A row has an example pattern, an example text, and what five engines
say of them: `+` the pattern matches somewhere in the text, `-` it does not, `.` the engine rejects the
pattern. The engines, in this order:

1. ECMA-262 with the flag `u`
2. ECMA-262 without it (Annex B)
3. Python's `re` before Python 3.14, which reads `\z`, and has `\B` match the empty text
4. Rust's `fancy_regex`, as `jsonschema_rs` uses it
5. Rust's `regex`, as `jsonschema_rs` uses it where it is asked to

A pattern with a construct of `REFUSED` is refused. The constructs of `READ` are read
(`compiler.regular.ecma`), in the inner or the outer reading: a text on which engines disagree is never
written. An engine that rejects a pattern says nothing about texts, so it disagrees with none.

JSON Schema asks for `u`. Where ECMA-262 reads a pattern in both modes and they disagree, `u` decides: `\p{L}`
is a letter, and a character beyond U+FFFF is one character. Those rows have `is_decided_by_u`.
"""

import re
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache


@dataclass(frozen=True, slots=True)
class Construct:
    """A row: what is written, an example, and what the engines say of it."""

    name: str
    pattern: str
    text: str
    answers: str
    is_decided_by_u: bool = False

    @property
    def agreed(self) -> frozenset[str]:
        """What the engines that read the pattern say: `+`, `-`, or both where they disagree."""
        answers = self.answers[0] + self.answers[2:] if self.is_decided_by_u else self.answers
        return frozenset(answers) - {"."}

    @property
    def is_disputed(self) -> bool:
        """Whether engines disagree on the example."""
        return len(self.agreed) > 1


class Place(Enum):
    """Where in a pattern a construct begins."""

    ATOM = auto()
    CLASS_MEMBER = auto()
    AFTER_ASSERTION = auto()
    AFTER_COUNT = auto()


@dataclass(frozen=True, slots=True)
class RefusedConstruct(Construct):
    """A row whose construct is refused where `opening` (a pattern for Python's `re`) matches."""

    opening: str = ""
    instead: str = ""
    places: tuple[Place, ...] = (Place.ATOM,)

    def reason(self, written: str, position: int) -> str:
        """What is wrong with a pattern in which the construct is written like this at a position."""
        verdict = "engines read differently" if self.is_disputed else "not every engine has"
        return f"has {self.name} ({written}) at position {position}, which {verdict}"


def _refused(  # noqa: PLR0917 - the columns of a table
    name: str, pattern: str, text: str, answers: str, opening: str, instead: str, *places: Place
) -> RefusedConstruct:
    row = RefusedConstruct(name, pattern, text, answers)
    return replace(row, opening=opening, instead=instead, places=places or (Place.ATOM,))


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
READ = (
    Construct("$ before a last line break", "^a$", "a\n", "--+--"),
    Construct("$ before a last line break that is matched, too", "^a$\n", "a\n", "--+--"),
    Construct("$ inside a lookahead", "^(?!a$)", "a\n", "++-+."),
    Construct("$ before a last but one line break", "^a$", "a\n\n", "-----"),
    Construct(". and line ends", "^.$", "\r", "--+++"),
    Construct(". and line ends", "^.$", "\u2028", "--+++"),
    Construct(". and a line feed", "^.$", "\n", "-----"),
    Construct(r"\d", r"^\d$", "\u0661", "--+--"),
    Construct(r"\D", r"^[\D]$", "\u0661", "++-++"),
    Construct(r"\w", r"^\w$", "é", "--+--"),
    Construct(r"\W", r"^[^\w]$", "é", "++-++"),
    Construct(r"\w beside a lookahead", r"^(?!x)\w$", "\u0301", "---+."),
    Construct(r"\w beside a lookahead", r"^(?!x)[\w]$", "\u200d", "---+."),
    Construct(r"\W beside a lookahead", r"^(?!x)\W$", "\u24b6", "+++-."),
    Construct(r"\s", r"^\s$", "\ufeff", "++-++"),
    Construct(r"\s", r"^[\s]$", "\x1c", "--+--"),
    Construct(r"\S", r"^\S$", "\x85", "++-++"),
    Construct(r"\b beyond ASCII", r"\b", "é", "--+++"),
    Construct(r"\B beyond ASCII", r"^\B.", "é", "++---"),
    Construct(r"\B in the empty text", r"^\B", "", "++-++"),
    Construct(r"\b in the empty text", r"\b", "", "-----"),
    Construct(r"\b in a class", r"^[\b]$", "\b", "+++.."),
    Construct("a category", r"^\p{L}$", "é", "+-.++", is_decided_by_u=True),
    Construct("a code point in braces", r"^\u{41}$", "A", "+-.++", is_decided_by_u=True),
    Construct("a character beyond U+FFFF", "^.$", "\U0001f600", "+-+++", is_decided_by_u=True),
    Construct("a character beyond U+FFFF", "^\U0001f600?$", "", "+-+++", is_decided_by_u=True),
    Construct("a number of two or four digits", r"^\x41\u0041$", "AA", "+++++"),
    Construct("a zero", r"^\0$", "\0", "+++.."),
    Construct("a control character", r"^\cA$", "\x01", "++.++"),
    Construct("an escaped mark", r"^\/\.\{$", "/.{", "+++++"),
    Construct("an escaped mark that means nothing", r"^\-\_\ \#\"$", '-_ #"', ".++++"),
    Construct("a brace that opens no count", "^x{a}{$", "x{a}{", ".++.."),
    Construct("a bracket that closes nothing", "^]}$", "]}", ".++++"),
    Construct("a bracket in a class", "^[[]$", "[", "+++++"),
    Construct("a class in a class", "^[[:alpha:]]$", ":]", ".++++"),
    Construct("an operator in a class", "^[a&&b]$", "&", "+++++"),
    Construct("an operator in a class", "^[a~~b]$", "b", "+++++"),
    Construct("a range that ends in a hyphen", "^[!--]$", "-", "+++++"),
    Construct("a hyphen after a shorthand", r"^[\w-]$", "-", "+++++"),
    Construct("a lazy quantifier", "^a+?b??$", "aab", "+++++"),
    Construct("a count", "^a{0,2}b{02}$", "aabb", "+++++"),
    Construct("a named group", "^(?<x>a)$", "a", "++.++"),
    Construct("a named group", "^(?P<x>a)$", "a", "..+++"),
    Construct("an empty group", "^()(|a)$", "a", "+++++"),
    Construct("a lookahead", "^(?=a)(?!b)a$", "a", "++++."),
    Construct("a lookbehind", "^a(?<!b)$", "a", "++++."),
    Construct("the case of a letter", "^k$", "K", "-----"),
    Construct("a letter that folds to another", "^\u212a$", "k", "-----"),
)  # fmt: skip


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
