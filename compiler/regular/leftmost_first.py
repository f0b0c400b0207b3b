r"""Whether an engine that tries alternatives in order takes all of a text that a pattern matches.

Python's `re`, like most engines, takes the first way to match that succeeds, not the longest one: of `ab`,
`a|ab` takes `a`. Automata know only which texts a pattern matches. Where every text of a pattern is taken
whole, the way that is taken is always the longest: both kinds of engines split a text alike.

The ways to match are followed at the same time, as threads in the order in which they are tried (Pike; Cox,
"Regular Expression Matching: the Virtual Machine Approach", 2009). One that succeeds cuts off those after it.
A text is taken in part if only a thread that was cut off reads all of it.

A pattern has two readings (`compiler.regular.ecma`). Texts are written in the inner one. An engine reads
something between it and the outer one, so that a thread may cut off others if it exists in the outer one.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from compiler.regular import charset
from compiler.regular.dfa import Alphabet
from compiler.regular.nfa import Nfa, sets_of
from compiler.regular.pattern_tree import Alternation, Concat, PatternError, PatternNode, Repetition

MAX_STEPS = 500_000
_PRINTABLE = charset.of("".join(map(chr, range(0x21, 0x7F))))


@dataclass(frozen=True, slots=True)
class TakenInPart:
    """A text that a pattern matches, and the beginning of it that may be taken."""

    text: str
    taken: str


def taken_in_part(inner: PatternNode, outer: PatternNode) -> TakenInPart | None:
    """A shortest text of a pattern that may not be taken whole; None if there is none.

    >>> from compiler.regular.ecma import parse
    >>> for pattern in ("<|<=|=", "<=|<|="):
    ...     taken_in_part(parse(pattern), parse(pattern, is_outer=True))
    TakenInPart(text='<=', taken='<')

    The trees are of one pattern in its two readings. They have no assertions or lookarounds.

    Raises:
        PatternError: they have, or it takes too many steps to find out.
    """
    threads = _Threads(inner, outer)
    seen = {threads.start}
    pending = deque([(threads.start, "", 0)])
    while pending:
        frontier, text, num_taken = pending.popleft()
        if threads.has_surely_ended(frontier.cut_off) and not threads.has_surely_ended(frontier.tried):
            return TakenInPart(text, text[:num_taken])
        if threads.has_ended(frontier.tried):
            num_taken = len(text)
        for symbol, following in threads.successors(frontier):
            if following not in seen:
                seen.add(following)
                pending.append((following, text + _character(threads.alphabet.atoms[symbol]), num_taken))
    return None


_Thread = tuple[int, bool]
"""The state of the NFA that a way to match has reached, and whether it exists in the inner reading too."""


class _Frontier(NamedTuple):
    """All threads after a text: those that are tried, in their order, and those cut off."""

    tried: tuple[_Thread, ...]
    cut_off: frozenset[_Thread]


class _OrderedNfa(Nfa):
    """An NFA whose moves without a symbol are in the order in which engines try them.

    Once a repetition has as many items as it needs, an item that has read nothing ends it: engines try what
    follows then, and only later other ways to read the item. So a fragment may go on at two places.
    """

    def build(self, node: PatternNode, following: int, if_empty: int | None = None) -> int:
        """As in `Nfa`; the fragment continues at `if_empty` if it has read nothing."""
        if if_empty is None or not _may_be_empty(node):
            if_empty = following
        match node:
            case Concat(items):
                for item in reversed(items):
                    following, if_empty = self._entries(item, following, if_empty)
                return if_empty
            case Alternation(options):
                entry = self.new_state()
                self.epsilon[entry] = [("", self.build(option, following, if_empty)) for option in options]
                return entry
            case Repetition(item, low, high):
                return self._repeated(item, low, high, following, if_empty)
            case _:
                return super().build(node, following)

    def _repeated(self, item: PatternNode, low: int, high: int | None, following: int, if_empty: int) -> int:
        # The entries where one more item may come, the last of them first.
        entries = [following]
        if high is None:
            loop = self.new_state()
            entries = [loop, self._optional(loop, item, loop, following)]
        for _ in range(low, low if high is None else high):
            entries.append(self._optional(self.new_state(), item, entries[-1], following))
        has_read = has_not_read = entries[-1]
        if len(entries) == 1:
            has_not_read = if_empty
        elif if_empty != following:
            has_not_read = self._optional(self.new_state(), item, entries[-2], if_empty)
        for _ in range(low):
            has_read, has_not_read = self._entries(item, has_read, has_not_read)
        return has_not_read

    def _optional(self, entry: int, item: PatternNode, again: int, following: int) -> int:
        """The entry of an item that leads to `again`, or of none; an empty item is the last one."""
        self.epsilon[entry] = [("", self.build(item, again, following)), ("", following)]
        return entry

    def _entries(self, node: PatternNode, following: int, if_empty: int) -> tuple[int, int]:
        """The entry of a fragment before which something was read, and the entry if nothing was."""
        entry = self.build(node, following)
        return entry, entry if following == if_empty else self.build(node, following, if_empty)


def _may_be_empty(node: PatternNode) -> bool:
    match node:
        case Concat(items):
            return all(map(_may_be_empty, items))
        case Alternation(options):
            return any(map(_may_be_empty, options))
        case Repetition(item, low):
            return low == 0 or _may_be_empty(item)
        case _:
            return False


class _Threads:
    """Follows all ways to match at the same time."""

    def __init__(self, inner: PatternNode, outer: PatternNode) -> None:
        self.alphabet = Alphabet.of([*sets_of(inner), *sets_of(outer)])
        self._inner, self._outer = _OrderedNfa(self.alphabet), _OrderedNfa(self.alphabet)
        start = self._outer.build(outer, self._outer.final)
        # Both trees have the same shape, so that their states have the same numbers.
        assert self._inner.build(inner, self._inner.final) == start, "one pattern, read in two ways"
        self._final = self._outer.final
        self._num_steps = 0
        self.start = self._closed([(start, True)], ())

    def has_ended(self, threads: Iterable[_Thread]) -> bool:
        """Whether the text may end here by one of the threads."""
        return any(state == self._final for state, _ in threads)

    def has_surely_ended(self, threads: Collection[_Thread]) -> bool:
        """Whether the text is one of the inner reading, by one of the threads."""
        return (self._final, True) in threads

    def successors(self, frontier: _Frontier) -> Iterator[tuple[int, _Frontier]]:
        """Each symbol that goes on in the inner reading, with what it leads to."""
        targets: dict[int, tuple[list[_Thread], list[_Thread]]] = {}
        for index, threads in enumerate(frontier):
            for state, is_sure in threads:
                symbols, target = self._outer.transitions[state]
                sure_symbols, _ = self._inner.transitions[state]
                self._count(len(symbols))
                for symbol in symbols:
                    following = (target, is_sure and symbol in sure_symbols)
                    targets.setdefault(symbol, ([], []))[index].append(following)
        for symbol, (tried, cut_off) in targets.items():
            if any(is_sure for _, is_sure in (*tried, *cut_off)):
                yield symbol, self._closed(tried, cut_off)

    def _closed(self, tried: Iterable[_Thread], cut_off: Iterable[_Thread]) -> _Frontier:
        """What some threads reach without a symbol, without the states that only pass on."""
        reached: dict[_Thread, None] = {}
        in_order: list[_Thread] = []
        has_ended = False
        for thread in self._reached(tried, reached):
            is_end = thread[0] == self._final
            if is_end or (self._is_lasting(thread) and not has_ended):
                in_order.append(thread)
            has_ended |= is_end
        for _ in self._reached(cut_off, reached):
            pass
        lasting = filter(self._is_lasting, reached.keys() - set(in_order))
        return _Frontier(tuple(in_order), frozenset(lasting))

    def _is_lasting(self, thread: _Thread) -> bool:
        return thread[0] == self._final or bool(self._outer.transitions[thread[0]][0])

    def _reached(self, threads: Iterable[_Thread], reached: dict[_Thread, None]) -> Iterator[_Thread]:
        """Add to `reached` what some threads reach without a symbol, in order, and yield what is added."""
        for first in threads:
            stack = [first]
            while stack:
                thread = state, is_sure = stack.pop()
                if thread in reached or (state, True) in reached:
                    continue
                self._count(1)
                reached[thread] = None
                yield thread
                stack += [(target, is_sure) for _, target in reversed(self._outer.epsilon[state])]

    def _count(self, num_steps: int) -> None:
        self._num_steps += num_steps
        if self._num_steps > MAX_STEPS:
            raise PatternError("has too many ways to match a text", "Simplify it.")


def _character(atom: charset.Ranges) -> str:
    """A character of a set, one that can be printed if there is one."""
    return chr((charset.intersection(atom, _PRINTABLE) or atom)[0][0])
