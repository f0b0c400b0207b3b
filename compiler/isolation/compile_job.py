"""Compile jobs: what a compile worker is asked to do and what it answers, as bytes between processes.

An answer is one byte for its kind, then a result or a refusal. No part of it is ever unpickled: a process
that has compiled a hostile schema is no longer trusted.
"""

import hashlib
import json
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, Protocol

import msgspec

from compiler.argument_faults import ArgumentFault, argument_faults
from compiler.cache_entry import CacheEntry
from compiler.errors import LimitReached, UnsupportedGrammar, UnsupportedSchema
from compiler.frontend.canonical_form import NO_DOCUMENTS
from compiler.frontend.containment import covers
from compiler.frontend.depth import too_deep
from compiler.frontend.keywords import short_pointer
from compiler.isolation.limits import CompileLimits
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.response_format import KINDS, SCHEMA, ResponseFormat
from compiler.syntaxes import find_syntax
from compiler.vocabulary import Vocabulary
from toolspecs.nearest import shorten
from toolspecs.resolved_types import resolved
from toolspecs.tool import CustomInput, KeyOrder, Tool

LOWERING_VERSION = 42
"""Raise it whenever the same schema lowers to another grammar: stored entries then become misses."""

MAX_REASON = 1_000
"""Characters of each text of a refusal."""

MAX_TRACEBACK = 10_000
"""Characters of a traceback."""

_RESULT, _REFUSAL, _LIMIT, _FAULT = b"+", b"-", b"!", b"?"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CompileJob:
    """The name of a task and its arguments, JSON values; equal jobs have equal results."""

    task: str
    arguments: tuple[Any, ...]

    @classmethod
    def tool(cls, tool: Tool, syntax: str, key_order: KeyOrder | None = None) -> "CompileJob":
        """Compile a tool's parameters in a call syntax; the result is a `CacheEntry` with a `Unit`.

        Without a `key_order`, the tool says its own; a custom tool has one key and so one order. The key of
        the job covers the documents that the tool refers to.
        """
        key_order = key_order or tool.key_order
        if tool.custom:
            return cls("tool", (tool.parameters, syntax, tool.documents, _custom_arguments(tool)))
        if key_order != "declared":
            return cls("tool", (tool.parameters, syntax, tool.documents, None, key_order))
        return cls("tool", (tool.parameters, syntax, *([tool.documents] if tool.documents else ())))

    @classmethod
    def format(cls, response_format: ResponseFormat, key_order: KeyOrder | None = None) -> "CompileJob":
        """Compile a response format; the result is a `CacheEntry` with a `CompiledFormat`.

        Only schemas have keys, so `key_order` is left out of the jobs of other formats.
        """
        has_order = response_format.kind == SCHEMA and key_order not in {None, "declared"}
        return cls(response_format.kind, (response_format.content, *([key_order] if has_order else ())))

    @classmethod
    def covers(cls, outer: Tool, inner: Tool) -> "CompileJob":
        """Whether `outer` admits all arguments of `inner`; the result is `1` if that is proved, else `0`."""
        return cls("covers", (outer.parameters, outer.documents, inner.parameters, inner.documents))

    @classmethod
    def judge(cls, tool: Tool, arguments: Any) -> "CompileJob":
        """What is wrong with the arguments of a call; `read_faults` reads the result."""
        return cls("judge", (tool.parameters, tool.documents, _custom_arguments(tool), arguments))

    @classmethod
    def from_bytes(cls, data: bytes) -> "CompileJob":
        """Read what `to_bytes` wrote."""
        task, *arguments = json.loads(data)
        return cls(task, tuple(arguments))

    def to_bytes(self) -> bytes:
        """A JSON array."""
        return self._content.encode()

    def check_length(self, most: int) -> None:
        """Refuse a job of more than `most` bytes of JSON.

        This takes a tenth of the time that `key` takes to write the job, and holds up other threads as that
        does. What it cannot write, `key` judges.

        Raises:
            UnsupportedSchema: it is too long.
        """
        num_bytes = 0
        with suppress(OverflowError, RecursionError, TypeError, ValueError):
            num_bytes = len(msgspec.json.encode(self.arguments))
        if num_bytes > most:
            reason = f"it has {num_bytes} bytes; at most {most} are compiled"
            raise UnsupportedSchema("", "", reason, "Shorten it.")

    @cached_property
    def _content(self) -> str:
        try:
            return json.dumps([self.task, *self.arguments])
        except RecursionError:
            raise too_deep() from None

    def key(self, vocabulary: Vocabulary) -> str:
        """The key of the result: a hash of the job, the version of the rules and the vocabulary.

        Raises:
            UnsupportedSchema: the schema is nested too deeply to be written as JSON.
        """
        rules = _rules(self.arguments[1] if self.task == "tool" else None)
        content = f"{rules}\n{vocabulary.digest}\n{self._content}"
        return hashlib.sha256(content.encode()).hexdigest()

    def keyed(self, vocabulary: Vocabulary) -> "KeyedJob | UnsupportedSchema":
        """The job with its key, or the refusal of a schema that has none."""
        try:
            return KeyedJob(self.key(vocabulary), self)
        except UnsupportedSchema as refusal:
            return refusal

    def check(self, limits: CompileLimits) -> None:
        """Check the size before the job goes to a worker; raises UnsupportedSchema."""
        limits.check_schema(self.arguments, len(self._content))

    def answer(self, prepared: PreparedVocabulary, limits: CompileLimits) -> bytes:
        """Do the job. It does not raise: every error becomes a refusal."""
        try:
            return _RESULT + _TASKS[self.task](prepared, limits, *self.arguments)
        except UnsupportedSchema as refusal:
            return _REFUSAL + _encode_refusal(refusal)
        except UnsupportedGrammar as error:
            return _REFUSAL + _encode_refusal(UnsupportedSchema("", "", str(error)))
        except MemoryError:
            return _LIMIT + _encode_refusal(_out_of_memory(limits))
        except RecursionError:
            return _REFUSAL + _encode_refusal(too_deep())
        except Exception as error:  # noqa: BLE001 - a fault of the compiler refuses one schema and stops nothing else
            reason = f"{type(error).__name__}: {str(error)[:200]}"
            return _FAULT + json.dumps([reason, _traceback_of(error)]).encode()


