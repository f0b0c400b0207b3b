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

    The algorithm is Kosaraju's and Sharir's (1981): two searches in depth, the second one backwards.

    >>> strongly_connected_components({1: [2], 2: [1, 3], 3: [3]})
    [{1, 2}, {3}]
    """
    predecessors: dict[NodeT, list[NodeT]] = {node: [] for node in successors}
    for node, targets in successors.items():
        for target in targets:
            predecessors[target].append(node)
    components: list[set[NodeT]] = []
    assigned: set[NodeT] = set()

    def unassigned_predecessors(node: NodeT) -> Iterable[NodeT]:
        return (source for source in predecessors[node] if source not in assigned)

    for node in reversed(_post_order(successors)):
        if node not in assigned:
            component = reachable([node], unassigned_predecessors)
            assigned |= component
            components.append(component)
    return components


def _post_order(successors: Mapping[NodeT, Iterable[NodeT]]) -> list[NodeT]:
    """All nodes in the order in which a search in depth leaves them."""
    order: dict[NodeT, None] = {}
    seen: set[NodeT] = set()
    stack = [(node, False) for node in successors]
    while stack:
        node, is_left = stack.pop()
        if is_left:
            order[node] = None
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += ((target, False) for target in successors[node] if target not in seen)
    return list(order)
