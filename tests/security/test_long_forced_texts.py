"""A schema may force a long text: other answers do not wait until all of it is tokenized and written."""

import json
import random

import pytest
from dictation import Indifferent, dictate, engine_of, ids_of, spelled_vocabulary
from sequences import finish, make_sequence

from compiler import compile_schema
from compiler.closing.segmentation import Segmentation
from compiler.prepared_vocabulary import prepare
from runtime import jump_forward as jumping
from runtime.decoding.token_writer import JUMP_PAUSE, MAX_FORCED
from runtime.draft import DraftMatcher
from runtime.events import FinishReason
from runtime.jump_forward import MAX_PIECE_BYTES, JumpForward
from runtime.request import Sampling
from runtime.scheduling.sequence import Sequence

WORDS = ["tariff", "größe", "a", "}}", "  ", "\n\n\n", "----", "1234567", "don't", "東京"]


@pytest.fixture(scope="module", params=["qwen3", "mistral-v3", "bytes"])
def spelled(request):
    return spelled_vocabulary(request.param)


def text_of(number, seed=1, words=WORDS):
    return " ".join(random.Random(seed).choices(words, k=number))


@pytest.mark.parametrize("seed", range(20))
def test_the_tokens_of_pieces_are_those_of_the_whole(spelled, seed, monkeypatch):
    _, jump_forward = spelled
    text = text_of(40, seed).encode()
    whole = jump_forward.tokenize(text)
    monkeypatch.setattr(jumping, "MAX_PIECE_BYTES", 8 + 7 * seed)
    pieces = [token_id for token_id, _ in jump_forward.tokens(text)]
    assert pieces == list(whole.ids[: len(pieces)])
    assert len(pieces) > 10 or seed < 8


def test_a_marker_is_not_cut_in_two(spelled, monkeypatch):
    vocabulary, jump_forward = spelled
    if "<tool_call>" not in vocabulary.markers:
        pytest.skip("a vocabulary without this marker")
    text = vocabulary.spell("<tool_call>\n{'a'}\n</tool_call>" * 20).encode()
    whole = list(jump_forward.tokenize(text).ids)
    for length in range(16, 40):
        monkeypatch.setattr(jumping, "MAX_PIECE_BYTES", length)
        assert [token_id for token_id, _ in jump_forward.tokens(text)] == whole


def test_no_more_is_tokenized_than_is_written(spelled, monkeypatch):
    _, jump_forward = spelled
    encoded = []
    encode = jump_forward.encode
    monkeypatch.setattr(jump_forward, "encode", lambda text: encoded.append(text) or encode(text))
    tokens = jump_forward.tokens(text_of(40_000, seed=77, words=["tariff", "rate"]).encode())
    for _ in range(100):
        next(tokens)
    assert max(len(text.encode()) for text in encoded) <= MAX_PIECE_BYTES
    assert sum(len(text) for text in encoded) < 100 * MAX_PIECE_BYTES


@pytest.mark.parametrize("is_jumping", [True, False])
def test_a_long_forced_text_is_written_as_its_tokenizer_spells_it(spelled, is_jumping):
    vocabulary, jump_forward = spelled
    text = text_of(1_000 if is_jumping else 150, seed=3, words=["tariff", "rate", "a", "----"])
    grammar = compile_schema({"const": text}, tokenizer=vocabulary)
    ids = ids_of(json.dumps(text, ensure_ascii=False), vocabulary, jump_forward)
    sequence = dictate(grammar, ids, jump_forward if is_jumping else None)
    assert sequence.output_ids == ids
    assert sequence.counters.num_forced > 0.9 * len(ids) or not is_jumping


def test_while_one_sequence_is_given_its_text_others_write_on(spelled):
    vocabulary, jump_forward = spelled
    engine = engine_of(Indifferent(vocabulary.width), vocabulary, jump_forward)
    text = text_of(600, seed=4, words=["tariff", "rate"])
    long = compile_schema({"const": text}, tokenizer=vocabulary)
    other = make_sequence([0], 20, temperature=1.0)
    forced = make_sequence([0], 12_000, temperature=1.0, matcher=long.matcher(), closer=long.closer())
    engine.add(forced)
    assert forced.num_output == MAX_FORCED
    engine.add(other)
    num_steps = 0
    while other.finish_reason is None:
        outputs = engine.step()
        engine.check_integrity()
        assert all(len(output.tokens) <= MAX_FORCED + 1 for output in outputs)
        num_steps += 1
    assert num_steps < 60
    finish(engine)
    assert forced.finish_reason is FinishReason.STOP
    assert b"".join(vocabulary.tokens[i] for i in forced.output_ids).decode() == json.dumps(
        text, ensure_ascii=False
    )


