"""A stand-in for vLLM: the names and signatures that the plugin meets, and the shortest bodies that do as vLLM.

`make test-engines` compares these signatures with those of the real package.
"""

import enum
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

VERSION = "0.32.0"


class StructuredOutputOptions(enum.Enum):
    JSON = enum.auto()
    GRAMMAR = enum.auto()


class StructuredOutputGrammar(ABC):
    @abstractmethod
    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool: ...

    @abstractmethod
    def validate_tokens(self, tokens: list[int]) -> list[int]: ...

    @abstractmethod
    def rollback(self, num_tokens: int) -> None: ...

    @abstractmethod
    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None: ...

    @abstractmethod
    def is_terminated(self) -> bool: ...

    @abstractmethod
    def reset(self): ...


class Tensor:
    """As much of a tensor as engines use for bitmasks."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows

    def numpy(self) -> np.ndarray:
        return self.rows


def open_rows(num_rows: int, columns: int) -> Tensor:
    """Rows of a bitmask that allow everything."""
    return Tensor(np.full((num_rows, -(-columns // 32)), -1, dtype=np.int32))


def allow_only(token: int, bitmask: Tensor, row: int) -> None:
    bitmask.numpy()[row] = 0
    bitmask.numpy()[row, token >> 5] = 1 << (token & 31)


class OwnGrammar(StructuredOutputGrammar):
    """What the stand-in makes of grammars without a mark: it allows the one token `ord(spec)`."""

    def __init__(self, spec: str) -> None:
        self.token = ord(spec)

    def accept_tokens(self, request_id, tokens):
        return tokens == [self.token]

    def validate_tokens(self, tokens):
        return [token for token in tokens[:1] if token == self.token]

    def rollback(self, num_tokens):
        pass

    def fill_bitmask(self, bitmask, batch_index):
        allow_only(self.token, bitmask, batch_index)

    def is_terminated(self):
        return False

    def reset(self):
        pass


@dataclass
class XgrammarBackend:
    vllm_config: Any
    tokenizer: Any
    vocab_size: int

    def compile_grammar(
        self,
        request_type: StructuredOutputOptions,
        grammar_spec: str,
        stop_token_ids: set[int] | None = None,
    ) -> StructuredOutputGrammar:
        return OwnGrammar(grammar_spec)

    def allocate_token_bitmask(self, max_num_seqs: int):
        return open_rows(max_num_seqs, self.vocab_size)


class StructuredOutputManager:
    def __init__(self, vllm_config: Any):
        self.vllm_config = vllm_config
        self._grammar_bitmask: Tensor | None = None
        self.backend: XgrammarBackend | None = None
        if not vllm_config.model_config.skip_tokenizer_init:
            self.tokenizer = vllm_config.tokenizer

    def grammar_init(self, request) -> None:
        """Compiles at once, where vLLM does it in a thread."""
        if self.backend is None:
            columns = self.vllm_config.model_config.get_vocab_size()
            backend = sys.modules["vllm.v1.structured_output.backend_xgrammar"].XgrammarBackend
            self.backend = backend(self.vllm_config, self.tokenizer, columns)
        asked = request.structured_output_request
        asked.grammar = self.backend.compile_grammar(
            StructuredOutputOptions.GRAMMAR, asked.spec, stop_token_ids=request.stop_token_ids
        )

    def _get_constraint_bounds(self, request, spec_tokens, spec_tokens_committed: bool = False):  # noqa: FBT001, FBT002 - as vLLM has it
        return SimpleNamespace(grammar_start=0, constraint_start=0)

    def _fill_bitmasks(self, batch) -> None:
        for grammar, index, apply_bitmask in batch:
            if apply_bitmask and not grammar.is_terminated():
                grammar.fill_bitmask(self._grammar_bitmask, index)
            else:
                self._grammar_bitmask.numpy()[index] = -1

    def grammar_bitmask(
        self,
        requests: dict[str, Any],
        structured_output_request_ids: list[str],
        scheduled_spec_decode_tokens: dict[str, list[int]],
    ):
        if not structured_output_request_ids:
            return None
        if self._grammar_bitmask is None:
            self._grammar_bitmask = self.backend.allocate_token_bitmask(16)
        at = 0
        for request_id in structured_output_request_ids:
            grammar, num_advanced = requests[request_id].structured_output_request.grammar, 0
            for token in scheduled_spec_decode_tokens.get(request_id, []):
                self._fill_bitmasks(((grammar, at, True),))
                assert grammar.accept_tokens(request_id, [token]), "this ends the engine"
                num_advanced += 1
                at += 1
            self._fill_bitmasks(((grammar, at, True),))
            grammar.rollback(num_advanced)
            at += 1
        return self._grammar_bitmask.numpy()[:at]


@dataclass
class Asked:
    spec: str
    grammar: Any = None


@dataclass
class Request:
    structured_output_request: Asked
    stop_token_ids: set[int] = field(default_factory=set)


def config(tokenizer, model_config, *, generation=None, columns=None, **outputs):
    """As much of a `VllmConfig` as is read; `columns` is the width of the logits."""
    return SimpleNamespace(
        tokenizer=tokenizer,
        num_speculative_tokens=0,
        scheduler_config=SimpleNamespace(max_num_seqs=8),
        structured_outputs_config=SimpleNamespace(
            **{"reasoning_parser": "", "enable_in_reasoning": False, **outputs}
        ),
        model_config=SimpleNamespace(
            hf_config=model_config,
            skip_tokenizer_init=False,
            get_vocab_size=lambda: columns or model_config.vocab_size,
            try_get_generation_config=lambda: generation or {},
        ),
    )


def put_in_place(monkeypatch) -> SimpleNamespace:
    """Let `import vllm` find the stand-in, with classes of its own; returns its module and these classes."""
    classes = [StructuredOutputManager, XgrammarBackend, StructuredOutputGrammar]
    manager, backend, grammar = (type(cls.__name__, (cls,), {}) for cls in classes)
    outputs = "vllm.v1.structured_output"
    contents = {
        "vllm": {"__version__": VERSION},
        "vllm.v1": {},
        outputs: {"StructuredOutputManager": manager},
        f"{outputs}.backend_xgrammar": {"XgrammarBackend": backend},
        f"{outputs}.backend_types": {"StructuredOutputGrammar": grammar},
    }
    for name, names in contents.items():
        module = ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)
    return SimpleNamespace(vllm=sys.modules["vllm"], manager=manager, backend=backend, grammar=grammar)
