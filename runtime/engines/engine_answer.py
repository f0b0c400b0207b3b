"""One answer of an external engine, chunk by chunk: whether it goes on, and how it ends."""

from collections.abc import Sequence

from runtime.engines.client import EngineChunk
from runtime.engines.replica import StallClock
from runtime.engines.sent_grammars import PluginWatch
from runtime.errors import EngineBroke
from runtime.written_token import SampledToken

_MAX_EMPTY = 10_000
"""The events without tokens that an engine may send in a row."""


class EngineAnswer:
    """What an engine has sent so far for one request; `plugin_watch` None watches for nothing."""

    def __init__(self, engine: str, plugin_watch: PluginWatch | None) -> None:
        self._engine = engine
        self._plugin_watch = plugin_watch
        self._finish_reason: str | None = None
        self._num_empty = 0

    @property
    def is_done(self) -> bool:
        """Whether the engine has said that it is done."""
        return self._finish_reason is not None

    @property
    def is_cut(self) -> bool:
        """Whether it reached a limit, so that the engine was not done by itself."""
        return self._finish_reason == "length"

    def read(self, chunk: EngineChunk, stall_clock: StallClock) -> Sequence[SampledToken]:
        """The tokens of the next chunk that are not of `PLUGIN_MISSING`. The clock is restarted if any came.

        Raises:
            EngineBroke: chunk after chunk has no tokens.
            PluginMissing: the engine has written that text.
        """
        if chunk.tokens or (chunk.finish_reason and not self.is_done):
            stall_clock.restart()
            self._num_empty = 0
        else:
            self._num_empty += 1
        if self._num_empty > _MAX_EMPTY:
            raise self._broke(f"sent {_MAX_EMPTY} events in a row without tokens")
        self._finish_reason = chunk.finish_reason or self._finish_reason
        if self._plugin_watch is None:
            return chunk.tokens
        return self._plugin_watch.passed(chunk.tokens, is_last=chunk.finish_reason is not None)

    def check_end(self) -> None:
        """Raise EngineBroke if the answer, of which no more comes, broke off."""
        if self._finish_reason not in {"stop", "length"}:
            raise self._broke(f"broke off: {self._finish_reason or 'it sent no finish_reason'}")

    def _broke(self, reason: str) -> EngineBroke:
        return EngineBroke(self._engine, reason)
