"""Directed graphs: what is reached in one, and in what order."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def reached(starts: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """What some way leads to from `starts`, these included."""
    found = set(starts)
    pending = list(found)
    while pending:
        for node in following(pending.pop()):
            if node not in found:
                found.add(node)
                pending.append(node)
    return found


def leading_to(ends: Iterable[Node], ways: Iterable[tuple[Node, Iterable[Node]]]) -> set[Node]:
    """What some way leads from to `ends`, these included; `ways` are nodes, each with those it leads to."""
    sources: dict[Node, list[Node]] = {}
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
