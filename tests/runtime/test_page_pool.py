"""The page pool never loses a page, and never finds one with other content."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.scheduling.page_pool import PagePool
from runtime.scheduling.sequence import Sequence

prompts = st.lists(st.integers(0, 1), min_size=1, max_size=12)


@given(st.lists(st.tuples(st.booleans(), prompts, st.booleans()), max_size=40))
def test_random_use_keeps_integrity(actions):
    """Sequences over two tokens come and go; what is found by content is what was published as it."""
    size = 2
    pool = PagePool(10, size)
    contents: dict[int, tuple[int, ...]] = {}
    tables: list[list[int]] = []
    for is_release, prompt, is_tainted in actions:
        if is_release and tables:
            pool.release(tables.pop(0), is_tainted=is_tainted)
            pool.check_integrity(tables)
            continue
        sequence = Sequence("s", prompt, 1)
        hashes = sequence.page_digests(size)
        shared = pool.match(hashes)
        for index, page in enumerate(shared):
            assert contents[page] == tuple(prompt[: (index + 1) * size])
        num_missing = -(-len(prompt) // size) - len(shared)
        if num_missing > pool.num_free - pool.count_free(shared):
            continue
        pool.share(shared)
        table = shared + pool.allocate(num_missing)
        for index in range(len(shared), len(hashes)):
            contents[table[index]] = tuple(prompt[: (index + 1) * size])
            pool.publish(table[index], hashes[index])
        tables.append(table)
        pool.check_integrity(tables)
    for table in tables:
        pool.release(table)
    pool.check_integrity([])
    assert pool.num_free == pool.num_usable


def test_free_pages_are_reused_oldest_first_and_empty_ones_before_them():
    pool = PagePool(5, 1)
    first, second = pool.allocate(1), pool.allocate(1)
    pool.publish(first[0], b"a")
    pool.publish(second[0], b"b")
    pool.release(first)
    pool.release(second)
    pool.allocate(2)
    assert (pool.match([b"a"]), pool.match([b"b"])) == (first, second)
    pool.allocate(1)
    assert (pool.match([b"a"]), pool.match([b"b"])) == ([], second)


def test_of_a_released_sequence_the_tail_goes_first():
    pool = PagePool(4, 1)
    table = pool.allocate(3)
    for page, content in zip(table, (b"a", b"b", b"c"), strict=True):
        pool.publish(page, content)
    pool.release(table)
    pool.allocate(1)
    assert pool.match([b"a", b"b", b"c"]) == table[:2]


def test_tainted_pages_are_never_found_again():
    pool = PagePool(4, 1)
    table = pool.allocate(2)
    pool.publish(table[0], b"a")
    pool.share(table[:1])
    assert pool.release(table, is_tainted=True) == [table[1]]  # another sequence still uses the first
    assert pool.match([b"a"]) == []


def test_a_leak_is_noticed():
    pool = PagePool(4, 1)
    pool.allocate(1)
    with pytest.raises(AssertionError):
        pool.check_integrity([])


def test_sequences_with_other_salts_share_no_page():
    salts = ("", "acme", "bolt")
    pages = [set(Sequence("s", [1, 2, 3, 4, 5], 1, prefix_salt=salt).page_digests(2)) for salt in salts]
    assert len(set.union(*pages)) == 6
    twin = Sequence("t", [1, 2, 3, 4, 5], 1, prefix_salt="acme").fork(1)
    assert set(twin.page_digests(2)) == pages[1]


def test_hashes_cover_everything_before():
    one, other = Sequence("s", [1, 2, 3, 4, 5], 1), Sequence("s", [9, 2, 3, 4, 5], 1)
    assert len(one.page_digests(2)) == 2
    assert not set(one.page_digests(2)) & set(other.page_digests(2))
