"""The page pool: which pages of the KV cache are in use, by how many, and what the idle ones still hold."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

NULL_PAGE = 0
"""Never handed out and always zero: padding of page tables points here."""


class PagePool:
    """Reference counts and contents of `num_pages` pages of `page_size` tokens.

    A full page is published under the digest of its prefix, and found there by any sequence that begins
    with the same tokens. Pages nobody uses keep their content until they are needed, oldest first.
    """

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self._num_users = [0] * num_pages
        self._idle: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_pages))
        self._page_by_hash: dict[bytes, int] = {}
        self._hash_by_page: dict[int, bytes] = {}

    @property
    def num_idle(self) -> int:
        """Pages that can be allocated."""
        return len(self._idle)

    @property
    def num_usable(self) -> int:
        """Pages there are, the null page aside."""
        return self.num_pages - 1

    def match(self, hashes: Iterable[bytes]) -> list[int]:
        """The pages that hold the longest published prefix; `take` them before anything is allocated."""
        pages = []
        for content in hashes:
            page = self._page_by_hash.get(content)
            if page is None:
                break
            pages.append(page)
        return pages

    def count_idle(self, pages: Iterable[int]) -> int:
        """How many of `pages` nobody uses."""
        return sum(page in self._idle for page in pages)

    def take(self, pages: Iterable[int]) -> None:
        """Add a user to each page."""
        for page in pages:
            self._idle.pop(page, None)
            self._num_users[page] += 1

    def allocate(self, count: int) -> list[int]:
        """`count` pages with one user each; their old content is no longer found."""
        assert count <= self.num_idle
        pages = [self._idle.popitem(last=False)[0] for _ in range(count)]
        for page in pages:
            self._forget(page)
            self._num_users[page] = 1
        return pages

    def publish(self, page: int, content: bytes) -> None:
        """Let `page` be found under `content`, unless an equal page already is."""
        assert self._num_users[page] > 0
        if content not in self._page_by_hash and page not in self._hash_by_page:
            self._page_by_hash[content] = page
            self._hash_by_page[page] = content

    def release(self, pages: Sequence[int], *, is_tainted: bool = False) -> list[int]:
        """Remove a user from each page; returns those nobody uses now.

        Later pages go first, since a prefix is worth more than what follows it. The content of tainted
        pages is never found again.
        """
        idle = []
        for page in reversed(pages):
            assert self._num_users[page] > 0
            self._num_users[page] -= 1
            if is_tainted:
                self._forget(page)
            if self._num_users[page] == 0:
                self._idle[page] = None
                if page not in self._hash_by_page:
                    self._idle.move_to_end(page, last=False)
                idle.append(page)
        return idle

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> None:
        """Assert that the page tables of all sequences are exactly the users counted here."""
        num_users = [0] * self.num_pages
        for table in tables:
            for page in table:
                num_users[page] += 1
        assert num_users == self._num_users
        assert num_users[NULL_PAGE] == 0
        assert set(self._idle) == {p for p in range(1, self.num_pages) if num_users[p] == 0}
        assert {page: content for content, page in self._page_by_hash.items()} == self._hash_by_page

    def _forget(self, page: int) -> None:
        content = self._hash_by_page.pop(page, None)
        if content is not None:
            del self._page_by_hash[content]
