"""Loading a tokenizer, and what else a model says about text.

No weights are read: of a model that another engine runs, this is all that a gateway loads.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError
from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.syntaxes import find_syntax, syntax_of_template
from compiler.vocabulary import Vocabulary
from runtime.errors import ModelLoadError, first_line
from runtime.forward.forward_pass import context_length
from runtime.model_vocabulary import model_vocabulary
from runtime.text.template import CHATML, ChatTemplate

_CONFIG = "config.json"
_WRITE_INSTEAD = "write a hub id as OWNER/NAME, or a directory as ./PATH"


@dataclass(frozen=True, eq=False, kw_only=True)
class LoadedTokenizer:
    """A model's tokenizer and chat template, and what is known of the model without its weights.

    `syntax` names its call syntax, `context_length` is in tokens.
    """

    model_id: str
    config: Any
    tokenizer: Any
    chat_template: ChatTemplate
    prepared: PreparedVocabulary
    syntax: str
    context_length: int

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of its tokenizer."""
        return self.prepared.vocabulary


def load_tokenizer(
    source: str | Path, *, model_id: str | None = None, syntax: str | None = None
) -> LoadedTokenizer:
    """Load from a model's directory or hub id; `syntax` overrides the one found by the chat template.

    Raises:
        ModelLoadError: there is no such model, or files are missing or broken.
        UnknownSyntax: there is no such syntax.
    """
    source = str(source)
    override = find_syntax(syntax).name if syntax else None
    config = _load_config(source)
    tokenizer = _load_tokenizer(source)
    try:
        chat_template = ChatTemplate(tokenizer)
    except ValueError as error:
        raise ModelLoadError(source, f"its tokenizer: {error}") from error
    try:
        length = context_length(config.get_text_config())
        vocabulary = model_vocabulary(tokenizer, config, _generation_config(source))
    except ValueError as error:
        raise ModelLoadError(source, str(error)) from error
    return LoadedTokenizer(
        model_id=model_id or Path(source).name,
        config=config,
        tokenizer=tokenizer,
        chat_template=chat_template,
        prepared=PreparedVocabulary(vocabulary),
        syntax=override or syntax_of_template(tokenizer.chat_template).name,
        context_length=length,
    )


def load_error(error: Exception) -> str:
    """Why transformers cannot load something. It may name an option that runs a model's own code."""
    if "trust_remote_code" in str(error):
        return "it needs code of its own, which is never run; choose a model that transformers has code for"
    return first_line(error)


def _load_config(source: str) -> Any:
    path = Path(source).expanduser()
    if (path.is_absolute() or source.startswith((".", "~"))) and not path.is_dir():
        raise ModelLoadError(source, "there is no such directory")
    if path.is_dir() and not (path / _CONFIG).is_file():
        raise ModelLoadError(source, f"the directory has no {_CONFIG}")
    if not path.is_dir():
        _check_hub(source)
    try:
        return AutoConfig.from_pretrained(source, trust_remote_code=False)
    except Exception as error:
        raise ModelLoadError(source, load_error(error)) from error


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


def _load_tokenizer(source: str) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception as error:
        raise ModelLoadError(source, f"its tokenizer: {load_error(error)}") from error
    if not tokenizer.encode("a", add_special_tokens=False):
        # If the files of a tokenizer are missing, transformers makes an empty tokenizer.
        raise ModelLoadError(source, "its tokenizer: it is missing, or has no tokens for text")
    if isinstance(tokenizer.chat_template, dict):
        templates = tokenizer.chat_template
        tokenizer.chat_template = templates.get("tool_use") or templates.get("default")
    if not tokenizer.chat_template:
        tokenizer.chat_template = CHATML
    return tokenizer


def _generation_config(source: str) -> Any:
    """What `generation_config.json` says; None where a model has no such file."""
    try:
        return GenerationConfig.from_pretrained(source)
    except OSError:
        return None
