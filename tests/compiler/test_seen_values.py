"""The values that a container holds: every position sees its own, and all share the memory."""

from hypothesis import given
from hypothesis import strategies as st

from compiler.guard.cursor import JsonCursor
from compiler.guard.plan import GuardPlan
from compiler.guard.seen_values import SeenValues

VALUES = st.sampled_from([b"", b"a", b"ab", b"abc", b"b", b"ba", b"c"])


@given(st.lists(st.tuples(st.integers(0, 30), VALUES), max_size=30))
def test_every_position_sees_what_was_added_to_it(steps):
    """Positions are made of any earlier one, as after a rollback."""
    positions = [(SeenValues(), frozenset[bytes]())]
    for number, value in steps:
        seen, expected = positions[number % len(positions)]
        if value not in expected:
            positions.append((seen.adding(value), expected | {value}))
    for seen, expected in positions:
        assert seen.size == len(expected)
        for prefix in (b"", b"a", b"ab", b"b", b"d"):
            found = list(seen.beginning_with(prefix))
            assert len(found) == len(set(found))
            assert set(found) == {value for value in expected if value.startswith(prefix)}
            assert (prefix in seen) == (prefix in expected)


@given(st.sets(VALUES), st.sets(VALUES), st.randoms())
def test_values_are_equal_in_whichever_order_they_were_added(one, other, rng):
    def added(values):
        seen = SeenValues()
        for value in rng.sample(sorted(values), len(values)):
            seen = seen.adding(value)
        return seen

    assert added(one) == added(one)
    assert hash(added(one)) == hash(added(one))
    assert (added(one) == added(other)) == (one == other)
    assert added(one) != one


def test_a_position_knows_the_keys_before_it():
    cursor, positions = JsonCursor(GuardPlan()).advance(b"{"), []
    for number in range(500):
        assert cursor.advance(b'"other":1,') is not None  # tried, as a guard tries candidates
        positions.append(cursor := cursor.advance(b'"key_%d":1,' % number))
    assert cursor.advance(b'"key_3":') is None
    assert positions[2].advance(b'"key_3":') is not None


def test_a_position_that_goes_on_differently_leaves_the_others_alone():
    begun = JsonCursor(GuardPlan()).advance(b'{"a":1,"b":2,')
    one, other = begun.advance(b'"c":3,"d":4,'), begun.advance(b'"e":3,"f":4,')
    for cursor, key, is_seen in (
        (one, b"e", False),
        (one, b"d", True),
        (other, b"c", False),
        (other, b"f", True),
    ):
        assert (cursor.advance(b'"%b":' % key) is None) == is_seen
