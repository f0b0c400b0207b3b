"""Finds the tools that a conversation needs, if a request has more tools than a prompt should show.

`tool_search` says how: that of the request, or else of the tool's toolset, or else of the model's settings.
If the request has one, all tools are searched as one group. Otherwise the tools of each toolset that has one
are a group, and the other tools are another. The tools kept of a group are shown in the order of
registration, so that prompts share prefixes. The grammar is that of the tools shown. Only indexes are kept
between requests, so every gateway finds the same tools.
"""

import asyncio
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, starmap
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.errors import InvalidField
from gateway.generation.tool_vectors import MAX_WAIT_S, ToolVectors
from gateway.generation.turn import Turn
from runtime.protocol import ModelCard
from toolspecs.fairness.fair_threads import FairThreads
from toolspecs.lru_cache import LruCache
from toolspecs.nearest import MAX_NAME, instead, shorten
from toolspecs.search.tool_index import ReadTexts, Scores, ToolIndex, scaled
from toolspecs.tool import SearchedBy, SearchedTool, Tool, ToolSearch, ToolSearchResult
from toolspecs.toolset import Revision

_EARLIER = 0.5
"""The weight of a user's message relative to the next one: measured, see docs/measured-choices.md."""

_RANK_OFFSET = 10
"""What reciprocal rank fusion adds to ranks, usually 60: measured, see docs/measured-choices.md."""

_MAX_MESSAGES = 6
_INDEX_BYTES = 64 << 20
_NUM_SEARCH_THREADS = 2


@dataclass(frozen=True, slots=True)
class _Group:
    """Tools that are searched together, how they are searched, and the key of their index."""

    tools: tuple[Tool, ...]
    search: ToolSearch
    key: str


class _Indexes:
    """The indexes that were used last; threads can share them."""

    def __init__(self, max_bytes: int) -> None:
        self._indexes: LruCache[ToolIndex] = LruCache(max_bytes)
        self._lock = Lock()

    def of(self, tools: Sequence[Tool], key: str) -> ToolIndex:
        """The index of the tools that have this key."""
        with self._lock:
            index = self._indexes.get(key)
        if index is None:
            index = ToolIndex(tools)
            with self._lock:
                self._indexes.put(key, index, index.num_bytes)
        return index


@dataclass(frozen=True, slots=True)
class ToolSearcher:
    """Searches the tools of requests. Tenants share no indexes, so that times reveal nothing of others.

    With `vectors`, tools are found by their words and their meaning, otherwise only by their words.
    """

    tenant: str = ""
    vectors: ToolVectors | None = None
    indexes: _Indexes = field(default_factory=lambda: _Indexes(_INDEX_BYTES))
    threads: FairThreads = field(default_factory=lambda: FairThreads(_NUM_SEARCH_THREADS, "tool-search"))

    def of_tenant(self, tenant: str | None) -> "ToolSearcher":
        """A searcher for a tenant, with the same threads and memory."""
        return replace(self, tenant=tenant or "")

    def close(self) -> None:
        """Accept no more searches."""
        self.threads.shutdown()
        if self.vectors:
            self.vectors.close()

    async def find(
        self,
        turn: Turn,
        model: ModelCard,
        tools: tuple[Tool, ...],
        revisions: Sequence[Revision],
        *,
        remaining_s: float | None,
    ) -> tuple[tuple[Tool, ...], ToolSearchResult | None]:
        """The tools to show, and what the search found; None instead if nothing had to be searched.

        A search waits for vectors for at most half of `remaining_s`, the time that the request has left.

        Raises:
            InvalidField: `always` names a tool that the request does not have.
        """
        _check_always(turn, tools)
        searches = _searches(turn, model, tools, revisions)
        large = [(members, search) for members, search in searches if search and len(members) > search.limit]
        if not large:
            return tools, None
        groups = await asyncio.to_thread(lambda: list(starmap(_group, large)))
        search_input = _SearchInput.of(turn)
        meanings = await self._meanings(groups, search_input, turn.client_id, remaining_s)
        searched = self.threads.submit(
            turn.client_id,
            lambda: [
                self._search(group, search_input, meaning)
                for group, meaning in zip(groups, meanings, strict=True)
            ],
        )
        shown_tools = [tool for members in await asyncio.wrap_future(searched) for tool in members]
        num_searched = sum(len(group.tools) for group in groups)
        left_out = {tool.name for group in groups for tool in group.tools}
        left_out -= {tool.name for tool in shown_tools}
        shown = tuple(tool for tool in tools if tool.name not in left_out)
        by: SearchedBy = (
            "words and meaning" if all(of_group is not None for of_group in meanings) else "words"
        )
        return shown, ToolSearchResult(num_searched, tuple(shown_tools), by)

    async def _meanings(
        self,
        groups: Sequence[_Group],
        search_input: "_SearchInput",
        client_id: str,
        remaining_s: float | None,
    ) -> Sequence[Scores | None]:
        """How well the tools of each group fit by meaning; None if this is not known in time for all."""
        if self.vectors is None:
            return [None] * len(groups)
        wait_s = MAX_WAIT_S if remaining_s is None else min(MAX_WAIT_S, remaining_s / 2)
        until = time.monotonic() + wait_s
        scores: list[Scores | None] = []
        for group in groups:
            texts = search_input.texts(group.search)
            left_s = max(0.0, until - time.monotonic())
            scores.append(
                await self.vectors.scores(
                    group.tools, texts, key=group.key, tenant=self.tenant, client_id=client_id, wait_s=left_s
                )
            )
        return scores if all(of_group is not None for of_group in scores) else [None] * len(groups)

    def _search(
        self, group: _Group, search_input: "_SearchInput", meaning: Scores | None
    ) -> list[SearchedTool]:
        """The tools that a group keeps, in its order: those that must stay, then the best up to the limit."""
        index = self.indexes.of(group.tools, f"{self.tenant}\n{group.key}")
        words = index.scores(search_input.texts(group.search), search_input.read)
        scores = words if meaning is None else fused(words, meaning)
        reasons = search_input.reasons_to_show(group.search)
        is_required = np.array([tool.name in reasons for tool in group.tools])
        # Stable: of tools with equal scores, the first registered comes first.
        order = np.lexsort((-np.asarray(scores), ~is_required))
        indexes = sorted(order[: max(group.search.limit, is_required.sum())].tolist())
        return [
            SearchedTool(group.tools[i].name, round(scores[i], 4), reasons.get(group.tools[i].name, "found"))
            for i in indexes
        ]


