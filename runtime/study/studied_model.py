"""The model that is studied: how it is prompted, and the texts of its tokens."""

from collections.abc import Sequence
from functools import cached_property

import xgrammar as xgr

from compiler.syntax import Syntax
from compiler.syntaxes import THINK, find_syntax
from runtime.errors import RequestRefused
from runtime.loading import LoadedModel
from runtime.study.lenient_parser import can_be_read
from runtime.study.questions import Question
from runtime.text.detokenizer import TokenBytes

_SWITCH = "enable_thinking"
"""The option of chat templates that switches thinking on or off."""


class StudiedModel:
    """A loaded model.

    Raises:
        RequestRefused: its call syntax cannot be parsed without a grammar.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.prepared = loaded.prepared
        self.vocabulary = loaded.vocabulary
        self.syntax: Syntax = find_syntax(loaded.syntax.removesuffix(THINK))
        self._token_bytes = TokenBytes(loaded.vocabulary)
        if not can_be_read(self.syntax):
            raise RequestRefused(
                f"model {loaded.model_id!r} uses the call syntax {self.syntax.name!r}; the study"
                " can only read calls with JSON arguments (hermes, llama3, mistral, deepseek_v3, json, …)",
                "model",
            )

    @cached_property
    def thinking_syntax(self) -> Syntax | None:
        """The syntax with a thought before the calls; None if the model does not think."""
        return find_syntax(self.loaded.syntax) if self.loaded.syntax.endswith(THINK) else None

    @cached_property
    def xgrammar(self) -> xgr.GrammarCompiler:
        """Xgrammar's own compiler, one for the model, as in a server."""
        return xgr.GrammarCompiler(self.prepared.tokenizer_info, max_threads=1)

    def prompt(self, question: Question, *, thinks: bool = False) -> list[int]:
        """The token ids of the prompt; thinking is switched off unless `thinks`."""
        template = self.loaded.tokenizer.chat_template or ""
        options = {_SWITCH: thinks} if self.thinking_syntax and _SWITCH in template else {}
        return self.loaded.chat_template.token_ids(question.messages, question.tools, options)

    def has_begun_to_think(self, prompt: Sequence[int]) -> bool:
        """Whether a prompt ends with the beginning of a thought."""
        return self._token_bytes.is_thinking(prompt, self.thinking_syntax)

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of tokens: markers as they are written, stop tokens as nothing."""
        return self._token_bytes.of(token_ids).decode("utf-8", "replace")

    def is_utf8(self, token_ids: Sequence[int]) -> bool:
        """Whether the bytes of tokens are UTF-8, apart from those of a thought."""
        output = self._token_bytes.of(token_ids)
        if self.thinking_syntax is not None and self.thinking_syntax.thought is not None:
            output = output.rpartition(self.thinking_syntax.thought.end.encode())[2]
        try:
            output.decode("utf-8")
        except UnicodeDecodeError:
            return False
        return True

    def spells_so(self, token_ids: Sequence[int]) -> bool:
        """Whether the tokenizer makes these tokens of their text."""
        written = [i for i in token_ids if i not in self.vocabulary.stop_ids]
        ids = self.loaded.tokenizer(self.text(written), add_special_tokens=False)["input_ids"]
        return bool(ids == written)
