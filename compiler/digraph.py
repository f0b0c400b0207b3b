"""Directed graphs: reachability, topological order and strongly connected components."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

NodeT = TypeVar("NodeT", bound=Hashable)


def reachable(starts: Iterable[NodeT], successors: Callable[[NodeT], Iterable[NodeT]]) -> set[NodeT]:
    """The nodes to which a path leads from any of `starts`, and `starts` themselves.

    >>> reachable([1], {1: [2], 2: [], 3: [1]}.__getitem__)
    {1, 2}
    """
    reached = set(starts)
    pending = list(reached)
    while pending:
        for node in successors(pending.pop()):
            if node not in reached:
                reached.add(node)
                pending.append(node)
    return reached


def coreachable(ends: Iterable[NodeT], edges: Iterable[tuple[NodeT, Iterable[NodeT]]]) -> set[NodeT]:
    """The nodes from which a path leads to any of `ends`, and `ends` themselves.

    `edges` pairs nodes with their successors.

    >>> coreachable([2], [(1, [2]), (2, []), (3, [1])])
    {1, 2, 3}
    """
    predecessors: dict[NodeT, list[NodeT]] = {}
    for node, targets in edges:
        for target in targets:
            predecessors.setdefault(target, []).append(node)
    return reachable(ends, lambda node: predecessors.get(node, ()))


def reverse_topological_order(successors: Sequence[Iterable[int]]) -> list[int] | None:
    """The nodes that are reachable from node 0, each one after all its successors; None if they have a cycle.

    >>> reverse_topological_order([[1, 2], [2], []])
    [2, 1, 0]
    """
    order: list[int] = []
    is_done: dict[int, bool] = {}
    stack = [(0, False)]
    while stack:
        node, is_left = stack.pop()
        if is_left:
            is_done[node] = True
            order.append(node)
        elif not is_done.get(node, True):  # the search is still below this node: it found a way back
            return None
        elif node not in is_done:
            is_done[node] = False
            stack.append((node, True))
            stack += ((target, False) for target in successors[node])
    return order


def cyclic_components(successors: Mapping[NodeT, Iterable[NodeT]]) -> list[set[NodeT]]:
    """The strongly connected components of two or more nodes, in topological order.

    >>> cyclic_components({1: [2], 2: [1, 3], 3: [3]})
    [{1, 2}]
    """
    return [component for component in strongly_connected_components(successors) if len(component) > 1]


def strongly_connected_components(successors: Mapping[NodeT, Iterable[NodeT]]) -> list[set[NodeT]]:
    """The sets of nodes that paths lead to from one another, in topological order; every node is in one.

    The algorithm is Gabow's (2000): one search in depth. `roots` are those nodes of the path to where it is
    that no node after them is known to lead back to or beyond.

    >>> strongly_connected_components({1: [2], 2: [1, 3], 3: [3]})
    [{1, 2}, {3}]
    """
    components: list[set[NodeT]] = []
    assigned: set[NodeT] = set()
    number: dict[NodeT, int] = {}
    unassigned: list[NodeT] = []
    roots: list[NodeT] = []
    stack = [(node, False) for node in successors]
    while stack:
        node, is_left = stack.pop()
        if is_left:
            if node == roots[-1]:
                component = {node}
                while (last := unassigned.pop()) != node:
                    component.add(last)
                components.append(component)
                assigned |= component
                roots.pop()
        elif node not in number:
            number[node] = len(number)
            unassigned.append(node)
            roots.append(node)
            stack.append((node, True))
            stack += ((target, False) for target in successors[node])
        elif node not in assigned:
            while number[roots[-1]] > number[node]:
                roots.pop()
    return components[::-1]
