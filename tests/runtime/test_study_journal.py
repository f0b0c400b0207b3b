"""A study that was stopped goes on with all that it had written down, and with nothing else."""

import pytest

from runtime.errors import RequestRefused
from runtime.study.answering import StudyAnswer
from runtime.study.journal import ANSWERS, Entry, Journal
from runtime.study.judging import Judgement

CONDITIONS = {"model": "m", "count": 2}
WRONG = Judgement(is_json=False, is_valid=False, is_valid_open=False, is_tool=False, is_right=False)


def entry(number, *, temperature=1.0, text="é \ud83d"):
    return Entry("easy", "prompt", temperature, number, 0.5, StudyAnswer(text, WRONG, seconds=0.25))


@pytest.mark.parametrize("temperature", [0, 0.7])
def test_a_stopped_study_goes_on_behind_its_last_whole_line(tmp_path, temperature):
    """Lines were counted as they would be written again, so a 0 that was read as 0.0 broke the file."""
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


def test_a_finished_study_begins_anew(tmp_path):
    journal = Journal(tmp_path, CONDITIONS)
    journal.add(entry(0))
    journal.close()
    assert Journal(tmp_path, CONDITIONS).entries == ()


def test_a_study_of_something_else_is_refused_and_loses_nothing(tmp_path):
    Journal(tmp_path, CONDITIONS).add(entry(0))
    with pytest.raises(RequestRefused, match="its count is 2, and this one's is 3"):
        Journal(tmp_path, {**CONDITIONS, "count": 3})
    assert len(Journal(tmp_path, CONDITIONS).entries) == 1
