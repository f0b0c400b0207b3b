"""The grammars inside one external engine: from the mark of a request to its masked output."""

import logging
import time
from dataclasses import replace

from compiler.isolation.priming import prime
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.vocabulary import Vocabulary
from runtime.engines.grammar_loader import GrammarLoader, GrammarUnavailable
from runtime.engines.masked_output import MaskedOutput
from runtime.engines.request_mark import RequestMark, read_request_mark
from runtime.engines.settings import PluginSettings
from toolspecs.stores import open_store


class EngineGrammars:
    """Makes masked outputs from marks, once primed with the engine's model; thread-safe.

    `log` is one of the engine's own loggers, so that its lines appear in the engine's log.
    """

    def __init__(self, settings: PluginSettings, log: logging.Logger) -> None:
        self._settings = settings
        self._log = log
        self._loader: GrammarLoader | None = None
        self._num_columns = 0

    def prime(self, vocabulary: Vocabulary, num_columns: int) -> None:
        """Compile what most grammars share, which takes seconds; `num_columns` is the width of the logits."""
        start = time.perf_counter()
        prepared = PreparedVocabulary(vocabulary)
        _ = prepared.index.last_word
        prime(prepared)
        self._num_columns = num_columns
        url = self._settings.store_url
        self._loader = GrammarLoader(
            None if url is None else lambda: open_store(url),
            self._settings.secret,
            prepared,
            cache_bytes=self._settings.cache_bytes,
        )
        took_s = time.perf_counter() - start
        self._log.info("callgate is ready for the vocabulary %s after %.1f s", vocabulary.digest[:12], took_s)

    def close(self) -> None:
        """Close what `prime` opened."""
        if self._loader is not None:
            self._loader.close()

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The stop tokens of the model.

        Raises:
            GrammarUnavailable: the engine has no tokenizer.
        """
        return self._primed().prepared.vocabulary.stop_ids

    def mark_of(self, specification: str) -> RequestMark | None:
        """The mark in the grammar text of a request, None if there is none; raises InvalidRequestMark."""
        return read_request_mark(specification, self._settings.secret)

    def output(self, mark: RequestMark) -> MaskedOutput:
        """A masked output at its beginning; blocks until its grammar is linked.

        Raises:
            GrammarUnavailable: the grammar cannot be loaded.
            OutputRefused: this engine cannot follow it.
        """
        loader = self._primed()
        grammar = loader.grammar(mark.recipe, mark.parts)
        return MaskedOutput(grammar, replace(mark, parts={}), loader.prepared, self._num_columns)

    def _primed(self) -> GrammarLoader:
        if self._loader is None:
            raise GrammarUnavailable("the engine has no tokenizer (--skip-tokenizer-init), so no grammars")
        return self._loader
