"""Numbers beyond 2**53: what is admitted is valid whether numbers are read exactly, as doubles or some of each."""

import json
import math
import operator
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from soundness.judges import Judges

from compiler.doubles import agreed_integer_maximum, agreed_maximum, agreed_minimum
from compiler.errors import UnsupportedSchema
from compiler.schema import compile_schema

CALM = settings(suppress_health_check=list(HealthCheck))
INT64 = 2**63 - 1
ODD = 2**53 + 1
"""No double: it is rounded to 2**53."""

CASES = [
    ({"type": "number", "maximum": INT64}, [str(INT64 - 1023), f"{INT64 - 1023}.0"], [f"{INT64}.0", f"{INT64}"]),
    ({"type": "number", "minimum": 2**54, "exclusiveMinimum": 2**54 - 1}, [str(2**54 + 4)], [str(2**54)]),
    ({"type": "number", "minimum": ODD}, [str(ODD + 1), f"{ODD + 1}.0"], [f"{ODD}.0"]),
    ({"type": "number", "minimum": -ODD}, [str(-ODD + 1)], [f"-{ODD + 1}.0", f"-{ODD + 1}"]),
    ({"type": "number", "exclusiveMaximum": 2**53 + 4}, [str(2**53 + 2)], [str(2**53 + 3), f"{2**53 + 3}.0"]),
    ({"type": "number", "maximum": 1e23}, ["99999999999999974834176"], [str(10**23)]),
    ({"type": "integer", "maximum": INT64}, [str(INT64)], [str(INT64 + 1)]),
    ({"type": "integer", "maximum": INT64, "exclusiveMinimum": 0}, [str(INT64)], [str(INT64 + 1)]),
    ({"type": "integer", "exclusiveMaximum": INT64 + 1}, [str(INT64 - 1023)], [str(INT64)]),
    ({"type": "integer", "maximum": 1e23}, ["99999999999999991611392"], [str(10**23)]),
    ({"type": "integer", "not": {"const": ODD}}, [str(ODD + 1)], [str(ODD), str(ODD - 1)]),
    ({"type": "integer", "not": {"maximum": ODD - 1}}, [str(ODD + 1)], [str(ODD)]),
    ({"const": ODD}, [str(ODD)], [f"{ODD}.0", str(ODD - 1)]),
    ({"const": 1e23}, ["1e+23"], [str(10**23)]),
    ({"const": -1e308}, ["-1e+308"], [str(-(10**308))]),
    ({"enum": [[1e308, False]]}, ["[1e+308,false]"], [f"[{10**308},false]"]),
    ({"const": 10**400}, [str(10**400)], ["1e400"]),
    ({"enum": [[1e23], 1]}, ["[1e+23]", "1"], [f"[{10**23}]"]),
    ({"enum": [ODD, ODD - 1, 5], "not": {"const": ODD}}, ["5"], [str(ODD), str(ODD - 1)]),
    ({"type": "array", "uniqueItems": True, "items": {"enum": [1e23, 1]}}, ["[1]"], [f"[{10**23}]"]),
    ({"type": "number", "maximum": 1e308, "minimum": -(10**400)}, ["-2.5"], ["1e400"]),
    ({"type": "number", "not": {"exclusiveMaximum": 10**23, "minimum": 1e23}}, ["5", "1.5", str(10**24)], ["1e+23", str(10**23)]),
    ({"type": "number", "not": {"allOf": [{"exclusiveMaximum": 10**23}, {"const": 1e23}]}}, ["-5"], ["1e+23"]),
    ({"not": {"maximum": ODD - 1, "minimum": ODD}}, ["5", str(ODD - 2), str(ODD + 1)], [str(ODD), str(ODD - 1)]),
    ({"type": "integer", "anyOf": [{"maximum": 1e23}, {"minimum": 10**23 - 5}]}, ["5"], [str(10**23 - 7)]),
    ({"enum": [1e23, 10**23 - 7, 5], "anyOf": [{"maximum": 1e23}, {"minimum": 10**23 - 5}]}, ["5"], [str(10**23 - 7)]),
    ({"enum": [1e23, 5], "maximum": 10**23 - 7}, ["5"], ["1e+23"]),
    ({"type": "number", "not": {"maximum": 10**50 + 1, "minimum": 10**50 + 2}}, ["5"], ["1e50", "1.0e+50"]),
    ({"type": "integer", "maximum": INT64, "anyOf": [{"minimum": -INT64 - 1}, {"maximum": 9.223372036854776e18}]}, [str(2**62)], [str(INT64 + 1)]),
    ({"type": "number", "multipleOf": 3, "minimum": ODD}, [str(ODD + 3)], [f"{ODD}.0"]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "admitted", "left_out"), CASES, ids=str)
