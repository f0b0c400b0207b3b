"""Rules of grammars for Lark with many optional parts and groups: Lark alone would multiply them out."""

import random

import pytest
from custom_inputs import accepts, inputs, linked

from compiler.argument_faults import argument_faults
from compiler.errors import UnsupportedToolset
from compiler.lark import lark_source, parts
from compiler.lark.parts import with_parts_apart
from toolspecs.tool import CustomInput, custom_tool

NUM_WORDS = 40


def words_of(shape):
    """A grammar of numbered words, each in its line; `shape` says how `start` has one."""
    rules = "\n".join(f'w{number}: "{number}\\n"' for number in range(NUM_WORDS))
    return "start: " + " ".join(shape.format(f"w{number}") for number in range(NUM_WORDS)) + "\n" + rules


@pytest.mark.parametrize("shape", ["{}?", "[{}]", "({})?", "{}~0..1"])
def test_many_parts_may_each_be_left_out(shape):
    """The grammar grows with their number, and does not double with each."""
    grammar, rng = linked(words_of(shape)), random.Random(1)
    for _ in range(5):
        numbers = sorted(rng.sample(range(NUM_WORDS), 12))
        assert accepts(grammar, "".join(f"{number}\n" for number in numbers))
        assert not accepts(grammar, "".join(f"{number}\n" for number in numbers[::-1]))
    assert accepts(grammar, "")


def test_many_groups_in_a_row():
    grammar = linked("start: " + " ".join(f'("a{number}\\n" | "b{number}\\n")' for number in range(60)))
    assert accepts(grammar, "".join(f"{'ab'[number % 3 == 0]}{number}\n" for number in range(60)))
    assert not accepts(grammar, "".join(f"a{number}\n" for number in range(59)))


def test_parts_inside_parts():
    inner = " ".join(f'("x{number}\\n" | "y{number}\\n")?' for number in range(12))
    grammar = linked(
        f'start: ["begin\\n" {inner}] {inner.replace("x", "v").replace("y", "w")} ("z" | {inner})~2'
    )
    assert accepts(grammar, "begin\nx3\ny5\nw1\nv2\nzx1\n")
    assert accepts(grammar, "w1\nzz")
    assert not accepts(grammar, "x3\nzz")


def test_parts_inside_loops():
    optional = " ".join(f'"{number}\\n"?' for number in range(14))
    grammar = linked(f'start: ("x" {optional})+ ("y" {optional})*')
    assert accepts(grammar, "x3\n5\nxx1\ny2\nyy")
    assert not accepts(grammar, "x5\n3\n")
    assert not accepts(grammar, "y2\n")


def test_counts_inside_counts_are_not_multiplied_out():
    """There are 2 ** 400 of these texts."""
    grammar = linked('start: ((("a" | "b") ";")~20 ".")~20')
    assert accepts(grammar, ("a;b;" * 10 + ".") * 20)
    assert not accepts(grammar, ("a;b;" * 10 + ".") * 19)


@pytest.mark.parametrize("counts", ["~60", "~50..70", "~0..60", "~49..61"])
def test_parts_inside_large_counts(counts):
    """Lark writes such counts as rules, in each of which it multiplies the item out up to five times."""
    choices = "|".join(f'"{letter}"' for letter in "abcdefghijklmnop")
    optional = " ".join(f'"{number}"?' for number in range(10))
    grammar = linked(f"start: (({choices}) {optional}){counts}")
    assert accepts(grammar, "a3bc79" * 20)
    assert not accepts(grammar, "a3bc79" * 30)
    assert not accepts(grammar, "a3bc97" * 20)


def test_too_many_in_a_row_are_refused_with_their_rule():
    optional = " ".join(f'"{number}\\n"?' for number in range(100))
    with pytest.raises(UnsupportedToolset) as refused:
        linked(f"\nstart: {optional}")
    [(_, error)] = refused.value.refusals
    assert error.reason == "line 2: rule 'start' has too many parts in a row that may be empty"


GRAMMARS = {
    "choices": 'start: (A | B) [C] ("x" | A? B) -> y | C? A~1..3\nA: "a;"\nB: "b;"\nC: "c;"',
    "loops": 'start: (A | B [C])* (A? C)+ B*\nA: "a;"\nB: "b;"\nC: "c;"',
    "names": 'start: NAME ["=" (NAME | INT)] (";" [NAME])~0..2\nNAME: /[a-z]+/\nINT: /[0-9]+/\n%ignore " "',
    "templates": 'start: x{A}? (x{B} | A) [A]\nx{t}: "[" t? t "]"\nA: "a;"\nB: "b;"',
}


@pytest.mark.parametrize("definition", GRAMMARS.values(), ids=GRAMMARS)
def test_a_rule_for_each_part_has_the_same_texts(monkeypatch, definition):
    plain = linked(definition)
    monkeypatch.setattr(parts, "MAX_EXPANSIONS", 1)
    monkeypatch.setattr(
        lark_source, "with_parts_apart", lambda rules, **_: with_parts_apart(rules, max_symbols=0)
    )
    apart = linked(definition)
    assert apart.digest != plain.digest
    for seed, (one, other) in enumerate([(plain, apart), (apart, plain)]):
        for text in inputs(one, seed, 25):
            assert accepts(other, text), text


def test_lark_itself_reads_inputs_of_such_grammars():
    """It would not come to an end if the rules were multiplied out for it."""
    optional = " ".join(f'"{number};"?' for number in range(NUM_WORDS))
    tool = custom_tool("t", "", CustomInput("lark", f"start: {optional}"))
    assert argument_faults(tool, {"input": "1;5;39;"}) == ()
    [fault] = argument_faults(tool, {"input": "5;1;"})
    assert "line 1 col 3" in fault.message
