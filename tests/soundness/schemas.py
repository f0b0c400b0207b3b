"""Generated schemas: nested combinations of every keyword."""

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
PATTERNS = (
    "^a", "b$", "^[a-z]+$", "^(ab|b)*$", "\\d{2}", "^\\w{1,3}$", "^[^a]*$", "^x-", "^$", "a.c", "^(?!a)", "^(?=.*b)",
    "[\\s\\S]", "^\\S+$", "^a|b$", "\\u00e9", "^.{2}$", "^(a|aa)+$", "[^\\x00-\\x7f]",
)  # fmt: skip
FORMATS = (
    "date",
    "time",
    "date-time",
    "email",
    "uuid",
    "ipv4",
    "hostname",
    "uri",
    "duration",
    "json-pointer",
    "unknown",
)
NUMBERS = (-3, -1, 0, 1, 2, 5, 10, 0.5, -0.5, 1.5, 2.5, 100, 1e3, 0.1)
STRINGS = ("", "a", "b", "ab", "abc", "é", "x-1", "12", '"', "\\", "\n", "😀", "2024-02-29", "a@b.co")

_scalars = st.sampled_from((None, True, False, 0, 1, 1.0, -1, 2, 0.5, *STRINGS[:8]))
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=4,
)
_small = st.recursive(
    st.sampled_from((1, 2, "a")),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS[:3]), inner, max_size=2),
    max_leaves=3,
)
"""Values that are likely to be equal."""
_counts = st.integers(0, 4)
_names = st.lists(st.sampled_from(KEYS), unique=True, max_size=3)
_some_names = _names.filter(bool)
"""Draft 4 requires at least one."""


def schemas(draft: int) -> st.SearchStrategy[Any]:
    """Schemas of one of `DIALECTS`, recursive ones among them; satisfiable or not.

    Also with keywords and formats that the draft does not know, or no longer.
    """
    dialect = {"$schema": DIALECTS[draft]}
    definitions = "$defs" if draft >= 2019 else "definitions"
    targets = ["#", f"#/{definitions}/d", f"#/{definitions}/e"]
    trivial = st.sampled_from(({}, {"not": {}})) if draft == 4 else st.booleans()
    inner = st.recursive(
        trivial | _leaves(targets, draft),
        lambda part: _with_parts(part, draft) | _leaves(targets, draft),
        max_leaves=6,
    )
    document = st.builds(
        lambda schema, d, e: {**dialect, **schema, definitions: {"d": d, "e": e}},
        _with_parts(inner, draft) | _leaves(targets[1:], draft),
        inner,
        inner,
    )
    return document.map(copy.deepcopy)


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


def _leaves(targets: list[str], draft: int) -> st.SearchStrategy[dict[str, Any]]:
    number = st.sampled_from(NUMBERS)
    strict = st.booleans() if draft == 4 else number
    return st.one_of(
        _some(
            type=st.just("string"), minLength=_counts, maxLength=_counts, pattern=st.sampled_from(PATTERNS)
        ),
        _some(
            type=st.just("string"),
            format=st.sampled_from(FORMATS),
            contentEncoding=st.just("base64"),
            maxLength=st.integers(5, 40),
        ),
        _some(
            type=st.sampled_from(("integer", "number", ["integer", "string"], ["null", "number"])),
            minimum=number,
            maximum=number,
            exclusiveMinimum=strict,
            exclusiveMaximum=strict,
            multipleOf=st.sampled_from((1, 2, 3, 0.5, 0.1, 0.01, 1.5)),
        ),
        _some(type=st.sampled_from(("boolean", "null", "object", "array", ["array", "object"]))),
        st.fixed_dictionaries({"const": _values}),
        st.fixed_dictionaries({"enum": st.lists(_values, min_size=1, max_size=4)}),
        st.fixed_dictionaries({"$ref": st.sampled_from(targets)}),
    )


def _with_parts(part: st.SearchStrategy[Any], draft: int) -> st.SearchStrategy[dict[str, Any]]:
    parts = st.lists(part, min_size=1, max_size=3)
    by_key = st.dictionaries(st.sampled_from(KEYS), part, max_size=4)
    objects = {
        "type": st.just("object"),
        "properties": by_key,
        "required": _some_names,
        "additionalProperties": part,
        "patternProperties": st.dictionaries(st.sampled_from(PATTERNS[:6]), part, max_size=2),
        "propertyNames": part,
        "minProperties": _counts,
        "maxProperties": _counts,
        "dependencies": st.dictionaries(st.sampled_from(KEYS), part | _some_names, max_size=2),
    }
    arrays = {
        "type": st.just("array"),
        "items": part,
        "minItems": _counts,
        "maxItems": _counts,
        "contains": part,
        "uniqueItems": st.booleans(),
    }
    if draft >= 2019:
        objects |= {
            "dependentRequired": st.dictionaries(st.sampled_from(KEYS), _names, max_size=2),
            "dependentSchemas": st.dictionaries(st.sampled_from(KEYS), part, max_size=2),
            "unevaluatedProperties": part,
        }
        arrays |= {
            "minContains": _counts,
            "maxContains": _counts,
            "unevaluatedItems": part,
        }
    if draft >= 2020:
        arrays |= {"prefixItems": parts}
    else:
        arrays |= {"items": part | parts, "additionalItems": part}
    combinations = {
        "allOf": parts, "anyOf": parts, "oneOf": parts, "not": part, "if": part, "then": part, "else": part,
    }  # fmt: skip
    return st.one_of(
        _some(**objects),
        _some(**arrays),
        _some(**combinations),
        st.builds(
            lambda *schemas: {k: v for s in schemas for k, v in s.items()},
            _some(**objects),
            _some(**combinations),
        ),
    )


def _some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A schema of at most four of `keywords`; the first, if it is `type`, more often than not."""
    optional = {name: values for name, values in keywords.items() if name != "type"}
    chosen = st.lists(st.sampled_from(sorted(optional)), unique=True, max_size=4) if optional else st.just([])
    bodies = chosen.flatmap(lambda names: st.fixed_dictionaries({name: optional[name] for name in names}))
    if "type" not in keywords:
        return bodies
    typed = st.builds(lambda kind, body: {"type": kind, **body}, keywords["type"], bodies)
    return typed | typed | bodies
