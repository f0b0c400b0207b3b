"""Linked grammars of tools that tests call, and what is written under them."""

from monolith import TOOLS, sample_arguments, toolbox
from random_decoding import mask_of
from vocabularies import BYTES, STOP, with_tokens
from whole_outputs import admits, spell_calls

from compiler.linker.linker import link
from compiler.prepared_vocabulary import prepare
from compiler.syntaxes import SYNTAXES
from compiler.units.unit import compile_unit
from toolspecs.tool import ChoiceMode, ToolChoice

HERMES = SYNTAXES["hermes"]
MARKED = with_tokens(" <tool", "<tool_call>x", "_call>", markers=("<tool_call>", "</tool_call>", "<think>"))
REQUIRED = ToolChoice(ChoiceMode.REQUIRED)
AUTO = ToolChoice(ChoiceMode.AUTO)
NONE = ToolChoice(ChoiceMode.NONE)


def linked(
    choice, *, vocabulary=BYTES, syntax=HERMES, parallel=True, names=("pay", "pay_all", "p"), answer=None
):
    tools = toolbox(len(TOOLS), syntax, vocabulary)
    units = {name: compile_unit(tools[name], syntax, prepare(vocabulary)) for name in names}
    return link(units, syntax, prepare(vocabulary), choice, is_parallel=parallel, answer=answer)


def written(*names, syntax=HERMES):
    return spell_calls(syntax, *((name, sample_arguments(name, syntax)) for name in names))


def accepts(grammar, token_ids):
    """Whether the ids and a stop are a whole output; every accepted id was in the mask."""
    matcher = grammar.matcher()
    for token_id in [*token_ids, STOP]:
        is_allowed = mask_of(matcher, grammar.vocabulary)[token_id]
        assert matcher.accept(token_id) == is_allowed
        if not is_allowed:
            return False
    assert matcher.is_terminated()
    return True


def call_of(arguments, syntax):
    """An output that is one call of the tool `f`."""
    return spell_calls(syntax, ("f", arguments))


def accepts_arguments(grammar, arguments):
    """Whether these arguments complete a call of the tool `f`."""
    return admits(grammar, call_of(arguments, grammar.syntax))
