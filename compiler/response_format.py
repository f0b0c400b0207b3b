"""Response formats: what a whole answer may be, other than a call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compiler.frontend.depth import too_deep
from compiler.grammar.ebnf import ebnf_grammar
from compiler.grammar.grammar import Grammar
from compiler.lowering.json_text import FLEXIBLE, JsonFormatting
from compiler.report import EnforcementReport
from compiler.scalars.unquoted_strings import choice_grammar, pattern_grammar
from compiler.schema import CompiledSchema, compile_schema
from compiler.vocabulary import Vocabulary, vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class ResponseFormat:
    """`kind` is `schema`, `pattern`, `choice` or `grammar`; `content` the JSON value that says which one.

    A JSON Schema; an ECMA-262 pattern, which the whole answer must match; a list of texts; an EBNF grammar
    whose root rule is `root`.
    """

    kind: str
    content: Any

    def __post_init__(self) -> None:
        """Know the kind."""
        assert self.kind == SCHEMA or self.kind in _LOWERINGS, f"no response format is called {self.kind!r}"


SCHEMA = "schema"
_LOWERINGS: Mapping[str, Callable[[Any], Grammar]] = {
    "pattern": pattern_grammar,
    "choice": choice_grammar,
    "grammar": ebnf_grammar,
}
KINDS = (SCHEMA, *_LOWERINGS)


def compile_format(
    response_format: ResponseFormat,
    *,
    tokenizer: "Vocabulary | PreTrainedTokenizerBase | None" = None,
    formatting: JsonFormatting = FLEXIBLE,
) -> CompiledSchema:
    """Compile a response format for a tokenizer's vocabulary; bytes without one.

    `formatting` is how JSON is spelled.

    Raises:
        UnsupportedSchema: it cannot be read or upheld, or no text is of it; the pointer is into the format.
        UnsupportedGrammar: the back end refuses its grammar.
    """
    if response_format.kind == SCHEMA:
        return compile_schema(response_format.content, tokenizer=tokenizer, formatting=formatting)
    try:
        grammar = _LOWERINGS[response_format.kind](response_format.content)
    except RecursionError:
        raise too_deep() from None
    compiled = CompiledSchema(grammar, EnforcementReport(()), vocabulary_of(tokenizer))
    assert compiled.compiled is not None
    return compiled
