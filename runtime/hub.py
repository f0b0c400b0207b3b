"""The model hub, asked once whether it has a model; loading would ask several times for each file."""

from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

from runtime.errors import ModelLoadError

CONFIG = "config.json"
_INSTEAD = "write a hub id as OWNER/NAME, or a directory as ./PATH"


def check_hub(model: str) -> None:
    """Whether the model is in the cache, or the hub has it.

    Raises:
        ModelLoadError: neither; what to write instead.
    """
    try:
        if try_to_load_from_cache(model, CONFIG) is None:
            get_hf_file_metadata(hf_hub_url(model, CONFIG))
    except HFValidationError as error:
        raise ModelLoadError(model, f"there is no such directory, and it is no hub id; {_INSTEAD}") from error
    except GatedRepoError as error:
        raise ModelLoadError(model, "the hub asks who you are: set HF_TOKEN, or `hf auth login`") from error
    except RepositoryNotFoundError as error:
        reason = f"there is no such directory, and the hub has no such model, or not for you; {_INSTEAD}"
        raise ModelLoadError(model, reason) from error
    except Exception as error:
        reason = f"there is no such directory, it is not in the cache, and the hub does not answer ({error})"
        raise ModelLoadError(model, f"{reason}; {_INSTEAD}") from error
