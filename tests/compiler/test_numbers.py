"""Numbers: exact inside the written form, against exact arithmetic."""

import pytest
import xgrammar as xgr
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from vocabularies import BYTES

from compiler.errors import UnsupportedKeyword
from compiler.grammar.grammar import Rule
from compiler.grammar.rules import RuleTable
from compiler.prepared_vocabulary import prepare
from compiler.scalars.numbers import IntegerConstraint, NumberConstraint, lower_integer, lower_number


class Language:
    """What a lowered number accepts; None accepts nothing."""

    def __init__(self, lowered, rules: RuleTable) -> None:
        self.compiled = lowered and prepare(BYTES).backend.compile_grammar(rules.grammar(Rule(lowered.expr)))

    def __contains__(self, text: str) -> bool:
        if self.compiled is None:
            return False
        matcher = xgr.GrammarMatcher(self.compiled)
        return matcher.accept_string(text) and matcher.is_completed()


bounds = st.none() | st.integers(-300, 2000)
divisors = st.lists(st.sampled_from([2, 3, 5, 7, 10, 16]), max_size=2)


@settings(max_examples=80)
@given(bounds, bounds, divisors, divisors, st.lists(st.integers(-400, 2100), min_size=20, max_size=40))
def test_integers_are_exact(low, high, multiples, others, values):
    rules = RuleTable()
    try:
        lowered = lower_integer(IntegerConstraint(low, high, tuple(multiples), tuple(others)), rules)
    except UnsupportedKeyword:
        reject()
    language = Language(lowered, rules)
    for value in {*values, *range(-12, 12), *(b for b in (low, high) if b is not None)}:
        is_valid = (
            (low is None or value >= low)
            and (high is None or value <= high)
            and all(value % m == 0 for m in multiples)
            and all(value % m for m in others)
        )
        assert (str(value) in language) == is_valid, value
    assert not any(text in language for text in ("-0", "01", "1.0", "1e1", "", "-", "+1"))


decimals = st.decimals(-30, 30, places=2)


@settings(max_examples=80)
@given(st.none() | decimals, st.none() | decimals, st.booleans(), st.booleans(), st.booleans(),
       st.lists(decimals, min_size=20, max_size=40))  # fmt: skip
def test_decimals_are_exact(low, high, is_low_strict, is_high_strict, excludes_integers, values):
    rules = RuleTable()
    constraint = NumberConstraint(
        minimum=low,
        exclusive_minimum=low is not None and is_low_strict,
        maximum=high,
        exclusive_maximum=high is not None and is_high_strict,
        excludes_integers=excludes_integers,
    )
    language = Language(lower_number(constraint, rules), rules)
    for value in {*values, *(b for b in (low, high) if b is not None)}:
        is_valid = (
            (low is None or value > low or (value == low and not is_low_strict))
            and (high is None or value < high or (value == high and not is_high_strict))
            and not (excludes_integers and value == int(value))
        )
        if value or not value.is_signed():
            assert (str(value) in language) == is_valid, value


def test_an_exclusive_bound_is_not_reached_by_rounding():
    rules = RuleTable()
    constraint = NumberConstraint(maximum=10, exclusive_maximum=True)
    language = Language(lower_number(constraint, rules), rules)
    assert "9.9999999999" in language
    assert "9.99999999999999999" not in language
    assert "10" not in language


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "-0.5", "1e5", "2.5E-7", "1E+20", "123456789012345678"])
def test_any_number_is_written_freely(text):
    rules = RuleTable()
    assert text in Language(lower_number(NumberConstraint(), rules), rules)


@pytest.mark.parametrize("text", ["01", "1.", ".5", "1e", "1e400", "NaN", "Infinity", "--1", "+1", "1" * 30])
def test_what_is_no_number_or_overflows_is_not(text):
    rules = RuleTable()
    assert text not in Language(lower_number(NumberConstraint(), rules), rules)


def test_bounds_far_from_zero_are_refused():
    with pytest.raises(UnsupportedKeyword) as refused:
        lower_integer(IntegerConstraint(10**60, 10**61), RuleTable())
    assert refused.value.keyword == "minimum"
    with pytest.raises(UnsupportedKeyword) as refused:
        lower_number(NumberConstraint(maximum=-(10**60)), RuleTable())
    assert refused.value.keyword == "maximum"
