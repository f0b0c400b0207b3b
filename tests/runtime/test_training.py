"""The tiny model's generator, trainer and evaluation, with a model of a few thousand weights."""

import importlib.util
import json
from dataclasses import replace
from random import Random

import jsonschema_rs
import pytest
import torch
from tiny_model import __main__, domains
from tiny_model.batches import collate, pool_of
from tiny_model.conversations import HELD_OUT, Mix, converse
from tiny_model.curves import draw_curves, restarts
from tiny_model.evaluate import answers_to, score
from tiny_model.examples import Example, example_of
from tiny_model.recipe import Recipe, Stage
from tiny_model.renaming import Renaming
from tiny_model.tokenizer import build_tokenizer
from tiny_model.tools import ToolStyle, invent_tools
from tiny_model.trainer import CHECKPOINT, LOG, MODEL, Run, RunRefused, Trainer, train
from transformers import AutoTokenizer
from whole_outputs import parse_calls, spell_calls

from compiler import compile_toolset
from compiler.syntaxes import find_syntax
from compiler.vocabulary import Vocabulary
from runtime.loading import load_model
from runtime.models import TINY_MODEL_FOLDER
from runtime.study.answering import Asker, StudyAnswer
from runtime.study.judging import Judgement, closed
from runtime.study.questions import held_out
from runtime.study.strategies import CALLGATE
from runtime.study.studied_model import StudiedModel
from runtime.text.template import ChatTemplate

HERMES = find_syntax("hermes")
TINY = Recipe(
    hidden_size=32,
    num_layers=1,
    num_heads=2,
    num_kv_heads=1,
    intermediate_size=32,
    batch_tokens=2048,
    stages=(Stage((Mix(num_tools=(1, 2), num_turns=(1, 1)),), 512),),
    head_dim=16,
    vocabulary_size=640,
    num_tokenizer_conversations=40,
    pool_size=8,
    warmup_steps=1,
)


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(TINY.vocabulary_size, TINY.context_length, num_conversations=40)


def run_of(num_steps):
    return Run(num_steps=num_steps, num_workers=0, log_steps=1, num_probes=2)


def test_a_conversation_depends_on_its_seed_and_number_alone():
    assert [converse(7, n, Mix()) for n in range(20)] == [converse(7, n, Mix()) for n in range(20)]
    assert len({repr(converse(seed, n, Mix())) for seed in (1, 2) for n in range(20)}) == 40


@pytest.mark.parametrize("mix", [Mix(), HELD_OUT])
def test_every_call_validates_and_is_read_back(mix):
    kinds = set()
    for number in range(200):
        conversation = converse(0, number, mix)
        schemas = {tool.name: closed(dict(tool.parameters)) for tool in conversation.tools}
        for message in conversation.messages:
            for call in message.calls:
                arguments = json.loads(call.arguments)
                jsonschema_rs.validate(schemas[call.name], arguments, validate_formats=True)
                kinds |= {type(value) for value in arguments.values()}
                written = (call.name, call.arguments)
                assert parse_calls(spell_calls(HERMES, written), HERMES) == ("", [written])
    assert kinds == {str, int, float, bool, list, dict}


def test_every_value_can_be_copied_from_the_request():
    for number in range(200):
        conversation = converse(1, number, HELD_OUT)
        for value in json.loads(conversation.expected[0].arguments).values():
            items = (
                value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
            )
            for item in items:
                said = conversation.prompt[-1].content
                assert isinstance(item, bool) or str(item) in said or str(item).replace("_", " ") in said


def test_held_out_domains_and_shapes_are_not_trained_on():
    trained, held = (
        set().union(*(row.words for row in rows)) for rows in (domains.TRAINING, domains.HELD_OUT)
    )
    assert not trained & held
    rng = Random(0)
    shapes = {
        held_out_shapes: {
            tool.shape
            for _ in range(100)
            for tool in invent_tools(rng, rows, ToolStyle(held_out_shapes=held_out_shapes), 4)
        }
        for held_out_shapes, rows in ((False, domains.TRAINING), (True, domains.HELD_OUT))
    }
    assert min(map(len, shapes.values())) > 100
    assert not shapes[False] & shapes[True]


def test_in_jargon_one_word_alone_seldom_tells_which_tool_is_meant():
    style = ToolStyle(random_names=0, jargon=1.0)
    shared = 0
    for seed in range(20):
        tools = invent_tools(Random(seed), domains.TRAINING[:1], style, 6)
        names = [action.split() for tool in tools for action in tool.actions]
        known = domains.TRAINING[0].words
        invented = [words for words in names if not known & {*words}]
        verbs, nouns = {words[0] for words in invented}, {words[-1] for words in invented}
        shared += len(verbs) + len(nouns) < 2 * len(invented) and len(nouns) < len(invented)
    assert shared >= 18


def test_training_text_is_what_the_runtime_renders_and_its_grammar_allows(tokenizer):
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    mix = Mix(num_tools=(1, 3), no_call=0, result=0)
    for number in range(10):
        conversation = converse(3, number, mix)
        example = example_of(tokenizer, conversation)
        prompt = ChatTemplate(tokenizer).token_ids(conversation.prompt, conversation.tools)
        assert example.ids[: len(prompt)].tolist() == prompt
        assert example.is_answer[len(prompt) :].all()
        before = sum(message.role == "assistant" for message in conversation.prompt)
        edges = (example.is_answer[1:] & ~example.is_answer[:-1]).sum()
        assert edges == before + 1
        matcher = compile_toolset(conversation.tools, tokenizer=vocabulary).matcher()
        assert all(matcher.accept(token_id) for token_id in example.ids[len(prompt) :].tolist())
        assert matcher.is_terminated()


