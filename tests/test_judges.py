"""The judges of the corpora find what they are there to find."""

import random

import pytest
import unruly
from soundness.comparison import Outcome, Score, spellings
from soundness.corpora import Case, Instance
from soundness.judges import Judges
from soundness.mutations import mutations
from soundness.workers import run
from walks import EmptyMask, Walker

from compiler.matcher import Bitmask
from compiler.vocabulary import Vocabulary

DIGITS = Case(
    "made up", "digits", {"type": "integer"}, (Instance(1, is_valid=True), Instance("1", is_valid=False))
)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (True, ['{"a":[1,2.5,"\\u00e9"]}', "0"], ["", "{", "NaN", '"\\ud800"', '"\t"', "01", "1 2", '[{"a":{"b":1,"b":1}}]']),
        ({"multipleOf": 0.01}, ["0.07", "0.29", "1.15"], ["0.075", "0.0701"]),
        ({"maximum": 0.1}, ["0.1"], ["0.10000000000000000000001"]),
        ({"exclusiveMaximum": 0.1}, ["0.09"], ["0.1", "0.0999999999999999999999999"]),
        ({"type": "string", "format": "date"}, ['"2024-02-29"'], ['"2023-02-29"', '"2024-2-29"']),
        ({"$ref": "urn:other"}, ["1"], ['"x"']),
    ],
)  # fmt: skip
def test_judges_tell_valid_from_invalid(schema, good, bad):
    judges = Judges(schema, {"urn:other": {"type": "integer"}})
    assert [text for text in good if judges.faults(text.encode())] == []
    assert [text for text in bad if not judges.faults(text.encode())] == []


def test_a_value_is_spelled_in_every_way_that_matters():
    assert spellings({"é": [1, 2]}) == {
        '{"é": [1, 2]}', '{"é":[1,2]}', '{"\\u00e9": [1, 2]}', '{"\\u00e9":[1,2]}',
    }  # fmt: skip


def test_mutations_differ_from_what_they_came_from():
    value = {"a": [1, "x", None], "b": {"c": 2.5}}
    changed = list(mutations(value, random.Random(0), 50))
    assert sum(other != value for other in changed) > 40
    assert value == {"a": [1, "x", None], "b": {"c": 2.5}}


def test_a_score_counts_what_was_accepted():
    total = Score()
    total.add(DIGITS, Outcome("made up", "digits", "compiled", accepted=(False, True)))
    total.add(DIGITS, Outcome("made up", "digits", "refused", why="no reason"))
    assert total.row == ("1 of 1", "1 of 2 (50.0%)", "0 of 1 (0.0%)", "0")
    assert [len(total.wrong), len(total.missed), len(total.refused)] == [1, 1, 1]


def test_a_worker_that_hangs_or_crashes_is_told_apart_and_replaced():
    found = list(run(unruly.job, ["fine", "hang", "crash", "fine"], workers=1))
    assert [finished.end for finished in found] == ["done", "over time", "crashed", "done"]
    assert [finished.findings for finished in found][1:] == [["hang"], ["crash"], ["fine", "the end"]]


class _Stuck:
    """A matcher that allows `a`, then nothing."""

    def __init__(self) -> None:
        self._is_stuck = False

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        bitmask[row] = 0
        if not self._is_stuck:
            bitmask[row, ord("a") // 32] = 1 << (ord("a") % 32)

    def accept(self, token_id: int) -> bool:
        self._is_stuck = token_id == ord("a")
        return self._is_stuck

    def is_terminated(self) -> bool:
        return False


def test_a_walk_notices_an_empty_mask():
    with pytest.raises(EmptyMask, match="b'a'"):
        Walker(Vocabulary.of_bytes()).walk(_Stuck(), random.Random(0))
