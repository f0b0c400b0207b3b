"""The checker of histories, against a search over all orders."""

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.histories import Read, Write, violation


def is_linearizable(operations):
    """By trying: whether some order that respects the times explains every answer."""
    optional = [one for one in operations if one.answered == math.inf]
    certain = [one for one in operations if one.answered < math.inf]
    return any(
        explains(order)
        for number in range(len(optional) + 1)
        for some in itertools.combinations(optional, number)
        for order in itertools.permutations([*certain, *some])
    )


def explains(order):
    version = None
    for number, one in enumerate(order):
        if any(later.answered < one.sent for later in order[number + 1 :]):
            return False
        if isinstance(one, Read) and one.version != version:
            return False
        if isinstance(one, Write):
            if one.replaced != version:
                return False
            version = one.version
    return True


@st.composite
def histories(draw):
    """Up to seven operations; whoever draws them knows no register, so that many histories are impossible."""
    num_writes = draw(st.integers(0, 4))
    versions = range(num_writes)
    known = st.sampled_from([None, *versions])
    operations = []
    for version in versions:
        sent, took = draw(st.integers(0, 6)), draw(st.integers(0, 4) | st.just(math.inf))
        operations.append(Write(version, draw(known), sent, sent + took + 0.5))
    for _ in range(draw(st.integers(0, 3))):
        sent = draw(st.integers(0, 6))
        operations.append(Read(draw(known), sent, sent + draw(st.integers(0, 4)) + 0.5))
    return operations


@settings(max_examples=1000)
@given(histories())
def test_it_finds_what_a_search_over_all_orders_finds(operations):
    assert (not violation(operations)) == is_linearizable(operations), violation(operations)


def test_a_lost_update_is_found():
    both = [Write("a", None, 0, 1), Write("b", "a", 2, 4), Write("c", "a", 3, 5)]
    assert "replaced by both" in violation(both)


def test_a_stale_read_is_found():
    stale = [Write("a", None, 0, 1), Write("b", "a", 2, 3), Read("a", 4, 5)]
    assert "before it can have begun" in violation(stale)


def test_a_write_that_nobody_saw_or_acknowledged_may_not_have_happened():
    assert not violation([Write("a", None, 0), Write("b", None, 2, 3), Read("b", 4, 5)])