def test_an_output_is_closed_in_portions(spelled):
    vocabulary, jump_forward = spelled
    engine = engine_of(Indifferent(vocabulary.width), vocabulary, jump_forward)
    required = {f"name_{number}": {"type": "string"} for number in range(300)}
    grammar = compile_schema(
        {"type": "object", "properties": required, "required": [*required]}, tokenizer=vocabulary
    )
    closer = grammar.closer()
    budget = closer.minimum() + 3
    sequence = make_sequence([0], budget, temperature=1.0, matcher=grammar.matcher(), closer=closer)
    outputs = finish(engine, sequence)
    assert max(len(output.tokens) for output in outputs) <= MAX_FORCED + 1
    assert sequence.closed_by == "budget"
    assert sequence.finish_reason is FinishReason.LENGTH
    assert sequence.num_output <= sequence.max_tokens
    assert set(json.loads(b"".join(vocabulary.tokens[i] for i in sequence.output_ids))) == set(required)


def test_a_text_that_its_tokenizer_does_not_know_is_looked_for_now_and_then(monkeypatch):
    vocabulary, _ = spelled_vocabulary("bytes")
    knows_none = JumpForward(prepare(vocabulary), lambda text: [])
    engine = engine_of(Indifferent(vocabulary.width), vocabulary, knows_none)
    grammar = compile_schema({"const": text_of(1_000, words=["tariff"])}, tokenizer=vocabulary)
    sequence = Sequence("s", [0], 300, Sampling(), matcher=grammar.matcher())
    num_asked = 0
    forced_text = sequence.matcher.forced_text

    def counted():
        nonlocal num_asked
        num_asked += 1
        return forced_text()

    monkeypatch.setattr(sequence.matcher, "forced_text", counted)
    finish(engine, sequence)
    assert sequence.num_output == 300
    assert num_asked <= 2 + 300 / JUMP_PAUSE


def test_the_engine_does_not_count_what_a_thread_has_counted(monkeypatch):
    vocabulary, jump_forward = spelled_vocabulary("qwen3")
    text = text_of(1_500, words=["tariff", "rate"])
    grammar = compile_schema({"const": text}, tokenizer=vocabulary)
    closer = grammar.closer()
    choices = [
        Sequence("s", [0], 6_000, Sampling(), matcher=grammar.matcher(), closer=closer.fork()) for _ in "ab"
    ]
    engine = engine_of(Indifferent(vocabulary.width), vocabulary, jump_forward)
    engine.fit_budget(choices[0])

    def counted(*_):
        raise AssertionError("the tokens were counted again")

    monkeypatch.setattr(Segmentation, "_options", counted)
    for choice in choices:
        engine.add(choice)
        assert choice.num_output == MAX_FORCED


def test_of_a_very_long_output_no_tokens_are_counted(monkeypatch):
    vocabulary, _ = spelled_vocabulary("qwen3")
    text = text_of(5_000, words=["tariff", "rate"])
    closer = compile_schema({"const": text}, tokenizer=vocabulary).closer()
    monkeypatch.setattr(Segmentation, "count", None)
    assert closer.minimum() == len(text) + 2
    assert closer.fits(len(text) + 2)
    assert not closer.fits(len(text) + 1)


def test_a_draft_finds_a_forced_text_once_and_not_at_each_of_its_tokens(spelled, monkeypatch):
    vocabulary, jump_forward = spelled
    text = text_of(300, seed=5, words=["tariff", "rate"])
    matcher = compile_schema({"const": text}, tokenizer=vocabulary).matcher()
    asked = []
    forced_text = type(matcher).forced_text
    monkeypatch.setattr(type(matcher), "forced_text", lambda self: asked.append(self) or forced_text(self))
    draft = DraftMatcher(matcher, vocabulary.tokens)
    ids = ids_of(json.dumps(text), vocabulary, jump_forward)
    written = b""
    for token_id in ids:
        assert json.dumps(text).encode() == written + draft.forced_text()
        draft.accept(token_id)
        written += draft._tokens[token_id]
    assert draft.num_good == len(ids)
    assert draft.is_whole()
    assert len(asked) <= 3
