"""Response formats: what an answer that calls nothing may be."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from compiler.compiled_format import CompiledFormat
from compiler.frontend.depth import too_deep
from compiler.grammar.ebnf import ebnf_grammar
from compiler.grammar.grammar import Grammar
from compiler.lowering.json_text import FLEXIBLE, JsonFormatting
from compiler.prepared_vocabulary import VocabularySource, prepare
from compiler.report import EnforcementReport
from compiler.scalars.unquoted_strings import choice_grammar, pattern_grammar
from compiler.schema import compile_schema
from toolspecs.tool import KeyOrder


@dataclass(frozen=True)
class ResponseFormat:
    """A kind of format, and the JSON value that says which one of this kind.

    | `kind` | `content` |
    |---|---|
    | `schema` | a JSON Schema |
    | `pattern` | an ECMA-262 pattern, which the whole answer must match |
    | `choice` | a list of texts |
    | `grammar` | an EBNF grammar whose root rule is `root` |
    """

    kind: str
    content: Any

    def __post_init__(self) -> None:
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
    tokenizer: VocabularySource = None,
    key_order: KeyOrder = "declared",
    formatting: JsonFormatting = FLEXIBLE,
) -> CompiledFormat:
    """Compile a response format for a tokenizer's vocabulary, of bytes if none is given.

    Objects of a schema are closed, as those of tools are: an answer with its declared keys is complete, and a
    model that rambles cannot go on with keys that it makes up. `key_order` is that of declared keys,
    `formatting` how JSON is spelled.

        >>> compiled = compile_format(ResponseFormat("choice", ["yes", "no"]))
        >>> compiled.accepts("yes"), compiled.accepts("maybe")
        (True, False)

    Raises:
        UnsupportedSchema: the format cannot be read or enforced, or no text satisfies it; the pointer is one
            into the format's content.
        UnsupportedGrammar: xgrammar refuses the grammar.
    """
    if response_format.kind == SCHEMA:
        return compile_schema(
            response_format.content,
            tokenizer=tokenizer,
            objects="closed",
            key_order=key_order,
            formatting=formatting,
        )
    try:
        grammar = _LOWERINGS[response_format.kind](response_format.content)
    except RecursionError:
        raise too_deep() from None
    compiled = CompiledFormat(grammar, EnforcementReport(()), prepare(tokenizer))
    compiled.compile()
    return compiled
