"""Schemas that refer to other documents: what they mean, what is refused, what they share."""

import json
import random

import jsonschema_rs
import pytest
from grammar_caches import SECRET, find
from whole_outputs import admits

from compiler import UnsupportedSchema, compile_schema
from compiler.argument_faults import argument_faults
from compiler.cache.grammar_cache import GrammarCache
from compiler.frontend.containment import covers
from toolspecs.schemas.bundle import Bundler
from toolspecs.tool import Tool
from toolspecs.toolset import Toolset

A, B = "https://example.com/a", "https://example.com/b"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def refer(uri=A, **others):
    return {"type": "object", "properties": {"p": {"$ref": uri}}, "required": ["p"], **others}


def refused(schema, documents):
    with pytest.raises(UnsupportedSchema) as refusal:
        compile_schema(schema, documents=documents)
    return refusal.value


@pytest.mark.parametrize(
    ("documents", "uri", "pointer", "said"),
    [
        ({}, A, "/properties/p/$ref", A),
        ({A: {}}, f"{A}#/$defs/none", "/properties/p/$ref", "/$defs/none"),
        ({A: {}}, f"{A}#none", "/properties/p/$ref", "none"),
        ({A: {"items": {"$ref": "b"}}}, A, f"{A}#/items/$ref", B),
        ({}, "file:///etc/passwd", "/properties/p/$ref", "file:///etc/passwd"),
    ],
)
def test_a_reference_to_nowhere_says_the_way_out(documents, uri, pointer, said):
    refusal = refused(refer(uri), documents)
    assert (refusal.pointer, refusal.keyword) == (pointer, "$ref")
    assert said in refusal.reason
    assert "register its document" in refusal.suggestion


def test_recursion_through_documents_is_no_cycle():
    node = {"type": "object", "properties": {"next": {"$ref": "b"}}}
    documents = {A: node, B: {"anyOf": [{"$ref": "a"}, {"type": "null"}]}}
    compiled = compile_schema(refer(), documents=documents)
    assert compiled.accepts('{"p": {"next": {"next": null}}}')
    assert not compiled.accepts('{"p": {"next": 5}}')


@pytest.mark.parametrize(("own", "other"), [(DRAFT_7, DRAFT_2020), (DRAFT_2020, DRAFT_7), (None, DRAFT_7)])
@pytest.mark.parametrize("uri", [A, f"{A}#/$defs/t"])
def test_a_document_in_another_dialect_is_refused(own, other, uri):
    """Validators disagree: draft 7 ignores keywords beside `$ref`."""
    target = {"$ref": "#/$defs/s", "minimum": 5, "$defs": {"s": INTEGER}}
    document = {"$schema": other, **target, "$defs": {"t": target, "s": INTEGER}}
    schema = refer(uri, **({"$schema": own} if own else {}))
    refusal = refused(schema, {A: document, B: {}})
    assert (refusal.pointer, refusal.keyword) == (f"{A}#/$schema", "$schema")


def test_a_document_takes_the_dialect_of_the_schema():
    documents = {A: {"$ref": "#/$defs/s", "minimum": 5, "$defs": {"s": INTEGER}}, B: {"$schema": DRAFT_2020}}
    assert compile_schema(refer(**{"$schema": DRAFT_7}), documents=documents).accepts('{"p": 1}')
    assert not compile_schema(refer(), documents=documents).accepts('{"p": 1}')


def test_the_report_tells_of_keywords_in_documents():
    documents = {A: {"components": {"s": {"type": "string", "maxLength": 5, "x-unit": "m"}}}, B: {"type": []}}
    report = compile_schema(refer(f"{A}#/components/s"), documents=documents).report
    assert {(entry.pointer, entry.keyword) for entry in report} >= {
        ("/properties/p", "$ref"),
        (f"{A}#/components/s", "maxLength"),
        (f"{A}#/components/s", "x-unit"),
    }


def test_a_refusal_in_a_document_names_the_document():
    refusal = refused(refer(), {A: {"properties": {"s": {"pattern": "(?<=a)b"}}}})
    assert (refusal.pointer, refusal.keyword) == (f"{A}#/properties/s/pattern", "pattern")