class KeyedJob(NamedTuple):
    """A job, and the key of its result."""

    key: str
    job: CompileJob


class CompilerFault(Exception):
    """A fault of the compiler as it is logged, never raised: its text is the traceback of the worker."""


def read_answer(answer: bytes) -> bytes:
    """The result in an answer. A fault of the compiler is logged here, because workers have no log.

    Raises:
        UnsupportedSchema: the answer is a refusal; `LimitReached` if the schema reached a limit.
    """
    kind, content = answer[:1], answer[1:]
    if kind == _RESULT:
        return content
    if kind == _FAULT:
        reason, trace = json.loads(content)
        _log.error("a schema made the compiler fail", exc_info=CompilerFault(trace[-MAX_TRACEBACK:]))
        raise UnsupportedSchema("", "", f"the compiler failed on it ({reason})", "Simplify the schema.")
    raise (LimitReached if kind == _LIMIT else UnsupportedSchema)(*json.loads(content))


def read_faults(result: bytes) -> tuple[ArgumentFault, ...]:
    """The result of a job that judged arguments."""
    return msgspec.json.decode(result, type=resolved(tuple[ArgumentFault, ...]))


class CompilePool(Protocol):
    """Does compile jobs, in worker processes or in threads of this process."""

    limits: CompileLimits
    num_workers: int

    async def run(
        self, job: CompileJob, prepared: PreparedVocabulary, *, is_long: bool = True, client_id: str = ""
    ) -> bytes:
        """The result of a job of a client.

        Raises:
            UnsupportedSchema: the schema is refused.
            TakesLonger: the job is not `is_long`, and takes longer than a first try may.
            WorkersUnavailable: no worker starts.
        """

    def launch(self) -> None:
        """Start what takes seconds and needs no vocabulary; does not wait."""

    def learn(self, prepared: PreparedVocabulary) -> None:
        """Start to prepare for a vocabulary in other processes, while a model is loaded; before `start`."""

    async def start(self, prepared: PreparedVocabulary) -> None:
        """Prepare for a vocabulary, so that the first job takes no longer than the next."""

    async def close(self) -> None:
        """Stop."""


