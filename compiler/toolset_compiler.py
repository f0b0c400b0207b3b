"""`compile_toolset`: from the tools of a request to one linked grammar."""

from collections.abc import Sequence

from compiler.errors import UnsupportedSchema, UnsupportedToolset
from compiler.linker.linker import LinkedGrammar, link
from compiler.lowering.json_text import JsonFormatting
from compiler.lowering.tagged_arguments import parameter_tags
from compiler.prepared_vocabulary import VocabularySource, prepare
from compiler.regular.ecma import PatternError, parse
from compiler.schema import LoweredSchema, lower_schema
from compiler.syntax import Syntax
from compiler.syntaxes import find_syntax
from compiler.units.unit import Unit, compile_unit
from compiler.vocabulary import Vocabulary
from toolspecs.tool import ChoiceMode, CustomInput, Tool, ToolChoice

DEFINITION = "/format/definition"
"""Where a refusal says that the grammar of a custom tool is at fault."""


def lower_tool(tool: Tool, syntax: Syntax, vocabulary: Vocabulary) -> LoweredSchema:
    """Lower a tool's arguments: an object, closed where keys are declared.

    JSON is spelled with the separators that models of the syntax are trained on. The vocabulary tells which
    tags are marker tokens.

    Raises:
        UnsupportedSchema: a keyword cannot be upheld, or nothing satisfies the schema; of a custom tool, the
            pointer is that of its definition.
    """
    try:
        if tool.custom:
            check_definition(tool.custom)
        return lower_schema(
            tool.parameters,
            documents=tool.documents,
            objects="closed",
            formatting=JsonFormatting.with_separators(syntax.item_separator, syntax.key_separator),
            only_objects=True,
            tags=parameter_tags(syntax, vocabulary),
        )
    except UnsupportedSchema as error:
        if tool.custom:
            raise UnsupportedSchema(DEFINITION, "", error.reason, error.suggestion) from error
        raise


def check_definition(custom: CustomInput) -> None:
    """Check what no schema of the tool says; raises UnsupportedSchema."""
    match custom.syntax:
        case "regex":
            try:
                parse(
                    custom.definition
                )  # alone: it must not close the group that `custom_tool` puts around it
            except PatternError as error:
                raise UnsupportedSchema(DEFINITION, "", str(error), error.suggestion) from error
        case "lark":
            raise UnsupportedSchema(DEFINITION, "", "grammars in Lark are not read", "Use a regex.")


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
        UnsupportedToolset: the schemas of some tools cannot be upheld; the error names all of these tools.
    """
    prepared = prepare(tokenizer)
    family = syntax if isinstance(syntax, Syntax) else find_syntax(syntax)
    units: dict[str, Unit] = {}
    refusals: list[tuple[str, UnsupportedSchema]] = []
    for tool in tools:
        try:
            lowered = lower_tool(tool, family, prepared.vocabulary)
            units[tool.name] = compile_unit(lowered.grammar, family, prepared, lowered.types)
        except UnsupportedSchema as refusal:
            refusals.append((tool.name, refusal))
    if refusals:
        raise UnsupportedToolset(refusals)
    choice = tool_choice if isinstance(tool_choice, ToolChoice) else ToolChoice(ChoiceMode(tool_choice))
    return link(units, family, prepared, choice, parallel=parallel)
