"""References by names that different schemas have, and to schemas that are not looked at: both are refused."""

import pytest
from soundness.judges import Judges

from compiler import UnsupportedSchema, compile_schema

URI = "https://example.com/named"
OTHER = "https://example.com/other"
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def refer(reference, **others):
    return {"type": "object", "properties": {"p": {"$ref": reference}}, **others}


AMBIGUOUS = [
    refer(URI, **{"$defs": {"a": {"$id": URI, **INTEGER}, "b": {"$id": URI, **STRING}}}),
    refer(URI, **DRAFT_7, definitions={"a": {"$id": URI, **INTEGER}, "b": {"$id": URI, **STRING}}),
    refer("#x", **{"$defs": {"a": {"$anchor": "x", **INTEGER}, "b": {"$anchor": "x", **STRING}}}),
    refer("#x", **{"$defs": {"a": {"$anchor": "x", **INTEGER}, "b": {"$dynamicAnchor": "x", **STRING}}}),
    refer("#x", **DRAFT_7, definitions={"a": {"$id": "#x", **INTEGER}, "b": {"$id": "#x", **STRING}}),
    refer("#x", **{"$defs": {"a": {"$anchor": "x", "const": 1}, "b": {"$anchor": "x", "const": True}}}),
]


@pytest.mark.parametrize("schema", AMBIGUOUS)
def test_a_name_of_different_schemas_is_refused(schema):
    """Soundness: validators take one of them, and not all the same one."""
    with pytest.raises(UnsupportedSchema) as refusal:
        compile_schema(schema)
    assert (refusal.value.pointer, refusal.value.keyword) == ("/properties/p/$ref", "$ref")
    assert "different schemas have this name" in refusal.value.reason


def test_validators_disagree_on_a_name_of_different_schemas():
    judges = Judges(AMBIGUOUS[0])
    texts = [b'{"p": 1}', b'{"p": "x"}']
    assert [judges.verdicts(text) for text in texts] == [(False, True), (True, False)]


def test_a_schema_with_the_name_of_a_document_is_refused():
    schema = refer(URI, **{"$defs": {"a": {"$id": URI, **INTEGER}}})
    with pytest.raises(UnsupportedSchema, match="different schemas have this name"):
        compile_schema(schema, documents={URI: STRING})
    assert compile_schema(schema, documents={URI: {"$id": URI, **INTEGER}}).accepts('{"p": 1}')


@pytest.mark.parametrize(
    "spelling",
    [
        "https://EXAMPLE.com/named",
        "HTTPS://example.com/named",
        "https://example.com:443/named",
        "https://example.com/x/../named",
        "https://example.com/%6eamed",
        "./named",
    ],
)
def test_a_name_that_another_schema_has_in_another_spelling_is_refused(spelling):
    """Soundness: to `jsonschema_rs` it is one name, and the last schema has it; to Python's there are two."""
    base = "https://example.com/"
    named = {"a": {"$id": URI, **INTEGER}, "b": {"$id": spelling, **STRING}}
    judges = Judges(refer(URI, **{"$id": base, "$defs": named}))
    assert [judges.verdicts(text) for text in (b'{"p": 1}', b'{"p": "x"}')] == [(False, True), (True, False)]
    for defined, documents in ((named, {}), ({"b": named["b"]}, {URI: INTEGER})):
        with pytest.raises(UnsupportedSchema, match="different schemas have this name"):
            compile_schema(refer(URI, **{"$id": base, "$defs": defined}), documents=documents)


def test_a_schema_inside_a_document_with_the_name_of_the_document_is_refused():
    """Soundness: to `jsonschema_rs` it is what the name means, to Python's `jsonschema` the document is."""
    inside = {"$id": "https://example.com/x", "$defs": {"y": {"$id": URI, **STRING}}}
    schema, documents = refer(URI), {URI: {**INTEGER, "$defs": {"x": inside}}}
    judges = Judges(schema, documents)
    assert [judges.verdicts(text) for text in (b'{"p": 1}', b'{"p": "x"}')] == [(False, True), (True, False)]
    with pytest.raises(UnsupportedSchema, match="different schemas have this name"):
        compile_schema(schema, documents=documents)


def test_names_of_different_schemas_that_nothing_refers_to_are_no_matter():
    named = {"a": {"$id": URI, **INTEGER}, "b": {"$id": URI, **STRING}, "c": {"$id": OTHER, **INTEGER}}
    assert compile_schema(refer(OTHER, **{"$defs": named})).accepts('{"p": 1}')


def test_equal_schemas_may_have_one_name():
    """Generators write a named type out wherever it is used."""
    named = {"$id": URI, **INTEGER, "description": "a number"}
    schema = refer(URI, **{"$defs": {"a": named}, "items": dict(reversed(named.items()))})
    assert compile_schema(schema).accepts('{"p": 1}')


