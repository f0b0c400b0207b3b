"""JSON Schemas and toolsets in, token masks out.

>>> compiled = compile_schema({"properties": {"a": {"type": "integer"}}, "required": ["a"]})
>>> compiled.accepts('{"a": 1}'), compiled.accepts('{"a": "1"}')
(True, False)

A compiler in three parts. To read it in order, begin with the docstring of each package:

1. The front end (`compiler.frontend`) brings a schema into canonical form, or refuses it.
2. The back end (`compiler.lowering`, `compiler.scalars`) makes grammar rules of the canonical form, and
   xgrammar compiles the rules for a vocabulary (`compiler.units`). A guard enforces what no rules can
   (`compiler.guard`).
3. The linker (`compiler.linker`) joins the units of a toolset without compiling anything.

`compiler.schema` and `compiler.toolset_compiler` run these parts one after the other. `compiler.cache` and
`compiler.isolation` do it for a gateway, which is sent schemas by strangers.
"""

from compiler.cache.grammar_cache import GrammarCache, GrammarLookup
from compiler.compiled_format import CompiledFormat
from compiler.errors import (
    CompilerError,
    CorruptUnit,
    UnknownSyntax,
    UnsupportedGrammar,
    UnsupportedSchema,
    UnsupportedToolset,
)
from compiler.linker.linker import LinkedGrammar
from compiler.matcher import Matcher, allocate_bitmask
from compiler.prepared_vocabulary import PreparedVocabulary, prepare
from compiler.report import EnforcementReport, ReportEntry, ToolReport, Verdict
from compiler.response_format import ResponseFormat, compile_format
from compiler.schema import compile_schema
from compiler.toolset_compiler import compile_toolset
from compiler.vocabulary import Vocabulary

__all__ = [
    "CompiledFormat",
    "CompilerError",
    "CorruptUnit",
    "EnforcementReport",
    "GrammarCache",
    "GrammarLookup",
    "LinkedGrammar",
    "Matcher",
    "PreparedVocabulary",
    "ReportEntry",
    "ResponseFormat",
    "ToolReport",
    "UnknownSyntax",
    "UnsupportedGrammar",
    "UnsupportedSchema",
    "UnsupportedToolset",
    "Verdict",
    "Vocabulary",
    "allocate_bitmask",
    "compile_format",
    "compile_schema",
    "compile_toolset",
    "prepare",
]
