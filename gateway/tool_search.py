"""Finds the tools that a conversation calls for, where a request has more than a prompt should show.

The request says how (`tool_search`), else the toolset of a tool, else the model's settings. Tools are
searched in groups: all of a request that says, else those of each toolset that says, and the rest. What a
group keeps is shown in the order in which it was registered, so that prompts share prefixes. The grammar is
that of the tools shown. Nothing is remembered but indexes, so every replica finds the same.
"""

import asyncio
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.errors import InvalidField
from gateway.tool_vectors import PATIENCE_S, ToolVectors
from gateway.turn import FoundTools, SearchedBy, SearchedTool, Turn
from runtime.fair_threads import FairThreads
from runtime.protocol import ModelCard
from toolspecs.lru_cache import LruCache
from toolspecs.nearest import MAX_NAME, instead, shorten
from toolspecs.tool import Tool, ToolSearch
from toolspecs.tool_index import Scores, ToolIndex, scaled
from toolspecs.toolset import Revision

_EARLIER = 0.5
"""What a message of the user counts beside the next one: measured, see docs/benchmarks.md."""

_RANK_OFFSET = 10
"""What reciprocal rank fusion adds to ranks, usually 60: measured, see docs/benchmarks.md."""

_MAX_MESSAGES = 6
_INDEX_BYTES = 64 << 20
_NUM_SEARCH_THREADS = 2


@dataclass(frozen=True, slots=True)
class _Group:
    """Tools that are searched together, how, and what tells them from others."""

    tools: tuple[Tool, ...]
    search: ToolSearch
    key: str


class _Indexes:
    """The indexes of what was searched last; threads can share them."""

    def __init__(self, max_bytes: int) -> None:
        self._indexes: LruCache[ToolIndex] = LruCache(max_bytes)
        self._lock = Lock()

    def of(self, tools: Sequence[Tool], key: str) -> ToolIndex:
        """The index of some tools, which the key stands for."""
        with self._lock:
            index = self._indexes.get(key)
        if index is None:
            index = ToolIndex(tools)
            with self._lock:
                self._indexes.put(key, index, index.num_bytes)
        return index


@dataclass(frozen=True, slots=True)
class ToolSearcher:
    """Searches the tools of requests. A tenant has indexes of its own: time tells nobody what others have.

    With `vectors`, tools are found by their words and by their meaning, else by their words alone.
    """

    tenant: str = ""
    vectors: ToolVectors | None = None
    indexes: _Indexes = field(default_factory=lambda: _Indexes(_INDEX_BYTES))
    threads: FairThreads = field(default_factory=lambda: FairThreads(_NUM_SEARCH_THREADS, "tool-search"))

    def of_tenant(self, tenant: str | None) -> "ToolSearcher":
        """A searcher for a tenant, with the same threads and memory."""
        return replace(self, tenant=tenant or "")

    def close(self) -> None:
        """Take no more searches."""
        self.threads.shutdown()
        if self.vectors:
            self.vectors.close()

    async def find(
        self,
        turn: Turn,
        model: ModelCard,
        tools: tuple[Tool, ...],
        revisions: Sequence[Revision],
        share: str = "",
        *,
        remaining_s: float | None = None,
    ) -> tuple[tuple[Tool, ...], FoundTools | None]:
        """The tools that are shown, and what was found; None if nothing had to be searched.

        The request has `remaining_s` left, of which a search waits for vectors half at most.

        Raises:
            InvalidField: `always` names a tool that the request has not.
        """
        _check_always(turn, tools)
        groups = list(_groups(turn, model, tools, revisions))
        if not groups:
            return tools, None
        meanings = await self._meanings(groups, turn, share, remaining_s)
        searched = self.threads.submit(
            share,
            lambda: [
                self._search(group, turn, meaning) for group, meaning in zip(groups, meanings, strict=True)
            ],
        )
        kept = [entry for entries in await asyncio.wrap_future(searched) for entry in entries]
        num_searched = sum(len(group.tools) for group in groups)
        left_out = {tool.name for group in groups for tool in group.tools} - {entry.name for entry in kept}
        shown = tuple(tool for tool in tools if tool.name not in left_out)
        by: SearchedBy = "words and meaning" if all(each is not None for each in meanings) else "words"
        return shown, FoundTools(num_searched, tuple(kept), by)

    async def _meanings(
        self, groups: Sequence[_Group], turn: Turn, share: str, remaining_s: float | None
    ) -> Sequence[Scores | None]:
        """How well the tools of each group fit by their meaning; None if that is not known of all in time."""
        if self.vectors is None:
            return [None] * len(groups)
        wait_s = PATIENCE_S if remaining_s is None else min(PATIENCE_S, remaining_s / 2)
        until = time.monotonic() + wait_s
        found = []
        for group in groups:
            texts = _texts(turn, group.search)
            left_s = max(0.0, until - time.monotonic())
            found.append(
                await self.vectors.scores(group.tools, texts, tenant=self.tenant, share=share, wait_s=left_s)
            )
        return found if all(scores is not None for scores in found) else [None] * len(groups)

    def _search(self, group: _Group, turn: Turn, meaning: Scores | None) -> list[SearchedTool]:
        """What a group keeps, in its order: what must stay, then the best up to the limit."""
        index = self.indexes.of(group.tools, f"{self.tenant}\n{group.key}")
        words = index.scores(_texts(turn, group.search))
        scores = words if meaning is None else fused(words, meaning)
        reasons = _kept(turn, group.search)
        order = sorted(range(len(scores)), key=lambda i: (group.tools[i].name not in reasons, -scores[i], i))
        num_kept = sum(tool.name in reasons for tool in group.tools)
        return [
            SearchedTool(group.tools[i].name, round(scores[i], 4), reasons.get(group.tools[i].name, "found"))
            for i in sorted(order[: max(group.search.limit, num_kept)])
        ]


