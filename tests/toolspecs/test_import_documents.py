"""What is read as an OpenAPI document, and what is refused."""

import pytest
from openapi_documents import URI

from toolspecs.errors import UnreadableSource
from toolspecs.imports.documents import parse_document
from toolspecs.imports.openapi import import_openapi, unreachable


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "neither JSON nor YAML"),
        (
            "a: b: c",
            "neither JSON nor YAML: mapping values are not allowed in this context at line 1, column 5",
        ),
        ("? [a]\n: 1", "a key is not text"),
        ("!!python/object/apply:os.system ['true']", "neither JSON nor YAML"),
        ("[" * 100_000, "nested more than|neither JSON nor YAML"),
        ("a: " + "[" * 100_000, "nested more than 200 deep|exceeded maximum nesting depth"),
        ("{a: " * 100_000, "nested more than 200 deep"),
        ("- " * 100_000, "nested more than 200 deep"),
        ("a: &a [*a]", "nested more than 200 deep"),
        ("a: .nan", "at /a: JSON has no infinite numbers and no NaN"),
        ("3", "has the field `openapi`"),
        ("swagger: '2.0'", "convert it to OpenAPI 3"),
        ("openapi: 4.0.0", "OpenAPI 4.0.0 cannot be read"),
        ("openapi: 3", "OpenAPI 3 cannot be read, only 3.0, 3.1, 3.2"),
        ("openapi: 2.5", "OpenAPI 2.5 cannot be read"),
        ("openapi: true", "has the field `openapi`"),
        ("openapi: [3.1]", "has the field `openapi`"),
        ("openapi: 3.1.0\npaths: []", "at /paths"),
        ("openapi: 3.1.0\npaths: {}", "it has no operations"),
    ],
)
def test_what_is_no_such_document_is_told(text, message):
    with pytest.raises(UnreadableSource) as raised:
        import_openapi(URI, text, unreachable)
    assert str(raised.value).startswith(URI)
    assert any(part in str(raised.value) for part in message.split("|"))


@pytest.mark.parametrize("version", ["3.0", "3.1", "3.2", "'3.1'", "3.1.1"])
def test_a_version_may_be_a_number(version):
    """As YAML reads `3.0`."""
    text = f"openapi: {version}\npaths: {{/a: {{get: {{operationId: look}}}}}}"
    [tool] = import_openapi(URI, text, unreachable).tools
    assert tool.name == "look"
    assert ("$schema" in tool.parameters) == (version == "3.0")


@pytest.mark.parametrize(
    ("text", "place", "key"),
    [
        ('{"a": [1, {"b/c": {"d": 1, "d": 2}}]}', "/a/1/b~1c", "d"),
        ('{"a": 1, "\\u0061": 2}', "/", "a"),
        ("a:\n  - 1\n  - b/c:\n      d: 1\n      e: {d: 2}\n      d: [3]", "/a/1/b~1c", "d"),
        ("{a: {b: 1}, c: {b: 1, 'b': 2}}", "/c", "b"),
        ("200: x\n'200': y", "/", "200"),
        ("a: &a {b: 1}\nc:\n  <<: *a\n  d: 1\n  d: 2", "/c", "d"),
        ("? a\n: 1\n? a\n: 2", "/", "a"),
        ("&k a: 1\nb: {*k : 1, a: 2}", "/b", "a"),
        ("&k a: 1\n*k : 2", "/", "a"),
        ("a: {'<<': 1, '<<': 2}", "/a", "<<"),
    ],
)
def test_a_key_that_stands_twice_is_refused_with_its_place(text, place, key):
    """Else the first of two operations, or keywords, would be lost."""
    with pytest.raises(UnreadableSource, match=f"the object at {place} has the key {key!r} twice"):
        parse_document(text, "api")


def test_keys_of_different_objects_and_merged_ones_may_be_alike():
    text = "a: &a {x: 1, y: 1}\nb: &b {z: 1}\nc:\n  <<: *a\n  <<: *b\n  x: 2\nd: [{x: 1}, {x: 1}, *a]"
    assert parse_document(text, "api")["c"] == {"x": 2, "y": 1, "z": 1}
    assert parse_document('{"a": {"b": {"a": ["a:", {}, "a"]}}, "b": {"a:{": 1}}', "api")["b"] == {"a:{": 1}


def test_a_small_text_that_stands_for_a_huge_value_is_refused_quickly():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(UnreadableSource, match="larger than"):
        parse_document("\n".join(lines), "bomb")


def test_yaml_is_read_as_its_version_1_2():
    text = "{on: yes, date: 2024-01-02, time: 12:30, octal: 010, hex: 0x1F, float: 1.5e3, none: ~, true: True, 200: ok}"
    assert parse_document(text, "x") == {
        "on": "yes",
        "date": "2024-01-02",
        "time": "12:30",
        "octal": 10,
        "hex": 31,
        "float": 1500.0,
        "none": None,
        "true": True,
        "200": "ok",
    }


def test_merges_of_merges_are_bounded():
    lines = [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 12)]
    with pytest.raises(UnreadableSource, match="too much is merged"):
        parse_document("\n".join([f"a0: &a0 {dict.fromkeys(map(str, range(5_000)), 1)}", *lines]), "api.yaml")


def test_merges_of_nothing_are_bounded_too():
    """60 kB took 12 s, and twice as much four times as long."""
    empty = f"s: &s [{', '.join(['{}'] * 4_000)}]"
    with pytest.raises(UnreadableSource, match="too much is merged"):
        parse_document("\n".join([empty, "m:", *["- {<<: *s}"] * 4_000]), "api.yaml")


def test_own_members_win_over_merged_ones_and_the_first_mapping_over_the_next():
    text = "a: &a {xx: 1, yy: 1}\nb: &b {xx: 2, yy: 2, zz: 2}\nc: {<<: [*a, *b], yy: 3, ww: 3}\nd: &d {<<: *d, xx: 4}"
    found = parse_document(text, "api.yaml")
    assert list(found["c"].items()) == [("xx", 1), ("yy", 3), ("zz", 2), ("ww", 3)]
    assert found["d"] == {"xx": 4}


@pytest.mark.parametrize("merged", ["1", "[{a: 1}, 2]", "[[{a: 1}]]"])
def test_what_is_no_mapping_is_not_merged(merged):
    with pytest.raises(UnreadableSource, match="`<<` merges what is no mapping at line 1"):
        parse_document(f"a: {{<<: {merged}}}", "api.yaml")
