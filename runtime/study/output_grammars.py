"""The grammars that a study compares: none, JSON types only, xgrammar's own conversion, Callgate's."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xgrammar as xgr

from compiler.closing.closer import Closer
from compiler.errors import CompilerError
from compiler.linker.linker import LinkedGrammar
from compiler.matcher import Bitmask, Matcher
from compiler.output_parts import OutputPart
from compiler.syntax import Syntax
from compiler.toolset_compiler import compile_toolset
from compiler.units.compiled_grammar import GuardedMatcher
from runtime.study.judging import closed
from runtime.study.questions import Question
from runtime.study.studied_model import StudiedModel
from toolspecs.tool import Tool


class NoGrammar(Exception):
    """The tools of a question cannot be made a grammar; the message says why."""


class OutputGrammar(Protocol):
    """The grammar of one question's outputs: what the study asks of a `compiler.constraint.Constraint`."""

    def matcher(self, *, is_thinking: bool = False) -> Matcher:
        """A fresh matcher; `is_thinking` says that the prompt ends inside a thought."""

    def closer(self, *, is_thinking: bool = False) -> Closer | None:
        """A fresh budget closer; None where the budget cuts the output off."""


STDERR = 2
MakeGrammar = Callable[[StudiedModel, Question], OutputGrammar]
"""Makes the grammar of a question; raises NoGrammar."""


@dataclass(frozen=True, slots=True)
class _WithoutCloser:
    """An `OutputGrammar` whose outputs the budget cuts off; `make_matcher` takes `is_thinking` too."""

    make_matcher: Callable[..., Matcher]

    def matcher(self, *, is_thinking: bool = False) -> Matcher:
        return self.make_matcher(is_thinking=is_thinking)

    def closer(self, *, is_thinking: bool = False) -> None:
        """No closer."""


def unconstrained(subject: StudiedModel, question: Question) -> OutputGrammar:  # noqa: ARG001 - the common signature
    """No mask."""
    return _WithoutCloser(lambda **_: AllowsEverything(subject.vocabulary.stop_ids))


def json_types_only(subject: StudiedModel, question: Question) -> OutputGrammar:
    """Tool names, keys and punctuation are forced; the model fills in values of the right JSON type.

    This is what jsonformer does: every declared property is there, in order, optional ones too. Nothing else
    in a schema counts. Values are bounded as in jsonformer: see `skeleton`.
    """
    tools = [replace(tool, parameters=skeleton(dict(tool.parameters))) for tool in question.tools]
    return _WithoutCloser(_linked(subject, tools, subject.syntax).matcher)


def xgrammar_conversion(subject: StudiedModel, question: Question) -> OutputGrammar:
    """Xgrammar's own conversion of JSON Schema, in a structural tag as servers build it.

    Objects are closed first, since calls are judged so. Its warnings on stderr about keywords that it ignores
    are suppressed: the table of faults shows their effect.

    Raises:
        NoGrammar: xgrammar refuses a schema.
    """
    syntax, spell = subject.syntax, subject.vocabulary.spell
    calls = [
        {
            "type": "tag",
            "begin": spell(syntax.opening + syntax.header(tool.name)),
            "content": {"type": "json_schema", "json_schema": closed(dict(tool.parameters))},
            "end": spell(syntax.end + syntax.closing),
        }
        for tool in question.tools
    ]
    tag = {"type": "structural_tag", "format": {"type": "or", "elements": calls}}
    try:
        with _silent():
            compiled = subject.xgrammar.compile_structural_tag(tag)
    except (RuntimeError, ValueError) as error:
        raise NoGrammar(str(error).strip()) from error
    return _WithoutCloser(lambda **_: GuardedMatcher(xgr.GrammarMatcher(compiled), None, subject.vocabulary))


def callgate(subject: StudiedModel, question: Question) -> OutputGrammar:
    """Callgate's grammar, with its budget closer."""
    return _linked(subject, question.tools, subject.syntax)


