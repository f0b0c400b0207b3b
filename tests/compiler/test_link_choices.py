"""What a linked grammar lets a model do, per tool choice."""

import json

import pytest
from corpus import corpus
from monolith import SAMPLES, TOOLS, sample_arguments, toolbox
from transformers import AutoTokenizer
from walks import allowed_ids

from compiler.errors import UnsupportedGrammar, UnsupportedToolset
from compiler.linker import LazyUnits, link
from compiler.matcher import allocate_bitmask
from compiler.syntaxes import SYNTAXES
from compiler.syntaxes import syntax as find_syntax
from compiler.unit import compile_unit
from compiler.vocabulary import Vocabulary
from toolspecs.choice import ChoiceMode, ToolChoice

HERMES = SYNTAXES["hermes"]
BYTES = Vocabulary.of_bytes()
STOP = 256
MARKED = Vocabulary.from_tokens(
    [*(bytes([b]) for b in range(256)), b"", b"?", b"?", b"?", b" <tool", b"<tool_call>x", b"_call>"],
    markers={"<tool_call>": 257, "</tool_call>": 258, "<think>": 259},
    stop_ids=[STOP],
)
REQUIRED = ToolChoice(ChoiceMode.REQUIRED)
AUTO = ToolChoice(ChoiceMode.AUTO)
NONE = ToolChoice(ChoiceMode.NONE)


def linked(choice, *, vocabulary=BYTES, syntax=HERMES, parallel=True, names=("pay", "pay_all", "p")):
    tools = toolbox(len(TOOLS), syntax, vocabulary)
    units = {name: compile_unit(tools[name], syntax, vocabulary) for name in names}
    return link(units, syntax, vocabulary, choice, parallel=parallel)


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
def test_choices(choice, parallel, text, expected):
    assert accepts(linked(choice, parallel=parallel), ids(text)) is expected
    marked = linked(choice, vocabulary=MARKED, parallel=parallel)
    assert accepts(marked, ids(text, MARKED)) is expected


@pytest.mark.parametrize("choice", [AUTO, NONE])
@pytest.mark.parametrize("spelling", [[*b"<tool_call>"], [*b"a", 260, 262], [261], [*b"<tool_cal", *b"l>"]])
def test_a_marker_trigger_is_never_spelled_out_in_text(choice, spelling):
    grammar = linked(choice, vocabulary=MARKED)
    assert accepts(grammar, spelling[:-1])
    assert not accepts(grammar, spelling)


@pytest.mark.parametrize("choice", [AUTO, NONE, REQUIRED])
def test_other_markers_stand_nowhere_in_text_or_strings(choice):
    grammar = linked(choice, vocabulary=MARKED)
    prefix = ids(HERMES.header("pay") + '{"to": "x', MARKED) if choice is not NONE else []
    matcher = grammar.matcher()
    assert all(map(matcher.accept, prefix))
    assert [i for i in (257, 258, 259) if matcher.accept(i)] == []


def test_text_may_hold_bytes_that_are_no_utf8():
    assert accepts(linked(AUTO), [0xFF, 0xC3, 0x80, 0x20])


@pytest.mark.parametrize("row", SYNTAXES.values(), ids=lambda row: row.name)
def test_every_syntax_writes_and_ends_calls(row):
    for choice in (REQUIRED, AUTO):
        grammar = linked(choice, syntax=row)
        several = accepts(grammar, ids(written("pay", "pay_all", syntax=row)))
        assert several == (row.separator is not None)
        assert accepts(grammar, ids(written("pay_all", syntax=row)))
        assert not accepts(grammar, ids(written("pay", syntax=row) + (row.separator or "") + "x"))


