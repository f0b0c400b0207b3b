"""Objects that differ in one member become one: it admits the same texts as they do, and takes fewer rules."""

import json
from itertools import combinations, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from soundness.judges import Judges

from compiler.errors import UnsupportedSchema
from compiler.lowering import schema_lowering, violations
from compiler.schema import compile_schema, lower_schema

KEYS = ("a", "b", "c", "x")
ORDERS = [(), *permutations(KEYS, 1), *permutations(KEYS, 2), *combinations(KEYS, 3)]
TEXTS = [
    json.dumps(dict(zip(keys, values, strict=True)))
    for keys in ORDERS
    for values in product((1, "s", None), repeat=len(keys))
]
DECLARED = {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}}

members = st.sampled_from(({"type": "integer"}, {"type": "string"}, {"enum": [1, "s"]}, False))
properties = st.dictionaries(st.sampled_from(KEYS[:3]), members, max_size=3)
differences = st.tuples(st.sampled_from(KEYS[:3]), st.none() | st.just({}) | members)
other_keywords = st.fixed_dictionaries(
    {},
    optional={
        "minProperties": st.integers(0, 3),
        "maxProperties": st.integers(1, 3),
        "additionalProperties": st.sampled_from((False, {"type": "string"})),
        "patternProperties": st.just({"^x": {"type": "integer"}}),
        "propertyNames": st.just({"enum": ["a", "b", "x"]}),
        "dependentRequired": st.sampled_from(({"a": ["b"]}, {"a": ["b"], "b": ["c"], "c": ["x"]})),
        "required": st.lists(st.sampled_from(KEYS[:3]), max_size=2, unique=True),
    },
)


def accepted(schema):
    """The texts that a mask admits, or why the schema is refused."""
    try:
        compiled = compile_schema(schema)
    except UnsupportedSchema as refusal:
        return refusal.reason
    return [text for text in TEXTS if compiled.accepts(text)]


def accepted_apart(schema):
    """The same, where no objects are joined."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (schema_lowering, violations):
            patch.setattr(module, "join_alternatives", lambda _, objects: ([], list(objects)))
        return accepted(schema)


def check(schema):
    together = accepted(schema)
    assert together == accepted_apart(schema)
    if not isinstance(together, str):
        judges = Judges(schema)
        assert [text for text in together if judges.faults(text.encode())] == []


@settings(max_examples=60)
@given(properties, st.lists(differences, min_size=2, max_size=5), other_keywords)
def test_alternatives_that_differ_in_one_member_admit_the_same_together(common, alternatives, others):
    required = others.get("required", [])
    check(
        DECLARED
        | {
            "anyOf": [
                others
                | {
                    "required": list({*required, key}),
                    "properties": common if member is None else common | {key: member},
                }
                for key, member in alternatives
            ]
        }
    )


def test_an_object_whose_decisive_members_cannot_be_written_is_refused():
    """`{}` satisfies what must fail: no key can be there, since each needs one that cannot."""
    needing = {"a": ["b"], "b": ["c"], "c": ["x"]}
    failing = {"type": "object", "properties": {key: {"type": "integer"} for key in "abc"}}
    schema = DECLARED | {"additionalProperties": False, "dependentRequired": needing, "not": failing}
    with pytest.raises(UnsupportedSchema, match="none that can be written"):
        compile_schema(schema)


@settings(max_examples=30)
@given(properties, other_keywords)
def test_what_fails_some_properties_is_the_same_together(failing, others):
    check(DECLARED | others | {"not": {"type": "object", "properties": failing}})


@settings(max_examples=15)
@given(properties, other_keywords)
def test_equal_items_have_one_text(failing, others):
    schema = {
        "uniqueItems": True,
        "items": DECLARED | others | {"not": {"properties": failing}},
        "type": "array",
    }
    try:
        compiled = compile_schema(schema)
    except UnsupportedSchema:
        return
    admitted = [text for text in TEXTS if compiled.accepts(f"[{text}]")]
    assert not any(compiled.accepts(f"[{text}, {text}]") for text in admitted)
    assert len({json.dumps(json.loads(text), sort_keys=True) for text in admitted}) == len(admitted)


@pytest.mark.parametrize(
    "alternatives",
    [
        [{"required": [key]} for key in "abc"],
        [{"required": [key], "properties": {key: {"type": "integer"}}} for key in "abc"],
        [{"required": ["a", key], "properties": {key: {"const": 1}}, "minProperties": 2} for key in "bcx"],
    ],
)
def test_all_valid_texts_in_order_are_admitted(alternatives):
    schema = DECLARED | {"anyOf": alternatives}
    compiled, judges = compile_schema(schema), Judges(schema)
    for text in TEXTS:
        is_in_order = list(json.loads(text)) == sorted(json.loads(text))
        assert not is_in_order or compiled.accepts(text) == (not judges.faults(text.encode())), text


def test_rules_grow_with_the_keys_not_with_their_square():
    def size(num_keys):
        keys = [f"key{number}" for number in range(num_keys)]
        typed = {key: {"type": "integer"} for key in keys}
        schema = {"type": "object", "properties": {key: {} for key in keys}, "not": {"properties": typed}}
        return len(lower_schema(schema).grammar.ebnf)

    assert size(40) - size(20) < 1.5 * (size(30) - size(10))
