"""Directed graphs: what is reached in one, and in what order."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

NodeT = TypeVar("NodeT", bound=Hashable)


def reached(starts: Iterable[NodeT], following: Callable[[NodeT], Iterable[NodeT]]) -> set[NodeT]:
    """What some way leads to from `starts`, these included."""
    found = set(starts)
    pending = list(found)
    while pending:
        for node in following(pending.pop()):
            if node not in found:
                found.add(node)
                pending.append(node)
    return found


def leading_to(ends: Iterable[NodeT], ways: Iterable[tuple[NodeT, Iterable[NodeT]]]) -> set[NodeT]:
    """What some way leads from to `ends`, these included; `ways` are nodes, each with those it leads to."""
    sources: dict[NodeT, list[NodeT]] = {}
    for node, targets in ways:
        for target in targets:
            sources.setdefault(target, []).append(node)
    return reached(ends, lambda node: sources.get(node, ()))


def innermost_first(following: Sequence[Iterable[int]]) -> list[int] | None:
    """What 0 leads to, each node after those it leads to itself; None if some way is a circle."""
    order: list[int] = []
    is_done: dict[int, bool] = {}
    stack = [(0, False)]
    while stack:
        node, is_left = stack.pop()
        if is_left:
            is_done[node] = True
            order.append(node)
        elif not is_done.get(node, True):  # still being walked: what is behind it leads back
            return None
        elif node not in is_done:
            is_done[node] = False
            stack.append((node, True))
            stack += ((target, False) for target in following[node])
    return order


def circles(following: Mapping[NodeT, Iterable[NodeT]]) -> list[set[NodeT]]:
    """The largest sets of nodes, of two or more, each of which leads to all others.

    By two walks in depth, one of them backwards (Sharir, 1981).
    """
    sources: dict[NodeT, list[NodeT]] = {node: [] for node in following}
    for node, targets in following.items():
        for target in targets:
            sources[target].append(node)
    found: list[set[NodeT]] = []
    taken: set[NodeT] = set()

    def leading_here(node: NodeT) -> Iterable[NodeT]:
        return (source for source in sources[node] if source not in taken)

    for node in reversed(_in_order_of_leaving(following)):
        if node not in taken:
            circle = reached([node], leading_here)
            taken |= circle
            if len(circle) > 1:
                found.append(circle)
    return found


def _in_order_of_leaving(following: Mapping[NodeT, Iterable[NodeT]]) -> list[NodeT]:
    """All nodes, each when a walk in depth leaves it."""
    order: dict[NodeT, None] = {}
    met: set[NodeT] = set()
    stack = [(node, False) for node in following]
    while stack:
        node, is_left = stack.pop()
        if is_left:
            order[node] = None
        elif node not in met:
            met.add(node)
            stack.append((node, True))
            stack += ((target, False) for target in following[node] if target not in met)
    return list(order)
