"""Linked grammars of tools that tests call, and what is written under them."""

from monolith import TOOLS, sample_arguments, toolbox

from compiler.linker.linker import link
from compiler.matcher import allocate_bitmask
from compiler.prepared_vocabulary import prepare
from compiler.syntaxes import SYNTAXES
from compiler.units.unit import compile_unit
from compiler.vocabulary import Vocabulary
from toolspecs.tool import ChoiceMode, ToolChoice

HERMES = SYNTAXES["hermes"]
BYTES = Vocabulary.of_bytes()
STOP = 256
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
    calls = [syntax.header(name) + sample_arguments(name, syntax) + syntax.end for name in names]
    return syntax.opening + (syntax.separator or "").join(calls) + syntax.closing


def ids(text, vocabulary=BYTES):
    """Bytes as they are; a marker's spelling as the marker."""
    out, sentinels = [], {vocabulary.tokens[i]: i for i in vocabulary.marker_ids}
    data = vocabulary.spell(text).encode()
    while data:
        sentinel = next((s for s in sentinels if data.startswith(s)), None)
        out.append(sentinels[sentinel] if sentinel else data[0])
        data = data[len(sentinel) if sentinel else 1 :]
    return out


def accepts(grammar, token_ids):
    """Whether the ids and a stop are a whole output; every accepted id was in the mask."""
    matcher = grammar.matcher()
    mask = allocate_bitmask(1, grammar.vocabulary.width)
    for token_id in [*token_ids, STOP]:
        matcher.fill_bitmask(mask, 0)
        is_allowed = bool(mask[0, token_id >> 5] >> (token_id & 31) & 1)
        assert matcher.accept(token_id) == is_allowed
        if not is_allowed:
            return False
    assert matcher.is_terminated()
    return True


def accepts_arguments(grammar, arguments):
    """Whether these arguments, written as bytes, complete a call of the tool `f`."""
    syntax, matcher = grammar.syntax, grammar.matcher()
    text = syntax.opening + syntax.header("f") + arguments + syntax.end + syntax.closing
    return all(map(matcher.accept, text.encode())) and matcher.is_completed()