def callgate_compact(subject: StudiedModel, question: Question) -> OutputGrammar:
    """Callgate's grammar without blanks after separators."""
    name = f"{subject.syntax.name}, compact"
    compact = replace(subject.syntax, name=name, item_separator=",", key_separator=":")
    return _linked(subject, question.tools, compact)


def callgate_in_any_order(subject: StudiedModel, question: Question) -> OutputGrammar:
    """Callgate's grammar, with declared keys in any order."""
    return _linked(subject, [replace(tool, key_order="any") for tool in question.tools], subject.syntax)


def callgate_after_thought(subject: StudiedModel, question: Question) -> OutputGrammar:
    """Callgate's grammar, with free thinking before the call."""
    assert subject.thinking_syntax is not None, "a model that thinks"
    return _linked(subject, question.tools, subject.thinking_syntax)


MAX_CHARACTERS = 40
"""jsonformer's `max_string_token_length` is 10; a token of English text has about four characters."""
MAX_ITEMS = 10
"""jsonformer's `max_array_length`; there and here, an array has at least one element."""


def skeleton(schema: Any) -> Any:
    """A schema of the JSON types alone, with every property required.

    Strings and arrays are bounded here; Callgate's grammar bounds numbers.
    """
    match schema:
        case {"properties": dict() as properties}:
            inner = {name: skeleton(value) for name, value in properties.items()}
            return {
                "type": "object",
                "properties": inner,
                "required": list(inner),
                "additionalProperties": False,
            }
        case {"type": "array", "items": items}:
            return {"type": "array", "items": skeleton(items), "minItems": 1, "maxItems": MAX_ITEMS}
        case {"type": "string"}:
            return {"type": "string", "maxLength": MAX_CHARACTERS}
        case {"type": kind}:
            return {"type": kind}
        case _:
            return {}


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress what native code writes to stderr."""
    saved = os.dup(STDERR)
    try:
        with Path(os.devnull).open("w", encoding="utf-8") as null:
            os.dup2(null.fileno(), STDERR)
        yield
    finally:
        os.dup2(saved, STDERR)
        os.close(saved)


def _linked(subject: StudiedModel, tools: tuple[Tool, ...] | list[Tool], syntax: Syntax) -> LinkedGrammar:
    try:
        return compile_toolset(tools, tokenizer=subject.prepared, syntax=syntax, parallel=False)
    except CompilerError as error:
        raise NoGrammar(str(error)) from error


class AllowsEverything:
    """A matcher that allows every token, markers included."""

    def __init__(self, stop_ids: Iterable[int]) -> None:
        self._stop_ids = frozenset(stop_ids)
        self._written: list[int] = []

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Allow every token in `bitmask[row]`."""
        bitmask[row] = np.int32(-1)

    def accept(self, token_id: int) -> bool:
        """Accept any token."""
        self._written.append(token_id)
        return True

    def rollback(self, num_tokens: int) -> None:
        """Undo the last tokens."""
        del self._written[len(self._written) - num_tokens :]

    def fork(self) -> "AllowsEverything":
        """Another one at the same point."""
        twin = copy(self)
        twin._written = list(self._written)  # noqa: SLF001 - of its own class
        return twin

    def forced_text(self) -> bytes:
        """Nothing is forced."""
        return b""

    def parts(self) -> tuple[OutputPart, ...]:
        """No parts: the study parses whole texts."""
        return ()

    def pending_parts(self) -> tuple[OutputPart, ...]:
        """No parts."""
        return ()

    def is_in_thought(self) -> bool:
        """Thoughts are not told apart."""
        return False

    def is_in_free_text(self) -> bool:
        """Nothing is constrained."""
        return True

    def is_completed(self) -> bool:
        """A stop token may come at any time."""
        return True

    def is_terminated(self) -> bool:
        """Whether the last token was a stop token."""
        return bool(self._written) and self._written[-1] in self._stop_ids
