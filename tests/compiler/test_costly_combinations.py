"""What would take seconds is written in another way, and admits what it should.

Alternatives of patterns, `oneOf` beside other keywords, keys that match no pattern, long `minLength`.
"""

import json
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from soundness.judges import Judges

from compiler.errors import UnsupportedSchema
from compiler.regular.language import PatternCondition, language
from compiler.report import Verdict
from compiler.schema import compile_schema, lower_schema

PATTERNS = ("^a", "b$", "a.b", "^[ab]{2}$", "ab|ba", "^a{0,3}$", "^(?:ab)+$", "[^a]", "^$", "a{2,3}")
TEXTS = ["".join(chars) for length in range(5) for chars in product("abc", repeat=length)]
"""Every text of up to four of these letters."""


def negated(schema):
    return {"not": schema}


OF_PATTERNS = st.recursive(
    st.sampled_from(PATTERNS).map(lambda pattern: {"type": "string", "pattern": pattern}),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda schemas: {"anyOf": schemas}),
        st.lists(inner, min_size=2, max_size=3).map(lambda schemas: {"allOf": schemas}),
        inner.map(negated),
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(
    OF_PATTERNS, st.sampled_from([{}, {"minLength": 2}, {"maxLength": 3}, {"minLength": 1, "maxLength": 2}])
)
def test_unions_of_patterns_admit_exactly_their_strings(schema, lengths):
    schema = {"type": "string", "allOf": [schema], **lengths}
    try:
        compiled = compile_schema(schema)
    except UnsupportedSchema:  # nothing satisfies it
        assert not any(Judges(schema).faults(json.dumps(text).encode()) == [] for text in TEXTS)
        return
    judges = Judges(schema)
    for text in map(json.dumps, TEXTS):
        assert compiled.accepts(text) == (judges.faults(text.encode()) == []), text


def test_alternatives_of_patterns_become_one_automaton():
    patterns = ("^x.*a", "b.*c$", "^[a-f]*$", "12")
    grammar = lower_schema(
        {"anyOf": [{"type": "string", "pattern": pattern} for pattern in patterns]}
    ).grammar
    assert sum(state.bound is not None for state in grammar.plan.states) == 1


NAMES = (
    *("a", "a.b-c", "-a", "1.2.3.4", "1.2.3.400", "1.2.3.4.", "::1", "fe80::1:2", "g::", "1:2:3:4:5:6:7:8"),
    *("", "A", "ab@c.de", "ab@c", "$x", "$", "$ab}", "a" * 63, "a" * 64, f"{'a' * 64}@c.de"),
)


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("alternatives", "written"),
    [
        ([{"format": "hostname"}, {"format": "ipv4"}, {"format": "ipv6"}], ["a.b-c", "::1", "a" * 63]),
        (
            [{"format": "email"}, {"pattern": r"^\$[a-z]*\}?$", "minLength": 2}],
            ["ab@c.de", "$x"],
        ),
    ],
)
def test_alternatives_of_formats_that_need_a_guard_become_one_automaton(keyword, alternatives, written):
    schema = {"type": "string", keyword: alternatives}
    compiled, judges = compile_schema(schema), Judges(schema)
    assert len(compiled.grammar.plan.bounds) == 1
    accepted = {text for text in NAMES if compiled.accepts(json.dumps(text))}
    assert {*written} <= accepted
    assert accepted <= {text for text in NAMES if judges.faults(json.dumps(text).encode()) == []}
    verdicts = {entry.keyword: entry.verdict for entry in compiled.report if entry.pointer == f"/{keyword}/0"}
    assert verdicts == {"format": Verdict.GUARDED}


def test_of_counts_in_what_must_not_match_less_is_left():
    texts = ["", "aa", "aab", "aaaa", "b"]
    exact, lowered = (
        language([PatternCondition("^a{1,3}$", is_excluded=True)], most=most) for most in (1_000, 2)
    )
    assert [exact.accepts(text) for text in texts] == [True, False, True, True, True]
    assert [lowered.accepts(text) for text in texts] == [True, False, True, False, True]


