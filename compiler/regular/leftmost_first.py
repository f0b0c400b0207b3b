r"""Whether an engine that tries alternatives in order takes all of a text that a pattern matches.

Python's `re`, like most engines, takes the first way to match that succeeds, not the longest one: of `ab`,
`a|ab` takes `a`. Automata know only which texts a pattern matches. Where every text of a pattern is taken
whole, the way that is taken is always the longest: both kinds of engines split a text alike.

The ways to match are followed at the same time, in the order in which they are tried (Pike; Cox, "Regular
Expression Matching: the Virtual Machine Approach", 2009). One that succeeds cuts off those after it. A text
is taken in part if only a way that was cut off reads all of it.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from compiler.regular import charset
from compiler.regular.dfa import Alphabet, TooManyStates
from compiler.regular.ecma import PatternNode
from compiler.regular.nfa import Nfa, sets_of

MAX_STEPS = 1_000_000
_PRINTABLE = charset.of("".join(map(chr, range(0x21, 0x7F))))


@dataclass(frozen=True, slots=True)
class TakenInPart:
    """A text that a pattern matches, and the beginning of it that is taken."""

    text: str
    taken: str


def taken_in_part(node: PatternNode) -> TakenInPart | None:
    """A shortest text of a pattern that is not taken whole; None if there is none.

    >>> from compiler.regular.ecma import parse
    >>> taken_in_part(parse("<|<=|=")), taken_in_part(parse("<=|<|="))
    (TakenInPart(text='<=', taken='<'), None)

    The tree has no assertions or lookarounds.

    Raises:
        PatternError: it has.
        TooManyStates: it takes too many steps to find out.
    """
    nfa = _OrderedNfa(Alphabet.of(sets_of(node)))
    ways = _Ways(nfa)
    start = ways.closed([nfa.build(node, nfa.final)], ())
    seen = {start}
    pending = deque([(start, "", 0)])
    while pending:
        state, text, num_taken = pending.popleft()
        tried, cut_off = state
        if nfa.final in tried:
            num_taken = len(text)
        elif nfa.final in cut_off:
            return TakenInPart(text, text[:num_taken])
        for symbol, following in ways.successors(tried, cut_off):
            if following not in seen:
                seen.add(following)
                pending.append((following, text + _character(nfa.alphabet.atoms[symbol]), num_taken))
    return None


class _OrderedNfa(Nfa):
    """An NFA whose moves without a symbol are in the order in which engines try them."""

    def _repeat(self, item: PatternNode, low: int, high: int | None, following: int) -> int:
        if high is not None:
            return super()._repeat(item, low, high, following)
        # An item that was empty is not repeated: what follows is tried then, before other ways to read it.
        again = self.new_state()
        entry = self.build(item, again)
        self.epsilon[again] = [("", entry), ("", following)]
        loop = self.new_state()
        self.epsilon[loop] = self.epsilon[again]
        return super()._repeat(item, low, low, loop)


_State = tuple[tuple[int, ...], frozenset[int]]
"""The NFA's states on the ways that are tried, in their order, and those that only ways cut off have."""


class _Ways:
    """Follows all ways to match at the same time."""

    def __init__(self, nfa: Nfa) -> None:
        self._nfa = nfa
        self._num_steps = 0

    def closed(self, tried: Iterable[int], cut_off: Iterable[int]) -> _State:
        """The states that others reach without a symbol, without those that only pass on."""
        reached: dict[int, None] = {}
        in_order: tuple[int, ...] | None = None
        for state in self._reached(tried, reached):
            if state == self._nfa.final and in_order is None:
                in_order = tuple(filter(self._is_lasting, reached))
        if in_order is None:
            in_order = tuple(filter(self._is_lasting, reached))
        for _ in self._reached(cut_off, reached):
            pass
        return in_order, frozenset(filter(self._is_lasting, reached.keys() - set(in_order)))

    def _is_lasting(self, state: int) -> bool:
        return state == self._nfa.final or bool(self._nfa.transitions[state][0])

    def successors(self, tried: Iterable[int], cut_off: Iterable[int]) -> Iterator[tuple[int, _State]]:
        """Each symbol that some way reads, with what it leads to."""
        targets: dict[int, tuple[list[int], list[int]]] = {}
        for index, states in enumerate((tried, cut_off)):
            for state in states:
                symbols, target = self._nfa.transitions[state]
                self._count(len(symbols))
                for symbol in symbols:
                    targets.setdefault(symbol, ([], []))[index].append(target)
        for symbol, (of_tried, of_cut_off) in targets.items():
            yield symbol, self.closed(of_tried, of_cut_off)

    def _reached(self, states: Iterable[int], reached: dict[int, None]) -> Iterator[int]:
        """Add to `reached` what some states reach without a symbol, in order, and yield what is added."""
        for first in states:
            stack = [first]
            while stack:
                state = stack.pop()
                if state in reached:
                    continue
                self._count(1)
                reached[state] = None
                yield state
                stack += [target for _, target in reversed(self._nfa.epsilon[state])]

    def _count(self, num_steps: int) -> None:
        self._num_steps += num_steps
        if self._num_steps > MAX_STEPS:
            raise TooManyStates


def _character(atom: charset.Ranges) -> str:
    """A character of a set, one that can be printed if there is one."""
    return chr((charset.intersection(atom, _PRINTABLE) or atom)[0][0])
