"""What a linked grammar lets a model do, per tool choice."""

import json

import pytest
from linked import AUTO, HERMES, MARKED, NONE, REQUIRED, accepts, linked, written
from monolith import SAMPLES, TOOLS, toolbox
from random_decoding import allowed_ids
from vocabularies import BYTES, STOP, ids_of, with_tokens

from compiler.errors import UnsupportedGrammar, UnsupportedToolset
from compiler.linker.linker import link
from compiler.prepared_vocabulary import prepare
from compiler.syntaxes import SYNTAXES
from compiler.units.unit import Unit, compile_unit
from toolspecs.tool import ChoiceMode, ToolChoice


@pytest.mark.parametrize(
    ("choice", "parallel", "text", "expected"),
    [
        (REQUIRED, True, written("pay"), True),
        (REQUIRED, True, written("pay", "p", "pay_all"), True),
        (REQUIRED, True, "", False),
        (REQUIRED, True, "Hello", False),
        (REQUIRED, True, written("pay") + "\n", False),
        (REQUIRED, True, written("pay")[:-1], False),
        (REQUIRED, True, HERMES.header("pay") + SAMPLES["pay_all"] + HERMES.end, False),
        (REQUIRED, False, written("pay"), True),
        (REQUIRED, False, written("pay", "p"), False),
        (AUTO, True, "", True),
        (AUTO, True, "Hello <tool", True),
        (AUTO, True, "Hello " + written("pay"), True),
        (AUTO, True, "<tool<tool_" + written("pay", "pay"), True),
        (AUTO, True, "Hello <tool_call> you", False),
        (AUTO, True, written("pay") + " done", False),
        (AUTO, False, "Hello " + written("pay"), True),
        (AUTO, False, written("pay", "p"), False),
        (NONE, True, "Hello <tool_call", True),
        (NONE, True, "Hello <tool_call>", False),
        (NONE, True, written("pay"), False),
        (ToolChoice.named("pay"), True, written("pay"), True),
        (ToolChoice.named("pay"), True, written("pay_all"), False),
        (ToolChoice.named("pay"), True, written("pay", "p"), False),
        (ToolChoice(ChoiceMode.AUTO, ("p", "pay_all")), True, written("p", "pay_all"), True),
        (ToolChoice(ChoiceMode.AUTO, ("p", "pay_all")), True, written("pay"), False),
        (ToolChoice(ChoiceMode.AUTO, ()), True, written("pay"), False),
        (ToolChoice(ChoiceMode.AUTO, ()), True, "Hello", True),
    ],
)
def test_an_output_is_accepted_only_as_its_tool_choice_allows(choice, parallel, text, expected):
    assert accepts(linked(choice, parallel=parallel), ids_of(text)) is expected
    marked = linked(choice, vocabulary=MARKED, parallel=parallel)
    assert accepts(marked, ids_of(text, MARKED)) is expected


@pytest.mark.parametrize("choice", [AUTO, NONE])
@pytest.mark.parametrize("spelling", [[*b"<tool_call>"], [*b"a", 260, 262], [261], [*b"<tool_cal", *b"l>"]])
def test_a_marker_trigger_is_never_spelled_out_in_text(choice, spelling):
    grammar = linked(choice, vocabulary=MARKED)
    assert accepts(grammar, spelling[:-1])
    assert not accepts(grammar, spelling)


@pytest.mark.parametrize("choice", [AUTO, NONE, REQUIRED])
def test_other_markers_stand_nowhere_in_text_or_strings(choice):
    grammar = linked(choice, vocabulary=MARKED)
    prefix = ids_of(HERMES.header("pay") + '{"to": "x', MARKED) if choice is not NONE else []
    matcher = grammar.matcher()
    assert all(map(matcher.accept, prefix))
    assert [i for i in (257, 258, 259) if matcher.accept(i)] == []


def test_text_may_hold_bytes_that_are_no_utf8():
    assert accepts(linked(AUTO), [0xFF, 0xC3, 0x80, 0x20])


@pytest.mark.parametrize("row", SYNTAXES.values(), ids=lambda row: row.name)
def test_every_syntax_writes_and_ends_calls(row):
    for choice in (REQUIRED, AUTO):
        grammar = linked(choice, syntax=row)
        several = accepts(grammar, ids_of(written("pay", "pay_all", syntax=row)))
        assert several == (row.separator is not None)
        assert accepts(grammar, ids_of(written("pay_all", syntax=row)))
        assert not accepts(grammar, ids_of(written("pay", syntax=row) + (row.separator or "") + "x"))