def test_large_numbers_hold_under_every_reading(schema, admitted, left_out):
    compiled = compile_schema(schema)
    assert [text for text in admitted if not compiled.accepts(text)] == []
    assert [text for text in left_out if compiled.accepts(text)] == []
    judges = Judges(schema)
    assert [text for text in admitted if judges.faults(text.encode())] == []


def test_the_report_says_where_a_bound_is_moved():
    entries = {entry.keyword: entry for entry in compile_schema({"type": "number", "maximum": INT64}).report}
    assert entries["maximum"].verdict == "narrowed"
    assert "9223372036854774784" in entries["maximum"].note


def test_a_number_that_doubles_take_for_an_excluded_one_is_refused():
    with pytest.raises(UnsupportedSchema):
        compile_schema({"type": "integer", "exclusiveMinimum": 2**53, "exclusiveMaximum": 2**53 + 2})


def test_draft_4_has_no_integers_with_an_exponent():
    draft_4 = "http://json-schema.org/draft-04/schema#"
    compiled = compile_schema({"$schema": draft_4, "type": "integer", "enum": [1e23, 1]})
    assert not compiled.accepts("1e+23")
    assert not compiled.accepts(str(10**23))


SIGNS = st.sampled_from((1, -1))
MAGNITUDES = (
    st.sampled_from((2**53, 2**54, 2**60, 2**63, 2**64, 10**17, 10**22, 10**23, 10**30)).flatmap(
        lambda power: st.integers(-5, 5).map(lambda more: power + more)
    )
    | st.integers(2**53 - 10, 2**65)
    | st.integers(0, 100)
)
INTEGERS = st.builds(operator.mul, SIGNS, MAGNITUDES)
BOUNDS = INTEGERS | INTEGERS.map(float)
BOUND_NAMES = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def readings(text: str) -> list:
    """A number as validators read it: exactly, as a double, or as the shortest decimal of the double."""
    return [Decimal(text), Decimal(float(text)), Decimal(repr(float(text)))]


def alike(text: str, bound: float) -> list:
    """An integer and a bound as a validator reads them that reads integers exactly, or all numbers as doubles."""
    exact, double, _ = readings(text)
    exact_bound, double_bound, _ = readings(str(bound))
    pairs = [(exact, exact_bound), (double, double_bound)]
    return [*pairs, (exact, double_bound)] if isinstance(bound, float) else pairs


def holds(keyword: str, value: Decimal, bound: Decimal) -> bool:
    compare = {
        "minimum": operator.ge,
        "maximum": operator.le,
        "exclusiveMinimum": operator.gt,
        "exclusiveMaximum": operator.lt,
        "multipleOf": lambda value, divisor: value % divisor == 0,
        "const": operator.eq,
    }
    return bool(compare[keyword](value, bound))


