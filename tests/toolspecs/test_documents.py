"""Documents that tools refer to: which are taken, and what of them each tool is given."""

import pytest

from toolspecs import InvalidTools, LimitExceeded, Limits, Tool, Toolset, check_documents
from toolspecs.schemas.bundle import Bundler, BundleTooLarge, bundle_tools

MONEY, KINDS, OTHER = (f"https://example.com/{name}" for name in ("money", "kinds", "other"))
STRING = {"type": "string"}
DRAFT_4, DRAFT_7 = (f"http://json-schema.org/draft-0{number}/schema#" for number in (4, 7))


def faults(documents, **limits):
    with pytest.raises(InvalidTools) as refused:
        check_documents(documents, limits=Limits(**limits))
    for fault in refused.value.faults:
        assert fault.tool is None
        assert str(fault).startswith("at /documents")
    return [(fault.pointer, fault.keyword) for fault in refused.value.faults]


def nested(depth):
    schema = STRING
    for _ in range(depth):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    "documents",
    [
        {},
        {MONEY: STRING, KINDS: True, "urn:example:kinds": {}, "https://example.com/a?b=c": {}},
        {MONEY: {"$id": MONEY}, KINDS: {"$id": "kinds"}, OTHER: {"$schema": DRAFT_4, "id": OTHER}},
        {MONEY: {"components": {"schemas": {"a": STRING}}}},
        {MONEY: {"$schema": DRAFT_7, "items": [STRING], "definitions": {"a": {"$id": "#a"}}}},
        {MONEY: {"properties": {"$id": STRING, "id": {"const": {"id": "x"}}}}},
    ],
)
def test_schemas_by_absolute_uri_are_documents(documents):
    check_documents(documents, limits=Limits())


@pytest.mark.parametrize(
    ("uri", "document", "place", "keyword"),
    [
        ("money", {}, "", ""),
        ("/money", {}, "", ""),
        ("", {}, "", ""),
        ("https://example.com/a b", {}, "", ""),
        ("http://[::1", {}, "", ""),
        ("https://example.com/ä", {}, "", ""),
        ("https://example.com/a#", {}, "", ""),
        ("https://example.com/a#/$defs/b", {}, "", ""),
        ("HTTPS://Example.com/a", {}, "", ""),
        ("https://example.com/a/../b", {}, "", ""),
        ("https://json-schema.org/draft/2020-12/schema", {}, "", ""),
        (MONEY, 5, "", ""),
        (MONEY, [], "", ""),
        (MONEY, None, "", ""),
        (MONEY, {"$schema": "https://example.com/meta"}, "/$schema", "$schema"),
        (MONEY, {"$defs": {"a": {"type": "money"}}}, "/$defs/a/type", "type"),
        (MONEY, {"items": [STRING]}, "/items", "items"),
        (MONEY, {"const": "\ud800"}, "/const", "const"),
        (MONEY, {"$id": OTHER}, "/$id", "$id"),
        (MONEY, {"$schema": DRAFT_4, "id": OTHER}, "/id", "id"),
        (MONEY, {"$defs": {"a": {"$id": OTHER}}}, "", "$id"),
        (MONEY, nested(101), "/items" * 100, ""),
    ],
)
def test_what_is_no_document_is_named(uri, document, place, keyword):
    escaped = uri.replace("~", "~0").replace("/", "~1")
    assert faults({KINDS: {}, uri: document}) == [(f"/documents/{escaped}{place}", keyword)]


@pytest.mark.parametrize("documents", [[], "x", 5, True])
def test_documents_are_an_object(documents):
    assert faults(documents) == [("/documents", "")]


def test_sizes_have_limits():
    assert faults({MONEY: {"const": "x" * 1000}}, document_bytes=500)[0][0].startswith("/documents/")
    with pytest.raises(LimitExceeded, match="at most 1 documents"):
        check_documents({MONEY: {}, KINDS: {}}, limits=Limits(num_documents=1))


def reached(schema, documents):
    return Bundler(documents).bundle(schema)[0]


def refer(uri):
    return {"properties": {"a": {"$ref": uri}}}


def test_a_bundle_holds_what_is_reached_and_nothing_else():
    money = {"$defs": {"amount": {"$ref": "kinds#/$defs/number"}, "name": STRING}, "title": "Money"}
    kinds = {"$schema": DRAFT_7, "$defs": {"number": {"anyOf": [{"$ref": "#/$defs/n"}]}, "n": {}, "rest": {}}}
    documents = {MONEY: money, KINDS: kinds, OTHER: refer(MONEY)}
    assert reached({}, documents) == {}
    assert reached(refer("#/a"), documents) == {}
    assert reached(refer(MONEY + "#/$defs/amount"), documents) == {
        MONEY: {"$defs": {"amount": money["$defs"]["amount"]}},
        KINDS: {"$schema": DRAFT_7, "$defs": {"number": {"anyOf": [{"$ref": "#/$defs/n"}]}, "n": {}}},
    }
    assert reached({"$id": "https://example.com/x/tool", **refer("../money#/$defs/name")}, documents) == {
        MONEY: {"$defs": {"name": STRING}}
    }


