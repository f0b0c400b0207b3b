"""The parser of ECMA-262 regular expressions: from a pattern to its syntax tree.

Only what is regular is read: no backreferences, and lookbehinds only where `compiler.regular.language` can
turn them into intersections. What engines read differently is refused, by the table in
`compiler.regular.engine_differences`.

Engines disagree on what words, digits, blanks and `.` mean outside ASCII. So a pattern is read in one of two
ways, inner or outer (see `compiler.regular.charset`). What must match is read inner and what must not match
is read outer: the texts that we write are then valid for every engine.
"""

import re
from functools import lru_cache

from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.engine_differences import Place, refused_at
from compiler.regular.pattern_tree import (
    Alternation,
    Assertion,
    Chars,
    Concat,
    Lookaround,
    PatternError,
    PatternNode,
    Repetition,
)

MAX_PATTERN = 10_000
MAX_NESTING = 100
MAX_COUNT = 1_000
_ESCAPED = r"Leave it out, or write \{} for the character."
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "v": "\v", "f": "\f", "0": "\0"}


def parse(pattern: str, *, is_outer: bool = False, most: int = MAX_COUNT) -> PatternNode:
    """The syntax tree of a pattern, read inner or outer.

    In the inner reading, upper bounds of repetitions are lowered to `most`. In the outer one, lower bounds
    are lowered to it, and higher upper bounds left out.

    >>> parse("ab?")
    Concat(items=(Chars(ranges=((97, 97),)), Repetition(item=Chars(ranges=((98, 98),)), low=0, high=1)))

    Raises:
        PatternError: the pattern cannot be read, is not regular, too long, or counts too far.
    """
    if len(pattern) > MAX_PATTERN:
        raise PatternError(f"is longer than {MAX_PATTERN} characters")
    parser = _Parser(pattern, is_outer=is_outer, most=most)
    node = parser.alternation(0)
    if not parser.at_end:
        raise PatternError(
            f"has an unmatched {parser.peek!r} at position {parser.at}", _ESCAPED.format(parser.peek)
        )
    return node


@lru_cache(maxsize=256)
def disputed(pattern: str, *, is_outer: bool = False) -> tuple[str, ...]:
    r"""The parts of a pattern that some engines read differently from ECMA-262, so that texts are left out.

    >>> disputed(r"^\d\D\s.$"), disputed(r"^a.$", is_outer=True)
    (('\\D', '\\s'), ('.', '$'))

    Raises:
        PatternError: the pattern cannot be read.
    """
    parser = _Parser(pattern, is_outer=is_outer, most=MAX_COUNT)
    parser.alternation(0)
    return tuple(parser.disputed)


def meets_names(pattern: str) -> bool:
    r"""Whether a pattern with `\w` looks like one for names or prose, because it also has blanks.

    >>> meets_names(r"^[\w ]+$"), meets_names(r"^\w+\.json$")
    (True, False)
    """
    return re.search(r"(?<!\\)(?:\\\\)*\\w", pattern) is not None and re.search(r" |\\s", pattern) is not None


