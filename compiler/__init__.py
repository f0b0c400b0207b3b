"""JSON Schemas and toolsets in, token masks out.

A compiler in three parts: a front end (canonical form), a back end (lowering to a grammar, compiled by
xgrammar), and a linker that joins the units of a toolset without compiling anything.
"""

from compiler.cache.grammar_cache import GrammarCache, GrammarLookup
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
from compiler.schema import CompiledSchema, compile_schema
from compiler.toolset_compiler import compile_toolset
from compiler.vocabulary import Vocabulary

__all__ = [
    "CompiledSchema",
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