DRAFT_4 = "http://json-schema.org/draft-04/schema#"
MISLEADING = {"dependencies": {"a": ["b"]}, "properties": {"b": {}}, "unevaluatedProperties": False}


UNMODELED = {"not": {"contentEncoding": "base64"}}
"""What canonicalization cannot combine with anything, up to draft 7."""


@pytest.mark.parametrize(
    ("schema", "content", "pointer"),
    [
        (refer(**{"$schema": DRAFT_7}), {**STRING, "format": "duration", **UNMODELED}, "/format"),
        (
            refer(**{"$schema": DRAFT_7}),
            {"allOf": [{**STRING, "contentEncoding": "base64"}], **UNMODELED},
            "/allOf/0/contentEncoding",
        ),
        (refer(), {"type": "object", **MISLEADING}, "/dependencies"),
        (
            refer(),
            {
                "oneOf": [{**STRING, "format": "time"}, {"const": "24:00"}],
                "not": {"contains": INTEGER, "minContains": 2},
            },
            "/oneOf/0/format",
        ),
    ],
)
def test_a_document_that_validators_read_differently_is_refused_at_the_keyword(schema, content, pointer):
    """The readings of one document cannot be combined; the refusal knew only keywords of the schema itself."""
    refusal = refused(schema, {A: content})
    assert refusal.pointer == A + "#" + pointer
    assert refusal.keyword == pointer.rpartition("/")[2]


def either(content, **others):
    """A schema that refers to a document with the content, and one that has the content itself."""
    schema = {"oneOf": [INTEGER, {"$ref": A}], **others}
    return schema, {**schema, "oneOf": [INTEGER, {"$ref": "#/definitions/a"}], "definitions": {"a": content}}


@pytest.mark.parametrize(
    ("dialect", "content", "admitted", "forbidden"),
    [
        (DRAFT_4, {**STRING, "format": "date"}, [1, "2024-02-29"], ["x", None]),
        (DRAFT_7, {**STRING, "format": "duration"}, [1, "P1D"], ["x", None]),
        (DRAFT_7, {"allOf": [{**STRING, "contentEncoding": "base64"}]}, [1, "YQ=="], ["x", None]),
        (DRAFT_2020, {"oneOf": [{**STRING, "format": "time"}, {"const": "24:00"}]}, [1], ["24:00", "x"]),
        (
            DRAFT_7,
            {
                "oneOf": [
                    {**STRING, "contentEncoding": "base64"},
                    {"type": "object", "properties": {"n": {"$ref": "#"}}},
                ]
            },
            [1, "YQ==", {"n": {"n": "YQ=="}}],
            ["x", {"n": "x"}, {"n": 1}],
        ),
    ],
)
def test_a_document_that_validators_read_differently_is_enforced_for_all(
    dialect, content, admitted, forbidden
):
    """As in the definitions of the schema itself."""
    schema, alone = either(content, **{"$schema": dialect})
    compiled = compile_schema(schema, documents={A: content})
    for value in admitted + forbidden:
        assert compiled.accepts(json.dumps(value)) is (value in admitted), value
    if "$ref" not in json.dumps(content):
        of_its_own = compile_schema(alone)
        assert [of_its_own.accepts(json.dumps(value)) for value in admitted + forbidden] == [
            compiled.accepts(json.dumps(value)) for value in admitted + forbidden
        ]


def test_listed_objects_in_a_document_are_described():
    """Canonicalization cannot negate them. In the definitions of the schema itself they are described, too."""
    content = {"if": {"enum": [{"a": 1}]}, "then": False, "type": ["object", "string"]}
    compiled = compile_schema(refer(), documents={A: content})
    texts = ['{"p": {"a": 1}}', '{"p": {"a": 2}}', '{"p": "x"}']
    assert [compiled.accepts(text) for text in texts] == [False, True, True]


# Where references lead

MAIN = "https://example.com/schemas/main"
PARTS = "https://example.com/schemas/more/parts"