@pytest.mark.parametrize("name", ["a b", "x>\ny", "<x>", "tab\t"])
def test_a_name_that_a_reader_would_not_get_back_is_refused(name):
    row = SYNTAXES["qwen3_coder"]
    unit = compile_unit(toolbox(1, row, BYTES)["pay"], row, prepare(BYTES))
    with pytest.raises(UnsupportedToolset, match="cannot be written in a call"):
        link({name: unit}, row, prepare(BYTES), REQUIRED)


def test_a_stop_token_ends_everything_and_is_taken_back():
    matcher = linked(REQUIRED).matcher()
    assert not matcher.accept(STOP)
    assert all(map(matcher.accept, ids_of(written("p"))))
    assert matcher.is_completed()
    assert not matcher.is_terminated()
    assert matcher.accept(STOP)
    assert matcher.is_terminated()
    assert not matcher.accept(10)
    assert not matcher.accept(STOP)
    matcher.rollback(1)
    assert not matcher.is_terminated()
    assert all(map(matcher.accept, ids_of(HERMES.separator + written("pay"))))


def test_rollback_crosses_units_and_stops_at_the_start():
    grammar = linked(REQUIRED)
    text = ids_of(written("pay", "p", "pay_all"))
    matcher = grammar.matcher()
    for round_trip in range(1, len(text), 7):
        assert all(map(matcher.accept, text[:round_trip]))
        matcher.rollback(round_trip)
    assert all(map(matcher.accept, text))
    with pytest.raises(ValueError, match="cannot take back"):
        matcher.rollback(len(text) + 1)
    matcher.rollback(len(text))
    assert all(map(matcher.accept, text))


def test_unknown_and_missing_tools_are_refused_by_name():
    with pytest.raises(UnsupportedToolset, match=r"'refund'.*no such tool"):
        linked(ToolChoice.named("refund"))
    with pytest.raises(UnsupportedToolset, match="no tool to call"):
        linked(REQUIRED, names=())
    assert accepts(linked(AUTO, names=()), ids_of("Hello"))


def test_a_marker_inside_the_trigger_is_refused():
    with pytest.raises(UnsupportedGrammar, match="has a marker token inside"):
        linked(AUTO, vocabulary=with_tokens(markers=("name",)), syntax=SYNTAXES["json"])


def test_stored_units_are_compiled_when_a_sequence_comes_to_them():
    names = ("pay", "pay_all", "p")
    stored = {name: compile_unit(TOOLS[name], HERMES, prepare(BYTES)).to_bytes() for name in names}
    units = {name: Unit.from_bytes(content, prepare(BYTES)) for name, content in stored.items()}

    def compiled():
        return [name for name, unit in units.items() if "compiled" in vars(unit)]

    matcher = link(units, HERMES, prepare(BYTES), REQUIRED).matcher()
    for token_id in ids_of(HERMES.header("pay_all")):
        assert compiled() == []
        assert token_id in allowed_ids(matcher, BYTES)
        assert matcher.accept(token_id)
    assert compiled() == ["pay_all"]


def test_the_digest_tells_languages_apart():
    digests = [
        linked(REQUIRED).digest,
        linked(AUTO).digest,
        linked(NONE).digest,
        linked(AUTO, parallel=False).digest,
        linked(AUTO, syntax=SYNTAXES["json"]).digest,
        linked(AUTO, names=("pay", "p")).digest,
        linked(ToolChoice.named("pay")).digest,
        linked(AUTO, vocabulary=MARKED).digest,
    ]
    assert len(set(digests)) == len(digests)
    assert linked(REQUIRED).digest == digests[0]
    assert linked(ToolChoice(ChoiceMode.REQUIRED, ("pay",))).digest == digests[6]


def test_what_a_closer_needs_is_there():
    grammar = linked(ToolChoice(ChoiceMode.AUTO, ("pay",)), parallel=False)
    assert grammar.names == ("pay",)
    assert set(grammar.units) == {"pay", "pay_all", "p"}
    assert grammar.syntax is HERMES
    assert not grammar.is_parallel
    assert json.loads(grammar.units["pay"].source)["root"] == grammar.units["pay"].grammar.root


def test_a_mask_after_the_end_still_allows_stopping():
    matcher = linked(AUTO).matcher()
    assert matcher.accept(STOP)
    assert allowed_ids(matcher, BYTES).tolist() == [STOP]
