"""The answer: a text in a response's format that stands behind a thought, or in a frame."""

from dataclasses import dataclass

from compiler.schema import CompiledSchema
from compiler.units.single import SingleMatcher


@dataclass(frozen=True, eq=False)
class Answer:
    """Where it ends, the output does."""

    compiled: CompiledSchema

    def begin(self, text: bytes = b"") -> SingleMatcher | None:
        """A matcher that has read `text`; None if no answer begins so."""
        matcher = SingleMatcher(self.compiled.compiled, self.compiled.guard)
        return matcher if matcher.read(text) else None

    def fits(self, rest: bytes) -> bool:
        """Whether some answer begins with `rest`."""
        return self.begin(rest) is not None
