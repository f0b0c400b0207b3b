"""Finds the tools that a conversation calls for, where a request has more than a prompt should show.

The request says how (`tool_search`), else the toolset of a tool, else the model's settings. Tools are
searched in groups: all of a request that says, else those of each toolset that says, and the rest. What a
group keeps is shown in the order in which it was registered, so that prompts share prefixes. The grammar is
that of the tools shown. Nothing is remembered but indexes, so every replica finds the same.
"""

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from gateway.errors import InvalidField
from gateway.turn import FoundTools, SearchedTool, Turn
from runtime.fair_threads import FairThreads
from runtime.protocol import ModelCard
from toolspecs.lru_cache import LruCache
from toolspecs.nearest import MAX_NAME, instead, shorten
from toolspecs.tool import Tool, ToolSearch
from toolspecs.tool_index import ToolIndex
from toolspecs.toolset import Revision

_EARLIER = 0.5
"""What a message of the user counts beside the next one: measured, see docs/benchmarks.md."""

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
    """Searches the tools of requests. A tenant has indexes of its own: time tells nobody what others have."""

    tenant: str = ""
    indexes: _Indexes = field(default_factory=lambda: _Indexes(_INDEX_BYTES))
    threads: FairThreads = field(default_factory=lambda: FairThreads(_NUM_SEARCH_THREADS, "tool-search"))

    def of_tenant(self, tenant: str | None) -> "ToolSearcher":
        """A searcher for a tenant, with the same threads and memory."""
        return replace(self, tenant=tenant or "")

    def close(self) -> None:
        """Take no more searches."""
        self.threads.shutdown()

    async def find(
        self,
        turn: Turn,
        model: ModelCard,
        tools: tuple[Tool, ...],
        revisions: Sequence[Revision],
        share: str = "",
    ) -> tuple[tuple[Tool, ...], FoundTools | None]:
        """The tools that are shown, and what was found; None if nothing had to be searched.

        Raises:
            InvalidField: `always` names a tool that the request has not.
        """
        _check_always(turn, tools)
        groups = list(_groups(turn, model, tools, revisions))
        if not groups:
            return tools, None
        searched = self.threads.submit(share, lambda: [self._search(group, turn) for group in groups])
        kept = [entry for entries in await asyncio.wrap_future(searched) for entry in entries]
        num_searched = sum(len(group.tools) for group in groups)
        left_out = {tool.name for group in groups for tool in group.tools} - {entry.name for entry in kept}
        shown = tuple(tool for tool in tools if tool.name not in left_out)
        return shown, FoundTools(num_searched, tuple(kept))

    def _search(self, group: _Group, turn: Turn) -> list[SearchedTool]:
        """What a group keeps, in its order: what must stay, then the best up to the limit."""
        index = self.indexes.of(group.tools, f"{self.tenant}\n{group.key}")
        scores = index.scores(_texts(turn, group.search))
        reasons = _kept(turn, group.search)
        order = sorted(range(len(scores)), key=lambda i: (group.tools[i].name not in reasons, -scores[i], i))
        num_kept = sum(tool.name in reasons for tool in group.tools)
        return [
            SearchedTool(group.tools[i].name, round(scores[i], 4), reasons.get(group.tools[i].name, "found"))
            for i in sorted(order[: max(group.search.limit, num_kept)])
        ]


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