def fused(words: Sequence[float], meaning: Scores) -> list[float]:
    """How well each tool fits by its words and its meaning, from 0 to 1, the best: reciprocal rank fusion."""
    scores: list[float] = scaled(_reciprocal_ranks(np.asarray(words)) + _reciprocal_ranks(meaning)).tolist()
    return scores


def _reciprocal_ranks(scores: NDArray[Any]) -> Scores:
    """What the rank of each tool gives: of equal scores the same, of 0 nothing."""
    rounded = np.round(scores, 4)  # the last digits of vectors differ between processors
    ranks = 1 + np.searchsorted(np.sort(-rounded), -rounded)
    return np.where(rounded > 0, 1 / (_RANK_OFFSET + ranks), 0).astype(np.float32)


def _groups(
    turn: Turn, model: ModelCard, tools: tuple[Tool, ...], revisions: Sequence[Revision]
) -> Iterator[_Group]:
    """The groups with more tools than their limit."""
    for members, search in _searches(turn, model, tools, revisions):
        if search is not None and len(members) > search.limit:
            digests = "\n".join(tool.digest for tool in members)
            yield _Group(members, search, hashlib.sha256(digests.encode()).hexdigest())


def _searches(
    turn: Turn, model: ModelCard, tools: tuple[Tool, ...], revisions: Sequence[Revision]
) -> Iterator[tuple[tuple[Tool, ...], ToolSearch | None]]:
    """All tools in groups, each with how it is searched; None shows all of a group."""
    if turn.tool_search is not None:
        yield tools, turn.tool_search or None
        return
    own = [revision.toolset for revision in revisions if revision.toolset.tool_search]
    for toolset in own:
        yield toolset.tools, toolset.tool_search
    rest = tuple(tool for tool in tools if not any(tool.name in toolset for toolset in own))
    yield rest, ToolSearch(model.tool_search) if model.tool_search else None


def _texts(turn: Turn, search: ToolSearch) -> Mapping[str, float]:
    """What is searched for: the query, else the messages of the user, of which the last counts most."""
    if search.query is not None:
        return {search.query: 1.0}
    said = [message.content for message in turn.messages if message.role == "user" and message.content]
    texts: dict[str, float] = {}
    for age, text in enumerate(reversed(said[-_MAX_MESSAGES:])):
        texts.setdefault(text, _EARLIER**age)
    return texts


def _kept(turn: Turn, search: ToolSearch) -> dict[str, str]:
    """The tools that are shown whatever is found, and why."""
    called = (call.name for message in turn.messages for call in message.calls)
    chosen = turn.choice.allowed or () if turn.choice else ()
    return {
        **dict.fromkeys(called, "called"),
        **dict.fromkeys(search.always, "always"),
        **dict.fromkeys(chosen, "chosen"),
    }


def _check_always(turn: Turn, tools: tuple[Tool, ...]) -> None:
    if not turn.tool_search or not turn.tool_search.always:
        return
    names = {tool.name: None for tool in tools}
    for i, name in enumerate(turn.tool_search.always):
        if name not in names:
            reason = f"there is no tool {shorten(name, MAX_NAME)!r} in this request{instead(name, names)}"
            raise InvalidField(f"tool_search.always[{i}]", reason)
