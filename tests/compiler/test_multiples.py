"""Multiples: the texts of a grammar are those of arithmetic, no more and no fewer, whatever the divisor."""

import json
import random
from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest
from random_decoding import RandomDecoder
from soundness.judges import Judges
from vocabularies import BYTES

from compiler.grammar.grammar import CharClass, Choice, Concatenation, Literal, RuleRef
from compiler.grammar.rules import RuleTable
from compiler.report import Verdict
from compiler.scalars.numbers import IntegerConstraint, NumberConstraint, lower_integer, lower_number
from compiler.schema import compile_schema

DECODER = RandomDecoder(BYTES)
BOUNDS = [(0, 30_000), (-2_000, 2_500), (12_345, 43_210), (-9_999, -1), (86_400, 86_400), (1, 6)]
DIVISORS = [1, 7, 16, 97, 125, 500, 997, 1000, 3600, 7919, 86_400]
SPANS = [
    (-3, False, 3, True),
    (0, True, "1.25", False),
    ("-0.5", True, "-0.05", True),
    ("9.995", False, 12, True),
]


def texts(lowered, rules: RuleTable) -> list[str]:
    """Every sentence of a lowered number, of which there are finitely many."""
    known: dict[str, list[str]] = {}

    def of(expr) -> list[str]:
        match expr:
            case Literal(text):
                return [text]
            case CharClass(ranges):
                return [chr(code) for low, high in ranges for code in range(low, high + 1)]
            case Concatenation(items):
                return ["".join(parts) for parts in product(*map(of, items))]
            case Choice(options):
                return [text for option in options for text in of(option)]
            case RuleRef(name):
                if name not in known:
                    known[name] = of(rules.rules[name].body)
                return known[name]
        raise AssertionError(expr)

    return [] if lowered is None else of(lowered.expr)


@pytest.mark.parametrize("divisor", DIVISORS)
def test_integers_between_bounds_are_exactly_the_multiples(divisor):
    for low, high in BOUNDS:
        rules = RuleTable()
        lowered = lower_integer(IntegerConstraint(low, high, (divisor,)), rules)
        assert sorted(texts(lowered, rules)) == sorted(
            str(n) for n in range(low, high + 1) if n % divisor == 0
        )


@pytest.mark.parametrize("divisors", [(1000,), (7, 500), (997,)])
def test_integers_between_bounds_are_exactly_what_are_no_multiples(divisors):
    for low, high in BOUNDS:
        rules = RuleTable()
        lowered = lower_integer(IntegerConstraint(low, high, (4,), divisors), rules)
        wanted = (str(n) for n in range(low, high + 1) if n % 4 == 0 and all(n % d for d in divisors))
        assert sorted(texts(lowered, rules)) == sorted(wanted)


@pytest.mark.parametrize("step", ["0.01", "0.05", "0.25", "2.5", "0.125", "0.007", "1.5", "3"])
@pytest.mark.parametrize("avoided", [(), ("0.1",), ("1",)])
def test_decimals_between_bounds_are_exactly_the_multiples(step, avoided):
    num_places = max(0, -Decimal(step).normalize().as_tuple().exponent)
    for low, above, high, below in SPANS:
        rules = RuleTable()
        constraint = NumberConstraint(
            Decimal(low), above, Decimal(high), below, (Decimal(step),), tuple(map(Decimal, avoided))
        )
        least, most = Fraction(low), Fraction(high)
        wanted = {
            f"{Decimal(number).scaleb(-places):f}"
            for places in range(num_places + 1)
            for number in range(-12 * 10**places, 12 * 10**places + 1)
            for value in (Fraction(number, 10**places),)
            if (value > least or (value == least and not above))
            and (value < most or (value == most and not below))
            if value % Fraction(step) == 0 and all(value % Fraction(a) for a in avoided)
        }
        found = texts(lower_number(constraint, rules), rules)
        assert len(found) == len(set(found))
        assert set(found) == wanted


@pytest.mark.parametrize("divisor", [97, 500, 1000, 3600, 86_400])
def test_without_bounds_every_multiple_of_twenty_digits_is_written(divisor):
    rng = random.Random(divisor)
    compiled = compile_schema({"type": "integer", "multipleOf": divisor})
    assert [e.verdict for e in compiled.report.entries if e.keyword == "multipleOf"] == [Verdict.EXACT]
    for digits in range(1, 21):
        number = rng.randrange(10 ** (digits - 1), 10**digits)
        for candidate in (number, number - number % divisor, -(number - number % divisor), number * divisor):
            is_written = candidate % divisor == 0 and abs(candidate) < 10**20
            assert compiled.accepts(str(candidate)) == is_written, candidate