def fused(words: Sequence[float], meaning: Scores) -> list[float]:
    """The score of each tool from 0 to 1 (best), from words and meaning by reciprocal rank fusion."""
    scores: list[float] = scaled(_reciprocal_ranks(np.asarray(words)) + _reciprocal_ranks(meaning)).tolist()
    return scores


def _reciprocal_ranks(scores: NDArray[Any]) -> Scores:
    """The reciprocal rank of each tool: equal for equal scores, and 0 for the score 0."""
    rounded = np.round(scores, 4)  # the last digits of vectors differ between processors
    ranks = 1 + np.searchsorted(np.sort(-rounded), -rounded)
    return np.where(rounded > 0, 1 / (_RANK_OFFSET + ranks), 0).astype(np.float32)


def _group(members: tuple[Tool, ...], search: ToolSearch) -> _Group:
    """The group of some tools; this takes time if they are large and new, since they are hashed."""
    digests = "\n".join(tool.digest for tool in members)
    return _Group(members, search, hashlib.sha256(digests.encode()).hexdigest())


def _searches(
    turn: Turn, model: ModelCard, tools: tuple[Tool, ...], revisions: Sequence[Revision]
) -> Iterator[tuple[tuple[Tool, ...], ToolSearch | None]]:
    """All tools in groups, each with its search; None means that all tools of the group are shown."""
    if turn.tool_search is not None:
        yield tools, turn.tool_search or None
        return
    own = [revision.toolset for revision in revisions if revision.toolset.tool_search]
    for toolset in own:
        yield toolset.tools, toolset.tool_search
    names = {tool.name for toolset in own for tool in toolset}
    rest = tuple(tool for tool in tools if tool.name not in names)
    yield rest, ToolSearch(model.tool_search) if model.tool_search else None


@dataclass(frozen=True, slots=True)
class _SearchInput:
    """What a turn says about the tools that it needs, read once for all groups."""

    messages: Mapping[str, float]
    """The user's messages, of which the last counts most."""
    called: frozenset[str]
    chosen: tuple[str, ...]
    read: ReadTexts = field(default_factory=ReadTexts)

    @classmethod
    def of(cls, turn: Turn) -> "_SearchInput":
        """The input of a turn."""
        user_texts = (message.content for message in reversed(turn.messages) if message.role == "user")
        messages: dict[str, float] = {}
        for age, text in enumerate(islice(filter(None, user_texts), _MAX_MESSAGES)):
            messages.setdefault(text, _EARLIER**age)
        called = frozenset(call.name for message in turn.messages for call in message.calls)
        return cls(messages, called, (turn.tool_choice.allowed or ()) if turn.tool_choice else ())

    def texts(self, search: ToolSearch) -> Mapping[str, float]:
        """The texts to search for: the query, or else the messages."""
        return self.messages if search.query is None else {search.query: 1.0}

    def reasons_to_show(self, search: ToolSearch) -> dict[str, str]:
        """The tools that are shown in any case, and why."""
        return {
            **dict.fromkeys(self.called, "called"),
            **dict.fromkeys(search.always, "always"),
            **dict.fromkeys(self.chosen, "chosen"),
        }


def _check_always(turn: Turn, tools: tuple[Tool, ...]) -> None:
    if not turn.tool_search or not turn.tool_search.always:
        return
    names = {tool.name: None for tool in tools}
    for i, name in enumerate(turn.tool_search.always):
        if name not in names:
            reason = f"there is no tool {shorten(name, MAX_NAME)!r} in this request{instead(name, names)}"
            raise InvalidField(f"tool_search.always[{i}]", reason)