HARMONY = SYNTAXES["harmony"]
FRAMED = Vocabulary.from_tokens(
    [*(bytes([b]) for b in range(256)), *[b"?"] * 8],
    markers={
        text: 257 + at
        for at, text in enumerate(
            ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>")
        )
    },
    stop_ids=[STOP, 262],
)
"""With the marker tokens of gpt-oss, of which `<|call|>` ends an output."""
THOUGHT = "<|channel|>analysis<|message|>Pay < who?<|end|><|start|>assistant"
PREAMBLE = "<|channel|>commentary<|message|>I pay.<|end|><|start|>assistant"
ANSWER = "<|channel|>final<|message|>Done."


@pytest.mark.parametrize("vocabulary", [BYTES, FRAMED], ids=["plain", "markers"])
@pytest.mark.parametrize(
    ("text", "where_required", "where_free"),
    [
        (written("pay", syntax=HARMONY), True, True),
        (THOUGHT + written("pay", syntax=HARMONY), True, True),
        (THOUGHT + PREAMBLE + THOUGHT + written("pay_all", syntax=HARMONY), True, True),
        (" to=functions.pay<|channel|>commentary json<|message|>" + SAMPLES["pay"] + "<|call|>", True, True),
        (ANSWER, False, True),
        (THOUGHT + ANSWER, False, True),
        (THOUGHT, False, False),
        ("<|channel|>analysis<|message|>Pay", False, False),
        (ANSWER + "<|end|><|start|>assistant" + written("pay", syntax=HARMONY), False, False),
        ("Hello", False, False),
        (written("pay", syntax=HARMONY) + THOUGHT, False, False),
    ],
)
def test_framed_prose_comes_before_a_call(text, where_required, where_free, vocabulary):
    def is_accepted(choice):
        grammar = linked(choice, syntax=HARMONY, vocabulary=vocabulary)
        return accepts(grammar, ids(text, vocabulary))

    assert is_accepted(REQUIRED) is where_required
    assert is_accepted(AUTO) is where_free
    assert is_accepted(NONE) is (where_free and "functions" not in text)


def test_no_marker_stands_in_a_message_but_its_end():
    matcher = linked(REQUIRED, syntax=HARMONY, vocabulary=FRAMED).matcher()
    assert all(map(matcher.accept, ids("<|channel|>analysis<|message|>Pay", FRAMED)))
    assert [i for i in range(256, 264) if matcher.accept(i)] == [258]


THINKING = Vocabulary.from_tokens(
    [*(bytes([b]) for b in range(256)), b"", b"?", b"?"],
    markers={"<think>": 257, "</think>": 258},
    stop_ids=[STOP],
)


@pytest.mark.parametrize(
    ("text", "where_required", "where_free"),
    [
        ("<think>So <b>\n</think>" + written("pay"), True, True),
        (written("pay"), True, True),
        ("<think></think>", False, True),
        ("<think></think>Hello", False, True),
        ("<think>So", False, False),
        ("", False, True),
        ("\n\n<think>\n</think>Hello", False, True),
        ("Hello<think></think>", False, False),
        ("<think></think><think></think>", False, False),
        ("<think><think></think>", False, False),
        ("</think>", False, False),
    ],
)
def test_a_thought_comes_before_all_else(text, where_required, where_free):
    row = find_syntax("hermes+think")
    for choice, expected in ((REQUIRED, where_required), (AUTO, where_free)):
        grammar = linked(choice, syntax=row, vocabulary=THINKING)
        assert accepts(grammar, ids(text, THINKING)) is expected
        if text.startswith("<think>"):
            inside = grammar.matcher(is_thinking=True)
            rest = ids(text.removeprefix("<think>"), THINKING)
            assert all(map(inside.accept, [*rest, STOP])) is expected


def test_a_thought_needs_markers():
    grammar = linked(REQUIRED, syntax=find_syntax("hermes+think"))
    assert accepts(grammar, ids(written("pay")))
    assert not accepts(grammar, ids("<think></think>" + written("pay")))


