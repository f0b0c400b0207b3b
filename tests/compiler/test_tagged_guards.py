"""Guards beside parameters that can be strings or JSON: lowering, guard and reader agree on which it is."""

import itertools
import json
import random
from functools import cache

import jsonschema_rs
import pytest
from fuzz.tokens import draw
from jsonschema import Draft202012Validator
from linked import accepts_arguments
from monolith import tagged
from output_reader import OutputReader
from random_decoding import allowed_ids
from soundness.judges import without_repeats
from soundness.tagged_schemas import DISTINCT, STRING, arguments_schema, crossing_vocabulary
from vocabularies import BYTES, STOP, ids_of
from whole_outputs import parse_calls

from compiler import compile_toolset
from compiler.errors import UnsupportedSchema
from compiler.linker.linker import LinkedGrammar
from compiler.syntaxes import SYNTAXES, Syntax
from compiler.tagged_values import STRING as STRING_TYPE
from compiler.tagged_values import is_json
from compiler.vocabulary import Vocabulary
from runtime.text.parameters import ParameterReader
from toolspecs.tool import Tool

ROWS = [row for row in SYNTAXES.values() if row.tags]
UNTOLD = [row for row in ROWS if not row.tags.tells_strings]
SHORT = {"type": "array", "items": {**STRING, "maxLength": 8}}
OTHER_TYPES = ("array", "boolean", "null", "number", "object")


def compiled(schema, row: Syntax, vocabulary: Vocabulary = BYTES) -> LinkedGrammar:
    return compile_toolset([Tool("f", "", schema)], tokenizer=vocabulary, syntax=row.name)


def read(text: str, types, row: Syntax, size: int = 1000) -> str:
    reader = ParameterReader(row, types)
    text += row.end
    return "".join(reader.feed(text[at : at + size]) for at in range(0, len(text), size))


@cache
def beside_guarded(types: tuple[str, ...], row: Syntax) -> LinkedGrammar:
    properties = {"p": {"type": [*types]}, "tags": DISTINCT, "short": SHORT}
    return compiled({"type": "object", "properties": properties, "required": [*properties]}, row)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("other", "texts"),
    [
        (
            "array",
            ['{"k":1', "{{ name }}", "{", "{}", " {", '\n{"a', "", " ", "\n", '{"a": {', "{\\", "}", "]"],
        ),
        ("object", ["[1, 1]", "[", "[[", " [", '\n["', "", " ", "[0", '["\\', "[]", "}", "]"]),
    ],
)
def test_a_string_that_resembles_json_of_no_admitted_type_hides_nothing_from_the_guard(row, other, texts):
    grammar = beside_guarded((STRING_TYPE, other), row)
    for text in texts:
        valid = {"p": text, "tags": ["a", "b"], "short": ["12345678"]}
        assert accepts_arguments(grammar, tagged(valid, row)), text
        for size in (1, 7, 1000):
            assert json.loads(read(tagged(valid, row), grammar.units["f"].types, row, size)) == valid
        assert not accepts_arguments(grammar, tagged(valid | {"tags": ["a", "a"]}, row)), text
        assert not accepts_arguments(grammar, tagged(valid | {"short": ["123456789"]}, row)), text


@pytest.mark.parametrize("row", UNTOLD, ids=lambda row: row.name)
def test_lowering_guard_and_reader_agree_on_what_is_json(row):
    rng = random.Random(row.name)
    pieces = ("[", "{", "]", "}", "null", "tru", "e", "1", "-", ".5", "e3", " ", "\n", '"', "a", "[1]", "{}")
    for num_others in range(1, 6):
        for others in itertools.combinations(OTHER_TYPES, num_others):
            grammar = beside_guarded((*others, STRING_TYPE), row)
            types = grammar.units["f"].types
            for _ in range(5):
                text = "".join(rng.choices(pieces, k=rng.randrange(5)))
                written = tagged({"p": text, "tags": ["a"], "short": []}, row)
                is_accepted = accepts_arguments(grammar, written)
                if is_json(types["p"], text):
                    value = (
                        json.loads(read(written, types, row, rng.randint(1, 9)))["p"] if is_accepted else 0
                    )
                    assert not isinstance(value, str), text
                    continue
                assert is_accepted, text
                assert json.loads(read(written, types, row, rng.randint(1, 9)))["p"] == text
                assert not accepts_arguments(
                    grammar, tagged({"p": text, "tags": ["a", "a"], "short": []}, row)
                ), text


