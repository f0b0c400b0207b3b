"""Terminals that admit the empty text, as optional ones that do not.

Lark refuses such a terminal. OpenAI reads it, and its best known tool for patches has one, `/(.*)/`. So a
pattern that is as a whole an optional item or a loop loses the empty text, and where rules use it, it may be
left out: `"+" /(.*)/ LF` is read as `"+" [/(.+)/] LF`. Ignored text only loses the empty one.
"""

import re
from collections.abc import Collection, Iterable, Iterator

from lark.grammar import NonTerminal, Rule
from lark.lexer import Pattern, PatternRE, TerminalDef
from lark.load_grammar import Grammar

from compiler.regular.ecma import parse
from compiler.regular.pattern_tree import PatternError, Repetition

_LAST_COUNT = re.compile(r"(.*[^*+?}])([*?]|\{0,\d*\})(\)*)", re.DOTALL)
"""A pattern, the count of what it repeats, and what closes its groups."""


class GrammarWithOptions(Grammar):
    """A grammar in which terminals that admit the empty text are optional."""

    def compile(
        self, start: object, terminals_to_keep: object
    ) -> tuple[list[TerminalDef], list[Rule], list[str]]:
        """As in Lark: the terminals, the rules and the names of what is ignored."""
        terminals, rules, ignored = super().compile(start, terminals_to_keep)
        not_empty = {
            terminal.name: pattern
            for terminal in terminals
            if (pattern := _without_empty_text(terminal.pattern)) is not None
        }
        for terminal in terminals:
            terminal.pattern = not_empty.get(terminal.name, terminal.pattern)
        return terminals, list(_with_options(rules, not_empty.keys())), ignored


def _without_empty_text(pattern: Pattern) -> Pattern | None:
    """The pattern of the same texts but the empty one; None if that is not in it, or deep in it.

    >>> _without_empty_text(PatternRE("(.*)")), _without_empty_text(PatternRE("a*b*"))
    ('(.+)', None)
    """
    written = _LAST_COUNT.fullmatch(pattern.value)
    if written is None or not isinstance(pattern, PatternRE) or not _is_optional(pattern.value):
        return None
    item, count, end = written.groups()
    at_least_once = {"*": "+", "?": ""}.get(count, count.replace("{0", "{1"))
    return PatternRE(item + at_least_once + end, pattern.flags, pattern.raw)


def _is_optional(text: str) -> bool:
    """Whether a pattern is as a whole one item that may be left out."""
    try:
        tree = parse(text)
    except PatternError:  # it is refused where terminals are read
        return False
    return isinstance(tree, Repetition) and tree.low == 0 and tree.high != 0


def _with_options(rules: Iterable[Rule], optional: Collection[str]) -> Iterator[Rule]:
    """The rules with a rule of its own for each optional terminal."""
    options: dict[str, NonTerminal] = {}
    for rule in rules:
        expansion = list(rule.expansion)
        for index, symbol in enumerate(expansion):
            if symbol.is_term and symbol.name in optional:
                # Names of rules have no capitals, and those of terminals no small letters.
                option = NonTerminal(f"optional_{symbol.name}")
                if symbol.name not in options:
                    yield from (Rule(option, [symbol]), Rule(option, [], 1))
                expansion[index] = options.setdefault(symbol.name, option)
        yield Rule(rule.origin, expansion, rule.order, rule.alias, rule.options)
