"""The model in the box: that it fits into a package, loads without a network, and reads what it is shown."""

import gzip
import itertools

import pytest
from tiny_model.held_out import held_out_lines
from tiny_model.tokenizer import TEMPLATE

from runtime.errors import RequestRefused
from runtime.loading import load_model
from runtime.models import TINY_MODEL_FOLDER
from runtime.study.answering import AskedQuestion, Asker
from runtime.study.questions import HELD_OUT_FILE, NUM_HELD_OUT, held_out
from runtime.study.strategies import CALLGATE
from runtime.study.studied_model import StudiedModel

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def subject():
    return StudiedModel(load_model(TINY_MODEL_FOLDER, device="cpu"))


def test_it_is_small_enough_for_a_package():
    sizes = [path.stat().st_size for path in TINY_MODEL_FOLDER.iterdir()]
    assert sum(sizes) <= 24 * MEGABYTE
    assert max(sizes) <= 16 * MEGABYTE


def test_it_spells_calls_as_hermes_does_in_a_template_with_tools(subject):
    assert subject.loaded.syntax == "hermes"
    question = next(held_out(1))
    shown = subject.text(subject.prompt(question))
    assert all(tool.name in shown for tool in question.tools)


def test_it_is_shown_conversations_as_those_it_was_trained_on(subject):
    assert subject.loaded.tokenizer.chat_template == TEMPLATE


def test_masked_it_is_always_valid_and_right_far_more_often_than_by_chance(subject):
    questions = list(held_out(24))
    asker = Asker(subject, num_at_once=8)
    asked = [
        AskedQuestion(
            subject,
            CALLGATE,
            question,
            CALLGATE.grammar(subject, question),
            tuple(subject.prompt(question)),
            number,
            temperature=0.0,
            max_tokens=200,
        )
        for number, question in enumerate(questions)
    ]
    verdicts = [answer.verdict for answer in asker.answer(asked)]
    assert all(verdict.is_valid for verdict in verdicts)
    # Of four tools, one in four is right by chance; of calls with all their arguments, none.
    assert sum(verdict.is_tool for verdict in verdicts) >= len(verdicts) * 0.85
    assert sum(verdict.is_right for verdict in verdicts) >= len(verdicts) * 0.72


def test_the_held_out_questions_are_those_that_the_generator_writes():
    with gzip.open(HELD_OUT_FILE, "rt", encoding="utf-8") as lines:
        assert list(itertools.islice(lines, 50)) == list(held_out_lines(50))
    assert sum(1 for _ in held_out(NUM_HELD_OUT)) == NUM_HELD_OUT


def test_more_held_out_questions_than_there_are_is_refused():
    with pytest.raises(RequestRefused, match="only 1000 questions"):
        next(held_out(NUM_HELD_OUT + 1))