@pytest.mark.parametrize("has_markers", [False, True])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_token_that_crosses_into_json_is_allowed_as_it_is_accepted(row, has_markers):
    """From every point of a call, the mask allows a token exactly if the matcher accepts it."""
    vocabulary = crossing_vocabulary(row, has_markers=has_markers)
    few = {**DISTINCT, "items": {"enum": ["a"]}}
    properties = {"p": {"type": ["string", "object"]}, "q": few, "tags": DISTINCT, "short": SHORT}
    grammar = compiled(
        {"type": "object", "properties": properties, "required": [*properties]}, row, vocabulary
    )
    whole = tagged({"p": "[", "q": ["a"], "tags": ["a", "b"], "short": ["a"]}, row)
    matcher = grammar.matcher()
    for byte in ids_of(row.opening + row.header("f") + whole, vocabulary):
        allowed = set(allowed_ids(matcher, vocabulary).tolist())
        for token_id in range(STOP + 1, vocabulary.width):
            is_accepted = matcher.accept(token_id)
            assert is_accepted == (token_id in allowed), vocabulary.tokens[token_id]
            if is_accepted:
                matcher.rollback(1)
        assert matcher.accept(byte)


def check_outputs(row: Syntax, seed: int, num_outputs: int, *, has_markers: bool) -> int:
    """Write random outputs for one random schema; how many calls were checked."""
    rng = random.Random(seed)
    schema = arguments_schema(rng)
    vocabulary = crossing_vocabulary(row, has_markers=has_markers)
    try:
        grammar = compiled(schema, row, vocabulary)
    except UnsupportedSchema:
        return 0
    types = grammar.parameter_types("f")
    num_calls = 0
    for number in range(num_outputs):
        written = draw(grammar, rng, rng.randrange(20 + 40 * number))
        output = vocabulary.display(written).decode(errors="replace")  # prose may hold any bytes
        _, calls = parse_calls(output, row, lambda _: types)
        assert calls
        assert _in_pieces(output, row, types, rng) == [text for _, text in calls]
        for _, text in calls:
            value = json.loads(text, object_pairs_hook=without_repeats)
            assert jsonschema_rs.is_valid(schema, value), (schema, output)
            assert Draft202012Validator(schema).is_valid(value), (schema, output)
        num_calls += len(calls)
    return num_calls


def _in_pieces(text: str, row: Syntax, types, rng: random.Random) -> list[str]:
    """The arguments of the calls, as a client reads them from a stream."""

    def cut(text: str) -> list[str]:
        cuts = [0, *sorted(rng.choices(range(len(text) + 1), k=rng.randrange(40))), len(text)]
        return [text[low:high] for low, high in itertools.pairwise(cuts)]

    parts = OutputReader(text, row, lambda _: types, cut=cut).read()
    return [text for kind, text in parts if kind == "ArgumentsPart"]


@pytest.mark.parametrize("has_markers", [False, True])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_whatever_is_drawn_or_closed_reads_as_valid_arguments(row, has_markers):
    assert sum(check_outputs(row, seed, 4, has_markers=has_markers) for seed in range(3)) > 6


@pytest.mark.corpus
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_many_tagged_outputs_read_as_valid_arguments(row):
    assert sum(check_outputs(row, seed, 12, has_markers=seed % 2 == 0) for seed in range(100, 600)) > 5_000
