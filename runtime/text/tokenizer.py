"""Loading a tokenizer, and what else a model says about text.

No weights are read: of a model that another engine runs, this is all that a gateway loads.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.syntaxes import find_syntax, syntax_of_template
from compiler.vocabulary import Vocabulary
from runtime.errors import ModelLoadError, first_line
from runtime.models.chatml import CHATML, CHATML_MARKERS
from runtime.models.model_config import context_length, model_sampling, model_vocabulary
from runtime.models.model_files import ModelFiles, find_model, gguf_read_once
from runtime.protocol import ModelCard
from runtime.request import OPENAI_SAMPLING, Sampling
from runtime.text.template import ChatTemplate, template_variables


@dataclass(frozen=True, eq=False, kw_only=True)
class LoadedTokenizer:
    """A model's tokenizer and chat template, and what is known of the model without its weights.

    `syntax` names its call syntax, `context_length` is in tokens, `sampling` is for requests that set none.
    """

    model_id: str
    files: ModelFiles
    config: Any
    tokenizer: Any
    chat_template: ChatTemplate
    prepared: PreparedVocabulary
    syntax: str
    context_length: int
    sampling: Sampling = OPENAI_SAMPLING

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of its tokenizer."""
        return self.prepared.vocabulary

    def card(self, context_length: int) -> ModelCard:
        """The card of a runtime that serves the model with this context length, in tokens."""
        return ModelCard(
            self.model_id,
            self.prepared,
            self.syntax,
            context_length,
            template_variables(self.tokenizer.chat_template),
            sampling=self.sampling,
        )


@gguf_read_once()
def load_tokenizer(
    source: str | Path, *, model_id: str | None = None, syntax: str | None = None
) -> LoadedTokenizer:
    """Load from a directory, a GGUF file or a hub id; `syntax` overrides the one found by the chat template.

    Raises:
        ModelLoadError: there is no such model, or files are missing or broken.
        UnknownSyntax: there is no such syntax.
    """
    source = str(source)
    override = find_syntax(syntax).name if syntax else None
    files = find_model(source)
    config = _load_config(files)
    tokenizer = _load_tokenizer(files)
    try:
        chat_template = ChatTemplate(tokenizer)
    except ValueError as error:
        raise ModelLoadError(source, f"its tokenizer: {error}") from error
    try:
        length = context_length(config.get_text_config())
        generation_config = _generation_config(files)
        vocabulary = model_vocabulary(tokenizer, config, generation_config)
        sampling = model_sampling(generation_config)
    except ValueError as error:
        raise ModelLoadError(source, str(error)) from error
    return LoadedTokenizer(
        model_id=model_id or files.name,
        files=files,
        config=config,
        tokenizer=tokenizer,
        chat_template=chat_template,
        prepared=PreparedVocabulary(vocabulary),
        syntax=override or syntax_of_template(tokenizer.chat_template).name,
        context_length=length,
        sampling=sampling,
    )


def load_error(error: Exception) -> str:
    """Why transformers cannot load something. It may name an option that runs a model's own code."""
    if "trust_remote_code" in str(error):
        return "it needs code of its own, which is never run; choose a model that transformers has code for"
    return first_line(error)


def _load_config(files: ModelFiles) -> Any:
    try:
        return AutoConfig.from_pretrained(files.location, trust_remote_code=False, **files.options)
    except Exception as error:
        raise ModelLoadError(files.source, load_error(error)) from error


def _load_tokenizer(files: ModelFiles) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(files.location, trust_remote_code=False, **files.options)
    except Exception as error:
        raise ModelLoadError(files.source, f"its tokenizer: {load_error(error)}") from error
    if not tokenizer.encode("a", add_special_tokens=False):
        # If the files of a tokenizer are missing, transformers makes an empty tokenizer.
        raise ModelLoadError(files.source, "its tokenizer: it is missing, or has no tokens for text")
    if isinstance(tokenizer.chat_template, dict):
        templates = tokenizer.chat_template
        tokenizer.chat_template = templates.get("tool_use") or templates.get("default")
    if not tokenizer.chat_template or _hides_tools(tokenizer):
        tokenizer.chat_template = CHATML
    return tokenizer


def _hides_tools(tokenizer: Any) -> bool:
    """Whether the template is a ChatML that never shows tools: ours writes messages alike, and tools too."""
    own_vocabulary = tokenizer.get_vocab()
    return "tools" not in tokenizer.chat_template and all(
        marker in own_vocabulary for marker in CHATML_MARKERS
    )


def _generation_config(files: ModelFiles) -> Any:
    """What `generation_config.json` says; None where a model has no such file."""
    try:
        return GenerationConfig.from_pretrained(files.location)
    except OSError:
        return None
