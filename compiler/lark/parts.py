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
from lark.load_grammar import REPEAT_BREAK_THRESHOLD, SMALL_FACTOR_THRESHOLD
from lark.utils import small_factors

MAX_EXPANSIONS = 16
"""The most expansions of an alternative that are written out in such a grammar."""
PART = "_PART_"
"""Stands between the name of a rule and the number of its part; names of rules have no capitals."""
_MANY = 10**12


def with_parts_apart(rule_defs: Iterable[Any], *, max_symbols: int) -> list[Any]:
    """The rules as Lark defines them; with those of parts, if Lark would write more than so many symbols.

    Templates are left alone, as their parts may be parameters.
    """
    rules = list(rule_defs)
    if sum(_num_symbols(tree) for _, _, tree, _ in rules) <= max_symbols:
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
        write = self._part if _has_many(alternative) else self._inner
        return Tree("expansion", [write(child) for child in alternative.children])

    def _part(self, tree: Tree[Any]) -> Tree[Any]:
        """A reference to a rule for a part; the part itself if it has one expansion."""
        if _size(tree).num_expansions == 1:
            return self._inner(tree)
        name = f"{self._name}{PART}{next(self._numbers)}"
        self.trees.append((name, Tree("expansions", [Tree("expansion", [self._inner(tree)])])))
        return Tree("value", [NonTerminal(name)])

    def _inner(self, tree: Tree[Any]) -> Tree[Any]:
        """A part whose own parts are replaced."""
        match str(tree.data), tree.children:
            case "expansions", _:
                return self.replaced(tree)
            case "expr", (item, "?", *_):
                return Tree("expr", [self._inner(item), *tree.children[1:]])
            case "expr", (item, *how_often):
                is_large = _has_many(item) or _has_many(tree) or _is_large_count(tree)
                return Tree("expr", [self._part(item) if is_large else self._inner(item), *how_often])
            case _:
                return tree


def _has_many(tree: Tree[Any]) -> bool:
    return _size(tree).num_expansions > MAX_EXPANSIONS


class _Size(NamedTuple):
    """How many expansions Lark writes for a part of a rule, and how many symbols they have together."""

    num_expansions: int
    num_symbols: int

    def __or__(self, other: "_Size") -> "_Size":
        """The size of a choice between two parts."""
        return _at_most_many(self.num_expansions + other.num_expansions, self.num_symbols + other.num_symbols)

    def then(self, other: "_Size") -> "_Size":
        """The size of a part after another one."""
        return _at_most_many(
            self.num_expansions * other.num_expansions,
            self.num_symbols * other.num_expansions + self.num_expansions * other.num_symbols,
        )


def _at_most_many(*numbers: int) -> _Size:
    """Numbers of the size of a grammar; beyond `_MANY` they are not counted, since counts may be nested."""
    return _Size(*(min(number, _MANY) for number in numbers))


_EMPTY, _SYMBOL = _Size(1, 0), _Size(1, 1)


def _num_symbols(rule: Tree[Any]) -> int:
    """The symbols of a rule, and of the rules that Lark makes of its loops and large counts."""
    repeated = rule.find_data("expr")
    return _size(rule).num_symbols + sum(map(_num_symbols_in_rules, repeated))


def _num_symbols_in_rules(expr: Tree[Any]) -> int:
    """The symbols of the rules that Lark makes of a loop or a large count; 0 if it makes none."""
    item = _size(expr.children[0])
    if _is_large_count(expr):
        low, high = _counts(expr)
        return _num_symbols_of_large_count(item, low, high)
    is_loop = expr.children[1] in {"+", "*"}
    return 2 * item.num_symbols + item.num_expansions if is_loop else 0  # each item, once and once more


def _num_symbols_of_large_count(item: _Size, low: int, high: int) -> int:
    """Lark builds a count of factors: `a~61` is `r~12 a` with a rule `r: a~5`, and `r~12` is built alike.

    So each rule has the item up to five times. What may follow the least number is built in the same way.
    """
    factors = small_factors(low, SMALL_FACTOR_THRESHOLD)
    more_factors = small_factors(max(0, high - low) + 1, SMALL_FACTOR_THRESHOLD)
    sizes = []
    for each in (factors, more_factors[:-1]):  # what stands exactly so many times
        target = item
        for num_targets, num_items in each:
            sizes.append(_times(target, num_targets).then(_times(item, num_items)))
            target = _SYMBOL
    target, fewer = item, _EMPTY
    for num_targets, num_items in more_factors:  # what stands at most so many times
        sizes.append(_size_of_counts(target, 0, num_targets - 1).then(fewer))
        sizes.append(_times(target, num_targets).then(_size_of_counts(item, 0, num_items - 1)))
        target = fewer = _SYMBOL
    return sum(size.num_symbols for size in sizes)


def _counts(expr: Tree[Any]) -> tuple[int, int]:
    """The least and the greatest number of times that an item stands."""
    _, _, *counts = expr.children
    return int(str(counts[0])), int(str(counts[-1]))


def _is_large_count(expr: Tree[Any]) -> bool:
    """Whether Lark itself writes a count as rules, which repeat the item some times each."""
    return expr.children[1] == "~" and _counts(expr)[1] >= REPEAT_BREAK_THRESHOLD


def _times(item: _Size, number: int) -> _Size:
    return _size_of_counts(item, number, number)


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
        case Tree(data="expr", children=[item, "?"]):
            return _EMPTY | _size(item)
        case Tree(data="expr", children=[_, "*"]):
            return _EMPTY | _SYMBOL
        case Tree(data="expr", children=[item, "~", *_]) if not _is_large_count(tree):
            return _size_of_counts(_size(item), *_counts(tree))
        case _:
            return _SYMBOL
