"""The grammars of an SGLang engine: a grammar backend around SGLang's own, and what SGLang asks for masks.

Every rank of an engine has a scheduler of its own, which links each grammar and fills its masks. All ranks
must decide the same about a request. SGLang has them agree on grammars that are ready, and on those that took
too long, but expects that what fails on one rank fails on all. A store may fail for one rank alone, so such a
grammar is reported as one that took too long.
"""

import logging
from concurrent.futures import Future
from typing import Any

from runtime.engines.engine_grammars import EngineGrammars
from runtime.engines.mark import is_marked
from runtime.engines.masked_output import BatchFill, MaskedOutput

_GRAMMAR = "ebnf"

_log = logging.getLogger("sglang.callgate")  # so that SGLang writes it


class SglangBackend:
    """Takes the place of `own`, SGLang's grammar backend, and leaves all to it but marks.

    `masks` is SGLang's class of xgrammar's grammars, which knows how bitmasks get to the device and are
    applied there: rows of both kinds are in one bitmask. `is_alone`: the engine has one rank only.
    """

    def __init__(self, own: Any, masks: Any, grammars: EngineGrammars, *, is_alone: bool) -> None:
        self._own = own
        self._masks = masks
        self._grammars = grammars
        self._is_alone = is_alone
        self._batch = BatchFill.for_this_machine()

    def __getattr__(self, name: str) -> Any:
        """What SGLang asks of its own backend only."""
        return getattr(self._own, name)

    def get_request_grammar_key(
        self, key: tuple[str, str], *, input_ids: Any, thinking_budget: int | None
    ) -> tuple[str, str]:
        """By what SGLang knows the grammar of a request."""
        if _has_mark(key):
            return key
        found: tuple[str, str] = self._own.get_request_grammar_key(
            key, input_ids=input_ids, thinking_budget=thinking_budget
        )
        return found

    def get_cached_or_future_value(
        self,
        key: tuple[str, str],
        require_reasoning: bool,  # noqa: FBT001 - as SGLang has it
    ) -> tuple[Any, bool]:
        """A grammar to come, and False: whether it is in memory already may differ between ranks."""
        if not _has_mark(key):
            found: tuple[Any, bool] = self._own.get_cached_or_future_value(key, require_reasoning)
            return found
        coming = ComingGrammar()
        self._own.executor.submit(self._link, key[1], coming)
        return coming, False

    def set_cache(self, key: tuple[str, str], value: Any) -> None:
        """Remember a grammar; not those of marks, each of which is of one output. SGLang forgets none."""
        if not _has_mark(key):
            self._own.set_cache(key, value)

    def give_up_failed(self, requests: list[Any], max_polls: int) -> None:
        """Let SGLang end requests whose grammars failed here, on all ranks: they waited for too long."""
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
            _log.error("a grammar cannot be had: %s", error)
            if self._is_alone:
                coming.set_exception(error)
            else:
                coming.has_failed = True
        else:
            coming.set_result(grammar)


def _has_mark(key: tuple[str, str]) -> bool:
    kind, specification = key
    return kind == _GRAMMAR and is_marked(specification)


class ComingGrammar(Future["SglangGrammar"]):
    """A grammar that is being linked. With `has_failed` it never comes: all ranks have to give it up."""

    has_failed = False


class SglangGrammar:
    """What SGLang drives: its `BaseGrammarObject` by the methods and attributes that SGLang uses.

    It is terminated once it has accepted a stop token. SGLang ends such a request then and there, also one
    that says `ignore_eos`, and asks for no more masks.
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
        """Fill the rows of a step; of these, rows of marks in one batch."""
        own = []
        for row, grammar in entries:
            if isinstance(grammar, SglangGrammar):
                own.append((grammar.output, row))
            else:
                grammar.fill_vocab_mask(vocab_mask, row)
        self._batch.fill(own, vocab_mask.numpy())

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> Any:
        """A bitmask that allows everything, in memory of the host."""
        return self._masks.allocate_vocab_mask(self, vocab_size, batch_size, device)

    def move_vocab_mask(self, vocab_mask: Any, device: Any) -> Any:
        """A bitmask's copy on the device."""
        return self._masks.move_vocab_mask(vocab_mask, device)

    def apply_vocab_mask(self, logits: Any, vocab_mask: Any) -> None:
        """Forbid in `logits` what a bitmask on the same device forbids."""
        self._masks.apply_vocab_mask(self, logits, vocab_mask)

    def maybe_init_reasoning(self, reasoning: bool) -> None:  # noqa: FBT001 - as SGLang has it
        """Nothing is needed: the grammar has the thoughts in it."""

    def copy(self) -> "SglangGrammar":
        """The same: SGLang copies what it puts into its cache, where no grammar of a mark is."""
        return self