def texts_near(bounds) -> list[str]:
    """Numbers at the bounds and at the doubles around them, as integers, with a point and with an exponent."""
    found = []
    for bound in bounds:
        double = float(bound)
        around = (int(double), int(math.nextafter(double, math.inf)), int(math.nextafter(double, -math.inf)))
        middle = ((around[0] + around[1]) // 2, (around[0] + around[2]) // 2)
        for exact in {int(Decimal(str(bound))), *around, *middle}:
            for number in range(exact - 2, exact + 3):
                found += [str(number), f"{number}.0", f"{number}.5", f"{Decimal(number):e}"]
    return found


def check_bounds(keywords: dict, kind: str) -> None:
    """Whatever is accepted near the bounds holds under all readings of it and of them."""
    try:
        compiled = compile_schema({"type": kind, **keywords})
    except UnsupportedSchema:
        return
    judges = Judges({"type": kind, **keywords})
    accepted = [text for text in texts_near(keywords.values()) if compiled.accepts(text)]
    for text in accepted:
        assert judges.faults(text.encode()) == [], text
        for keyword, bound in keywords.items():
            is_integer = text.lstrip("-").isdigit()
            pairs = alike(text, bound) if is_integer else product(readings(text), readings(str(bound))[:2])
            assert all(holds(keyword, *pair) for pair in pairs), (text, keyword, bound)


@pytest.mark.parametrize(
    ("items", "pair", "admitted"),
    [
        ({"type": "integer", "minimum": ODD - 3}, [ODD - 1, ODD], "[]"),
        ({"type": "integer", "minimum": 0, "maximum": INT64}, [INT64, INT64 - 1], f"[{10**15 - 1},{10**15 - 2}]"),
        ({"type": "integer", "maximum": -(2**59), "multipleOf": 2}, [-(2**59), -(2**59) - 2], "[]"),
        ({"type": "number", "minimum": 1, "maximum": 1e18}, [ODD - 1, ODD], f"[1.5,{10**15 - 1}]"),
        ({"enum": [ODD - 1, ODD, 5]}, [ODD - 1, ODD], "[5]"),
        ({"enum": [[ODD], {"a": 1}, [ODD - 1]]}, [[ODD - 1], [ODD]], '[{"a":1}]'),
        ({"enum": [1e23, 10**23 - 1, 7]}, [1e23, 10**23 - 1], "[7]"),
    ],
)  # fmt: skip
def test_distinct_numbers_are_distinct_doubles(items, pair, admitted):
    """ajv, like all that read numbers as doubles, takes 9007199254740992 and 9007199254740993 for the same."""
    compiled = compile_schema({"type": "array", "items": items, "uniqueItems": True})
    assert not compiled.accepts(json.dumps(pair))
    assert compiled.accepts(admitted)
    notes = "; ".join(entry.note for entry in compiled.report if entry.pointer == "/items")
    assert "15 digits" in notes or "15 significant digits" in notes or "beyond 2**53" in notes
    alone = compile_schema({"type": "array", "items": items, "uniqueItems": True, "maxItems": 1})
    assert "enum" in items or alone.accepts(json.dumps(pair[:1]))


MANY = pytest.param(5000, marks=[pytest.mark.corpus, pytest.mark.timeout(7200)])
"""How many schemas a full run has, others each time."""


@pytest.mark.parametrize("count", [75, MANY])
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_bounds_hold_under_every_reading(kind, count):
    bounds = st.dictionaries(st.sampled_from(BOUND_NAMES), BOUNDS, min_size=1, max_size=3)
    made_up = given(bounds)(lambda keywords: check_bounds(keywords, kind))
    settings(CALM, max_examples=count, derandomize=count == 75)(made_up)()


LARGE = st.sampled_from((ODD - 1, ODD, ODD + 1, ODD + 2, INT64, INT64 + 1, -ODD, 1e23, 10**23, 5, 2.5))
PARTS = st.one_of(
    st.dictionaries(st.sampled_from(BOUND_NAMES), LARGE, min_size=1, max_size=2),
    LARGE.map(lambda value: {"const": value}),
    st.lists(LARGE, min_size=1, max_size=4).map(lambda values: {"enum": values}),
    st.sampled_from(({"type": "integer"}, {"type": "number"}, {"multipleOf": 3})),
)
COMBINED = st.recursive(
    PARTS,
    lambda part: st.one_of(
        st.builds(lambda first, second: {"allOf": [first, second]}, part, part),
        st.builds(lambda first, second: {"anyOf": [first, second]}, part, part),
        st.builds(lambda first, second: {"oneOf": [first, second]}, part, part),
        part.map(lambda inner: {"not": inner}),
    ),
    max_leaves=4,
)
NEAR = [*texts_near((ODD, INT64, -ODD, 10**23, 1e23)), "5", "2.5", "5.0", "6", "1e+23"]


def in_doubles(value):
    """A JSON value with its numbers read as doubles."""
    return json.loads(json.dumps(value), parse_int=float)


def check_combined(schema: dict) -> None:
    try:
        compiled = compile_schema({"type": ["number", "null"], **schema})
    except UnsupportedSchema:
        return
    judges = Judges(schema)
    has_integers = "integer" in json.dumps(schema)  # to `jsonschema` the decimal 1.0 is no integer
    has_divisors = "multipleOf" in json.dumps(schema)  # of a double other numbers are divisors
    by_doubles = Draft202012Validator(in_doubles(schema))
    for text in NEAR:
        if compiled.accepts(text):
            assert has_divisors or by_doubles.is_valid(float(text)), text
            assert all(judges.verdicts(text.encode())), text
            assert has_integers or judges.faults(text.encode()) == [], text


@pytest.mark.parametrize("count", [75, MANY])
def test_combinations_of_large_numbers_are_upheld(count):
    settings(CALM, max_examples=count, derandomize=count == 75)(given(COMBINED)(check_combined))()


@given(BOUNDS, st.booleans())
def test_moved_bounds_are_doubles_within_the_bound(bound, is_strict):
    exact = Decimal(str(bound))
    for agreed, side in ((agreed_maximum, "Maximum"), (agreed_minimum, "Minimum")):
        end, stays_strict = agreed(exact.as_integer_ratio()[0], is_strict=is_strict)
        if abs(exact) < 2**53:
            assert (end, stays_strict) == (exact, is_strict)
        else:
            assert not stays_strict
            assert float(end) == end
            keyword = f"exclusive{side}" if is_strict else side.lower()
            assert all(holds(keyword, Decimal(int(end)), reading) for reading in readings(str(bound))[:2])


@given(INTEGERS, st.booleans())
def test_an_integer_bound_is_never_widened(bound, may_exclude):
    assert agreed_integer_maximum(bound, is_strict=may_exclude) <= bound
    assert json.loads(str(agreed_integer_maximum(bound, is_strict=False))) <= float(bound)