def test_a_renaming_keeps_forms_together_and_what_the_generator_says():
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL_FOLDER)
    renaming = Renaming.of(tokenizer)
    example = example_of(tokenizer, converse(3, 5, Mix()))
    other = renaming.apply(Random(1), example)
    assert (example.is_answer == other.is_answer).all()
    names = dict(zip(example.ids.tolist(), other.ids.tolist(), strict=True))
    assert [names[token] for token in example.ids.tolist()] == other.ids.tolist()
    assert len({*names.values()}) == len(names)
    words = {tokenizer.decode([old]): tokenizer.decode([new]) for old, new in names.items() if old != new}
    assert len(words) > 20
    assert all(
        old.isalpha() and new.isalpha() and old.islower() == new.islower() for old, new in words.items()
    )
    assert not {"string", "required", "please", "use", "type", "name"} & {word.lower() for word in words}

    both_forms = Example(renaming.groups[0].ravel(), example.is_answer)
    lower, upper = renaming.apply(Random(2), both_forms).ids.reshape(2, -1)
    assert [tokenizer.decode([token]).capitalize() for token in lower] == [
        tokenizer.decode([token]) for token in upper
    ]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_steps_lower_the_loss(tokenizer, optimizer):
    recipe = Recipe(**{name: getattr(TINY, name) for name in TINY.__slots__} | {"optimizer": optimizer})
    trainer = Trainer(recipe, run_of(100), tokenizer)
    batch = collate(pool_of(tokenizer, Renaming.of(tokenizer), recipe, 0, 0)[0])
    losses = [trainer.step(batch) for _ in range(8)]
    assert losses[-1] < losses[0] - 0.2


def test_a_restart_is_where_the_learning_rate_rises_after_it_has_fallen():
    rates = [1, 2, 3, None, 3, 2, 2, 1, 2, 3, 1, 1, 4]
    rows = [{"minutes": n} | ({} if rate is None else {"rate": rate}) for n, rate in enumerate(rates)]
    assert [*restarts(rows)] == [8, 12]


def test_a_run_that_was_cut_off_goes_on_bit_for_bit_and_its_model_answers(tmp_path):
    whole = train(tmp_path / "whole", TINY, run_of(6))
    stops = iter([False, False, False, False, True])
    cut = train(tmp_path / "cut", TINY, run_of(6), is_stopped=lambda: next(stops))
    assert cut.progress.step == 4
    resumed = train(tmp_path / "cut", TINY, run_of(6), resume=True)
    assert resumed.progress.place == whole.progress.place
    states = zip(whole.model.state_dict().items(), resumed.model.state_dict().values(), strict=True)
    assert [name for (name, one), other in states if not torch.equal(one, other)] == []

    rows = [json.loads(line) for line in (tmp_path / "cut" / LOG).read_text().splitlines()]
    assert [row["step"] for row in rows if "loss" in row] == [1, 2, 3, 4, 5, 6]
    assert "held_out_exact" in rows[-1]

    if importlib.util.find_spec("matplotlib"):
        assert draw_curves(tmp_path / "cut" / LOG, tmp_path / "curves.png")
        assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")

    loaded = load_model(tmp_path / "cut" / MODEL)
    assert loaded.syntax == "hermes"
    subject = StudiedModel(loaded)
    masked = score("", answers_to(held_out(2), CALLGATE, 1.0, subject, Asker(subject, num_at_once=2)))
    assert (masked.valid, masked.num_left_out, masked.num_questions) == (1.0, 0, 2)


def test_a_checkpoint_of_another_recipe_is_refused(tokenizer, tmp_path):
    trainer = Trainer(TINY, run_of(1), tokenizer)
    trainer.save(tmp_path / CHECKPOINT)
    for recipe, seed, begun in (
        (TINY, 1, "--seed 0"),
        (replace(TINY, optimizer="adamw", batch_tokens=64), 0, "--batch-tokens 2048 --optimizer muon"),
        (replace(TINY, pool_size=4), 0, "another recipe"),
    ):
        with pytest.raises(RunRefused, match=f"was begun with {begun}: resume"):
            Trainer(recipe, Run(seed=seed, num_steps=1), tokenizer).load(tmp_path / CHECKPOINT)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "has a run already: add --resume"),
        (["--resume", "--seed", "7"], "was begun with --seed 0"),
        (["--resume", "--out", "nowhere"], "there is no nowhere/checkpoint.pt to resume: correct --out"),
    ],
)
def test_a_run_that_cannot_begin_says_why_in_a_line(tokenizer, tmp_path, monkeypatch, capsys, options, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(__main__, "RECIPES", {"cpu": TINY})
    monkeypatch.setattr(__main__.signal, "signal", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["train", "--out", "run", *options])
    tokenizer.save_pretrained(tmp_path / "run" / MODEL)
    Trainer(TINY, run_of(1), tokenizer).save(tmp_path / "run" / CHECKPOINT)
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("train: ")
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


def test_answers_are_counted():
    right = Judgement(is_json=True, is_valid=True, is_valid_open=True, is_tool=True, is_right=True)
    tool = replace(right, is_valid=False, is_right=False)
    found = score("", [StudyAnswer("", verdict, 0.1, num_tokens=6) for verdict in (right, tool)] + [None])
    assert (found.num_questions, found.num_left_out) == (3, 1)
    assert (found.valid, found.tool, found.right, found.tokens) == (0.5, 1, 0.5, 6)
