"""What an output is held to: nothing, a skeleton of the schema, xgrammar's reading of it, or ours."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import xgrammar as xgr

from compiler.closing.closer import Closer
from compiler.errors import CompilerError
from compiler.linker.linker import LinkedGrammar
from compiler.matcher import Matcher
from compiler.syntax import Syntax
from compiler.toolset_compiler import compile_toolset
from compiler.units.compiled_grammar import GuardedMatcher
from compiler.vocabulary import Vocabulary
from runtime.study.drawn import Drawn
from runtime.study.judging import closed
from runtime.study.questions import Question
from runtime.study.subject import StudiedModel
from runtime.study.unmasked import Unmasked
from toolspecs.tool import Tool


class NoGrammar(Exception):
    """There is no grammar for the tools of a question; the message says why."""


class OutputGrammar(Protocol):
    """What one question's outputs are held to."""

    def start(self, *, is_thinking: bool) -> tuple[Matcher, Closer | None]:
        """For one output; `is_thinking`: its prompt has begun a thought."""


STDERR = 2
MakeGrammar = Callable[[StudiedModel, Question], OutputGrammar]
"""Raises NoGrammar."""


@dataclass(frozen=True, slots=True)
class _Free:
    subject: StudiedModel

    def start(self, *, is_thinking: bool) -> tuple[Matcher, Closer | None]:  # noqa: ARG002 - the common method
        return Unmasked(self.subject.vocabulary.stop_ids), None


@dataclass(frozen=True, slots=True)
class _Linked:
    grammar: LinkedGrammar
    is_closed: bool
    is_drawn: bool = False

    def start(self, *, is_thinking: bool) -> tuple[Matcher, Closer | None]:
        closer = self.grammar.closer(is_thinking=is_thinking) if self.is_closed else None
        matcher = self.grammar.matcher(is_thinking=is_thinking)
        return Drawn(matcher) if self.is_drawn else matcher, closer


@dataclass(frozen=True, slots=True)
class _Converted:
    compiled: xgr.CompiledGrammar
    vocabulary: Vocabulary

    def start(self, *, is_thinking: bool) -> tuple[Matcher, Closer | None]:  # noqa: ARG002 - the common method
        return GuardedMatcher(self.compiled, None, self.vocabulary), None


def free(subject: StudiedModel, question: Question) -> OutputGrammar:  # noqa: ARG001 - the common signature
    """Nothing is masked."""
    return _Free(subject)


def inserted(subject: StudiedModel, question: Question) -> OutputGrammar:
    """Tool names, keys and punctuation are written for the model; it fills in values of their JSON type.

    As jsonformer does: every declared property in order, optional ones too; nothing else of a schema counts.
    Values are bounded, as there: see `skeleton`.
    """
    tools = [replace(tool, parameters=skeleton(dict(tool.parameters))) for tool in question.tools]
    return _linked(subject, tools, subject.syntax, is_closed=False)


def converted(subject: StudiedModel, question: Question) -> OutputGrammar:
    """The conversion of JSON Schemas that comes with xgrammar, in a structural tag as servers build it.

    Objects are closed for it, since that is how calls are judged. What it says on stderr of keywords that it
    does not know is left out: the table of faults has it.
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
            return _Converted(subject.xgrammar.compile_structural_tag(tag), subject.vocabulary)
    except (RuntimeError, ValueError) as error:
        raise NoGrammar(str(error).strip()) from error


def ours(subject: StudiedModel, question: Question) -> OutputGrammar:
    """Callgate's grammar, and what closes an output in time."""
    return _linked(subject, question.tools, subject.syntax)


def ours_drawn(subject: StudiedModel, question: Question) -> OutputGrammar:
    """Callgate's grammar, every token drawn, also where there is no choice of text."""
    return _linked(subject, question.tools, subject.syntax, is_drawn=True)


def ours_compact(subject: StudiedModel, question: Question) -> OutputGrammar:
    """Callgate's grammar without blanks behind separators."""
    name = f"{subject.syntax.name}, compact"
    compact = replace(subject.syntax, name=name, item_separator=",", key_separator=":")
    return _linked(subject, question.tools, compact)


def ours_behind_thought(subject: StudiedModel, question: Question) -> OutputGrammar:
    """Callgate's grammar, with free thinking before the call."""
    assert subject.thinking_syntax is not None, "a model that thinks"
    return _linked(subject, question.tools, subject.thinking_syntax)


MAX_CHARACTERS = 40
"""jsonformer's `max_string_token_length` is 10; a token of English text has about four characters."""
MAX_ITEMS = 10
"""jsonformer's `max_array_length`; there and here, an array has at least one element."""


def skeleton(schema: Any) -> Any:
    """What is left of a schema when every property is there and only JSON types count.

    Strings and arrays are bounded; Callgate's spelling bounds numbers.
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
    """Without what native code writes to stderr."""
    kept = os.dup(STDERR)
    try:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), STDERR)
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)


def _linked(
    subject: StudiedModel,
    tools: tuple[Tool, ...] | list[Tool],
    syntax: Syntax,
    *,
    is_closed: bool = True,
    is_drawn: bool = False,
) -> OutputGrammar:
    try:
        grammar = compile_toolset(tools, tokenizer=subject.vocabulary, syntax=syntax, parallel=False)
    except CompilerError as error:
        raise NoGrammar(str(error)) from error
    return _Linked(grammar, is_closed, is_drawn)
