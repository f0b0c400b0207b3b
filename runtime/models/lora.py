"""Merging a LoRA adapter into a model's weights when it is loaded (Hu et al., arXiv 2106.09685)."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from runtime.errors import AdapterLoadError, first_line

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX, _DOWN, _UP = "base_model.model.", ".lora_A.weight", ".lora_B.weight"


def merge_adapter(model: Any, folder: Path) -> None:
    """Add the adapter of a folder in peft's format to a model: `W + alpha / r * B A` for each module.

    Raises:
        AdapterLoadError: the folder has no such adapter, or it is of another kind or another model.
    """
    scale, pairs = _read(folder)
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for name, (down, up) in pairs.items():
            weight = weights.get(f"{name}.weight")
            if weight is None or weight.shape != (up.shape[0], down.shape[1]):
                raise AdapterLoadError(str(folder), f"it is of another model: {name} does not fit")
            weight += (scale * (up.double() @ down.double())).to(weight)


def _read(folder: Path) -> tuple[float, dict[str, tuple[torch.Tensor, torch.Tensor]]]:
    """The scale, and the matrices `A` [r, in] and `B` [out, r] of each module."""
    source = str(folder)
    try:
        config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
        tensors = load_file(folder / _WEIGHTS)
    except (OSError, ValueError, SafetensorError) as error:
        raise AdapterLoadError(
            source, f"the directory has none in peft's format: {first_line(error)}"
        ) from error
    unknown = sorted(option for option in _UNREAD if config.get(option))
    if config.get("peft_type") != "LORA" or unknown:
        reason = f"only plain LoRA adapters are read, not {', '.join(unknown) or config.get('peft_type')}"
        raise AdapterLoadError(source, reason)
    try:
        scale = config["lora_alpha"] / (config["r"] ** 0.5 if config.get("use_rslora") else config["r"])
        names = {name.removesuffix(_DOWN) for name in tensors if name.endswith(_DOWN)}
        pairs = {name.removeprefix(_PREFIX): (tensors[name + _DOWN], tensors[name + _UP]) for name in names}
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise AdapterLoadError(source, f"{_CONFIG} is incomplete: {error!r}") from error
    if len(tensors) != 2 * len(pairs) or not pairs:
        raise AdapterLoadError(source, "it has tensors that belong to no pair of matrices")
    return scale, pairs


_UNREAD = (
    "alora_invocation_tokens",
    "alpha_pattern",
    "bias_pattern",
    "fan_in_fan_out",
    "modules_to_save",
    "rank_pattern",
    "use_dora",
)
"""Options of peft that change what an adapter means, and that are not read here."""
