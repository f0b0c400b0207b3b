"""The grammars of an SGLang engine: a wrapper of SGLang's grammar backend, and our grammar objects.

Every rank of an engine has its own scheduler, which links each grammar and fills its masks. All ranks must
decide alike about a request. SGLang makes them agree on which grammars are ready and which took too long, but
expects a grammar that fails on one rank to fail on all. The store may fail for one rank only, so such a
grammar is reported as one that took too long.
"""

import logging
from concurrent.futures import Future
from typing import Any

from runtime.engines.engine_grammars import EngineGrammars
from runtime.engines.masked_output import BatchFill, MaskedOutput
from runtime.engines.request_mark import has_request_mark

_GRAMMAR = "ebnf"

_log = logging.getLogger("sglang.callgate")  # so that SGLang writes it


class SglangBackend:
    """Wraps `own`, SGLang's grammar backend, and passes everything except marks to it.

    `masks` is SGLang's class for xgrammar's grammars. It knows how bitmasks are moved to the device and
    applied there, since rows of both kinds share one bitmask. `is_alone`: the engine has only one rank.
    """

    def __init__(self, own: Any, masks: Any, grammars: EngineGrammars, *, is_alone: bool) -> None:
        self._own = own
        self._masks = masks
        self._grammars = grammars
        self._is_alone = is_alone
        self._batch = BatchFill.for_this_machine()

    def __getattr__(self, name: str) -> Any:
        """Any other attribute of SGLang's own backend."""
        return getattr(self._own, name)

    def get_request_grammar_key(
        self, key: tuple[str, str], *, input_ids: Any, thinking_budget: int | None
    ) -> tuple[str, str]:
        """The key under which SGLang keeps the grammar of a request."""
        if _has_mark(key):
            return key
        own_key: tuple[str, str] = self._own.get_request_grammar_key(
            key, input_ids=input_ids, thinking_budget=thinking_budget
        )
        return own_key

    def get_cached_or_future_value(
        self,
        key: tuple[str, str],
        require_reasoning: bool,  # noqa: FBT001 - as SGLang has it
    ) -> tuple[Any, bool]:
        """A future grammar, and False for "not cached": whether it is in memory may differ between ranks."""
        if not _has_mark(key):
            cached: tuple[Any, bool] = self._own.get_cached_or_future_value(key, require_reasoning)
            return cached
        coming = ComingGrammar()
        self._own.executor.submit(self._link, key[1], coming)
        return coming, False

    def set_cache(self, key: tuple[str, str], value: Any) -> None:
        """Cache a grammar, unless it is of a mark, which belongs to one output; SGLang never evicts any."""
        if not _has_mark(key):
            self._own.set_cache(key, value)

    def give_up_failed(self, requests: list[Any], max_polls: int) -> None:
        """Make SGLang end the requests whose grammars failed here, on all ranks, as timed out."""
        for request in requests:
            if isinstance(request.grammar, ComingGrammar) and request.grammar.has_failed:
                request.grammar_wait_ct = max_polls

    def _link(self, specification: str, coming: "ComingGrammar") -> None:
        if not coming.set_running_or_notify_cancel():
            return
        try:
            mark = self._grammars.mark_of(specification)
            assert mark is not None, "it begins as a mark does"
            grammar = SglangGrammar(self._grammars.output(mark), self._masks, self._batch)
        except Exception as error:  # noqa: BLE001 - whatever fails ends its own request
            _log.error("a grammar could not be loaded: %s", error)
            if self._is_alone:
                coming.set_exception(error)
            else:
                coming.has_failed = True
        else:
            coming.set_result(grammar)


def _has_mark(key: tuple[str, str]) -> bool:
    kind, specification = key
    return kind == _GRAMMAR and has_request_mark(specification)


class ComingGrammar(Future["SglangGrammar"]):
    """A grammar that is being linked. With `has_failed` it never completes: all ranks must give it up."""

    has_failed = False


class SglangGrammar:
    """The grammar object of one request, with what SGLang uses of its `BaseGrammarObject`.

    It is terminated once it has accepted a stop token. SGLang then asks for no more masks, and ends the
    request: at that token, or with `ignore_eos` at the next one, which no mask covers.
    """

    grammar_stats = None

    def __init__(self, output: MaskedOutput, masks: Any, batch: BatchFill) -> None:
        self.output = output
        self.finished = False
        self.current_token: int | None = None
        self._masks = masks
        self._batch = batch

    def accept_token(self, token: int) -> None:
        """Advance; raises ValueError if the token is not allowed: SGLang ends the request with an error."""
        if not self.output.accept([token]):
            raise ValueError(f"the token {token} is not of its grammar")
        self.current_token = token

    def rollback(self, k: int) -> None:
        """Undo the last accepted tokens."""
        self.output.rollback(k)

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        return self.output.is_terminated

    def fill_vocab_mask(self, vocab_mask: Any, idx: int) -> None:
        """Overwrite a row of `vocab_mask`, an int32 tensor [rows, ceil(columns of the logits / 32)]."""
        self.output.fill(vocab_mask.numpy(), idx)

    def fill_vocab_mask_batched(self, entries: list[Any], vocab_mask: Any) -> None:
        """Fill the rows of a step; rows of marks are filled as one batch."""
        own = []
        for row, grammar in entries:
            if isinstance(grammar, SglangGrammar):
                own.append((grammar.output, row))
            else:
                grammar.fill_vocab_mask(vocab_mask, row)
        self._batch.fill(own, vocab_mask.numpy())

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> Any:
        """A bitmask in host memory that allows everything."""
        return self._masks.allocate_vocab_mask(self, vocab_size, batch_size, device)

    def move_vocab_mask(self, vocab_mask: Any, device: Any) -> Any:
        """A bitmask's copy on the device."""
        return self._masks.move_vocab_mask(vocab_mask, device)

    def apply_vocab_mask(self, logits: Any, vocab_mask: Any) -> None:
        """Apply a bitmask to `logits` on the same device."""
        self._masks.apply_vocab_mask(self, logits, vocab_mask)

    def maybe_init_reasoning(self, reasoning: bool) -> None:  # noqa: FBT001 - as SGLang has it
        """Do nothing: the grammar includes the thoughts."""

    def copy(self) -> "SglangGrammar":
        """This object itself: SGLang only copies what it caches, and it caches no grammar of a mark."""
        return self