class _Parser:
    """A recursive descent: one method for each rule of the grammar of patterns."""

    def __init__(self, pattern: str, *, is_outer: bool, most: int) -> None:
        self.pattern = pattern
        self.most = most
        self.at = 0
        self.is_outer = is_outer
        self.disputed: dict[str, None] = {}

    @property
    def at_end(self) -> bool:
        return self.at >= len(self.pattern)

    @property
    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self, text: str) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def refuse(self, place: Place) -> None:
        """Raise if a construct begins here that engines read differently."""
        if (refused := refused_at(self.pattern, self.at, place)) is not None:
            construct, written = refused
            reason = construct.reason(written, self.at)
            raise PatternError(reason, construct.instead, is_disputed=construct.is_disputed)

    def note_disputed(self, written: str, *, is_disputed: bool) -> None:
        """Remember a part that the reading takes for less, or for more if it is outer, than ECMA-262 does."""
        if is_disputed:
            self.disputed[written] = None

    def next(self) -> str:
        if self.at_end:
            raise PatternError("ends in the middle of a group, class or escape", "Complete it.")
        self.at += 1
        return self.pattern[self.at - 1]

    def alternation(self, depth: int) -> PatternNode:
        if depth > MAX_NESTING:
            raise PatternError(f"nests groups more than {MAX_NESTING} levels deep")
        options = [self.sequence(depth)]
        while self.take("|"):
            options.append(self.sequence(depth))
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def sequence(self, depth: int) -> PatternNode:
        items = []
        while not self.at_end and self.peek not in "|)":
            item = self.atom(depth)
            items.append(self.quantified(item))
        return items[0] if len(items) == 1 else Concat(tuple(items))

    def quantified(self, item: PatternNode) -> PatternNode:
        if isinstance(item, Assertion | Lookaround):
            self.refuse(Place.AFTER_ASSERTION)
        counts = self.counts()
        if counts is None:
            return item
        self.take("?")  # a lazy quantifier matches the same strings
        self.refuse(Place.AFTER_COUNT)
        low, high = counts
        if high is not None and low > high:
            raise PatternError(f"counts from {low} down to {high}", "Write the lower count first.")
        if self.is_outer and self.most < MAX_COUNT:
            low, high = min(low, self.most), None if high is None or high > self.most else high
        elif high is not None and not self.is_outer:
            high = min(high, max(low, self.most))
        if max(low, high or 0) > MAX_COUNT:
            raise PatternError(f"counts beyond {MAX_COUNT}", "Lower the count.")
        return Repetition(item, low, high)

    def counts(self) -> tuple[int, int | None] | None:
        if self.take("*"):
            return 0, None
        if self.take("+"):
            return 1, None
        if self.take("?"):
            return 0, 1
        end = self.pattern.find("}", self.at)
        if self.peek != "{" or end < 0:
            return None
        low, comma, high = self.pattern[self.at + 1 : end].partition(",")
        if not (low.isascii() and low.isdigit()) or not (high == "" or (high.isascii() and high.isdigit())):
            return None
        self.at = end + 1
        least = _count(low)
        return least, (_count(high) if high else None) if comma else least

    def atom(self, depth: int) -> PatternNode:  # noqa: PLR0911 - one case per kind of atom
        self.refuse(Place.ATOM)
        char = self.next()
        match char:
            case "^" | "$":
                return self.anchor(char)
            case ".":
                self.note_disputed(char, is_disputed=self.is_outer)
                return Chars(charset.any_char(is_outer=self.is_outer))
            case "[":
                return Chars(self.char_class())
            case "(":
                return self.group(depth)
            case "\\":
                return self.escape()
            case "*" | "+" | "?":
                raise PatternError(f"has nothing to repeat at position {self.at - 1}", _ESCAPED.format(char))
            case "{":
                return self.brace()
            case _:
                return Chars(_single(char))

    def brace(self) -> PatternNode:
        """A brace that does not open a count stands for itself."""
        self.at -= 1
        if self.counts() is not None:
            raise PatternError(f"has nothing to repeat at position {self.at}", _ESCAPED.format("{"))
        return Chars(_single(self.next()))

    def anchor(self, char: str) -> PatternNode:
        self.note_disputed(char, is_disputed=char == "$" and self.is_outer)
        # In some engines `$` also holds before a last line break.
        return Assertion("$?" if char == "$" and self.is_outer else char)

    def group(self, depth: int) -> PatternNode:
        look = self.lookaround()
        if look is None and self.take("?") and not self.take(":"):
            self.take("P")
            name = self.pattern.find(">", self.at)
            if name < 0:
                raise PatternError("has an unfinished group name")
            self.at = name + 1
        flips = look is not None and look[1]  # what must not match there is read in the other way
        self.is_outer ^= flips
        item = self.alternation(depth + 1)
        self.is_outer ^= flips
        if not self.take(")"):
            raise PatternError("has an unclosed group", r"Close it, or write \( for the parenthesis.")
        return item if look is None else Lookaround(item, is_ahead=look[0], is_negative=look[1])

    def lookaround(self) -> tuple[bool, bool] | None:
        for text, kind in (
            ("?=", (True, False)),
            ("?!", (True, True)),
            ("?<=", (False, False)),
            ("?<!", (False, True)),
        ):
            if self.take(text):
                return kind
        return None

    def escape(self) -> PatternNode:
        if self.peek in ("b", "B"):
            kind = self.next()
            self.note_disputed(f"\\{kind}", is_disputed=True)
            return Assertion(f"{kind}?" if self.is_outer else kind)
        return Chars(self.class_escape())

    def class_escape(self) -> Ranges:
        """The set of characters that an escape stands for, inside or outside a class."""
        char = self.next()
        if char.lower() in "dws":
            # An inner \d or \w is that of ECMA-262, and so is the complement of one.
            self.note_disputed(f"\\{char}", is_disputed=char in "sS" or char.isupper() != self.is_outer)
            return charset.shorthand(char, is_outer=self.is_outer)
        if char in "pP":
            self.note_disputed(f"\\{char}", is_disputed=(char == "P") != self.is_outer)
            return self.category(is_negated=char == "P")
        return _single(self.char_escape(char))

    def char_escape(self, char: str) -> str:
        if char == "x":
            return chr(self.hexadecimal(2))
        if char == "u":
            return self.unicode_escape()
        if char == "c":
            return chr(ord(self.next()) % 32)
        return _ESCAPES.get(char, char)

    def unicode_escape(self) -> str:
        if not self.take("{"):
            return chr(self.hexadecimal(4))
        code = self.hexadecimal(self.pattern.index("}", self.at) - self.at)
        self.at += 1
        if code > charset.LAST or 0xD800 <= code <= 0xDFFF:
            raise PatternError("has an escape that stands for no character, a lone surrogate for example")
        return chr(code)

    def hexadecimal(self, length: int) -> int:
        """The number that is written in the next `length` characters, which are digits."""
        self.at += length
        return int(self.pattern[self.at - length : self.at], 16)

    def category(self, *, is_negated: bool) -> Ranges:
        end = self.pattern.find("}", self.at)
        if not self.take("{") or end < 0:
            raise PatternError("has \\p without a category in braces")
        name = self.pattern[self.at : end].removeprefix("General_Category=").removeprefix("gc=")
        self.at = end + 1
        ranges = charset.category(name, is_outer=self.is_outer != is_negated)
        if ranges is None:
            raise PatternError(f"names the unknown category {name!r}")
        return charset.complement(ranges) if is_negated else ranges

    def char_class(self) -> Ranges:
        is_negated = self.take("^")
        if is_negated:
            self.is_outer = not self.is_outer
        ranges = self.class_content()
        if is_negated:
            self.is_outer = not self.is_outer
            return charset.complement(ranges)
        return ranges

    def class_content(self) -> Ranges:
        sets: list[Ranges] = []
        while not self.take("]"):
            first = self.class_member()
            if self.peek == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                last = self.class_member()
                sets.append(_span(first, last))
            else:
                sets.append(first)
        return charset.union(*sets)

    def class_member(self) -> Ranges:
        self.refuse(Place.CLASS_MEMBER)
        char = self.next()
        if char != "\\":
            return _single(char)
        if self.take("b"):
            return _single("\b")
        return self.class_escape()


def _count(digits: str) -> int:
    """The number that some digits write; any above `MAX_COUNT` where it has very many of them.

    Zeros before it have no end: `a{0000000002}` is `a{2}`.
    """
    return int(digits.lstrip("0")[:9] or "0")


def _single(char: str) -> Ranges:
    if 0xD800 <= ord(char) <= 0xDFFF:
        raise PatternError("has a lone surrogate")
    return ((ord(char), ord(char)),)


def _span(first: Ranges, last: Ranges) -> Ranges:
    ends = (first, last)
    if any(len(ranges) != 1 or ranges[0][0] != ranges[0][1] for ranges in ends):
        raise PatternError("has a range with a class for an end, such as [a-\\d]")
    low, high = first[0][0], last[0][0]
    if low > high:
        raise PatternError("has a range whose end comes before its start", "Swap its ends.")
    return charset.intersection(((low, high),), charset.ALL)
