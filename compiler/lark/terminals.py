r"""The automata of a grammar's terminals.

Lark writes each terminal as one pattern for Python's `re`. It is read as all patterns are
(`compiler.regular.ecma`), in the inner reading for what is written, and in the outer reading for what a lexer
might take. What depends on the text around the terminal is refused: anchors, boundaries and lookarounds. So
are lazy quantifiers, which keep a lexer from taking the longest match.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lark.lexer import PatternStr

from compiler.lark.lark_source import LarkSource
from compiler.regular.dfa import Dfa, TooManyStates
from compiler.regular.ecma import (
    Alternation,
    Assertion,
    Concat,
    Look,
    PatternError,
    PatternNode,
    Repetition,
    parse,
)
from compiler.regular.language import whole_texts

_ATOMS = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
_LAZY = re.compile(r"[*+?}]\?")
_FOLDED = re.compile(r"\(\?i:((?:\\.|[^\\()\[\]{}|*+?.^$])*)\)", re.DOTALL)
_NOT_REGULAR = "depends on the text around it (an anchor, a boundary or a lookaround)"


@dataclass(frozen=True)
class Terminal:
    """The texts that are written for a terminal, and those that a lexer may take for it."""

    name: str
    written: Dfa
    lexed: Dfa
    literal: str | None
    """The text, if there is only one."""


def read_terminals(source: LarkSource) -> dict[str, Terminal]:
    """The terminals by name; raises UnsupportedSchema."""
    return {name: _read(source, name) for name in source.terminals}


def _read(source: LarkSource, name: str) -> Terminal:
    pattern = source.terminals[name].pattern
    text = _FOLDED.sub(_both_cases, pattern.to_regexp())
    if _LAZY.search(_ATOMS.sub("x", text)):
        raise source.refusal(name, "has a lazy quantifier", "Say what may be in it, as in [^x]*x.")
    try:
        if any(isinstance(node, Assertion | Look) for node in _nodes(parse(text))):
            raise source.refusal(name, _NOT_REGULAR, "Write it without, or use rules.")
        written, lexed = (whole_texts(text, is_outer=is_outer) for is_outer in (False, True))
    except PatternError as error:
        raise source.refusal(name, str(error), error.suggestion) from error
    except TooManyStates as error:
        raise source.refusal(name, str(error), "Simplify it.") from error
    if written.accepts("") or lexed.accepts(""):
        raise source.refusal(name, "admits the empty text", "Make it optional where it is used.")
    is_literal = isinstance(pattern, PatternStr) and not pattern.flags
    return Terminal(name, written, lexed, pattern.value if is_literal else None)


def _both_cases(group: re.Match[str]) -> str:
    """The pattern of a text whose case does not matter; only letters of ASCII are written in both cases."""
    return _ATOMS.sub(lambda atom: atom[0], re.sub(r"\\.|[a-zA-Z]", _both_cases_of, group[1]))


def _both_cases_of(atom: re.Match[str]) -> str:
    char = atom[0]
    return f"[{char.lower()}{char.upper()}]" if char.isalpha() else char


def _nodes(node: PatternNode) -> Iterator[PatternNode]:
    """A node and all nodes below it."""
    yield node
    match node:
        case Concat(children) | Alternation(children):
            for child in children:
                yield from _nodes(child)
        case Repetition(item):
            yield from _nodes(item)
