"""The study, over a model with random weights: every strategy answers, is judged, counted and written down."""

import importlib.util
import json
from dataclasses import replace

import pytest

from runtime.errors import RequestRefused
from runtime.study import output_folder
from runtime.study.output_folder import check_folder, write_report
from runtime.study.results import StudySettings
from runtime.study.strategies import strategies_for
from runtime.study.studied_model import StudiedModel
from runtime.study.study_report import StudyReport
from runtime.study.study_runner import run_study


def test_a_study_runs_to_the_end_and_is_written_down(loaded, tmp_path, monkeypatch):
    said = []
    settings = StudySettings(count=1, temperatures=(1.0,), num_at_once=2, max_tokens=96)
    findings = run_study(loaded, settings, lambda *what: said.append(what), tmp_path)
    assert findings.is_whole
    report = StudyReport(findings)
    strategies = [*strategies_for(StudiedModel(loaded))]
    assert report.strategies == [strategy.name for strategy in strategies]
    assert "thinking" not in report.strategies
    assert report.sets == ["easy", "hard", "everyday"]
    assert said[-1][1:] == (3 * len(strategies),) * 2
    by_row = {(row.questions, row.strategy, row.temperature): row for row in report.rows}
    assert len(by_row) == 3 * len(strategies)
    for questions in report.sets:
        assert by_row[questions, "callgate", 1.0].valid == 1
        assert by_row[questions, "prompt", 1.0].num_questions == 1
    if importlib.util.find_spec("matplotlib"):
        assert [path.suffix for path in output_folder.draw_pictures(report, tmp_path)] == 3 * [".svg"]

    def fail(*_):
        raise ImportError

    monkeypatch.setattr("runtime.study.output_folder.draw_pictures", fail)
    assert list(write_report(report, tmp_path))[-1] == output_folder.NEEDED
    numbers = json.loads((tmp_path / "study.json").read_text())
    assert len(numbers["rows"]) == len(report.rows)
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == len(report.rows)
    text = (tmp_path / "study.md").read_text()
    assert text.startswith(report.summary())
    assert "no row for free thinking" in text
    for strategy in strategies:
        assert strategy.title in text


def test_an_interrupt_keeps_the_questions_that_all_have_answered(loaded):
    def say(what, done, total):
        if what.startswith("hard: example"):
            raise KeyboardInterrupt

    settings = StudySettings(
        count=1, temperatures=(0.0,), strategies=("prompt", "example"), num_at_once=1, max_tokens=32
    )
    findings = run_study(loaded, settings, say)
    assert not findings.is_whole
    assert sorted(findings.cells) == [("easy", "example", 0.0), ("easy", "prompt", 0.0)]
    assert "interrupted" in StudyReport(findings).summary()


def test_a_study_that_ends_before_its_first_answer_has_a_report(loaded):
    def say(*_):
        raise KeyboardInterrupt

    findings = run_study(loaded, StudySettings(count=1, strategies=("prompt",), num_at_once=1), say)
    assert not findings.cells
    assert "interrupted" in StudyReport(findings).summary()


def test_questions_are_asked_as_often_as_told_each_time_with_another_seed(loaded):
    settings = StudySettings(
        count=2,
        num_draws=2,
        temperatures=(1.0,),
        strategies=("retry", "callgate"),
        sets=("easy",),
        max_tokens=96,
    )
    findings = run_study(loaded, settings, lambda *_: None)
    answers = findings.cells["easy", "callgate", 1.0].answers
    once = run_study(loaded, replace(settings, num_draws=1), lambda *_: None)
    assert len(answers) == 4
    assert len({answer.text for answer in answers}) > 2
    assert answers[0].text == once.cells["easy", "callgate", 1.0].answers[0].text
    report = StudyReport(findings).as_markdown()
    assert "**easy**, 2 questions, each asked 2 times" in report
    assert "A share of 2 questions is good to" in report
    assert "| easy | Callgate, plain mask | 1 | 4 |" in report


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            StudySettings(strategies=("prompt", "magic")),
            "no strategy 'magic'; there are 'prompt', 'example',",
        ),
        (StudySettings(sets=("hrad",)), "no set of questions 'hrad'; did you mean 'hard'"),
        (StudySettings(count=1, max_tokens=1 << 20), "no question fits"),
    ],
)
def test_what_cannot_be_studied_is_refused(loaded, settings, message):
    with pytest.raises(RequestRefused, match=message):
        run_study(loaded, settings, lambda *_: None)


def test_bfcl_that_is_not_there_or_not_bfcl_is_refused(loaded, tmp_path):
    settings = StudySettings(count=1, bfcl=tmp_path)
    with pytest.raises(RequestRefused, match=r"simple_python\.jsonl\.gz"):
        run_study(loaded, settings, lambda *_: None)
    (tmp_path / "simple_python.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(RequestRefused, match="cannot read"):
        run_study(loaded, settings, lambda *_: None)


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestRefused, match="cannot write"):
        check_folder(tmp_path / "file")
