"""Finds the files of a model: a directory, a hub id, or one GGUF file.

transformers reads all three. Of a GGUF file it wants the directory and the file's name apart.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError
from transformers.utils import quantization_config

from runtime.errors import ModelLoadError

GGUF_PACKAGES = ("gguf", "accelerate")
"""What transformers needs to read a GGUF file; the extra `gguf`."""

_ONE_AT_A_TIME = threading.RLock()
_CONFIG = "config.json"
_GGUF = ".gguf"
_WRITE_INSTEAD = "write a hub id as OWNER/NAME, or a directory as ./PATH"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of the model that was asked for as `source`; `gguf_file` is in the directory `location`."""

    source: str
    location: str
    gguf_file: str | None = None

    @property
    def name(self) -> str:
        """A name for the model: that of its file or directory, or the last part of its hub id."""
        return Path(self.gguf_file).stem if self.gguf_file else Path(self.location).name

    @property
    def options(self) -> dict[str, Any]:
        """What every `from_pretrained` needs besides the location."""
        return {} if self.gguf_file is None else {"gguf_file": self.gguf_file}

    @property
    def weight_options(self) -> dict[str, Any]:
        """What the model's `from_pretrained` needs: no packed weights, which our kernels do not read."""
        config = getattr(quantization_config, "GgufConfig", None)  # older versions unpack all weights
        if self.gguf_file is None or config is None:
            return self.options
        return self.options | {"quantization_config": config(dequantize=True)}


def find_model(source: str) -> ModelFiles:
    """The files of a directory, of a GGUF file, of a directory with one, or of a hub id.

    Raises:
        ModelLoadError: there is no such model, or not in a form that can be read.
    """
    path = Path(source).expanduser()
    if path.suffix == _GGUF:
        return _gguf(source, path)
    if (path.is_absolute() or source.startswith((".", "~"))) and not path.is_dir():
        raise ModelLoadError(source, "there is no such directory")
    if not path.is_dir():
        _check_hub(source)
        return ModelFiles(source, source)
    if (path / _CONFIG).is_file():
        return ModelFiles(source, str(path))
    match sorted(path.glob(f"*{_GGUF}")):
        case [file]:
            return _gguf(source, file)
        case []:
            raise ModelLoadError(source, f"the directory has no {_CONFIG} and no {_GGUF} file")
        case files:
            names = ", ".join(file.name for file in files)
            raise ModelLoadError(
                source, f"the directory has several {_GGUF} files, name one of them: {names}"
            )


def _gguf(source: str, path: Path) -> ModelFiles:
    if not path.is_file():
        raise ModelLoadError(source, "there is no such file")
    if not all(map(find_spec, GGUF_PACKAGES)):
        raise ModelLoadError(source, "GGUF files need an extra: pip install 'callgate[gguf]'")
    return ModelFiles(source, str(path.parent), path.name)


def _check_hub(model: str) -> None:
    """Ask the model hub once for a model that is not in the cache; loading would ask several times a file.

    Raises:
        ModelLoadError: the hub does not have it or does not answer; says what to write instead.
    """
    try:
        if try_to_load_from_cache(model, _CONFIG) is None:
            get_hf_file_metadata(hf_hub_url(model, _CONFIG))
    except HFValidationError as error:
        reason = f"there is no such directory, and it is no hub id; {_WRITE_INSTEAD}"
        raise ModelLoadError(model, reason) from error
    except GatedRepoError as error:
        reason = "the hub gives it only to users who log in: set HF_TOKEN, or run `hf auth login`"
        raise ModelLoadError(model, reason) from error
    except RepositoryNotFoundError as error:
        reason = (
            f"there is no such directory, and the hub has no such model, or it is private; {_WRITE_INSTEAD}"
        )
        raise ModelLoadError(model, reason) from error
    except Exception as error:
        reason = f"there is no such directory, it is not in the cache, and the hub does not answer ({error})"
        raise ModelLoadError(model, f"{reason}; {_WRITE_INSTEAD}") from error


@contextmanager
def gguf_read_once() -> Iterator[None]:
    """Let transformers read each GGUF file once inside, and list the names of its tensors once.

    It reads the file for the config, for the tokenizer and for the weights, and lists the names for each
    module. SmolLM2 then takes 15 seconds to load, and 6 in here.
    """
    if not all(map(find_spec, GGUF_PACKAGES)):
        yield
        return
    import gguf  # noqa: PLC0415 - an extra

    with _ONE_AT_A_TIME:  # the names are of the whole process
        reader, list_names = gguf.GGUFReader, gguf.get_tensor_name_map
        gguf.GGUFReader, gguf.get_tensor_name_map = cache(reader), cache(list_names)
        try:
            yield
        finally:
            gguf.GGUFReader, gguf.get_tensor_name_map = reader, list_names