@pytest.mark.parametrize("pattern", ["^a{2,9}$", "^a{9}$", "^a{9,}$", "^(?!a{2,9}$)[ab]*$", "^b?a{4}"])
def test_counts_change_so_that_the_complement_admits_less(pattern):
    exact, lowered = (
        language([PatternCondition(pattern, is_excluded=True)], most=most) for most in (1_000, 3)
    )
    for length in range(12):
        for text in ("a" * length, "b" + "a" * length):
            assert exact.accepts(text) or not lowered.accepts(text), text


@pytest.mark.parametrize(
    ("pattern", "left_out", "written"),
    [
        (
            "^lang_[a-z]{2}(-[a-z]+)*$",
            ["lang_de", "lang_de-at", "lang_", "lang_1"],
            ["lang", "langu", "", "x"],
        ),
        ("^(ab|acd[a-z]+x)$", ["ab", "acd", "acdy"], ["ac", "abc", "b"]),
        ("a[a-z]*b", ["ab", "axb"], ["a", "b", "ax"]),
        ("^[a-z]+_x$", ["a_x"], ["a", "a_", "a_xx"]),
    ],
)
def test_what_begins_like_a_text_is_left_out_where_few_characters_begin_it(pattern, left_out, written):
    exact, begun = (
        language([PatternCondition(pattern, is_excluded=True, excludes_beginnings=excludes_beginnings)])
        for excludes_beginnings in (False, True)
    )
    assert [text for text in left_out if begun.accepts(text)] == []
    assert [text for text in written if not begun.accepts(text)] == []
    for text in ["".join(chars) for length in range(5) for chars in product("abx_", repeat=length)]:
        assert exact.accepts(text) or not begun.accepts(text), text


def test_keys_that_match_no_long_pattern_cost_little_and_are_told():
    tag = "(([A-Za-z]{2,3}(-[A-Za-z]{3}){0,3}|[A-Za-z]{5,8})(-[A-Za-z]{4})?(-[A-Za-z0-9]{5,8})*(-x(-[a-z]{1,8})+)?)"
    schema = {"patternProperties": {f"^title_{tag}$": {"type": "integer"}, f"^name_{tag}$": {"type": "null"}}}
    lowered, compiled, judges = lower_schema(schema), compile_schema(schema), Judges(schema)
    assert len(lowered.grammar.ebnf) < 30_000
    for key in ("title_de", "title_1", "name_de-abcd", "title", "names", "other"):
        for value in ("1", "null", '"x"'):
            text = f'{{"{key}": {value}}}'
            assert not compiled.accepts(text) or judges.faults(text.encode()) == [], text
    accepted = [key for key in ("title", "other", "title_1") if compiled.accepts(f'{{"{key}": "x"}}')]
    assert accepted == ["title", "other"]
    assert compiled.accepts('{"title_de-abc": 1, "name_de": null}')
    assert any("begin like one that does not match" in entry.note for entry in lowered.report)


def test_keys_that_match_no_counting_pattern_cost_little():
    schema = {"patternProperties": {"^[a-zA-Z0-9_-]{0,250}$": {"type": "integer"}}}
    lowered, compiled, judges = lower_schema(schema), compile_schema(schema), Judges(schema)
    assert len(lowered.grammar.ebnf) < 20_000
    texts = [f'{{"{key}": {value}}}' for key in ("a", "a b", "a" * 251, "é") for value in ("1", '"x"')]
    for text in texts:
        assert not compiled.accepts(text) or judges.faults(text.encode()) == [], text
    assert compiled.accepts('{"a b": "x"}')
    entry = next(entry for entry in lowered.report if "count beyond 64" in entry.note)
    assert (entry.pointer, entry.verdict) == ("", Verdict.NARROWED)


def test_a_class_of_keys_without_keys_has_no_values():
    """Otherwise a guard could not tell the strings of the other keys from values that no key has."""
    schema = {
        "patternProperties": {"^[a-z]+$": {"type": "string", "maxLength": 300}},
        "additionalProperties": False,
    }
    lowered = lower_schema(schema)
    assert any(state.bound is not None for state in lowered.grammar.plan.states)
    compiled = compile_schema(schema)
    assert compiled.accepts(json.dumps({"a": "x" * 300}))
    assert not compiled.accepts(json.dumps({"a": "x" * 301}))


