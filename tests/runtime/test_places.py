"""Places: which part of an answer each token writes, for every syntax, and the path to it in arguments."""

import json
import random
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_decoding import Generation
from vocabularies import with_tokens

from compiler import compile_schema, compile_toolset
from compiler.closing.segmentation import Segmentation
from compiler.syntaxes import SYNTAXES
from runtime.events import ArgumentsDelta, CallStarted, InspectedToken, TextDelta
from runtime.inspection import MAX_POINTER, Cause, Inspection, TokenPlace
from runtime.text.detokenizer import TokenBytes
from runtime.text.places import JsonPaths, last_place
from runtime.transcript import Transcript
from runtime.written_token import SampledToken, write
from toolspecs import Tool

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


def scalars(value, path=()):
    """The paths of the scalars of a value, in order."""
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in scalars(inner, (*path, key))]
    if isinstance(value, list):
        return [found for index, inner in enumerate(value) for found in scalars(inner, (*path, index))]
    return [(path, value)]


def cut(text, cuts):
    """A text in pieces."""
    ends = sorted({at % (len(text) + 1) for at in cuts} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


@given(values, st.booleans(), st.lists(st.integers(0, 400), max_size=30))
def test_the_paths_of_values_are_those_of_the_text_in_order(value, is_ascii, cuts):
    text = json.dumps(value, ensure_ascii=is_ascii, indent=1 if is_ascii else None)
    paths = JsonPaths()
    found = {}
    for piece in cut(text, cuts):
        for path, written in paths.read(piece):
            if written == "value":
                found.setdefault(path)
    expected = [path for path, _ in scalars(value)]
    assert list(found) == expected


@given(values)
def test_the_characters_of_each_path_are_its_value(value):
    text = json.dumps(value)
    paths = JsonPaths()
    found = {}
    for char in text:
        for path, written in paths.read(char):
            if written == "value":
                found[path] = found.get(path, "") + char
    assert {path: json.loads(text) for path, text in found.items()} == dict(scalars(value))


@given(values, st.data())
def test_the_last_place_is_the_last_one_of_the_text(value, data):
    text = json.dumps(value)
    piece = text[: data.draw(st.integers(1, len(text)))]
    *_, last = JsonPaths().read(piece)
    events = [CallStarted(0, 0, "f"), *(ArgumentsDelta(0, 0, char) for char in piece)]
    assert last_place(events) == TokenPlace("arguments", 0, "f", *last)
    assert last_place(events[:1]) == TokenPlace("syntax", 0, "f")
    assert (last_place([]), last_place([TextDelta(0, "a")])) == (TokenPlace("syntax"), TokenPlace("text"))


def test_a_pointer_stays_short():
    paths = JsonPaths()
    *_, (path, written) = paths.read("[" * 4_000 + "1")
    assert written == "value"
    assert len(TokenPlace("arguments", 0, "f", path, written).pointer) <= MAX_POINTER
    *_, (path, _) = JsonPaths().read('{"a": {"%s": 1' % ("~" * MAX_POINTER))
    assert path == ("a",)


PARAMETERS = {
    "type": "object",
    "properties": {
        "to": {"type": "object", "properties": {"name": {"type": "string"}, "zip": {"type": "integer"}}},
        "tags": {"type": "array", "items": {"enum": ["new", "old"]}},
        "note": {"type": "string"},
        "count": {"type": "integer"},
        "urgent": {"type": "boolean"},
    },
    "required": ["to", "tags", "note", "count", "urgent"],
}
VOCABULARY = with_tokens(
    '", "',
    '": ',
    '": {"',
    "</",
    'a": "b',
    markers=("<tool_call>", "</tool_call>", "<think>", "</think>"),
)


@cache
def grammar_of(syntax, choice="required"):
    tool = Tool("send", "", PARAMETERS)
    return compile_toolset([tool], tokenizer=VOCABULARY, syntax=syntax, tool_choice=choice)


def told(grammar, ids, *, text_is_json=False):
    """The events of an output whose tokens are all inspected."""
    matcher = grammar.matcher()
    types = grammar.parameter_types
    spelled = TokenBytes(VOCABULARY)
    transcript = Transcript(
        0,
        spelled,
        syntax=grammar.syntax,
        stop=(),
        types_of=types,
        is_inspected=True,
        text_is_json=text_is_json,
    )
    events = []
    for token_id in ids:
        written = write(SampledToken(token_id, inspection=Inspection(Cause.FREE)), matcher, None)
        assert written is not None
        events += transcript.feed(written)
    return [*events, *transcript.finish(matcher.pending_parts())]


def tokens_of(events):
    return [event for event in events if isinstance(event, InspectedToken)]


def is_subsequence(some, of):
    rest = iter(of)
    return all(one in rest for one in some)


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize("choice", ["required", "auto"])
def test_in_every_syntax_every_token_has_its_place_in_order(syntax, choice):
    grammar = grammar_of(syntax, choice)
    for seed in range(4):
        ids = Generation(grammar, 1_200, random.Random(seed)).ids
        events = told(grammar, ids)
        tokens = tokens_of(events)
        assert [token.token_id for token in tokens] == ids
        calls = [(event.index, event.name) for event in events if isinstance(event, CallStarted)]
        for index, name in calls:
            text = "".join(
                event.text for event in events if isinstance(event, ArgumentsDelta) and event.index == index
            )
            places = [token.place for token in tokens if token.place.call == index]
            assert {place.tool for place in places} == {name}
            written = dict.fromkeys(place.path for place in places if place.writes == "value")
            expected = [path for path, _ in scalars(json.loads(text))]
            assert is_subsequence(written, expected), (written, expected)
            assert places[0].part == "syntax"
        assert is_subsequence([index for index, _ in calls], [token.place.call for token in tokens])
        if not calls:
            assert {token.place.part for token in tokens} <= {"text", "thought", "syntax", "end"}


@pytest.mark.parametrize("seed", range(12))
def test_the_tokens_of_an_answer_in_json_have_paths_too(seed):
    compiled = compile_schema(PARAMETERS, tokenizer=VOCABULARY)
    ids = Generation(compiled, 1_200, random.Random(seed)).ids
    tokens = tokens_of(told(compiled, ids, text_is_json=True))
    assert [token.token_id for token in tokens] == ids
    assert {token.place.part for token in tokens} <= {"text", "end"}
    text = b"".join(VOCABULARY.tokens[i] for i in ids if i not in VOCABULARY.stop_ids).decode()
    written = dict.fromkeys(token.place.path for token in tokens if token.place.writes == "value")
    assert is_subsequence(written, [path for path, _ in scalars(json.loads(text))])
    assert all(token.place.writes for token in tokens if token.place.part == "text")


def test_keys_tags_and_the_text_around_them_are_told_apart():
    def shown(syntax, text):
        grammar = grammar_of(syntax, "auto")
        ids = Segmentation(grammar.prepared.index).ids(VOCABULARY.spell(text).encode())
        found = {}
        for token in tokens_of(told(grammar, ids)):
            place = token.place
            key = (place.part, place.pointer, place.writes)
            found[key] = found.get(key, "") + token.text
        return found

    hermes = shown(
        "hermes",
        'Hi<tool_call>\n{"name": "send", "arguments": {"to": {"zip": 12}, "tags": ["new"], '
        '"note": "x", "count": 3, "urgent": true}}\n</tool_call>',
    )
    assert hermes["text", None, None] == "Hi"
    assert hermes["syntax", None, None].startswith('<tool_call>\n{"name": "send"')
    assert hermes["syntax", None, None].endswith("</tool_call>")
    assert '"arguments' in hermes["syntax", None, None]
    assert hermes["arguments", "/to/zip", "key"] == 'zip": '
    assert hermes["arguments", "/to/zip", "value"] == "12"
    assert hermes["arguments", "/tags/0", "value"] == '"new"'
    thought = shown("hermes+think", "<think>So</think>Hi")
    assert thought == {
        ("thought", None, None): "<think>So",
        ("syntax", None, None): "</think>",
        ("text", None, None): "Hi",
    }
    tagged = shown(
        "qwen3_coder",
        '<tool_call>\n<function=send>\n<parameter=to>\n{"zip": 12}\n</parameter>\n'
        '<parameter=tags>\n["new"]\n</parameter>\n<parameter=note>\nx y\n</parameter>\n'
        "<parameter=count>\n3\n</parameter>\n<parameter=urgent>\ntrue\n</parameter>\n</function>\n"
        "</tool_call>",
    )
    assert "x y" in tagged["arguments", "/note", "value"]
    assert "3" in tagged["arguments", "/count", "value"]
    assert "count>" in tagged["arguments", "/count", "key"]
    assert tagged["arguments", "/to/zip", "value"] == "12"
