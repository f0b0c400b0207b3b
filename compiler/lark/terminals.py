r"""The automata of a grammar's terminals.

Lark writes each terminal as one pattern for Python's `re`. It is read as all patterns are
(`compiler.regular.ecma`), in the inner reading for what is written, and in the outer reading for what a lexer
might take. What depends on the text around the terminal is refused: anchors, boundaries and lookarounds. So
is what keeps a lexer from taking the longest match: lazy quantifiers, and shorter alternatives before longer
ones (`compiler.regular.leftmost_first`).
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

from compiler.lark.lark_source import ATOMS, LarkSource
from compiler.regular import charset
from compiler.regular.dfa import Dfa, TooManyStates
from compiler.regular.ecma import parse
from compiler.regular.language import whole_texts
from compiler.regular.leftmost_first import taken_in_part
from compiler.regular.pattern_tree import Assertion, Chars, Lookaround, PatternError, Repetition, nodes

_LAZY = re.compile(r"[*+?}]\?")
_FOLDED = re.compile(r"\(\?i:((?:\\.|[^\\()\[\]{}|*+?.^$])*)\)", re.DOTALL)
_FLAGS = re.compile(r"\(\?([a-zL]+)[:)]")
_INSTEAD_OF_FLAG = {
    "i": "Write classes such as [aA].",
    "s": r"Write [\s\S] for a dot that takes line breaks.",
    "x": "Leave out x, with the blanks and comments.",
}
_CHARACTER = re.compile(r"\\.|.", re.DOTALL)
_END_OF_CASES = 0x1F000
"""No character from here on has another case."""
_ALIKE_BESIDE = (("i", "\u0130"), ("\u0390", "\u1fd3"), ("\u03b0", "\u1fe3"), ("\ufb05", "\ufb06"))
"""Pairs that `re` takes for the same, and that Python's methods of texts do not turn into one another."""
_CONTEXT_DEPENDENT = "depends on the text around it (an anchor, a boundary or a lookaround)"


@dataclass(frozen=True)
class Terminal:
    """The texts that are written for a terminal, and those that a lexer may take for it."""

    name: str
    written: Dfa
    lexed: Dfa
    is_keyword: bool
    """Whether it is a text in whatever case, or a choice of such texts."""


def read_terminals(source: LarkSource) -> dict[str, Terminal]:
    """The terminals by name; raises UnsupportedSchema."""
    return {name: _read(source, name) for name in source.terminals}


def _read(source: LarkSource, name: str) -> Terminal:
    text = source.terminals[name].pattern.to_regexp()
    if _LAZY.search(ATOMS.sub("x", text)):
        raise source.refusal(name, "has a lazy quantifier", "Say what may be in it, as in [^x]*x.")
    inner, outer = (_FOLDED.sub(spell, text) for spell in (_in_both_cases, _in_any_case))
    _refuse_flags(source, name, inner)
    try:
        tree = parse(outer, is_outer=True)
        if any(isinstance(node, Assertion | Lookaround) for node in nodes(tree)):
            raise source.refusal(name, _CONTEXT_DEPENDENT, "Write it without, or use rules.")
        written, lexed = whole_texts(inner, is_outer=False), whole_texts(outer, is_outer=True)
        part = None if lexed.is_prefix_free else taken_in_part(parse(inner), tree)
    except PatternError as error:
        raise source.refusal(name, str(error), error.suggestion) from error
    except TooManyStates as error:
        raise source.refusal(name, str(error), "Simplify it.") from error
    if part is not None:
        reason = f"takes {part.taken!r} of {part.text!r}: `re` takes the first alternative that matches"
        advice = (
            "Write one pattern, longer alternatives before shorter ones, and classes that do not overlap."
        )
        raise source.refusal(name, reason, advice)
    if written.accepts("") or lexed.accepts(""):
        raise source.refusal(name, "admits the empty text", "Make it optional where it is used.")
    return Terminal(name, written, lexed, _is_keyword(inner))


def _refuse_flags(source: LarkSource, name: str, text: str) -> None:
    """Refuse the flags of a pattern in which those of case alone are already spelled out."""
    if flags := sorted(set("".join(_FLAGS.findall(ATOMS.sub("x", text))))):
        instead = [_INSTEAD_OF_FLAG.get(flag, f"Leave out {flag}.") for flag in flags]
        named = f"has the flag{'s' if len(flags) > 1 else ''} {', '.join(flags)}"
        raise source.refusal(name, named, " ".join(instead))


def _is_keyword(text: str) -> bool:
    """Whether a pattern is a text in whatever case, or a choice of such texts."""
    tree = list(nodes(parse(text)))
    is_choice = not any(isinstance(node, Repetition) for node in tree)
    return is_choice and all(charset.size(node.ranges) <= 2 for node in tree if isinstance(node, Chars))


def _in_both_cases(group: re.Match[str]) -> str:
    """The pattern of a text whose case does not matter, as it is written: letters of ASCII in both cases."""
    return re.sub(r"\\.|[a-zA-Z]", _both_cases_of, group[1], flags=re.DOTALL)


def _both_cases_of(atom: re.Match[str]) -> str:
    is_letter = len(atom[0]) == 1
    return _class_of({atom[0].lower(), atom[0].upper()}) if is_letter else atom[0]


def _in_any_case(group: re.Match[str]) -> str:
    """The pattern of what a lexer may take for such a text: all characters that any rule of case equates."""
    return _CHARACTER.sub(lambda atom: _class_of(_alike().get(atom[0], {atom[0]})), group[1])


def _class_of(characters: Collection[str]) -> str:
    return f"[{''.join(sorted(characters))}]" if len(characters) > 1 else "".join(characters)


@cache
def _alike() -> Mapping[str, frozenset[str]]:
    """For each character with other cases, all characters that are equal to it when case does not matter.

    Python's `re` compares more than lower and upper case: `s` with U+017F, `k` with the sign of Kelvin.
    """
    groups: dict[str, set[str]] = {}
    for character in map(chr, range(_END_OF_CASES)):
        others = {character.lower(), character.upper(), character.title(), character.casefold()}
        for other in others:
            _join(groups, character, other)
    for first, second in _ALIKE_BESIDE:
        _join(groups, first, second)
    return {character: frozenset(group) for character, group in groups.items()}


def _join(groups: dict[str, set[str]], first: str, second: str) -> None:
    """Make two characters alike, and all that are alike one of them; texts of several characters are not."""
    if len(second) == 1 and first != second:
        joined = groups.get(first, {first}) | groups.get(second, {second})
        groups |= dict.fromkeys(joined, joined)
