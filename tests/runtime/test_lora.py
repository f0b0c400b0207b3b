"""The adapter's conversations, its training, and merging it."""

import json
import shutil
from functools import partial
from random import Random

import jsonschema_rs
import pytest
import torch
from adapter.conversations import converse, spell
from adapter.sentences import domains, parse, write
from adapter.training import (
    CHECKPOINT,
    CONFIG,
    LOG,
    WEIGHTS,
    AdapterRecipe,
    AdapterTrainer,
    pools_of,
    train,
)
from tiny_model.batches import BatchStream
from tiny_model.examples import example_of
from whole_outputs import spell_calls

from compiler import compile_toolset
from runtime.errors import ModelLoadError
from runtime.loading import load_model
from runtime.study.questions import everyday

# peft asks transformers by a name that is going out of use.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")

RECIPE = AdapterRecipe(rank=2, alpha=4, pool_size=4, batch_tokens=512, warmup_steps=1)


@pytest.fixture(scope="module")
def trained(random_model, tmp_path_factory):
    """A run of two steps, cut off and resumed after the first, whose conversations another process makes."""
    folder = tmp_path_factory.mktemp("adapter")
    for max_steps in (1, 2):
        trainer = AdapterTrainer(load_model(random_model, dtype="float32", device="cpu"), RECIPE)
        with BatchStream(
            partial(pools_of, str(random_model), RECIPE, 0), num_workers=2 - max_steps
        ) as stream:
            train(folder, trainer, stream, minutes=1, max_steps=max_steps)
    return folder, trainer


def test_every_sentence_asks_for_a_valid_call():
    for templates in domains().values():
        for template in templates:
            kinds = {parameter.names[0]: parameter.kind for parameter in template.parameters}
            required = [p.names[0] for p in template.parameters if not p.is_optional]
            validators = [
                jsonschema_rs.validator_for(
                    {
                        "properties": {name: kind.schemas[at] for name, kind in kinds.items()},
                        "required": required,
                    },
                    validate_formats=True,
                )
                for at in (0, -1)
            ]
            for number in range(30):
                arguments = write(Random(number), template).arguments
                for validator in validators:
                    validator.validate(arguments)


@pytest.mark.parametrize("make", [converse, spell])
def test_a_conversation_repeats_and_its_calls_are_written_as_the_mask_writes_them(random_model, make):
    loaded = load_model(random_model)
    num_calls = 0
    for number in range(25):
        conversation = make(3, number)
        assert conversation == make(3, number)
        linked = compile_toolset(
            conversation.tools,
            tokenizer=loaded.tokenizer,
            syntax="hermes",
            tool_choice="required",
            parallel=True,
        )
        example = example_of(loaded.tokenizer, conversation)
        assert example.is_answer.any()
        for message in filter(lambda message: message.calls, conversation.messages):
            num_calls += len(message.calls)
            text = spell_calls(linked.syntax, *((call.name, call.arguments) for call in message.calls))
            matcher = linked.matcher()
            assert all(map(matcher.accept, loaded.tokenizer.encode(text, add_special_tokens=False))), text
            assert matcher.is_completed()
    assert num_calls > 40


def test_nothing_of_the_everyday_questions_is_trained_on():
    questions = list(everyday())
    names = {name for templates in domains().values() for template in templates for name in template.names}
    assert not names & {tool.name for question in questions for tool in question.tools}
    asked = {question.messages[0].content.lower() for question in questions}
    said = {
        message.content.lower()
        for number in range(2_000)
        for message in (*converse(0, number).messages, *spell(0, number).messages)
        if message.role == "user"
    }
    assert not asked & said


@pytest.mark.parametrize("text", ["a {b", "(a|b", "a]", "[a"])
def test_a_sentence_that_cannot_be_read(text):
    with pytest.raises(ValueError, match=r"sentence|closes|missing"):
        parse(text)


def test_a_run_goes_on_from_its_checkpoint(trained):
    folder, trainer = trained
    rows = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2]
    assert rows[1]["tokens"] > rows[0]["tokens"]
    assert trainer.progress.step == 2
    assert (folder / CHECKPOINT).exists()


def test_a_merged_adapter_computes_what_the_trained_one_does(trained, random_model, tmp_path):
    folder, trainer = trained
    loaded = load_model(random_model, dtype="float32", device="cpu", adapter=folder)
    plain = load_model(random_model, dtype="float32", device="cpu")
    ids = torch.tensor([list(range(5, 45))])
    for model in (loaded.model, plain.model):
        model.set_attn_implementation("sdpa")
    with torch.no_grad():
        merged, trained_logits = loaded.model(ids).logits, trainer.model(ids).logits
        assert torch.allclose(merged, trained_logits, atol=1e-2)
        assert not torch.allclose(merged, plain.model(ids).logits, atol=1e-2)


def test_a_run_can_begin_with_an_adapter(trained, random_model):
    folder, trainer = trained
    other = AdapterTrainer(load_model(random_model, dtype="float32", device="cpu"), RECIPE, seed=1)
    other.begin_with(folder)
    ids = torch.tensor([list(range(5, 45))])
    with torch.no_grad():
        assert torch.allclose(other.model(ids).logits, trainer.model(ids).logits, atol=1e-2)
    assert other.progress.step == 0


def damaged(folder, tmp_path, **changes):
    copied = shutil.copytree(folder, tmp_path / "adapter")
    (copied / CONFIG).write_text(json.dumps(json.loads((copied / CONFIG).read_text()) | changes))
    return copied


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"peft_type": "IA3"}, "only plain LoRA adapters are read, not IA3"),
        ({"use_dora": True}, "not use_dora"),
        ({"r": None}, "incomplete"),
    ],
)
def test_other_kinds_of_adapters_are_refused(trained, random_model, tmp_path, changes, reason):
    with pytest.raises(ModelLoadError, match=reason):
        load_model(random_model, adapter=damaged(trained[0], tmp_path, **changes))


def test_an_adapter_of_another_model_or_none_is_refused(trained, tmp_path, random_model):
    with pytest.raises(ModelLoadError, match=r"adapter_config\.json"):
        load_model(random_model, adapter=tmp_path)
    copied = shutil.copytree(trained[0], tmp_path / "cut")
    (copied / WEIGHTS).write_bytes((copied / WEIGHTS).read_bytes()[:100])
    with pytest.raises(
        ModelLoadError, match=r"load adapter '.*/cut': the directory has none in peft's format"
    ):
        load_model(random_model, adapter=copied)