@pytest.mark.parametrize(("divisor", "minimum"), [(7919, 0), (9_999_991, 0), (7919, 10**12 + 1)])
def test_where_an_automaton_grows_too_large_the_multiples_near_the_smallest_are_written(divisor, minimum):
    compiled = compile_schema({"type": "integer", "multipleOf": divisor, "minimum": minimum})
    entry = next(e for e in compiled.report.entries if e.keyword == "multipleOf")
    assert entry.verdict == Verdict.NARROWED
    end = int(entry.note.removeprefix("less than ").split(" from")[0])
    smallest, largest = minimum + -minimum % divisor, (end - 1) // divisor * divisor
    assert largest > smallest + 50 * divisor
    written = {
        *range(smallest, smallest + 20 * divisor, divisor),
        *range(largest - 20 * divisor, end, divisor),
    }
    assert all(compiled.accepts(str(number)) for number in written)
    assert not any(
        compiled.accepts(str(number)) for number in (smallest - divisor, smallest + 1, largest + divisor)
    )


def test_the_report_blames_the_not_that_is_narrowed():
    report = compile_schema({"type": "integer", "not": {"multipleOf": 997}}).report
    entry = next(e for e in report.entries if e.keyword == "not")
    assert (entry.verdict, entry.note.split()[:2]) == (Verdict.NARROWED, ["less", "than"])


@pytest.mark.parametrize("step", ["7919", "0.0000007919"])
def test_a_narrowed_number_is_exact_as_far_as_it_goes(step):
    rules = RuleTable()
    lowered = lower_number(NumberConstraint(multiple_of=(Decimal(step),)), rules)
    found = texts(lowered, rules)
    end = max(abs(Fraction(text)) for text in found) + Fraction(step)
    num_values = 2 * int(end / Fraction(step)) - 1
    assert {Fraction(text) % Fraction(step) for text in found} == {0}
    assert len({Fraction(text) for text in found}) == num_values
    assert num_values > 50


SOUND = [
    {"type": "array", "items": {"type": "integer", "multipleOf": 86_400}},
    {"type": "array", "items": {"type": "integer", "multipleOf": 997, "exclusiveMinimum": -(10**6)}},
    {"type": "array", "items": {"type": "integer", "not": {"multipleOf": 1000}, "multipleOf": 50}},
    {"type": "array", "items": {"type": "number", "multipleOf": 0.05, "exclusiveMaximum": 0}},
    {"type": "array", "items": {"type": "number", "multipleOf": 0.0123, "maximum": 1e8}},
    {"type": "array", "items": {"type": "number", "multipleOf": 7919}, "uniqueItems": True},
]


@pytest.mark.parametrize("schema", SOUND, ids=json.dumps)
def test_what_is_written_is_valid_and_no_mask_is_empty(schema):
    compiled, judges = compile_schema(schema, tokenizer=BYTES), Judges(schema)
    for seed in range(12):
        text = DECODER.decode(compiled.matcher(), random.Random(seed), max_tokens=200, bias=0.1)
        if text is not None:
            assert judges.faults(text) == []


@pytest.mark.parametrize("divisors", [(6,), (6, 8), (429, 1716), (7919,)])
@pytest.mark.parametrize("avoided", [(), (7,), (5, 17)])
def test_all_multiples_up_to_where_they_end_are_written_with_either_sign(divisors, avoided):
    schema = {"allOf": [{"type": "integer"}, *({"multipleOf": step} for step in divisors)]}
    schema["allOf"] += [{"not": {"multipleOf": step}} for step in avoided]
    compiled = compile_schema(schema)
    rng = random.Random(str((divisors, avoided)))
    for number in (0, *(rng.randint(-9_000, 9_000) * rng.choice((1, divisors[-1])) for _ in range(60))):
        is_wanted = all(number % step == 0 for step in divisors) and all(number % step for step in avoided)
        if abs(number) < 9_000 or not is_wanted:
            assert compiled.accepts(str(number)) is is_wanted, number
    assert not compiled.accepts("-0")
