"""Inspection: on request, how each token came about, and what the mask removed.

An answer under the tool `paint` in the syntax `hermes`, with what is told of three of its tokens:

| token | cause | the model's candidates | mass removed | place |
|---|---|---|---|---|
| `<tool_call>` | forced | it was not asked | | the syntax around a call of `paint` |
| `red` | rescued | ~~`blue`~~ 0.6, `red` 0.3, … | 0.65 | the value at `/color` |
| `"` | free | `"` 0.9, ~~`dish`~~ 0.05, … | 0.08 | the value at `/color` |
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from toolspecs.json_pointer import child

NUM_CANDIDATES = 8
"""How many of the model's most probable tokens are reported at each step, besides the written one."""
MAX_INSPECTED = 16_384
"""The most inspected tokens of one request. Each takes up to 3 kB of JSON."""
MAX_POINTER = 1_000
"""The longest pointer, in characters; for a deeper place, the container around it is reported."""


class Cause(StrEnum):
    """How a token came about.

    `rescued`: the mask had removed the model's own first choice. `forced`: the grammar allowed nothing else,
    and the model was not asked or had the same first choice. `closed`: the budget closer wrote it. Every
    other token is `free`, also where the mask removed less probable ones.
    """

    FREE = "free"
    FORCED = "forced"
    RESCUED = "rescued"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the model's most probable tokens, with its probability before the mask."""

    token_id: int
    probability: float
    is_removed: bool


@dataclass(frozen=True, slots=True)
class Inspection:
    """How one token came about.

    `candidates` begin with the most probable token; the written one comes last if it is not among them. The
    mask removed the probability `mass_removed` in all. If the model was not asked, there are no candidates,
    and `mass_removed` is None.
    """

    cause: Cause
    candidates: tuple[Candidate, ...] = ()
    mass_removed: float | None = None


Part = Literal["text", "thought", "arguments", "syntax", "end"]
"""What a token is part of; `syntax` is what the call syntax writes around the others, `end` a stop token."""

Written = Literal["key", "value", "punctuation"]
"""What a token writes of JSON: of several, a value before a key, and both before punctuation."""


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """Where a token stands in an answer.

    `call` and `tool` are those of the call that it belongs to. In arguments, and in text that is JSON by the
    response format, `path` leads to the value that it writes, to the value under the key that it writes, or
    to the object or array whose punctuation it is.
    """

    part: Part
    call: int | None = None
    tool: str | None = None
    path: tuple[str | int, ...] | None = None
    writes: Written | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is a key that is not complete, so that its path is not known."""
        return self.writes == "key" and self.path is None

    @property
    def pointer(self) -> str | None:
        """The path as a JSON pointer into the arguments, or into the text that is JSON.

        >>> TokenPlace("arguments", 0, "f", ("a/b", 0)).pointer
        '/a~1b/0'
        """
        return None if self.path is None else child("", *self.path)