def _custom_arguments(tool: Tool) -> list[str] | None:
    """The syntax and definition of a custom tool's input; None for other tools."""
    return [tool.custom.syntax, tool.custom.definition] if tool.custom else None


@lru_cache
def _rules(syntax: str | None) -> str:
    """The rules that a result depends on, on one line: the version of the lowering and a row of syntaxes."""
    return json.dumps([LOWERING_VERSION, repr(find_syntax(syntax)) if syntax else None])


def _out_of_memory(limits: CompileLimits) -> LimitReached:
    """The refusal of a schema that takes too much memory to compile."""
    reason = f"compiling it takes more than {limits.memory_bytes / 2**20:.0f} MiB of memory"
    return LimitReached("", "", reason, "Combine fewer alternatives, or lower counts and bounds.")


def _traceback_of(error: Exception) -> str:
    """The traceback of an error, each line shortened: a message may repeat the schema."""
    lines = (shorten(line, MAX_REASON) for line in traceback.format_exception(error))
    return "".join(lines).rstrip()


def _encode_refusal(refusal: UnsupportedSchema) -> bytes:
    """A refusal, shortened: a schema may have keys and patterns of a megabyte, which an answer repeats."""
    texts = (refusal.keyword, refusal.reason, refusal.suggestion)
    return json.dumps(
        [short_pointer(refusal.pointer), *(shorten(text, MAX_REASON) for text in texts)]
    ).encode()


def _tool(  # noqa: PLR0917 - the arguments of a job, in their order
    prepared: PreparedVocabulary,
    limits: CompileLimits,
    parameters: Any,
    syntax: str,
    documents: Mapping[str, Any] = NO_DOCUMENTS,
    custom: Sequence[Any] | None = None,
    key_order: KeyOrder = "declared",
) -> bytes:
    """Compile a tool; `custom` are its `_custom_arguments`."""
    defined = CustomInput(*custom) if custom else None
    tool = Tool("", "", parameters, documents=documents, custom=defined, key_order=key_order)
    return _stored(CacheEntry.of_tool(tool, find_syntax(syntax), prepared), limits)


def _format(
    kind: str,
    prepared: PreparedVocabulary,
    limits: CompileLimits,
    content: Any,
    key_order: KeyOrder = "declared",
) -> bytes:
    return _stored(CacheEntry.of_format(ResponseFormat(kind, content), prepared, key_order), limits)


def _stored(entry: CacheEntry, limits: CompileLimits) -> bytes:
    content = entry.to_bytes()
    limits.check_result(len(content), entry.num_bytes)
    return content


def _covers(_prepared: PreparedVocabulary, _limits: CompileLimits, *schemas: Any) -> bytes:
    outer, outer_documents, inner, inner_documents = schemas
    return b"1" if covers((outer, outer_documents), (inner, inner_documents)) else b"0"


def _judge(
    _prepared: PreparedVocabulary,
    _limits: CompileLimits,
    parameters: Any,
    documents: Mapping[str, Any],
    custom: Sequence[Any] | None,
    arguments: Any,
) -> bytes:
    tool = Tool("", "", parameters, documents=documents, custom=CustomInput(*custom) if custom else None)
    return msgspec.json.encode(argument_faults(tool, arguments))


_TASKS: Mapping[str, Callable[..., bytes]] = {
    "tool": _tool,
    "covers": _covers,
    "judge": _judge,
    **{kind: partial(_format, kind) for kind in KINDS},
}
