"""The judges of the corpora find what they are there to find."""

import json
import random
import re

import pytest
import unruly
from random_decoding import EmptyMask, RandomDecoder
from soundness.comparison import Outcome, Score, spellings
from soundness.corpora import Case, Instance
from soundness.judges import Judges
from soundness.key_order import in_declared_order
from soundness.mutations import mutations
from soundness.workers import run

from compiler.matcher import Bitmask
from compiler.vocabulary import Vocabulary
from toolspecs.schemas.drafts import OPENAPI_3_0

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
        ({"$schema": OPENAPI_3_0, "type": "string", "nullable": True}, ['"a"', "null"], ["1"]),
        ({"$schema": OPENAPI_3_0, "allOf": [{"type": "string"}], "nullable": True}, ['"a"'], ["null"]),
        ({"type": "string", "nullable": True}, ['"a"'], ["null"]),
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


@pytest.mark.parametrize(
    ("schema", "value", "ordered"),
    [
        (
            {"required": ["z"], "properties": {"b": True, "a": True}},
            {"y": 1, "a": 2, "x": 3, "b": 4, "z": 5},
            ["b", "a", "z", "y", "x"],
        ),
        (
            {"properties": {"o": {"properties": {"b": True, "a": True}}}},
            {"o": {"a": 1, "b": 2}},
            ["o", "b", "a"],
        ),
        (
            {"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"b": True, "next": {"$ref": "#/$defs/t"}}}}},
            {"next": {"next": {}, "b": 1}, "b": 2},
            ["b", "next", "b", "next"],
        ),
        (
            {"anyOf": [{"properties": {"c": True}}, {"properties": {"b": True}}], "properties": {"a": True}},
            {"a": 1, "b": 2, "c": 3},
            ["c", "b", "a"],
        ),
        (
            {
                "oneOf": [
                    {"properties": {"k": {"const": 1}, "a": True, "b": True}},
                    {"properties": {"k": {"$ref": "#/oneOf/1/properties/b"}, "b": {"const": 2}, "a": True}},
                ]
            },
            {"a": 1, "b": 2, "k": 2},
            ["k", "b", "a"],
        ),
        (
            {"if": {"required": ["a"]}, "then": {"allOf": [{"properties": {"b": True, "a": True}}]}},
            {"a": 1, "b": 2},
            ["b", "a"],
        ),
        (
            {
                "prefixItems": [True],
                "items": {"additionalProperties": {"properties": {"b": True, "a": True}}},
            },
            [{"a": 1, "b": 2}, {"k": {"a": 1, "b": 2}}],
            ["a", "b", "k", "b", "a"],
        ),
        (
            {
                "patternProperties": {"^x": {"properties": {"b": True, "a": True}}},
                "additionalProperties": {"properties": {"a": True, "b": True}},
                "properties": {"y": {"$ref": "#/nowhere"}},
            },
            {"x1": {"a": 1, "b": 2}, "y": {"b": 1, "a": 2}},
            ["y", "b", "a", "x1", "b", "a"],
        ),
        ({"$ref": "urn:other#t"}, {"a": 1, "b": 2}, ["b", "a"]),
    ],
)
def test_keys_are_put_in_the_order_of_first_appearance(schema, value, ordered):
    other = {
        "$defs": {"t": {"$anchor": "t", "dependentSchemas": {"a": {"properties": {"b": True, "a": True}}}}}
    }
    *_, found = in_declared_order(value, schema, {"urn:other": other})
    assert found == value
    assert re.findall(r"\w+(?=\":)", json.dumps(found)) == ordered


def test_alternatives_are_read_as_they_stand_and_by_what_fits():
    schema = {"anyOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": True, "a": True}}]}
    assert list(map(json.dumps, in_declared_order({"a": 2, "b": 2}, schema))) == [
        '{"a": 2, "b": 2}',
        '{"b": 2, "a": 2}',
    ]


def test_mutations_differ_from_what_they_came_from():
    value = {"a": [1, "x", None], "b": {"c": 2.5}}
    changed = list(mutations(value, random.Random(0), 50))
    assert sum(other != value for other in changed) > 40
    assert value == {"a": [1, "x", None], "b": {"c": 2.5}}


def test_a_score_counts_what_was_accepted():
    total = Score()
    found = Outcome("made up", "digits", "compiled", accepted=(False, True), writable=(True, True))
    total.add(DIGITS, found)
    total.add(DIGITS, Outcome("made up", "digits", "refused", why="no reason"))
    assert total.row == ("1 of 1", "1 of 2 (50.0%)", "0 of 1 (0.0%)", "1 of 1 (100.0%)", "0")
    assert [len(total.wrong), len(total.disordered), len(total.missed), len(total.refused)] == [1, 1, 0, 1]


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


def test_decoding_notices_an_empty_mask():
    with pytest.raises(EmptyMask, match="b'a'"):
        RandomDecoder(Vocabulary.of_bytes()).decode(_Stuck(), random.Random(0))
