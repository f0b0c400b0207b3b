"""The enforcement report: notes stand where they apply."""

import pytest

from compiler import compile_schema
from compiler.report import Verdict


def notes(schema, keyword, **options):
    return {
        entry.pointer: (entry.verdict, entry.note)
        for entry in compile_schema(schema, **options).report
        if entry.keyword == keyword
    }


def test_a_branch_without_numbers_has_no_note_on_digits():
    schema = {
        "anyOf": [{"type": "integer"}, {"type": "null"}, {"type": ["number", "string"]}, {"type": "array"}]
    }
    found = notes(schema, "type")
    assert "20 digits" in found["/anyOf/0"][1]
    assert "after the point" in found["/anyOf/2"][1]
    assert found["/anyOf/1"] == found["/anyOf/3"] == (Verdict.EXACT, "")


@pytest.mark.parametrize(
    ("pattern", "has_note"),
    [
        (r"^[\w ]+$", True),
        (r"^\w+(\s\w+)*$", True),
        (r"^\w+$", False),
        (r"^[a-z ]+$", False),
        (r"^\\w $", False),
        (r"^[^\W ]+$", False),
    ],
)
def test_words_of_prose_are_said_to_be_ascii(pattern, has_note):
    ((verdict, note),) = notes({"type": "string", "pattern": pattern}, "pattern").values()
    assert verdict in (Verdict.EXACT, Verdict.GUARDED)
    assert ("ASCII" in note) == has_note
    assert not compile_schema({"type": "string", "pattern": r"^[\w ]+$"}).accepts('"José"')
    assert compile_schema({"type": "string", "pattern": r"^[\p{L}\p{N}_ ]+$"}).accepts('"José"')