def test_the_identifier_of_the_schema_is_its_own():
    """Validators agree that it is not the document's that is registered under the same URI."""
    schema = refer(f"{URI}#/$defs/a", **{"$id": URI, "$defs": {"a": INTEGER}})
    documents = {URI: {"$defs": {"a": STRING}}}
    compiled, judges = compile_schema(schema, documents=documents), Judges(schema, documents)
    for text, is_valid in (('{"p": 1}', True), ('{"p": "x"}', False)):
        assert compiled.accepts(text) is is_valid
        assert judges.verdicts(text.encode()) == (is_valid, is_valid)


@pytest.mark.parametrize("reference", ["#x", f"{URI}#x", OTHER])
def test_a_reference_into_a_document_with_the_uri_of_the_schema_is_refused(reference):
    """Python's `jsonschema` does not find what it leads to, and `jsonschema_rs` may panic at the anchor."""
    hidden = {"$defs": {"x": {"$anchor": "x", **INTEGER}, "y": {"$id": OTHER, **INTEGER}}}
    with pytest.raises(UnsupportedSchema, match="in a document that has the URI of the schema") as refusal:
        compile_schema(refer(reference, **{"$id": URI}), documents={URI: hidden})
    assert refusal.value.pointer == "/properties/p/$ref"


@pytest.mark.parametrize(
    ("schema", "documents", "said"),
    [
        ({"$id": URI, "allOf": [{"$ref": OTHER}]}, {OTHER: {"$ref": URI}}, "refers back to itself"),
        (
            refer(OTHER, **{"$id": URI, "$defs": {"x": {"anyOf": [STRING, {"$ref": OTHER}]}}}),
            {OTHER: {"$ref": f"{URI}#/$defs/x"}},
            "refers back to itself",
        ),
        (
            {"$id": URI, "anyOf": [{}, {"items": {"$ref": URI, "unevaluatedItems": False}}]},
            {},
            "has no end",
        ),
    ],
)
def test_cycles_through_the_schema_are_found_though_a_document_has_its_uri(schema, documents, said):
    """Not those of the document. The last schema would end the process."""
    for known in (documents, {**documents, URI: {"$defs": {"x": {}}}}):
        with pytest.raises(UnsupportedSchema, match=said):
            compile_schema(schema, documents=known)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"$ref": URI}, "refers back to itself"),
        ({"anyOf": [{}, {"items": {"$ref": URI, "unevaluatedItems": False}}]}, "has no end"),
    ],
)
def test_cycles_are_found_in_a_document_whose_uri_is_an_id_without_force(document, said):
    """Soundness: not those of the schema. The last one would end the process."""
    with pytest.raises(UnsupportedSchema, match=said):
        compile_schema({"id": URI, **refer(URI)}, documents={URI: document})


CYCLE = {"$ref": URI}
ENDLESS = {"anyOf": [{}, {"items": {"$ref": URI, "unevaluatedItems": False}}]}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (refer(URI, **{"$defs": {"a": {"$id": URI, **CYCLE}, "b": {"id": URI}}}), "refers back to itself"),
        (refer(URI, **{"$defs": {"a": {"$id": URI, **ENDLESS}, "b": {"id": URI}}}), "has no end"),
        (
            refer(
                URI,
                **DRAFT_7,
                definitions={
                    "a": {"$id": URI, "allOf": [CYCLE]},
                    "b": {"$id": URI, "$ref": "#/definitions/c"},
                    "c": {},
                },
            ),
            "refers back to itself",
        ),
        (
            refer(
                URI,
                **{
                    "$id": OTHER,
                    "$defs": {"a": {"id": "https://a.example/", "$defs": {"b": {"$id": "named", **ENDLESS}}}},
                },
            ),
            "has no end",
        ),
    ],
)
def test_cycles_are_found_beside_identifiers_without_force(schema, said):
    """Soundness: these do not hide the schema that has the name. The endless ones would end the process."""
    with pytest.raises(UnsupportedSchema, match=said):
        compile_schema(schema)


def test_up_to_draft_7_an_identifier_beside_ref_has_no_force():
    schema = {**DRAFT_7, "$id": "https://example.com/a/main"}
    schema |= {"properties": {"p": {"$id": "https://example.com/b/", "$ref": "part"}}, "type": "object"}
    documents = {"https://example.com/a/part": INTEGER, "https://example.com/b/part": STRING}
    compiled = compile_schema(schema, documents=documents)
    assert [compiled.accepts(text) for text in ('{"p": 1}', '{"p": "x"}')] == [True, False]
    assert ("https://example.com/a/part#", "type") in {
        (entry.pointer, entry.keyword) for entry in compiled.report
    }


DISPUTED = {"enum": ["-", "\u00e9"], "not": {"pattern": r"^\w$"}}
"""Whether it admits the letter depends on the engine."""


@pytest.mark.parametrize(
    "schema",
    [
        refer("#x", contentSchema={"$anchor": "x", **DISPUTED}),
        refer(URI, contentSchema={"$defs": {"a": {"$id": URI, **DISPUTED}}}),
        refer("#/components/x", **DRAFT_7, **{"$defs": [], "components": {"x": DISPUTED}}),
    ],
)
def test_a_reference_to_a_schema_that_is_not_looked_at_is_refused(schema):
    """Soundness: what is disputed in it would not be seen."""
    with pytest.raises(UnsupportedSchema) as refusal:
        compile_schema(schema)
    assert (refusal.value.pointer, refusal.value.keyword) == ("/properties/p/$ref", "$ref")
    assert "where no keyword holds schemas" in refusal.value.reason


