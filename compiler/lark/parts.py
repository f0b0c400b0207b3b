"""Parts of rules that Lark would multiply out, as rules of their own.

Lark writes an expansion for each way to read the optional parts and the groups of a rule. So `a? b? (c | d)`
becomes eight expansions, and twelve optional parts in a row become 4,096, with 24,576 symbols. If a grammar
would have too many symbols, such parts get rules of their own, and the texts are the same:

    start: a? b? c? d? e?      start: p0 p1 p2 p3 p4
                               p0: a?
                               ...
"""

from collections.abc import Iterable
from itertools import count
from typing import Any, NamedTuple

from lark import Tree
from lark.grammar import NonTerminal

MAX_EXPANSIONS = 16
"""The most expansions of an alternative that are written out in such a grammar."""
PART = "_PART_"
"""Stands between the name of a rule and the number of its part; names of rules have no capitals."""
_MAX_REPEATED = 50
"""From so many on, Lark itself writes counts as rules."""


def with_parts_apart(rule_defs: Iterable[Any], *, max_symbols: int) -> list[Any]:
    """The rules as Lark defines them; with those of parts, if Lark would write more than so many symbols.

    Templates are left alone, as their parts may be parameters.
    """
    rules = list(rule_defs)
    if sum(_size(tree).num_symbols for _, _, tree, _ in rules) <= max_symbols:
        return rules
    apart = []
    for name, parameters, tree, options in rules:
        parts = _Parts(name)
        apart.append((name, parameters, tree if parameters else parts.replaced(tree), options))
        apart += [(part, parameters, part_tree, options) for part, part_tree in parts.trees]
    return apart


class _Parts:
    """The parts of one rule."""

    def __init__(self, name: str) -> None:
        self.trees: list[tuple[str, Tree[Any]]] = []
        self._name = name
        self._numbers = count()

    def replaced(self, alternatives: Tree[Any]) -> Tree[Any]:
        """Alternatives with references to their parts, where these would become many expansions."""
        return Tree("expansions", [self._replaced_in(child) for child in alternatives.children])

    def _replaced_in(self, alternative: Tree[Any]) -> Tree[Any]:
        if alternative.data == "alias":
            expansion, *name = alternative.children
            return Tree("alias", [self._replaced_in(expansion), *name])
        if _size(alternative).num_expansions <= MAX_EXPANSIONS:
            return alternative
        return Tree("expansion", [self._part(child) for child in alternative.children])

    def _part(self, tree: Tree[Any]) -> Tree[Any]:
        """A reference to a rule for a part; the part itself if it has one expansion."""
        if _size(tree).num_expansions == 1:
            return tree
        name = f"{self._name}{PART}{next(self._numbers)}"
        self.trees.append((name, Tree("expansions", [Tree("expansion", [self._inner(tree)])])))
        return Tree("value", [NonTerminal(name)])

    def _inner(self, tree: Tree[Any]) -> Tree[Any]:
        """A part whose own parts are replaced."""
        match str(tree.data), tree.children:
            case "expansions", _:
                return self.replaced(tree)
            case "maybe", (inner,):
                return Tree("maybe", [self.replaced(inner)])
            case "expr", (item, "?" as operator):
                return Tree("expr", [self._inner(item), operator])
            case "expr", (item, "~" as operator, *counts):
                return Tree("expr", [self._part(item), operator, *counts])
            case _:
                return tree


class _Size(NamedTuple):
    """How many expansions Lark writes for a part of a rule, and how many symbols they have together."""

    num_expansions: int
    num_symbols: int

    def __or__(self, other: "_Size") -> "_Size":
        """The size of a choice between two parts."""
        return _Size(self.num_expansions + other.num_expansions, self.num_symbols + other.num_symbols)

    def then(self, other: "_Size") -> "_Size":
        """The size of a part after another one."""
        return _Size(
            self.num_expansions * other.num_expansions,
            self.num_symbols * other.num_expansions + self.num_expansions * other.num_symbols,
        )


_EMPTY, _SYMBOL = _Size(1, 0), _Size(1, 1)


def _size_of_counts(item: _Size, low: int, high: int) -> _Size:
    size, repeated = _Size(0, 0), _EMPTY
    for number in range(high + 1):
        size |= repeated if number >= low else _Size(0, 0)
        repeated = repeated.then(item)
    return size


def _size(tree: Any) -> _Size:  # noqa: PLR0911 - one case per kind of part
    match tree:
        case Tree(data="expansions", children=children):
            size = _Size(0, 0)
            for child in children:
                size |= _size(child)
            return size
        case Tree(data="expansion", children=children):
            size = _EMPTY
            for child in children:
                size = size.then(_size(child))
            return size
        case Tree(data="alias", children=[expansion, *_]):
            return _size(expansion)
        case Tree(data="maybe", children=[item]) | Tree(data="expr", children=[item, "?"]):
            return _EMPTY | _size(item)
        case Tree(data="expr", children=[_, "*"]):
            return _EMPTY | _SYMBOL
        case Tree(data="expr", children=[item, "~", *counts]) if int(str(counts[-1])) < _MAX_REPEATED:
            return _size_of_counts(_size(item), int(str(counts[0])), int(str(counts[-1])))
        case _:
            return _SYMBOL