@pytest.mark.parametrize(
    "reference",
    [
        "../main#/$defs/n",
        f"{MAIN}#/$defs/n",
        "../main#n",
        f"{MAIN}#n",
        "/schemas/main#/components/n",
        "other",
    ],
)
def test_a_document_refers_back_to_the_schema(reference):
    schema = {
        **refer("more/parts"),
        "$id": MAIN,
        "$defs": {"n": {"$anchor": "n", **INTEGER}, "o": {"$id": "more/other", **INTEGER}},
        "components": {"n": INTEGER},
    }
    documents = {PARTS: {"type": "object", "properties": {"q": {"$ref": reference}, "$defs": {"n": STRING}}}}
    compiled = compile_schema(schema, documents=documents)
    texts = ['{"p": {"q": 1}}', '{"p": {"q": "x"}}']
    assert [compiled.accepts(text) for text in texts] == [True, False]
    tool = Tool("t", "", schema, documents=documents)
    assert [len(argument_faults(tool, json.loads(text))) for text in texts] == [0, 1]


def test_what_a_document_refers_back_to_is_read_as_a_schema():
    """Soundness: a disputed pattern is seen also in a place that no keyword knows."""
    disputed = {"enum": ["-", "\u00e9"], "not": {"pattern": r"^\w$"}}
    schema = {**refer("more/parts"), "$id": MAIN, "components": {"x": disputed}}
    documents = {PARTS: {"type": "object", "properties": {"q": {"$ref": "../main#/components/x"}}}}
    for known in (documents, {**documents, MAIN: {"components": {"x": disputed}}}):
        assert refused(schema, known).pointer == "/components/x/not/pattern"


def test_an_anchor_of_a_document_leads_to_its_schema():
    """Not to the whole document, whose keys have another order."""
    named = {"$anchor": "n", **refer(), "properties": {"z": INTEGER, "b": INTEGER}, "required": ["b", "z"]}
    compiled = compile_schema(
        refer(f"{A}#n"), documents={A: {"properties": {"q": STRING}, "$defs": {"n": named}}}
    )
    texts = ['{"p": {"z": 1, "b": 2}}', '{"p": {"b": 2, "z": 1}}']
    assert [compiled.accepts(text) for text in texts] == [True, False]
    assert (f"{A}#/$defs/n/properties/z", "type") in {
        (entry.pointer, entry.keyword) for entry in compiled.report
    }


@pytest.mark.parametrize(
    "pointer",
    ["/%24defs/a~1b", "/$defs/a%7E1b", "%2F$defs/a%7e1b", "/%63omponents/a~1b", "%2Fcomponents%2Fa~1b"],
)
def test_pointers_may_be_percent_encoded_anywhere(pointer):
    content = {"$defs": {"a/b": INTEGER}, "components": {"a/b": INTEGER}}
    for schema, documents in (
        ({**refer(f"#{pointer}"), **content}, {}),
        (refer(f"{A}#{pointer}"), {A: content}),
    ):
        compiled = compile_schema(schema, documents=documents)
        assert [compiled.accepts(text) for text in ('{"p": 1}', '{"p": "x"}')] == [True, False]


def test_deep_chains_of_documents_end():
    """Each document is shallow, but the chain of documents is long."""
    uris = [f"https://example.com/{number}" for number in range(500)]
    chain = {
        uri: {"type": "object", "properties": {"n": {"$ref": after}}, "required": ["n"]}
        for uri, after in zip(uris, [*uris[1:], A], strict=True)
    }
    assert "deep" in refused(refer(uris[0]), {**chain, A: STRING}).reason


def test_documents_of_one_uri_are_compared_by_content():
    schema = refer()
    wide, narrow = (schema, {A: {"type": "number"}}), (schema, {A: INTEGER})
    assert (covers(wide, narrow), covers(narrow, wide), covers(wide, wide)) == (True, False, True)
    one, other = ({A: {"properties": {"n": {"$ref": A}, "v": kind}}} for kind in (STRING, INTEGER))
    assert not covers((schema, one), (schema, other))


# What is shared


@pytest.fixture
async def cache():
    cache = GrammarCache(None, secret=SECRET)
    yield cache
    await cache.close()


