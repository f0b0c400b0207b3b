"""What is wrong with the text of a body, and where."""

import pytest

from gateway.errors import InvalidField, MalformedBody, UnreadableBody
from gateway.http import json_body
from gateway.http.json_body import read_json

MALFORMED = [
    (b"", (1, 1), "it is empty"),
    (b'{"tools": [\n  {,}]}', (2, 4), "Expecting property name"),
    (b'{"tools": NaN}', (1, 11), "NaN is not a JSON value"),
    (b'["NaN, \\"1e999", -1e5,\n-Infinity]', (2, 1), "-Infinity is not a JSON value"),
    (b'{"tools": NaN, "a": "\\ud800"}', (1, 11), "NaN is not a JSON value"),
    (b'{"t\xc3\xa9": ["\xff"]}', (1, 10), "not UTF-8"),
    (b'\xef\xbb\xbf{"tools":\n "\xff"}', (2, 3), "not UTF-8"),
    (b'["x\xff"]', (1, 4), "not UTF-8"),
    (b"[1" + b"0" * 5000 + b"]", (1, 2), "a number larger than any double"),
]
UNREPRESENTABLE = [
    (b'[1e5, "1e400", 1e400]', (1, 16), "a number larger than any double"),
    (rb'["\ud83d\ude00 \\ud800", "x\ud800"]', (1, 28), "half a surrogate pair"),
    (rb'["\udc00 and a long tail"]', (1, 3), "half a surrogate pair"),
    (rb'["\ud83d\u0041"]', (1, 3), "half a surrogate pair"),
]
"""What a caller may read nevertheless, to name the field."""


@pytest.mark.parametrize("keeps_surrogates", [False, True])
@pytest.mark.parametrize(("raw", "place", "said"), MALFORMED)
def test_what_is_no_json_is_shown_in_its_place(raw, place, said, keeps_surrogates):
    with pytest.raises(MalformedBody, match=said) as error:
        read_json(raw, keeps_surrogates=keeps_surrogates)
    assert (error.value.line, error.value.column) == place


@pytest.mark.parametrize(("raw", "place", "said"), UNREPRESENTABLE)
def test_a_value_that_nothing_can_hold_is_shown_in_its_place(raw, place, said):
    with pytest.raises(MalformedBody, match=said) as error:
        read_json(raw)
    assert (error.value.line, error.value.column) == place
    assert read_json(raw, keeps_surrogates=True).value


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b"[" * 20_000, (1, 501)),
        (b'{"a": "[[[{\\"[",\n"b": [], "c": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", (2, 514)),
    ],
)
def test_a_text_too_deep_to_be_read_says_where(raw, place):
    with pytest.raises(UnreadableBody) as error:
        read_json(raw)
    assert (error.value.line, error.value.column) == place


@pytest.mark.parametrize(
    ("raw", "place", "key"),
    [
        (b'{"a/b": {"maximum": 5, "maximum": 500}}', "/a~1b", "maximum"),
        (rb'{"enum": [1, {"x": [{"b": 1, "c": 2, "\u0062": 3}]}]}', "/enum/1/x/0", "b"),
        (rb'[{"const": "\ud800", "const": ": \": {"}]', "/0", "const"),
    ],
)
def test_a_key_that_stands_twice_is_refused_with_its_place(raw, place, key):
    """Readers of JSON differ in which one counts."""
    with pytest.raises(InvalidField) as error:
        read_json(raw, keeps_surrogates=True)
    assert str(error.value) == f"the object at {place} has the key {key!r} twice; write one"


def test_in_a_large_body_a_repeated_key_is_not_looked_for(monkeypatch):
    monkeypatch.setattr(json_body, "MAX_SEARCHED", 20)
    with pytest.raises(InvalidField, match="an object of the body has a key twice; write each key once"):
        read_json(b'{"documents": {"title": "a", "title": ""}}')
