r"""What engines of regular expressions say of constructs that patterns may have, some of which they read differently.

The columns are those of `compiler.regular.engine_differences`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadConstruct:
    """A row; `is_decided_by_u`: ECMA-262 reads the pattern in both modes, and they disagree."""

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


READ = (
    ReadConstruct("$ before a last line break", "^a$", "a\n", "--+--"),
    ReadConstruct("$ before a last line break that is matched, too", "^a$\n", "a\n", "--+--"),
    ReadConstruct("$ inside a lookahead", "^(?!a$)", "a\n", "++-+."),
    ReadConstruct("$ before a last but one line break", "^a$", "a\n\n", "-----"),
    ReadConstruct(". and line ends", "^.$", "\r", "--+++"),
    ReadConstruct(". and line ends", "^.$", "\u2028", "--+++"),
    ReadConstruct(". and a line feed", "^.$", "\n", "-----"),
    ReadConstruct(r"\d", r"^\d$", "\u0661", "--+--"),
    ReadConstruct(r"\D", r"^[\D]$", "\u0661", "++-++"),
    ReadConstruct(r"\w", r"^\w$", "é", "--+--"),
    ReadConstruct(r"\W", r"^[^\w]$", "é", "++-++"),
    ReadConstruct(r"\w beside a lookahead", r"^(?!x)\w$", "\u0301", "---+."),
    ReadConstruct(r"\w beside a lookahead", r"^(?!x)[\w]$", "\u200d", "---+."),
    ReadConstruct(r"\W beside a lookahead", r"^(?!x)\W$", "\u24b6", "+++-."),
    ReadConstruct(r"\s", r"^\s$", "\ufeff", "++-++"),
    ReadConstruct(r"\s", r"^[\s]$", "\x1c", "--+--"),
    ReadConstruct(r"\S", r"^\S$", "\x85", "++-++"),
    ReadConstruct(r"\b beyond ASCII", r"\b", "é", "--+++"),
    ReadConstruct(r"\B beyond ASCII", r"^\B.", "é", "++---"),
    ReadConstruct(r"\B in the empty text", r"^\B", "", "++-++"),
    ReadConstruct(r"\b in the empty text", r"\b", "", "-----"),
    ReadConstruct(r"\b in a class", r"^[\b]$", "\b", "+++.."),
    ReadConstruct("a category", r"^\p{L}$", "é", "+-.++", is_decided_by_u=True),
    ReadConstruct("a code point in braces", r"^\u{41}$", "A", "+-.++", is_decided_by_u=True),
    ReadConstruct("a character beyond U+FFFF", "^.$", "\U0001f600", "+-+++", is_decided_by_u=True),
    ReadConstruct("a character beyond U+FFFF", "^\U0001f600?$", "", "+-+++", is_decided_by_u=True),
    ReadConstruct("a number of two or four digits", r"^\x41\u0041$", "AA", "+++++"),
    ReadConstruct("a zero", r"^\0$", "\0", "+++.."),
    ReadConstruct("a control character", r"^\cA$", "\x01", "++.++"),
    ReadConstruct("an escaped mark", r"^\/\.\{$", "/.{", "+++++"),
    ReadConstruct("an escaped mark that means nothing", r"^\-\_\ \#\"$", '-_ #"', ".++++"),
    ReadConstruct("a brace that opens no count", "^x{a}{$", "x{a}{", ".++.."),
    ReadConstruct("a bracket that closes nothing", "^]}$", "]}", ".++++"),
    ReadConstruct("a bracket in a class", "^[[]$", "[", "+++++"),
    ReadConstruct("a class in a class", "^[[:alpha:]]$", ":]", ".++++"),
    ReadConstruct("an operator in a class", "^[a&&b]$", "&", "+++++"),
    ReadConstruct("an operator in a class", "^[a~~b]$", "b", "+++++"),
    ReadConstruct("a range that ends in a hyphen", "^[!--]$", "-", "+++++"),
    ReadConstruct("a hyphen after a shorthand", r"^[\w-]$", "-", "+++++"),
    ReadConstruct("a lazy quantifier", "^a+?b??$", "aab", "+++++"),
    ReadConstruct("a count", "^a{0,2}b{02}$", "aabb", "+++++"),
    ReadConstruct("a named group", "^(?<x>a)$", "a", "++.++"),
    ReadConstruct("a named group", "^(?P<x>a)$", "a", "..+++"),
    ReadConstruct("an empty group", "^()(|a)$", "a", "+++++"),
    ReadConstruct("a lookahead", "^(?=a)(?!b)a$", "a", "++++."),
    ReadConstruct("a lookbehind", "^a(?<!b)$", "a", "++++."),
    ReadConstruct("the case of a letter", "^k$", "K", "-----"),
    ReadConstruct("a letter that folds to another", "^\u212a$", "k", "-----"),
)  # fmt: skip
