"""Long chains of references are refused before native code recurses through them, and so are cycles."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from compiler import UnsupportedSchema, compile_schema
from compiler.frontend.reference_graph import find_cycle, longest_chain
from compiler.schema import lower_schema

URI = "https://example.com/"


def links(number, link, end=None):
    """A schema and its definitions: `link(i)` refers to definition i + 1."""
    defs = {str(i): link(i) for i in range(number)} | {str(number): end or {"type": "string"}}
    return {"$ref": "#/$defs/0", "$defs": defs}


def to(number):
    return {"$ref": f"#/$defs/{number}"}


def anchored(number):
    return {"$anchor": f"a{number}", "$ref": f"#a{number + 1}"}


def embedded(number):
    return {"$id": f"{URI}{number}", "$ref": "#/$defs/on", "$defs": {"on": {"$ref": f"{number + 1}"}}}


def nested(schema, depth):
    return {"properties": {"a": nested(schema, depth - 1)}} if depth else schema


CHAINS = {
    "references": links(3_000, lambda i: to(i + 1)),
    "properties": links(3_000, lambda i: {"properties": {"a": to(i + 1)}}),
    "alternatives": links(3_000, lambda i: {"anyOf": [to(i + 1), {"const": i}]}),
    "twenty at a time": links(170, lambda i: nested(to(i + 1), 20)),
    "a circle": links(3_000, lambda i: {"items": to(i + 1)}, end={"items": to(0)}),
    "anchors": links(3_000, anchored, end={"$anchor": "a3000", "type": "string"}) | {"$ref": "#a0"},
    "embedded schemas": links(3_000, embedded, end={"$id": f"{URI}3000", "type": "string"})
    | {"$ref": f"{URI}0"},
    "a shorter way first": {
        "properties": {f"p{i:04}": to(3_000 - i) for i in range(3_000)},
        **links(3_000, lambda i: {"properties": {"a": to(i + 1)}}),
    },
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_long_chain_is_refused(name):
    with pytest.raises(UnsupportedSchema, match="over 1000 schemas in a row") as refused:
        compile_schema(CHAINS[name])
    assert refused.value.suggestion


def test_values_that_only_several_references_together_nest_deeply_compile():
    """Rings of 6 and 11 references: 66 objects inside one another, each lowered inside the last.

    A thread of its own starts with an empty stack. A frame more for each level would not fit into Python's limit.
    """
    word = {"type": "object", "properties": {"a": to("word")}, "additionalProperties": False}
    rings = {
        f"{length}-{i}": {
            "additionalProperties": to(f"{length}-{(i + 1) % length}"),
            "minProperties": int(i == 0),
        }
        for length in (6, 11)
        for i in range(length)
    }
    schema = {"allOf": [to("word"), to("6-0"), to("11-0")], "$defs": {"word": word, **rings}}
    with ThreadPoolExecutor(1) as threads:
        lowered = threads.submit(lower_schema, schema).result()
    assert len(lowered.grammar.rules) >= 66


def test_a_long_chain_of_documents_is_refused():
    documents = {f"{URI}{i}": {"items": {"$ref": f"{i + 1}"}} for i in range(3_000)}
    with pytest.raises(UnsupportedSchema, match="over 1000 schemas in a row"):
        compile_schema({"$ref": f"{URI}0"}, documents={**documents, f"{URI}3000": {"type": "string"}})


@pytest.mark.parametrize(
    ("schema", "length"),
    [
        ({}, 1),
        (links(10, lambda i: to(i + 1)), 12),
        (links(10, lambda i: {"properties": {"a": to(i + 1), "b": to(i + 1)}}), 22),
        (links(10, lambda i: {"properties": {"a": to(10)}}), 4),
        (links(10, lambda i: {"items": to(i + 1)}, end={"items": to(0)}), 23),
    ],
)
def test_what_is_shared_counts_once_and_a_circle_whole(schema, length):
    assert longest_chain(schema, {}) == length


def test_a_large_schema_of_short_chains_compiles():
    schema = links(1_500, lambda i: {"type": "integer", "minimum": i})
    assert compile_schema(schema | to(7)).accepts("7")


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$ref": "#"}, ""),
        ({"properties": {"p": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}, "/$defs/a"),
        ({"allOf": [{"type": "object"}, {"anyOf": [{"$ref": "#"}]}]}, "/allOf/1/anyOf/0"),
        ({"items": {"not": {"$ref": "#/items"}}}, "/items/not"),
        ({"properties": {"a/b": {"if": {"$ref": "#/properties/a~1b"}}}}, "/properties/a~1b/if"),
    ],
)
def test_a_cycle_with_no_way_out_is_refused(schema, pointer):
    with pytest.raises(UnsupportedSchema, match="refers back to itself") as refused:
        compile_schema(schema)
    assert refused.value.pointer == f"{pointer}/$ref"


DRAFT_7, DRAFT_2019 = (
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
)
NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$anchor": "a", "anyOf": [NULL, {"$ref": "#a"}]}, "/anyOf/1/$ref"),
        (
            {
                "properties": {"p": {"$ref": "#x"}},
                "$defs": {"x": {"$anchor": "x", "allOf": [{"$ref": "#x"}]}},
            },
            "/$defs/x/allOf/0/$ref",
        ),
        ({"$dynamicAnchor": "n", "anyOf": [NULL, {"$dynamicRef": "#n"}]}, "/anyOf/1/$dynamicRef"),
        ({"anyOf": [NULL, {"$dynamicRef": "#"}]}, "/anyOf/1/$dynamicRef"),
        (
            {
                "$id": f"{URI}root",
                "$ref": "tree",
                "$dynamicAnchor": "n",
                "$defs": {
                    "t": {
                        "$id": "tree",
                        "anyOf": [NULL, {"$dynamicRef": "#n"}],
                        "$defs": {"d": {"$dynamicAnchor": "n"}},
                    }
                },
            },
            "/$defs/t/anyOf/1/$dynamicRef",
        ),
        ({"$schema": DRAFT_2019, "anyOf": [NULL, {"$recursiveRef": "#"}]}, "/anyOf/1/$recursiveRef"),
        (
            {"$schema": DRAFT_2019, "$recursiveAnchor": True, "not": {"$recursiveRef": "#"}},
            "/not/$recursiveRef",
        ),
        ({"$id": f"{URI}a", "anyOf": [NULL, {"$ref": f"{URI}a"}]}, "/anyOf/1/$ref"),
        (
            {
                "$id": f"{URI}a",
                "properties": {"p": {"$ref": "b"}},
                "$defs": {"b": {"$id": "b", "not": {"$ref": "#"}}},
            },
            "/$defs/b/not/$ref",
        ),
        (
            {
                "$schema": DRAFT_7,
                "$ref": "#/definitions/x",
                "definitions": {"x": {"$id": "#x", "if": {"$ref": "#x"}}},
            },
            "/definitions/x/if/$ref",
        ),
        (
            {"$schema": DRAFT_7, "type": "object", "dependencies": {"a": {"$ref": "#"}}},
            "/dependencies/a/$ref",
        ),
    ],
)
def test_a_cycle_through_any_kind_of_reference_is_refused(schema, pointer):
    with pytest.raises(UnsupportedSchema, match="refers back to itself") as refused:
        compile_schema(schema)
    assert (refused.value.pointer, refused.value.keyword) == (pointer, pointer.rpartition("/")[2])


A, B = f"{URI}a", f"{URI}b"


@pytest.mark.parametrize(
    "documents",
    [
        {A: {"$ref": B}, B: {"$ref": A}},
        {A: {"anyOf": [{"$ref": "b#/$defs/x"}, NULL]}, B: {"$defs": {"x": {"allOf": [{"$ref": "a"}]}}}},
        {A: {"$ref": "b#x"}, B: {"$defs": {"x": {"$anchor": "x", "allOf": [{"$ref": "a"}]}}}},
        {A: {"$ref": "#"}},
    ],
)
def test_a_cycle_through_documents_is_refused_where_it_is(documents):
    with pytest.raises(UnsupportedSchema, match="refers back to itself") as refused:
        compile_schema({"properties": {"p": {"$ref": A}}}, documents=documents)
    assert refused.value.pointer.startswith((f"{A}#", f"{B}#"))


@pytest.mark.parametrize(
    "schema",
    [
        {"$anchor": "a", "type": "array", "items": {"$ref": "#a"}},
        {"$dynamicAnchor": "a", "type": "object", "properties": {"next": {"$dynamicRef": "#a"}}},
        {"$schema": DRAFT_2019, "$recursiveAnchor": True, "properties": {"next": {"$recursiveRef": "#"}}},
        {"$schema": DRAFT_7, "type": "object", "dependencies": {"a": ["b"]}},
        {  # an anchor of the same name in another resource
            "$ref": f"{URI}x",
            "$defs": {
                "x": {"$id": f"{URI}x", "$anchor": "n", "$ref": f"{URI}y#n"},
                "y": {"$id": f"{URI}y", "$defs": {"n": {"$anchor": "n", "type": "string"}}},
            },
        },
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {"type": "array", "items": {"$ref": "#"}},
        {"properties": {"$ref": {"type": "string"}}},
        {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "null"}}},
    ],
)
def test_other_references_are_no_cycles(schema):
    assert find_cycle(schema, {}) is None
