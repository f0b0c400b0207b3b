"""Loading a model: a transformers causal LM behind its tokenizer."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, modeling_gguf_pytorch_utils
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging

from compiler.prepared_vocabulary import PreparedVocabulary
from runtime.device import pick_device
from runtime.errors import ModelLoadError
from runtime.forward.attention import IMPLEMENTATION
from runtime.models.lora import merge_adapter
from runtime.models.model_files import ModelFiles, gguf_read_once
from runtime.text.tokenizer import LoadedTokenizer, load_error, load_tokenizer

_ONE_AT_A_TIME = threading.Lock()
"""While it loads a model, transformers changes torch's default type for the whole process."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LoadedModel(LoadedTokenizer):
    """A model that is ready to run, with its tokenizer."""

    model: Any


def hide_progress_bars() -> None:
    """Let transformers draw no bars while it loads models, in the whole process."""
    logging.disable_progress_bar()
    # The bar of GGUF files is tqdm's own, which that switch does not reach.
    modeling_gguf_pytorch_utils.tqdm = logging.tqdm


@gguf_read_once()
def load_model(
    source: str | Path,
    *,
    model_id: str | None = None,
    syntax: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    adapter: str | Path | None = None,
    on_vocabulary: Callable[[PreparedVocabulary], None] = lambda _: None,
) -> LoadedModel:
    """Load from a directory, a GGUF file or a hub id; `syntax` overrides the one found by the chat template.

    `adapter` is the folder of a LoRA adapter, which is merged into the weights.

    `on_vocabulary` is called before the weights are read, which takes longest.

    Raises:
        ModelLoadError: there is no such model, it is no causal LM, or files are missing or broken.
        UnusableDevice: there is no such device here.
        UnknownSyntax: there is no such syntax.
    """
    source = str(source)
    device = pick_device(device)
    loaded = load_tokenizer(source, model_id=model_id, syntax=syntax)
    on_vocabulary(loaded.prepared)
    model_type = loaded.config.model_type
    if model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise ModelLoadError(source, f"models of type {model_type!r} are not causal language models")
    model = _load_weights(loaded.files, loaded.config, device, dtype)
    if adapter is not None:
        merge_adapter(model, Path(adapter).expanduser())
    return LoadedModel(**{field.name: getattr(loaded, field.name) for field in fields(loaded)}, model=model)


def _load_weights(files: ModelFiles, config: Any, device: str, dtype: str) -> Any:
    if dtype == "auto":
        dtype = _dtype(files, config, device)
    try:
        with _ONE_AT_A_TIME:
            model, loading = AutoModelForCausalLM.from_pretrained(
                files.location,
                config=config,
                dtype=dtype,
                attn_implementation=IMPLEMENTATION,
                output_loading_info=True,
                trust_remote_code=False,
                **files.weight_options,
            )
        model = model.to(device)
    except Exception as error:
        raise ModelLoadError(files.source, f"its weights: {load_error(error)}") from error
    lost = sorted(map(str, [*loading["missing_keys"], *loading.get("mismatched_keys", ())]))
    if lost:
        raise ModelLoadError(files.source, f"its weights lack {len(lost)} tensors, such as {lost[0]}")
    return model.eval()


def _dtype(files: ModelFiles, config: Any, device: str) -> str:
    """The type that weights are saved in, bfloat16 for those of a GGUF file, or float32 on most CPUs.

    bfloat16 is half the bytes and takes half the time, but only on CPUs that multiply it.
    """
    is_bfloat16 = config.dtype == torch.bfloat16 or files.gguf_file is not None
    if device != "cpu":
        return "bfloat16" if is_bfloat16 else "auto"
    has_bfloat16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()  # noqa: SLF001
    return "bfloat16" if is_bfloat16 and has_bfloat16 else "float32"
