"""Framing: what a model writes around an answer in a given format, as its syntax has it.

A model that thinks does so first, and is free there; a model that frames its messages puts the answer into
the last of them. Nothing but thoughts stands beside the answer.
"""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property

from compiler.linker.answer import Answer
from compiler.linker.dispatcher import Dispatcher
from compiler.linker.linked_matcher import LinkedMatcher
from compiler.linker.linker import answer_dispatcher, check_answer
from compiler.schema import CompiledSchema
from compiler.syntax import Syntax
from compiler.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class FramedAnswer:
    """Immutable and shared; `syntax` reads thought and answer out of an output."""

    compiled: CompiledSchema
    syntax: Syntax
    vocabulary: Vocabulary
    dispatcher: Dispatcher = field(repr=False)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over what the language depends on."""
        content = [self.syntax.name, self.vocabulary.digest, self.compiled.digest]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def matcher(self, *, is_thinking: bool = False) -> LinkedMatcher:
        """A fresh matcher at the start; `is_thinking`: the prompt has begun a thought."""
        return LinkedMatcher(self.dispatcher, is_thinking=is_thinking)


def framed(compiled: CompiledSchema, syntax: Syntax, vocabulary: Vocabulary) -> FramedAnswer | CompiledSchema:
    """The answer as models of a syntax write it; itself where they put nothing around it.

    Raises:
        UnsupportedSchema: an answer could not be told from a thought.
    """
    answer = Answer(compiled)
    dispatcher = answer_dispatcher(answer, syntax, vocabulary)
    if dispatcher.thought is None and not syntax.messages:
        return compiled
    check_answer(answer, syntax)
    return FramedAnswer(compiled, syntax.answering, vocabulary, dispatcher)
