"""The drafts, and schemas that hypothesis makes up around `unevaluated*` and with conditions."""

import copy
from typing import Any

from hypothesis import strategies as st

DIALECTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
"""By number or year."""
KEYS = ("a", "b", "ab", "x-1", "é")
STRINGS = ("", "a", "b", "ab", "abc", "é", "x-1", "12", '"', "\\", "\n", "😀", "2024-02-29", "a@b.co")

_small = st.recursive(
    st.sampled_from((1, 2, "a")),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS[:3]), inner, max_size=2),
    max_leaves=3,
)
"""Values that are likely to be equal."""


def instances() -> st.SearchStrategy[Any]:
    """Small values, most of them arrays and objects."""
    lists = st.lists(_small, max_size=3)
    return lists | st.dictionaries(st.sampled_from(KEYS[:3]), _small, max_size=3) | _small


def schemas_around_unevaluated(draft: int) -> st.SearchStrategy[Any]:
    """Schemas with `unevaluated*` around listed arrays and objects, in place of which parts may be described.

    Some name their dialect again, or an older one, in a subschema.
    """
    listed = st.fixed_dictionaries({"const": instances()}) | st.fixed_dictionaries(
        {"enum": st.lists(instances(), min_size=1, max_size=3)}
    )
    prefix = "prefixItems" if draft >= 2020 else "items"
    item = st.sampled_from((True, {"type": "integer"}, {"type": "string"}, {"const": [1]}))
    parts = (
        st.fixed_dictionaries({prefix: st.lists(item, min_size=1, max_size=2)})
        | st.fixed_dictionaries(
            {"properties": st.dictionaries(st.sampled_from(KEYS[:3]), item, min_size=1, max_size=2)}
        )
        | st.fixed_dictionaries({"required": st.lists(st.sampled_from(KEYS[:3]), min_size=1, max_size=2, unique=True)})
        | st.fixed_dictionaries({"contains": item})
        | st.sampled_from(({"type": "array"}, {"type": "object"}, {}, {"format": "date"}))
    )  # fmt: skip
    named = st.builds(
        lambda name, part: {"$schema": name, **part},
        st.sampled_from((DIALECTS[7], DIALECTS[2019], DIALECTS[draft])),
        listed | parts,
    )
    inner = st.recursive(
        listed | listed | parts | named,
        lambda part: _some(
            allOf=st.lists(part, min_size=1, max_size=2),
            anyOf=st.lists(part, min_size=1, max_size=3),
            oneOf=st.lists(part, min_size=1, max_size=3),
            **dict.fromkeys(("not", "if", "then", "else"), part),
            dependentSchemas=st.dictionaries(st.sampled_from(KEYS[:3]), part, min_size=1, max_size=2),
        ),
        max_leaves=5,
    )
    rest = st.sampled_from((False, False, {"type": "string"}, {"const": [1]}))
    around = _some(unevaluatedItems=rest, unevaluatedProperties=rest).filter(bool)
    outermost = st.builds(
        lambda part, over, own: {**part, **over, **own}, inner, around, listed | parts | st.just({})
    )
    nested = st.builds(lambda part, over: {"allOf": [part], **over}, outermost, around)
    return (outermost | nested).map(lambda part: copy.deepcopy({**part, "$schema": DIALECTS[draft]}))


def schemas_with_conditions(draft: int) -> st.SearchStrategy[Any]:
    """Schemas with several conditions, most of them on the values of one key, with `unevaluated*` around them."""
    key = st.sampled_from(("a", "a", "b"))
    value = st.sampled_from((1, 2, "a", 3))
    asked = (
        st.fixed_dictionaries({"const": value})
        | st.fixed_dictionaries({"enum": st.lists(value, min_size=1, max_size=2, unique=True)})
        | st.builds(lambda listed: {"not": {"enum": [listed]}}, value)
    )
    part = st.sampled_from((True, False, {"type": "integer"}, {"type": "string"}))
    consequence = st.one_of(
        st.fixed_dictionaries({"required": st.lists(st.sampled_from(KEYS[:3]), min_size=1, max_size=2, unique=True)}),
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from(KEYS[:3]), part, min_size=1, max_size=2)}),
        st.sampled_from(({}, {"unevaluatedProperties": False}, {"type": "object"}, {"minProperties": 2}, False)),
    )  # fmt: skip

    def test(keys: list[str], values: list[Any], is_strict: bool, is_negated: bool) -> Any:  # noqa: FBT001
        body = {"properties": dict(zip(keys, values, strict=False))}
        found = {**body, "required": list(body["properties"])} if is_strict else body
        return {"not": found} if is_negated else found

    tests = st.builds(
        test,
        st.lists(key, min_size=1, max_size=2),
        st.lists(asked, min_size=2, max_size=2),
        st.booleans(),
        st.sampled_from((False, False, False, True)),
    )
    condition = st.builds(
        lambda asks, branches: {"if": asks, **branches},
        tests,
        _some(then=consequence, **{"else": consequence}),
    )
    rest = st.sampled_from(({}, {}, {"unevaluatedProperties": False}, {"properties": {"a": True}}))
    conditions = st.lists(condition, min_size=2, max_size=4)
    group = st.builds(lambda parts, own: {"allOf": parts, **own}, conditions, rest)
    nested = st.builds(
        lambda own, inner, over, name: {**own, **over, name: inner},
        condition | consequence.filter(bool),
        st.lists(group, min_size=1, max_size=2),
        rest,
        st.sampled_from(("allOf", "allOf", "anyOf", "oneOf")),
    )
    return (group | nested).map(lambda schema: copy.deepcopy({**schema, "$schema": DIALECTS[draft]}))


def _some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A schema of at most four of `keywords`."""
    chosen = st.lists(st.sampled_from(sorted(keywords)), unique=True, max_size=4)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: keywords[name] for name in names}))
