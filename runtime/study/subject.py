"""The model under study: how it is asked, and how it spells what it answers."""

from collections.abc import Sequence
from functools import cached_property

import xgrammar as xgr

from compiler.syntax import Syntax
from compiler.syntaxes import THINK, find_syntax
from runtime.errors import RequestRefused
from runtime.loading import LoadedModel
from runtime.study.questions import Question
from runtime.study.reading import can_be_read
from runtime.text.detokenizer import TokenBytes
from runtime.text.template import render_prompt

_SWITCH = "enable_thinking"
"""What chat templates call the option that has a model think, or not."""


class StudiedModel:
    """A loaded model.

    Raises:
        RequestRefused: its calls cannot be read without a grammar.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.vocabulary = loaded.vocabulary
        self.syntax: Syntax = find_syntax(loaded.syntax.removesuffix(THINK))
        self._spelling = TokenBytes(loaded.vocabulary)
        if not can_be_read(self.syntax):
            raise RequestRefused(
                f"model {loaded.model_id!r} spells calls as {self.syntax.name!r} does; the study reads calls"
                " with JSON arguments only (hermes, llama3, mistral, deepseek_v3, json, …)",
                "model",
            )

    @cached_property
    def thinking_syntax(self) -> Syntax | None:
        """The row with a thought before calls, None if the model does not think."""
        return find_syntax(self.loaded.syntax) if self.loaded.syntax.endswith(THINK) else None

    @cached_property
    def xgrammar(self) -> xgr.GrammarCompiler:
        """The compiler of xgrammar itself, as a server keeps it."""
        return xgr.GrammarCompiler(self.vocabulary.tokenizer_info, max_threads=1)

    def prompt(self, question: Question, *, thinks: bool = False) -> list[int]:
        """The prompt's token ids; who could think is told not to, unless `thinks`."""
        template = self.loaded.tokenizer.chat_template or ""
        options = {_SWITCH: thinks} if self.thinking_syntax and _SWITCH in template else {}
        return render_prompt(self.loaded.tokenizer, question.messages, question.tools, options)

    def has_begun_to_think(self, prompt: Sequence[int]) -> bool:
        """Whether a prompt ends with the beginning of a thought."""
        return self._spelling.is_thinking(prompt, self.thinking_syntax)

    def text(self, token_ids: Sequence[int]) -> str:
        """What tokens spell, markers as they are written, stop tokens as nothing."""
        return self._spelling.of(token_ids).decode("utf-8", "replace")

    def is_utf8(self, token_ids: Sequence[int]) -> bool:
        """Whether the bytes of tokens are text; those of a thought may be what they like."""
        spelled = self._spelling.of(token_ids)
        if self.thinking_syntax is not None and self.thinking_syntax.thought is not None:
            spelled = spelled.rpartition(self.thinking_syntax.thought.end.encode())[2]
        try:
            spelled.decode("utf-8")
        except UnicodeDecodeError:
            return False
        return True

    def spells_so(self, token_ids: Sequence[int]) -> bool:
        """Whether the tokenizer would spell the text of these tokens in the same ones."""
        written = [i for i in token_ids if i not in self.vocabulary.stop_ids]
        ids = self.loaded.tokenizer(self.text(written), add_special_tokens=False)["input_ids"]
        return bool(ids == written)
