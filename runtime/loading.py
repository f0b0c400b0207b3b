"""Loading: a transformers causal LM, its tokenizer, and what they say about themselves."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from compiler.syntaxes import find_syntax, syntax_of_template
from compiler.vocabulary import Vocabulary
from runtime.errors import ModelLoadError, UnusableDevice
from runtime.forward.attention import IMPLEMENTATION
from runtime.forward.context import context_length
from runtime.hub import check_hub
from runtime.text.template import CHATML

_ONE_AT_A_TIME = threading.Lock()
"""While it loads, transformers changes torch's default type for the whole process."""


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model ready to run; `syntax` names how it spells calls, `context_length` is in tokens."""

    model_id: str
    model: Any
    tokenizer: Any
    vocabulary: Vocabulary
    syntax: str
    context_length: int


def load_model(
    source: str | Path,
    *,
    model_id: str | None = None,
    syntax: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
) -> LoadedModel:
    """Load from a directory or a hub id; `syntax` overrides what the chat template suggests.

    Raises:
        ModelLoadError: it is not there, not a causal LM, or its files are incomplete.
        UnusableDevice: there is no such device here.
        UnknownSyntax: there is no such syntax.
    """
    source = str(source)
    override = find_syntax(syntax).name if syntax else None
    device = pick_device(device)
    config = _load_config(source)
    tokenizer = _load_tokenizer(source)
    model = _load_weights(source, config, device, dtype)
    text_config = config.get_text_config()
    try:
        length = context_length(text_config)
        vocabulary = Vocabulary.from_tokenizer(
            tokenizer, width=text_config.vocab_size, stop_ids=list(dict.fromkeys(_stop_ids(model)))
        )
    except ValueError as error:
        raise ModelLoadError(source, str(error)) from error
    return LoadedModel(
        model_id=model_id or Path(source).name,
        model=model,
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        syntax=override or syntax_of_template(tokenizer.chat_template).name,
        context_length=length,
    )


def pick_device(name: str) -> str:
    """A device that can be used, by torch's name; "auto" is the accelerator, if there is one.

    Raises:
        UnusableDevice: there is none of that name.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).item()
    except Exception as error:
        gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        raise UnusableDevice(name, ("auto", "cpu", *gpus), _first_line(error)) from error
    return name


def _load_config(source: str) -> Any:
    path = Path(source).expanduser()
    if (path.is_absolute() or source.startswith((".", "~"))) and not path.is_dir():
        raise ModelLoadError(source, "there is no such directory")
    if path.is_dir() and not (path / "config.json").is_file():
        raise ModelLoadError(source, "the directory has no config.json")
    if not path.is_dir():
        check_hub(source)
    try:
        config = AutoConfig.from_pretrained(source)
    except Exception as error:
        raise ModelLoadError(source, _first_line(error)) from error
    if config.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise ModelLoadError(source, f"models of type {config.model_type!r} are not causal language models")
    return config


def _load_tokenizer(source: str) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
    except Exception as error:
        raise ModelLoadError(source, f"its tokenizer: {_first_line(error)}") from error
    if not tokenizer.encode("a", add_special_tokens=False):
        # Of a model whose files of it are missing, transformers makes one that knows no text.
        raise ModelLoadError(source, "its tokenizer: it is missing, or knows no text")
    if isinstance(tokenizer.chat_template, dict):
        templates = tokenizer.chat_template
        tokenizer.chat_template = templates.get("tool_use") or templates.get("default")
    if not tokenizer.chat_template:
        tokenizer.chat_template = CHATML
    return tokenizer


def _load_weights(source: str, config: Any, device: str, dtype: str) -> Any:
    if dtype == "auto" and device == "cpu":
        dtype = _dtype_on_cpu(config)
    try:
        with _ONE_AT_A_TIME:
            model, loading = AutoModelForCausalLM.from_pretrained(
                source,
                config=config,
                dtype=dtype,
                attn_implementation=IMPLEMENTATION,
                output_loading_info=True,
            )
        model = model.to(device)
    except Exception as error:
        raise ModelLoadError(source, f"its weights: {_first_line(error)}") from error
    lost = sorted(map(str, [*loading["missing_keys"], *loading.get("mismatched_keys", ())]))
    if lost:
        raise ModelLoadError(source, f"its weights lack {len(lost)} tensors, such as {lost[0]}")
    return model.eval()


def _dtype_on_cpu(config: Any) -> str:
    """Half the bytes take half the time, where the CPU multiplies them."""
    has_bfloat16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()  # noqa: SLF001
    return "bfloat16" if config.dtype == torch.bfloat16 and has_bfloat16 else "float32"


def _stop_ids(model: Any) -> Iterator[int]:
    for owner in (model.generation_config, model.config):
        ids = getattr(owner, "eos_token_id", None)
        if isinstance(ids, int):
            yield ids
        else:
            yield from ids or ()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