@pytest.mark.parametrize("high", [None, 45])
def test_a_guard_keeps_a_long_lower_bound(high):
    schema = {"type": "object", "properties": {"a": {"type": "string", "minLength": 40}}, "required": ["a"]}
    if high is not None:
        schema["properties"]["a"]["maxLength"] = high
    compiled = compile_schema(schema)
    found = [
        n for n in (0, 39, 40, 45, 46) if compiled.accepts(json.dumps({"a": "é" * n}, ensure_ascii=False))
    ]
    assert found == ([40, 45] if high else [40, 45, 46])
    verdicts = {entry.keyword: entry.verdict for entry in compiled.report}
    assert verdicts["minLength"] is Verdict.GUARDED


CLOSED = {"required": ["a", "b"], "additionalProperties": False}
KINDS = ("cat", "dog", "cow")
NODE = {"properties": {"next": {"$ref": "#/$defs/node"}}, "type": "object"}


def beside(keyword, *, is_required):
    alternatives = [
        {"properties": {"kind": {"const": kind}, kind: {"type": "integer"}}, "required": [kind]}
        for kind in KINDS
    ]
    return {
        "$defs": {"node": NODE},
        "type": "object",
        "properties": {"kind": {"enum": [*KINDS, "ant"]}, "of": {"$ref": "#/$defs/node"}},
        **({"required": ["kind"]} if is_required else {}),
        keyword: alternatives,
        "not": {"properties": {"of": {"properties": {"next": {"required": ["next"]}}}}, "required": ["cow"]},
    }


@pytest.mark.parametrize("is_required", [True, False])
@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
def test_alternatives_beside_other_keywords(keyword, is_required):
    schema = beside(keyword, is_required=is_required)
    compiled, judges = compile_schema(schema), Judges(schema)
    kinds = (None, "cat", "cow", "ant")
    members = (None, {}, {"next": {}}, {"next": {"next": {}}})
    accepted = 0
    for kind, of, cat, cow in product(kinds, members, (None, 1, "x"), (None, 2)):
        value = {"kind": kind, "of": of, "cat": cat, "cow": cow}
        text = json.dumps({key: each for key, each in value.items() if each is not None})
        is_accepted = compiled.accepts(text)
        accepted += is_accepted
        assert not is_accepted or judges.faults(text.encode()) == [], text
    assert accepted > 5
    assert compiled.accepts('{"kind": "cat", "cat": 1}')


def test_a_schema_that_is_referred_to_is_written_once():
    """However many places refer to it: its rules depend on it alone, and so does the order of its keys."""
    sizes = []
    for number in (2, 12):
        properties = {f"p{i}": {"oneOf": [{"$ref": "#/$defs/part"}, {"type": "null"}]} for i in range(number)}
        part = {"type": "object", "properties": {f"k{i}": {"$ref": "#/$defs/leaf"} for i in range(20)}}
        leaf = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}}
        schema = {"$defs": {"part": part, "leaf": leaf}, "type": "object", "properties": properties}
        grammar = lower_schema(schema).grammar
        sizes.append(len(grammar.rules))
        compiled = compile_schema(schema)
        assert compiled.accepts('{"p1": {"k0": {"b": "x", "a": 1}}}')
        assert not compiled.accepts('{"p1": {"k0": {"a": 1, "b": "x"}}}')
    assert sizes[1] - sizes[0] < 60


def test_equal_items_have_one_order_of_keys_whichever_alternative_they_are():
    part = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "integer"}}, **CLOSED}
    other = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, **CLOSED}
    schema = {
        "$defs": {"part": part, "node": {"properties": {"next": {"$ref": "#/$defs/node"}}}},
        "type": "array",
        "uniqueItems": True,
        "items": {"anyOf": [other, {"allOf": [{"$ref": "#/$defs/part"}]}, {"$ref": "#/$defs/part"}]},
    }
    compiled = compile_schema(schema)
    assert not compiled.accepts('[{"a": 1, "b": 2}, {"b": 2, "a": 1}]')
    assert not compiled.accepts('[{"b": 2, "a": 1}, {"a": 1, "b": 2}]')


def test_rules_keep_long_lower_bounds_of_distinct_strings():
    items = {"type": "string", "minLength": 40, "maxLength": 50}
    compiled = compile_schema({"type": "array", "uniqueItems": True, "items": items})
    long, longer = "a" * 40, "a" * 41
    assert compiled.accepts(json.dumps([long, longer]))
    assert not compiled.accepts(json.dumps([long, long]))
    assert not compiled.accepts(json.dumps([long, "a" * 39]))
