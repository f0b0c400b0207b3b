"""From tools to one linked grammar: `lower_tool` for one of them, `compile_toolset` for all."""

import json
from collections.abc import Sequence

from compiler.errors import UnsupportedSchema, UnsupportedToolset
from compiler.frontend.depth import too_deep
from compiler.grammar.grammar import EMPTY
from compiler.lark import lower_lark
from compiler.linker.linker import LinkedGrammar, link
from compiler.lowering.json_text import JsonFormatting
from compiler.lowering.tagged_arguments import parameter_tags
from compiler.prepared_vocabulary import VocabularySource, prepare
from compiler.regular.ecma import parse
from compiler.regular.pattern_tree import PatternError
from compiler.report import EnforcementReport
from compiler.scalars.strings import StringLowering
from compiler.scalars.unquoted_strings import raw_texts
from compiler.schema import MAX_GRAMMAR_CHARS, LoweredSchema, lower_schema
from compiler.syntax import Syntax
from compiler.syntaxes import find_syntax
from compiler.tagged_values import STRING
from compiler.units.unit import Unit, compile_unit
from compiler.vocabulary import Vocabulary
from toolspecs.tool import INPUT, ChoiceMode, Tool, ToolChoice

DEFINITION = "/definition"
"""The pointer of refusals of a custom tool's grammar, relative to the object that holds it."""


def lower_tool(tool: Tool, syntax: Syntax, vocabulary: Vocabulary) -> LoweredSchema:
    """Lower a tool's arguments: an object, closed where keys are declared.

    The tool says in which order its keys come. JSON is spelled with the separators that models of the syntax
    are trained on. The vocabulary tells which tags are marker tokens.

    Raises:
        UnsupportedSchema: a keyword cannot be enforced, or nothing satisfies the schema. For a custom tool,
            the error points at its definition.
    """
    try:
        if tool.custom and tool.custom.syntax == "lark":
            try:
                return lower_lark_input(tool.custom.definition, syntax, vocabulary)
            except RecursionError:
                raise too_deep() from None
        if tool.custom and tool.custom.syntax == "regex":
            _check_pattern(tool.custom.definition)
        return lower_schema(
            tool.parameters,
            documents=tool.documents,
            objects="closed",
            formatting=JsonFormatting.with_separators(syntax.item_separator, syntax.key_separator),
            only_objects=True,
            key_order=tool.key_order,
            tags=parameter_tags(syntax, vocabulary),
        )
    except UnsupportedSchema as error:
        if tool.custom:
            raise UnsupportedSchema(DEFINITION, "", error.reason, error.suggestion) from error
        raise


def _check_pattern(pattern: str) -> None:
    """Read the pattern alone: it must not close the group that `custom_tool` puts around it."""
    try:
        parse(pattern)
    except PatternError as error:
        raise UnsupportedSchema(DEFINITION, "", str(error), error.suggestion) from error


def lower_lark_input(definition: str, syntax: Syntax, vocabulary: Vocabulary) -> LoweredSchema:
    """Lower the arguments of a custom tool whose input is a text of a grammar for Lark.

    Raises:
        UnsupportedSchema: something in the grammar cannot be enforced.
    """
    if tags := parameter_tags(syntax, vocabulary):
        before, after = f"{tags.begin}{INPUT}{tags.after_string_key}", tags.end
        grammar = lower_lark(definition, before, after, raw_texts)
    else:
        before = f'{{{json.dumps(INPUT)}{syntax.key_separator}"'
        grammar = lower_lark(definition, before, '"}', lambda rules: StringLowering(rules, None, EMPTY))
    if len(grammar.ebnf) > MAX_GRAMMAR_CHARS:
        raise UnsupportedSchema(DEFINITION, "", "it expands into a grammar that is too large", "Simplify it.")
    return LoweredSchema(grammar, EnforcementReport(()), {INPUT: (STRING,)})


def compile_toolset(
    tools: Sequence[Tool],
    *,
    tokenizer: VocabularySource = None,
    syntax: str | Syntax = "hermes",
    tool_choice: str | ToolChoice = "required",
    parallel: bool = True,
) -> LinkedGrammar:
    r"""Compile every tool for a vocabulary, of bytes if none is given, and link them.

    `tool_choice` is a mode or a `ToolChoice`. `syntax` is a row of the table of syntaxes, or its name.

        >>> pay = Tool("pay", "Pay", {"properties": {"amount": {"type": "integer"}}, "required": ["amount"]})
        >>> grammar = compile_toolset([pay], syntax="hermes", tool_choice="required")
        >>> bytes(grammar.closer().completion_ids(100))  # the shortest output
        b'<tool_call>\n{"name": "pay", "arguments": {"amount": 0}}\n</tool_call>'

    Raises:
        UnsupportedToolset: the schemas of some tools cannot be enforced; the error names all of these tools.
    """
    prepared = prepare(tokenizer)
    family = syntax if isinstance(syntax, Syntax) else find_syntax(syntax)
    units: dict[str, Unit] = {}
    refusals: list[tuple[str, UnsupportedSchema]] = []
    for tool in tools:
        if tool.name in units:
            reason = "another tool has the same name"
            refusals.append((tool.name, UnsupportedSchema("", "name", reason, "Rename one of them.")))
            continue
        try:
            lowered = lower_tool(tool, family, prepared.vocabulary)
            units[tool.name] = compile_unit(lowered.grammar, family, prepared, lowered.types)
        except UnsupportedSchema as refusal:
            refusals.append((tool.name, refusal))
    if refusals:
        raise UnsupportedToolset(refusals)
    chosen = tool_choice if isinstance(tool_choice, ToolChoice) else ToolChoice(ChoiceMode(tool_choice))
    return link(units, family, prepared, chosen, is_parallel=parallel)
