"""The grammars of a vLLM engine: from a request's mark to the grammar object that vLLM asks for masks."""

# ruff: noqa: SLF001 - `fill_batch` takes the place of a method of vLLM's manager

import logging
from types import SimpleNamespace
from typing import Any

from runtime.engines.engine_grammars import EngineGrammars
from runtime.engines.grammar_loader import GrammarUnavailable
from runtime.engines.masked_output import BatchFill, MaskedOutput
from runtime.engines.settings import PluginSettings
from runtime.models.model_config import model_vocabulary

_GRAMMAR = "GRAMMAR"

_log = logging.getLogger("vllm.callgate")  # so that vLLM writes it


class VllmGrammars:
    """Makes vLLM's grammar objects from marks, once primed with the engine's model."""

    def __init__(self, settings: PluginSettings) -> None:
        self._grammars = EngineGrammars(settings, _log)
        self._delays_masks = False

    def prime(self, tokenizer: Any, vllm_config: Any) -> None:
        """Read the model's vocabulary, and compile what most grammars share; takes seconds.

        `tokenizer` is vLLM's, and `vllm_config` its `VllmConfig`.
        """
        model, outputs = vllm_config.model_config, vllm_config.structured_outputs_config
        self._delays_masks = bool(outputs.reasoning_parser) and not outputs.enable_in_reasoning
        generation = SimpleNamespace(**(model.try_get_generation_config() or {}))
        vocabulary = model_vocabulary(tokenizer, model.hf_config, generation)
        self._grammars.prime(vocabulary, model.get_vocab_size())

    def close(self) -> None:
        """Close what priming opened."""
        self._grammars.close()

    def compile(
        self, request_type: str, grammar_spec: str, stop_token_ids: set[int] | None
    ) -> "VllmGrammar | None":
        """The grammar of a mark; None if the specification has none.

        Raises:
            InvalidRequestMark: the mark was altered, or written with another secret or by another version.
            GrammarUnavailable, OutputRefused: the grammar cannot be loaded, or this engine cannot follow it.
        """
        mark = self._grammars.mark_of(grammar_spec) if request_type == _GRAMMAR else None
        if mark is None:
            return None
        if self._delays_masks:
            raise GrammarUnavailable(
                "the engine leaves thoughts unmasked; start it without --reasoning-parser, or with"
                ' "enable_in_reasoning": true in --structured-outputs-config'
            )
        unknown = set(self._grammars.stop_ids) - set(stop_token_ids or ())
        if unknown:
            raise GrammarUnavailable(
                f"the engine would not stop at the token ids {sorted(unknown)}, which the model's files name"
                " as ends; start it without --generation-config vllm"
            )
        return VllmGrammar(self._grammars.output(mark))


class VllmGrammar:
    """The grammar object of one request, with the methods of vLLM's `StructuredOutputGrammar`.

    It never reports that it is terminated, because vLLM leaves the rows of terminated grammars unmasked. vLLM
    itself ends a request at its stop token. With `ignore_eos`, only stop tokens are allowed from there on,
    none is accepted, and the request ends with an error.
    """

    def __init__(self, output: MaskedOutput) -> None:
        self.output = output

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Advance; False if a token is not allowed, and vLLM ends the request with an error."""
        is_accepted = self.output.accept(tokens)
        if not is_accepted:
            _log.error("request %s: the tokens %s are not of its grammar", request_id, tokens)
        return is_accepted

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The draft tokens up to the first that is not allowed."""
        return self.output.accepted_prefix(tokens)

    def rollback(self, num_tokens: int) -> None:
        """Undo the last accepted tokens."""
        self.output.rollback(num_tokens)

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Overwrite a row of `bitmask`, an int32 tensor [rows, ceil(columns of the logits / 32)]."""
        self.output.fill(bitmask.numpy(), batch_index)

    def is_terminated(self) -> bool:
        """Never; see the class."""
        return False

    def reset(self) -> None:
        """Go back to the beginning of the output."""
        self.output.reset()


def fill_batch(batch: BatchFill, manager: Any, requests: Any, request_ids: list[str]) -> Any:
    """The bitmask of a step without draft tokens: numpy int32 [len(request_ids), words].

    `manager` is vLLM's `StructuredOutputManager`; it fills the rows of grammars without a mark.
    """
    if manager._grammar_bitmask is None:
        config = manager.vllm_config
        num_rows = config.scheduler_config.max_num_seqs * (1 + config.num_speculative_tokens)
        manager._grammar_bitmask = manager.backend.allocate_token_bitmask(num_rows)
    rows = manager._grammar_bitmask.numpy()
    own, others = [], []
    for row, request_id in enumerate(request_ids):
        request = requests[request_id]
        grammar = request.structured_output_request.grammar
        if isinstance(grammar, VllmGrammar):
            own.append((grammar.output, row))
        else:
            is_masked = manager._get_constraint_bounds(request, ()).constraint_start == 0
            others.append((grammar, row, is_masked))
    batch.fill(own, rows)
    manager._fill_bitmasks(others)
    return rows[: len(request_ids)]