@pytest.mark.parametrize("name", ["a b", "x>\ny", "<x>", "tab\t"])
def test_a_name_that_a_reader_would_not_get_back_is_refused(name):
    row = SYNTAXES["qwen3_coder"]
    unit = compile_unit(toolbox(1, row, BYTES)["pay"], row, BYTES)
    with pytest.raises(UnsupportedToolset, match="cannot stand in a call"):
        link({name: unit}, row, BYTES, REQUIRED)


def test_a_stop_token_ends_everything_and_is_taken_back():
    matcher = linked(REQUIRED).matcher()
    assert not matcher.accept(STOP)
    assert all(map(matcher.accept, ids(written("p"))))
    assert matcher.is_completed()
    assert not matcher.is_terminated()
    assert matcher.accept(STOP)
    assert matcher.is_terminated()
    assert not matcher.accept(10)
    assert not matcher.accept(STOP)
    matcher.rollback(1)
    assert not matcher.is_terminated()
    assert all(map(matcher.accept, ids(HERMES.separator + written("pay"))))


def test_rollback_crosses_units_and_stops_at_the_start():
    grammar = linked(REQUIRED)
    text = ids(written("pay", "p", "pay_all"))
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
    assert accepts(linked(AUTO, names=()), ids("Hello"))


def test_a_marker_inside_the_trigger_is_refused():
    tokens = [*(bytes([b]) for b in range(256)), b"", b"?"]
    vocabulary = Vocabulary.from_tokens(tokens, markers={"name": 257}, stop_ids=[STOP])
    with pytest.raises(UnsupportedGrammar, match="stands inside"):
        linked(AUTO, vocabulary=vocabulary, syntax=SYNTAXES["json"])


def test_units_are_loaded_when_a_sequence_comes_to_them():
    loaded = []

    def load(name):
        loaded.append(name)
        return compile_unit(TOOLS[name], HERMES, BYTES)

    names = ("pay", "pay_all", "p")
    digests = dict.fromkeys(names, "0" * 64)
    grammar = link(LazyUnits(names, load), HERMES, BYTES, REQUIRED, digests=digests)
    assert len(grammar.digest) == 64
    matcher = grammar.matcher()
    mask = allocate_bitmask(1, BYTES.width)
    for token_id in ids(HERMES.header("pay_all")):
        assert loaded == []
        matcher.fill_bitmask(mask, 0)
        assert matcher.accept(token_id)
    assert loaded == ["pay_all"]


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
    assert not grammar.parallel
    assert json.loads(grammar.units["pay"].source)["root"] == grammar.units["pay"].grammar.root


def test_a_mask_after_the_end_still_allows_stopping():
    matcher = linked(AUTO).matcher()
    assert matcher.accept(STOP)
    assert allowed_ids(matcher, BYTES).tolist() == [STOP]


def test_a_tokenizer_with_the_markers_of_harmony():
    """What `from_tokenizer` makes of gpt-oss's kind: the token that ends a call is among the stop tokens."""
    tokenizer = AutoTokenizer.from_pretrained(corpus("tokenizers", "qwen3"))
    markers = [
        "<|start|>",
        "<|end|>",
        "<|message|>",
        "<|channel|>",
        "<|constrain|>",
        "<|call|>",
        "<|return|>",
    ]
    tokenizer.add_special_tokens({"additional_special_tokens": markers})
    stops = [tokenizer.convert_tokens_to_ids(text) for text in ("<|return|>", "<|call|>")]
    vocabulary = Vocabulary.from_tokenizer(tokenizer, stop_ids=stops)
    assert vocabulary.spell("<|call|>") == ""
    assert Vocabulary.from_bytes(vocabulary.to_bytes()).digest == vocabulary.digest
    grammar = linked(REQUIRED, syntax=HARMONY, vocabulary=vocabulary, names=("pay",))
    matcher = grammar.matcher()
    whole = THOUGHT + written("pay", syntax=HARMONY)
    for token_id in tokenizer.encode(whole, add_special_tokens=False):
        assert not matcher.is_terminated()
        assert matcher.accept(token_id), tokenizer.decode([token_id])
    assert matcher.is_terminated()
