"""A study that was stopped goes on where it stopped, and never mixes its answers with another one's."""

import json
from dataclasses import replace

import pytest

from runtime.errors import RequestRefused
from runtime.study.answering import StudyAnswer
from runtime.study.journal import ANSWERS, Entry, Journal
from runtime.study.judging import Judgement
from runtime.study.results import StudySettings
from runtime.study.study_report import StudyReport
from runtime.study.study_runner import run_study

SETTINGS = StudySettings(
    count=3, temperatures=(0.0, 1.0), strategies=("prompt", "callgate"), num_at_once=1, max_tokens=64
)
CONDITIONS = {"model": "m", "count": 2}
WRONG = Judgement(is_json=False, is_valid=False, is_valid_open=False, is_tool=False, is_right=False)


def stop_after(num_answers):
    def say(what, done, total):
        if done == num_answers:
            raise KeyboardInterrupt

    return say


def verdicts(findings):
    return {
        key: [(answer.text, answer.verdict) for answer in cell.answers]
        for key, cell in findings.cells.items()
    }


@pytest.fixture(scope="module")
def whole(loaded):
    return run_study(loaded, SETTINGS, lambda *_: None)


def test_a_study_that_was_stopped_goes_on_and_finds_the_same(loaded, whole, tmp_path):
    assert not run_study(loaded, SETTINGS, stop_after(7), tmp_path).is_whole
    lines = (tmp_path / "answers.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 7, "what the report leaves out is kept"
    (tmp_path / "answers.jsonl").write_text("".join(lines[:6]) + lines[6][:40])
    said = []
    again = run_study(loaded, SETTINGS, lambda *what: said.append(what), tmp_path)
    assert again.is_whole
    assert verdicts(again) == verdicts(whole)
    assert again.grammar_seconds().keys() == whole.grammar_seconds().keys()
    assert said[0][1:] == (6, 36)
    kept = (tmp_path / "answers.jsonl").read_text().splitlines(keepends=True)
    assert kept[:6] == lines[:6]
    elapsed = [json.loads(line)["elapsed"] for line in kept]
    assert elapsed == sorted(elapsed)
    assert len(elapsed) == 36
    assert again.seconds >= elapsed[-1]


def test_a_study_that_is_whole_is_not_asked_again(loaded, tmp_path):
    """Its answers stay, which may have taken hours."""
    small = replace(SETTINGS, count=1, temperatures=(0.0,), strategies=("prompt",))
    first = run_study(loaded, small, lambda *_: None, tmp_path)
    answers = (tmp_path / "answers.jsonl").read_text()
    again = run_study(loaded, small, lambda *_: pytest.fail("something was asked"), tmp_path)
    assert again.is_whole
    assert verdicts(again) == verdicts(first)
    assert (tmp_path / "answers.jsonl").read_text() == answers
    assert "Nothing was asked" in StudyReport(again).summary()
    assert "Nothing was asked" not in StudyReport(first).summary()


@pytest.mark.parametrize("is_stopped", [True, False])
def test_answers_of_another_study_are_not_taken_and_not_lost(loaded, tmp_path, is_stopped):
    run_study(loaded, SETTINGS, stop_after(5) if is_stopped else lambda *_: None, tmp_path)
    answers = (tmp_path / "answers.jsonl").read_text()
    with pytest.raises(RequestRefused, match="its count is 3, and this one's is 4; name another folder"):
        run_study(loaded, replace(SETTINGS, count=4), lambda *_: None, tmp_path)
    assert (tmp_path / "answers.jsonl").read_text() == answers


def entry(number, *, temperature=1.0, text="é \ud83d"):
    return Entry("easy", "prompt", temperature, number, 0.5, StudyAnswer(text, WRONG, seconds=0.25))


@pytest.mark.parametrize("temperature", [0, 0.7])
def test_a_stopped_study_goes_on_behind_its_last_whole_line(tmp_path, temperature):
    """Lines count as they stand in the file: a temperature of 0 is read as 0.0, which would be written longer."""
    first = Journal(tmp_path, CONDITIONS)
    for number in range(3):
        first.add(entry(number, temperature=temperature))
    with (tmp_path / ANSWERS).open("ab") as file:
        file.write(entry(3).line.encode()[:40])
    second = Journal(tmp_path, CONDITIONS)
    assert second.entries == tuple(entry(number, temperature=temperature) for number in range(3))
    second.add(entry(3))
    assert [each.number for each in Journal(tmp_path, CONDITIONS).entries] == [0, 1, 2, 3]


def test_a_line_without_its_end_is_torn_even_if_it_can_be_read(tmp_path):
    journal = Journal(tmp_path, CONDITIONS)
    journal.add(entry(0))
    with (tmp_path / ANSWERS).open("ab") as file:
        file.write(entry(1).line.encode().rstrip(b"\n"))
    again = Journal(tmp_path, CONDITIONS)
    again.add(entry(2))
    assert [each.number for each in Journal(tmp_path, CONDITIONS).entries] == [0, 2]