@pytest.mark.parametrize(
    ("document", "fragment", "kept"),
    [
        ({"allOf": [{}, STRING], "title": "t"}, "#/allOf/1", {"allOf": [{}, STRING]}),
        ({"$defs": {"a b/~": STRING, "c": {}}}, "#/$defs/a%20b~1~0", {"$defs": {"a b/~": STRING}}),
        ({"$defs": {"a": {"b": STRING}, "c": {}}}, "#/$defs/none", {}),
        ({"$defs": {"a": {"$anchor": "x"}}, "title": "t"}, "#x", ...),
        ({"$defs": {"a": {"$dynamicAnchor": "x"}, "b": {}}}, "#/$defs/b", ...),
        ({"$defs": {"a": {"$ref": "#"}, "b": {}}}, "#/$defs/a", ...),
        ({"$defs": {"a": {"id": "x"}, "b": {}}}, "#/$defs/b", ...),
        ({"$id": MONEY, "$defs": {"a": {}, "b": {}}}, "#/$defs/b", {"$id": MONEY, "$defs": {"b": {}}}),
        (True, "#/$defs/a", True),
        ({"$defs": True}, "#/$defs/a", {}),
    ],
)
def test_a_document_is_kept_whole_where_parts_could_mean_something_else(document, fragment, kept):
    assert reached(refer(MONEY + fragment), {MONEY: document}) == {MONEY: document if kept is ... else kept}


@pytest.mark.parametrize(
    "inner",
    [
        {"id": "https://b.example/", "properties": {"q": {"$ref": "money"}}},
        {"$id": "https://b.example/", "$ref": "money"},
        {"$id": "https://b.example/", "id": "c/", "properties": {"q": {"$ref": "https://a.example/money"}}},
    ],
)
def test_references_count_from_every_base_that_a_dialect_may_give_them(inner):
    """`id` names a schema in draft 4 alone, and up to draft 7 no identifier has force beside `$ref`."""
    schema = {"$id": "https://a.example/tool", "properties": {"p": inner}}
    documents = {"https://a.example/money": {"type": "number"}, "https://c.example/money": {}}
    assert Bundler(documents).bundle(schema)[0].keys() == {"https://a.example/money"}


def test_parts_inside_parts_are_kept_once():
    document = {"$defs": {"a": {"properties": {"b": STRING}}, "c": {}}}
    both = {"allOf": [{"$ref": f"{MONEY}#/$defs/a/properties/b"}, {"$ref": f"{MONEY}#/$defs/a"}]}
    assert reached(both, {MONEY: document}) == {MONEY: {"$defs": {"a": document["$defs"]["a"]}}}
    assert document == {"$defs": {"a": {"properties": {"b": STRING}}, "c": {}}}


def test_documents_that_refer_to_one_another_end():
    documents = {MONEY: {"$ref": "kinds"}, KINDS: {"allOf": [{"$ref": "money"}, {"$ref": "#"}]}}
    assert reached(refer(MONEY), documents) == documents


def test_a_bundle_has_a_limit():
    documents = {MONEY: {"$defs": {"big": {"const": "x" * 1000}, "small": {}}}}
    with pytest.raises(BundleTooLarge):
        Bundler(documents).bundle(refer(MONEY), 500)
    assert reached(refer(f"{MONEY}#/$defs/small"), documents)
    tools = [Tool(name, "", refer(MONEY)) for name in "abc"]
    with pytest.raises(InvalidTools) as refused:
        bundle_tools(tools[:2], documents, limits=Limits(tool_bytes=500))
    assert [(fault.tool, fault.pointer) for fault in refused.value.faults] == [
        ("a", "/tools/0"),
        ("b", "/tools/1"),
    ]
    with pytest.raises(LimitExceeded, match="documents they refer to"):
        bundle_tools(tools, documents, limits=Limits(toolset_bytes=2500))


def test_a_tool_is_what_it_refers_to():
    tool = Tool("pay", "", refer(f"{MONEY}#/$defs/a"))

    def digests(documents):
        toolset = Toolset("t", (tool,), documents)
        return toolset["pay"].digest, toolset.digest

    def money(a, **others):
        return {MONEY: {"$defs": {"a": a, **others}}}

    assert digests(money(STRING))[0] == digests(money(STRING, b={}))[0]
    assert digests(money(STRING))[1] != digests(money(STRING, b={}))[1]
    assert digests(money(STRING))[0] != digests(money({}))[0]
    assert digests({KINDS: {}})[0] == tool.digest


def test_what_a_tool_says_beside_its_schema_is_not_taken_for_documents():
    shown = Tool("pay", "", {}, extras={"documents": {KINDS: {}}})
    assert shown.digest != Tool("pay", "", {}, documents={KINDS: {}}).digest
    assert shown.digest != Tool("pay", "", {}, extras={KINDS: {}}).digest
    assert Tool("pay", "", {}, extras={KINDS: {}}).digest != Tool("pay", "", {}, documents={KINDS: {}}).digest


def test_changes_of_tools_keep_the_documents():
    toolset = Toolset("t", (), {MONEY: STRING})
    added = toolset.with_tool(Tool("pay", "", refer(MONEY)))
    assert (added.documents, added["pay"].documents) == ({MONEY: STRING}, {MONEY: STRING})
    assert added.without_tool("pay") == toolset
    assert Toolset("other", added.tools)["pay"].documents == {}