async def compiled(cache, *toolsets):
    """The grammar of the tool of each toolset, and where it came from."""
    found = [await find(cache, toolset.tools) for toolset in toolsets]
    return [(lookup.grammar, lookup.source) for lookup in found]


def accepts(grammar, arguments):
    return admits(grammar, f'[{{"name": "t", "arguments": {arguments}}}]')


async def test_toolsets_with_other_documents_under_one_uri_share_no_unit(cache):
    """Soundness: the second toolset must not be given the first one's masks."""
    tool = Tool("t", "", refer())
    inner = {A: {"$ref": "b"}}
    strings, integers = (Toolset("t", (tool,), {**inner, B: kind}) for kind in (STRING, INTEGER))
    (of_strings, _), (of_integers, source) = await compiled(cache, strings, integers)
    assert source == "compiled"
    assert (accepts(of_strings, '{"p": "x"}'), accepts(of_strings, '{"p": 5}')) == (True, False)
    assert (accepts(of_integers, '{"p": "x"}'), accepts(of_integers, '{"p": 5}')) == (False, True)


async def test_documents_and_parts_that_a_tool_does_not_refer_to_leave_its_unit_alone(cache):
    tool = Tool("t", "", refer(f"{A}#/$defs/p"))
    documents = [
        {A: {"$defs": {"p": STRING}}},
        {A: {"$defs": {"q": INTEGER, "p": STRING}, "title": "new"}, B: INTEGER},
    ]
    found = await compiled(cache, *(Toolset("t", (tool,), some) for some in documents))
    assert [source for _, source in found] == ["compiled", "memory"]


# Made up at random


REFERENCES = ("", "#", "#/$defs/p", "#/$defs/q", "#/$defs/p/properties/x", "#/$defs/q/allOf/0", "#anchor")
LEAVES = (STRING, INTEGER, {"enum": [1, "a", None]}, {"minimum": 2}, True, {"const": {"x": 1}})
VALUES = (1, 5, "a", None, {"x": 1}, {"x": "a"}, {"x": None}, {"x": {"x": 1}}, {}, [])


def made_up(rng, depth=0):
    kind = rng.choice(["$ref", "$ref", "x", "allOf", "anyOf", "leaf"]) if depth < 2 else "leaf"
    match kind:
        case "$ref":
            schema = {"$ref": rng.choice(["", "a", "/a", B]) + rng.choice(REFERENCES)}
        case "x":
            schema = {"type": "object", "properties": {"x": made_up(rng, depth + 1)}, "required": ["x"]}
        case "allOf" | "anyOf":
            schema = {kind: [made_up(rng, depth + 1), made_up(rng, depth + 1)]}
        case _:
            return rng.choice(LEAVES)
    return schema | rng.choice([{}, {}, {}, {"$anchor": "anchor"}, {"minimum": 2}])


def made_up_document(rng):
    root = made_up(rng)
    defined = {"$defs": {name: made_up(rng) for name in "pq"}}
    return {**(root if root is not True else {}), **defined, **rng.choice([{}, {}, {"$schema": DRAFT_7}])}


def test_what_a_bundle_admits_is_valid_with_all_documents():
    """A part of the documents means what it means in the whole, however they refer to one another."""
    rng = random.Random(0)
    num_accepted = 0
    for _ in range(300):
        documents = {A: made_up_document(rng), B: made_up_document(rng)}
        schema = {**refer(A + rng.choice(REFERENCES)), **rng.choice([{}, {}, {"$schema": DRAFT_7}])}
        bundle, _ = Bundler(documents).bundle(schema)
        try:
            compiled = compile_schema(schema, documents=bundle)
        except UnsupportedSchema:
            with pytest.raises(UnsupportedSchema):
                compile_schema(schema, documents=documents)
            continue
        accepted = [value for value in VALUES if compiled.accepts(json.dumps({"p": value}))]
        num_accepted += len(accepted)
        try:
            whole = jsonschema_rs.Registry(list(documents.items()))
        except ValueError:  # what is not reached may refer to nowhere
            continue
        judge = jsonschema_rs.validator_for(schema, registry=whole)
        assert [value for value in accepted if not judge.is_valid({"p": value})] == [], (schema, documents)
    assert num_accepted > 100
