"""The constraint: what a runtime asks of any compiled grammar."""

from collections.abc import Mapping
from typing import Protocol

from compiler.closing.closer import Closer
from compiler.matcher import Matcher
from compiler.syntax import Syntax

ParameterTypes = Mapping[str, tuple[str, ...]]
"""By key, the JSON types that a reader may take a tagged parameter for; string where the key is missing."""


class Constraint(Protocol):
    """What one output may be; immutable and shared.

    `LinkedGrammar`, `FramedFormat` and `CompiledFormat` are Callgate's own. Grammars of other engines are
    constraints too; they need not have closers, syntaxes or types.
    """

    @property
    def digest(self) -> str:
        """The name of the grammar in stores and traces."""

    @property
    def syntax(self) -> Syntax | None:
        """What tells thoughts and calls from the answer in an output; None if all of it is the answer."""

    @property
    def may_search(self) -> bool:
        """Whether a mask or a completion may take long to find: keys or items of a guard can run out."""

    def parameter_types(self, name: str) -> ParameterTypes:
        """What a reader may take the tagged parameters of a tool for; empty where arguments are JSON."""

    def matcher(self, *, is_thinking: bool = False) -> Matcher:
        """A fresh matcher at the start; `is_thinking`: the prompt has begun a thought."""

    def closer(self, *, is_thinking: bool = False) -> Closer | None:
        """A fresh budget closer at the start; None if the shortest completions are not known."""
