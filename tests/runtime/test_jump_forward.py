"""Jump-forward: the same output as sampled token by token, by a model that writes its tokenizer's own tokens."""

import json
import random
from functools import partial

import pytest
from dictation import Indifferent, dictate, engine_of, ids_of, spelled_vocabulary
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_decoding import allowed_ids
from sequences import finish, make_sequence
from soundness.corpora import sample
from tokenizers import Tokenizer, models
from whole_outputs import spell_calls
from xgrammar_faults import leaves_tokens_out

from compiler import compile_schema, compile_toolset
from compiler.prepared_vocabulary import prepare
from compiler.syntaxes import SYNTAXES
from compiler.vocabulary import Vocabulary
from runtime.events import FinishReason
from runtime.jump_forward import JumpForward
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

BYTES, SPELLS_BYTES = spelled_vocabulary("bytes")

TOOLS = [
    Tool("weather", "", {"properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}}, "required": ["city", "unit"]}),
    Tool("weather_by_id", "", {"properties": {"größe": {"type": "integer"}}, "required": ["größe"]}),
    Tool("now", "", {"properties": {}, "additionalProperties": False}),
]  # fmt: skip


@pytest.fixture(scope="module")
def qwen():
    return spelled_vocabulary("qwen3")


@pytest.fixture(scope="module")
def mistral():
    return spelled_vocabulary("mistral-v3")


@pytest.fixture
def make_jumping(make_engine):
    """An engine over the byte model that jumps."""
    return partial(make_engine, jump_forward=SPELLS_BYTES)


def calling(syntax="json", vocabulary=BYTES, mode="required", **options):
    return compile_toolset(TOOLS, tokenizer=vocabulary, syntax=syntax, tool_choice=mode, **options)


@pytest.mark.parametrize("syntax", sorted(SYNTAXES))
def test_every_token_allowed_is_along_the_forced_text(syntax, qwen):
    for vocabulary in (BYTES, qwen[0]):
        grammar, rng, num_forced = calling(syntax, vocabulary), random.Random(syntax), 0
        for _ in range(3):
            matcher = grammar.matcher()
            for _ in range(60):
                text = matcher.forced_text()
                ids = allowed_ids(matcher, vocabulary)
                if text:  # where nothing is forced, nearly all tokens of a vocabulary may be allowed
                    tokens = [vocabulary.tokens[i] for i in ids]
                    assert all(text.startswith(t) or t.startswith(text) for t in tokens)
                    assert not set(vocabulary.stop_ids) & set(ids.tolist())
                num_forced += len(text)
                token_id = int(rng.choice(ids))
                if token_id in vocabulary.stop_ids:
                    break
                assert matcher.accept(token_id)
                matcher.rollback(1)
                assert matcher.forced_text() == text
                assert matcher.accept(token_id)
        assert num_forced


@pytest.mark.parametrize(
    ("syntax", "options", "output", "text"),
    [
        ("json", {}, "", '[{"name": "'),
        ("json", {}, '[{"name": "n', 'ow", "arguments": {}}'),
        ("json", {}, '[{"name": "wea', "ther"),
        ("json", {}, '[{"name": "now", "arguments": {}}', ""),
        ("json", {"parallel": False}, '[{"name": "now", "arguments": {', "}}]"),
        ("json", {}, '[{"name": "weather_', 'by_id", "arguments": {"größe": '),
        ("hermes", {"mode": ToolChoice(ChoiceMode.REQUIRED, ("now",)), "parallel": False}, "", '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'),
        ("hermes", {"mode": "auto"}, "", ""),
        ("hermes", {"mode": "auto"}, "Well. <tool_call>", '\n{"name": "'),
    ],
)  # fmt: skip
def test_forced_text_is_what_every_continuation_begins_with(syntax, options, output, text):
    matcher = calling(syntax, **options).matcher()
    for byte in output.encode():
        assert matcher.accept(byte)
    assert matcher.forced_text() == text.encode()


def test_at_the_end_nothing_is_forced():
    matcher = compile_schema({"const": 1}, tokenizer=BYTES).matcher()
    assert matcher.forced_text() == b"1"
    assert matcher.accept(ord("1"))
    assert matcher.forced_text() == b""
    assert matcher.accept(BYTES.stop_ids[0])
    assert matcher.forced_text() == b""


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("options", [{}, {"max_batch_tokens": 16}, {"num_pages": 48}])
def test_bytes_are_the_same_with_any_model(make_engine, temperature, options):
    """A forced byte is the only one allowed, so drawing it changes nothing; nor does preemption."""

    def written(*, jumps):
        engine = make_engine(jump_forward=SPELLS_BYTES if jumps else None, **options)
        sequences = [
            make_sequence(
                "pq" * number,
                budget,
                temperature=temperature,
                seed=number,
                matcher=grammar.matcher(),
                closer=grammar.closer(),
            )
            for number, (grammar, budget) in enumerate(cases, 1)
        ]
        finish(engine, *sequences)
        assert any(s.counters.num_forced > 8 for s in sequences) or not jumps
        assert not options.get("num_pages") or engine.scheduler.num_preempted
        return [(s.output_ids, s.finish_reason, s.closed_by) for s in sequences]

    grammars = [calling(syntax) for syntax in ("json", "hermes", "qwen3_coder")]
    cases = [(g, g.closer().minimum() + extra) for g in grammars for extra in (0, 1, 7, 40)]
    assert written(jumps=True) == written(jumps=False)


def test_a_budget_is_never_overrun(make_jumping):
    grammar = calling("json", parallel=False)
    minimum = grammar.closer().minimum()
    for budget in range(minimum, minimum + 30):
        sequence = make_sequence(
            "x", budget, temperature=1.0, seed=budget, matcher=grammar.matcher(), closer=grammar.closer()
        )
        finish(make_jumping(), sequence)
        assert sequence.num_output <= budget
        assert json.loads(bytes(sequence.output_ids))


def test_what_is_forced_from_the_start_is_computed_with_the_prompt(make_jumping):
    engine = make_jumping()
    sequence = make_sequence("prompt", 100, matcher=calling().matcher())
    engine.add(sequence)
    assert bytes(sequence.output_ids) == b'[{"name": "'
    (output,) = engine.step()
    assert bytes(t.sampled.token_id for t in output.tokens) == b'[{"name": "'
    assert sequence.num_computed == 0
    engine.step()
    assert sequence.num_computed == len("prompt") + 11
    engine.stop(sequence)
    engine.check_integrity()
    assert engine.pool.num_free == engine.pool.num_usable


def test_an_output_without_a_choice_takes_no_step(make_jumping):
    engine = make_jumping()
    engine.runner.run = None
    sequence = make_sequence("x", 9, matcher=compile_schema({"const": 12}, tokenizer=BYTES).matcher())
    engine.add(sequence)
    (output,) = engine.step()
    assert bytes(t.sampled.token_id for t in output.tokens) == b"12"
    assert sequence.finish_reason is FinishReason.STOP
    assert not engine.has_work


def test_without_a_closer_the_budget_cuts_a_jump(make_jumping):
    sequence = make_sequence("x", 4, matcher=calling().matcher())
    finish(make_jumping(), sequence)
    assert bytes(sequence.output_ids) == b'[{"n'
    assert sequence.finish_reason is FinishReason.LENGTH


def test_a_forced_token_has_the_log_probability_of_the_certain(make_jumping):
    sequence = make_sequence("x", 60, matcher=calling().matcher(), closer=None, num_logprobs=2)
    outputs = finish(make_jumping(), sequence)
    tokens = [token.sampled for output in outputs for token in output.tokens]
    assert [(d.logprob, d.top) for d in tokens[:11]] == [(0.0, ((d.token_id, 0.0),)) for d in tokens[:11]]
    assert all(d.logprob is not None for d in tokens)


def test_choices_differ_and_share_their_prefix(make_jumping):
    engine = make_jumping()
    grammar = calling()
    choices = [
        make_sequence("p" * 30, 80, temperature=1.0, choice=i, matcher=grammar.matcher(), closer=grammar.closer())
        for i in range(3)
    ]  # fmt: skip
    finish(engine, *choices)
    assert [c.counters.num_cached for c in choices] == [0, 40, 40]  # 30 of the prompt, 11 forced
    assert [c.stats.num_cached_tokens for c in choices] == [0, 30, 30], "no more than there is of the prompt"
    assert len({tuple(c.output_ids) for c in choices}) > 1


@pytest.mark.parametrize("syntax", ["hermes", "json", "qwen3_coder", "mistral_v13"])
def test_a_dictated_call_is_written_token_for_token(syntax, qwen, mistral):
    outputs = {
        "hermes": '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich \\"HB\\"", "unit": "celsius"}}\n</tool_call>',
        "json": '[{"name": "weather_by_id", "arguments": {"größe": -12}}, {"name": "now", "arguments": {}}]',
        "qwen3_coder": "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=unit>\ncelsius\n</parameter>\n</function>\n</tool_call>",
        "mistral_v13": '[TOOL_CALLS]weather[ARGS]{"city": "Bern", "unit": "fahrenheit"}',
    }  # fmt: skip
    for vocabulary, jump_forward in (qwen, mistral):
        grammar = calling(syntax, vocabulary)
        ids = ids_of(outputs[syntax], vocabulary, jump_forward)
        sequence = dictate(grammar, ids, jump_forward)
        assert sequence.output_ids == ids == dictate(grammar, ids, None).output_ids
        assert sequence.counters.num_forced > len(ids) / 3


def test_real_calls_are_written_token_for_token(qwen):
    vocabulary, jump_forward = qwen
    num_forced = num_tokens = 0
    for case in sample("bfcl", every=60, seed=1):
        grammar = compile_toolset([Tool("f", "", case.schema)], tokenizer=vocabulary)
        for instance in case.instances[:1]:
            call = ("f", json.dumps(instance.value, ensure_ascii=False))
            ids = ids_of(spell_calls(grammar.syntax, call), vocabulary, jump_forward)
            sequence = dictate(grammar, ids, jump_forward)
            assert sequence.output_ids == ids
            num_forced += sequence.counters.num_forced
            num_tokens += len(ids)
    assert num_forced > 0.4 * num_tokens


@pytest.mark.parametrize(
    ("text", "tokens", "num_certain"),
    [
        ('{"name": "', ['{"', "name", '":', ' "'], 3),  # a token may begin with a blank and a quote
        ('": ', ['":', " "], 1),  # a blank may belong to anything
        ("}}}", [], 0),  # the last one may be part of }]
        ("}}\n</tool_call>", ["}}\n", "</tool_call>"], 2),
        ("elsius", [], 0),
        ("\x01", [], 0),
    ],
)
def test_what_is_certain_of_a_forced_text(qwen, text, tokens, num_certain):
    vocabulary, jump_forward = qwen
    forced = jump_forward.tokenize(vocabulary.spell(text).encode())
    markers = {i: marker for marker, i in vocabulary.markers.items()}
    assert [markers.get(i) or vocabulary.tokens[i].decode() for i in forced.ids] == tokens
    assert [b is None for b in forced.alternatives] == [n < num_certain for n in range(len(tokens))]


def test_a_text_that_ends_inside_a_character_is_spelled_up_to_it(qwen):
    vocabulary, jump_forward = qwen
    forced = jump_forward.tokenize('{"größe'.encode()[:5])
    assert b"".join(vocabulary.tokens[i] for i in forced.ids) in (b'{"gr', b'{"')
    assert jump_forward.tokenize("ö".encode()[1:]).ids == ()


def test_a_text_that_the_tokenizer_changes_is_left_to_the_model(qwen):
    assert qwen[1].tokenize("e\N{COMBINING ACUTE ACCENT}-".encode()).ids == ()


@settings(max_examples=60)
@given(st.data())
def test_any_merges_give_the_tokenizer_s_own_tokens(data):
    """Whatever a tokenizer merges, and whatever is forced, the tokens are those of the whole text."""
    alphabet = ["a", "b", '"', "[", "]", ","]
    merges: list[tuple[str, str]] = []
    pieces = list(alphabet)
    for _ in range(data.draw(st.integers(0, 14))):
        merge = (data.draw(st.sampled_from(pieces)), data.draw(st.sampled_from(pieces)))
        if "".join(merge) not in pieces and len("".join(merge)) < 6:
            merges.append(merge)
            pieces.append("".join(merge))
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges))
    vocabulary = Vocabulary.from_tokens([*(p.encode() for p in pieces), b""], stop_ids=[len(pieces)])
    jump_forward = JumpForward(prepare(vocabulary), lambda text: tokenizer.encode(text).ids)
    words = st.text("ab", min_size=1, max_size=6)
    values = data.draw(st.lists(words | st.lists(words, max_size=2), min_size=1, max_size=4))
    grammar = compile_schema({"enum": values}, tokenizer=vocabulary)
    for value in values:
        for separator in (",", ", "):
            text = json.dumps(value, separators=(separator, ":"))
            if grammar.accepts(text):
                ids = tokenizer.encode(text).ids
                assume(dictate(grammar, ids, None).output_ids == ids)  # else a mask lacks a token: see below
                assert dictate(grammar, ids, jump_forward).output_ids == ids


@leaves_tokens_out
def test_no_mask_lacks_a_token():
    """Nothing invalid comes of it: the text is then written by other tokens."""
    pieces = ["a", '"', 'a"', 'aa"']
    vocabulary = Vocabulary.from_tokens([*(p.encode() for p in pieces), b""], stop_ids=[4])
    grammar = compile_schema({"const": "aaa"}, tokenizer=vocabulary)
    assert dictate(grammar, [1, 0, 3], None).output_ids == [1, 0, 3]


def test_an_indifferent_model_writes_valid_calls(qwen):
    vocabulary, jump_forward = qwen
    grammar = calling("hermes", vocabulary)
    engine = engine_of(Indifferent(vocabulary.width), vocabulary, jump_forward)
    sequences = [
        make_sequence([0], 60, temperature=1.0, seed=seed, matcher=grammar.matcher(), closer=grammar.closer())
        for seed in range(4)
    ]
    finish(engine, *sequences)
    assert all(s.matcher.is_completed() and s.num_output <= 60 for s in sequences)