@pytest.mark.parametrize("spelling", ["https://EXAMPLE.com/named", "https://example.com/x/../named"])
def test_a_uri_in_another_spelling_is_another_one(spelling):
    """As to Python's `jsonschema`. To `jsonschema_rs` it is the same; an unseen cycle ends the process."""
    node = {"anyOf": [{}, {"items": {"$ref": URI, "unevaluatedItems": False}}]}
    with pytest.raises(UnsupportedSchema, match="there is no such schema"):
        compile_schema({"$id": spelling, **node})


def test_metaschemas_are_built_in():
    schema = refer(DRAFT_7["$schema"], **DRAFT_7, contentSchema={})
    assert compile_schema(schema).accepts('{"p": {"type": "string"}}')
    assert not compile_schema(schema).accepts('{"p": {"type": 1}}')


# Dynamic anchors

NODE = {"$dynamicAnchor": "node"}


def tree(value, **others):
    """A resource whose nodes are of its own kind, or of that of an outer resource."""
    node = {"type": "object", "properties": {"value": value, "next": {"$dynamicRef": "#node"}}}
    return {**NODE, **node, **others}


def extended(**others):
    """A schema of trees with other values."""
    return {**NODE, "type": "object", "properties": {"value": INTEGER, "tree": {"$ref": OTHER}}, **others}


def test_a_dynamic_reference_in_a_document_leads_to_the_outermost_resource():
    schema, documents = extended(**{"$id": URI}), {OTHER: tree(STRING)}
    compiled, judges = compile_schema(schema, documents=documents), Judges(schema, documents)
    for text, is_valid in (
        ('{"tree": {"value": "a", "next": {"value": 1}}}', True),
        ('{"tree": {"value": "a", "next": {"value": "a"}}}', False),
        ('{"tree": {"value": 1}}', False),
    ):
        assert compiled.accepts(text) is is_valid
        assert judges.verdicts(text.encode()) == (is_valid, is_valid)


def test_a_dynamic_anchor_is_the_parameter_of_a_document():
    listed = {
        "type": "array",
        "items": {"$dynamicRef": "#T"},
        "$defs": {"T": {"$dynamicAnchor": "T", "not": {}}},
    }
    schema = refer(OTHER, **{"$id": URI, "$defs": {"T": {"$dynamicAnchor": "T", **INTEGER}}})
    compiled = compile_schema(schema, documents={OTHER: listed})
    assert [compiled.accepts(text) for text in ('{"p": [1]}', '{"p": ["x"]}')] == [True, False]


DRAFT_2019 = {"$schema": "https://json-schema.org/draft/2019-09/schema"}
RECURSIVE = {
    "$recursiveAnchor": True,
    "type": "object",
    "properties": {"value": STRING, "next": {"$recursiveRef": "#"}},
}


@pytest.mark.parametrize(
    ("schema", "document", "pointer", "fault"),
    [
        (extended(), tree(STRING), f"{OTHER}#/properties/next/$dynamicRef", "without an identifier"),
        (
            {**DRAFT_2019, "$recursiveAnchor": True, **refer(OTHER)},
            RECURSIVE,
            f"{OTHER}#/properties/next/$recursiveRef",
            "without an identifier",
        ),
        (
            refer(
                OTHER, **{"$id": URI, "$defs": {"n": {**NODE, "items": {"$ref": "#/$defs/m"}}, "m": STRING}}
            ),
            tree(STRING),
            f"{OTHER}#/properties/next/$dynamicRef",
            "without an identifier",
        ),
        (
            refer(f"{OTHER}#node", **{"$id": URI, "$defs": {"n": {**NODE, **INTEGER}}}),
            {**NODE, **STRING},
            "/properties/p/$ref",
            "against the draft",
        ),
    ],
)
def test_a_dynamic_anchor_that_validators_follow_differently_is_refused(schema, document, pointer, fault):
    """Soundness: Python's `jsonschema` leads elsewhere; in the last case both lead elsewhere than the draft says."""
    with pytest.raises(UnsupportedSchema, match=fault) as refusal:
        compile_schema(schema, documents={OTHER: document})
    assert refusal.value.pointer == pointer


def test_one_dynamic_anchor_is_followed_however_it_is_referred_to():
    """There is no other resource that a validator could go to."""
    schema = refer(
        "#node",
        **{
            "$defs": {"n": {**NODE, "anyOf": [INTEGER, {"type": "array", "items": {"$dynamicRef": "#node"}}]}}
        },
    )
    compiled = compile_schema(schema)
    assert [compiled.accepts(text) for text in ('{"p": [[1]]}', '{"p": [["x"]]}')] == [True, False]
