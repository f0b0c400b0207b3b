"""The page pool: which pages of the KV cache are in use, by how many sequences, and the prefix cache.

A prefix is named by the digest of its tokens (`Sequence.page_digests`):

    pages = pool.match(sequence.page_digests(pool.page_size))   # the longest cached prefix
    pool.share(pages)                                          # now this sequence uses them too
    pages += pool.allocate(3)                                  # three pages of its own
    pool.publish(pages[-3], digest)                            # the first of them is full: others may find it
    pool.release(pages)                                        # free, but cached until allocated again
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

NULL_PAGE = 0
"""Never allocated, and always zero: padding of page tables points here."""


class PagePool:
    """Reference counts and cached prefixes of `num_pages` pages of `page_size` tokens.

    A free page keeps its content, and is found as part of a prefix, until it is allocated. The page that has
    been free for the longest time is allocated first.
    """

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self._num_users = [0] * num_pages
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_pages))
        self._page_by_digest: dict[bytes, int] = {}
        self._digest_by_page: dict[int, bytes] = {}

    @property
    def num_free(self) -> int:
        """The number of pages that can be allocated."""
        return len(self._free)

    @property
    def num_usable(self) -> int:
        """The number of all pages except the null page."""
        return self.num_pages - 1

    def match(self, digests: Iterable[bytes]) -> list[int]:
        """The pages of the longest cached prefix; `share` them before anything is allocated."""
        pages = []
        for digest in digests:
            page = self._page_by_digest.get(digest)
            if page is None:
                break
            pages.append(page)
        return pages

    def count_free(self, pages: Iterable[int]) -> int:
        """How many of `pages` are free."""
        return sum(page in self._free for page in pages)

    def share(self, pages: Iterable[int]) -> None:
        """Add a user to each page."""
        for page in pages:
            self._free.pop(page, None)
            self._num_users[page] += 1

    def allocate(self, count: int) -> list[int]:
        """`count` pages with one user each; their old content is evicted from the prefix cache."""
        assert count <= self.num_free
        pages = [self._free.popitem(last=False)[0] for _ in range(count)]
        for page in pages:
            self._evict(page)
            self._num_users[page] = 1
        return pages

    def publish(self, page: int, digest: bytes) -> None:
        """Cache a full page under the digest of its prefix, unless an equal page is cached already."""
        assert self._num_users[page] > 0
        if digest not in self._page_by_digest and page not in self._digest_by_page:
            self._page_by_digest[digest] = page
            self._digest_by_page[page] = digest

    def release(self, pages: Sequence[int], *, is_tainted: bool = False) -> list[int]:
        """Remove a user from each page; returns the pages that are free now.

        Later pages are freed first, so that the beginnings of prefixes stay cached longest. Tainted pages are
        removed from the prefix cache.
        """
        freed = []
        for page in reversed(pages):
            assert self._num_users[page] > 0
            self._num_users[page] -= 1
            if is_tainted:
                self._evict(page)
            if self._num_users[page] == 0:
                self._free[page] = None
                if page not in self._digest_by_page:
                    self._free.move_to_end(page, last=False)
                freed.append(page)
        return freed

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> None:
        """Assert that the users counted here are the page tables of all sequences."""
        num_users = [0] * self.num_pages
        for table in tables:
            for page in table:
                num_users[page] += 1
        assert num_users == self._num_users
        assert num_users[NULL_PAGE] == 0
        assert set(self._free) == {p for p in range(1, self.num_pages) if num_users[p] == 0}
        assert {page: digest for digest, page in self._page_by_digest.items()} == self._digest_by_page

    def _evict(self, page: int) -> None:
        digest = self._digest_by_page.pop(page, None)
        if digest is not None:
            del self._page_by_digest[digest]
