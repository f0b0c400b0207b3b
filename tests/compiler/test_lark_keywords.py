"""Grammars for Lark whose keywords look like names: where a keyword may come, no name of its spelling does."""

import random
import re
from collections import Counter

import pytest
from custom_inputs import accepts, check_texts, inputs, linked
from lark import Lark
from lark.exceptions import LarkError, UnexpectedInput

from compiler.errors import UnsupportedToolset
from compiler.lark import lark_lowering, lexing
from compiler.lark.terminals import _alike
from compiler.regular.dfa import Dfa

TOP = r"""
SP: " "
start: "SELECT" SP "TOP" SP NUMBER SP columns SP "FROM" SP IDENTIFIER SP "WHERE" SP amount SP "AND" SP date SP order ";"
columns: column ("," SP column)*
column: IDENTIFIER
amount: "total_amount" SP ">" SP NUMBER
date: "order_date" SP ">" SP DATE
order: "ORDER" SP "BY" SP "order_date" SP "DESC"
IDENTIFIER: /[A-Za-z_][A-Za-z0-9_]*/
NUMBER: /[0-9]+/
DATE: /'[0-9]{4}-[0-9]{2}-[0-9]{2}'/
"""
"""From OpenAI's examples, in which blanks are terminals: keywords and names follow them at different places."""
CONDITION = "total_amount > 500 AND order_date > '2025-01-01' ORDER BY order_date DESC;"


@pytest.mark.parametrize(("keyword", "text"), [("set", "\u017fet"), ("kit", "\u212ait"), ("éit", "Éit")])
def test_what_lark_takes_for_a_keyword_in_another_case_is_not_written_as_something_else(keyword, text):
    """Python's `re` takes more for another case of a letter than its small and its capital form."""
    definition = (
        f'start: HEAD TAIL | KEYWORD ";"\nKEYWORD: "{keyword}"i\nHEAD: /[x{text[0]}]/\nTAIL: /[a-z]{{1,2}}/'
    )
    parser, grammar = Lark(definition, parser="lalr"), linked(definition)
    with pytest.raises(UnexpectedInput):
        parser.parse(text)
    assert not accepts(grammar, text)
    for other in (f"{keyword};", "xab", f"{text[0]}a"):
        parser.parse(other)
        assert accepts(grammar, other)


@pytest.mark.parametrize(
    ("definition", "valid", "invalid"),
    [
        ('start: "select"i ";" | NAME "."\nNAME: /[a-zA-Z]+/', ["SeLect;", "selec."], ["select.", "SELECT."]),
        ('start: KW ";" | NAME "."\nKW: "ab" | "cd"\nNAME: /[a-z]+/', ["ab;", "abc."], ["ab.", "cd."]),
        ('start: KW ";" | NAME "."\nKW: /ab/\nNAME: /[a-z]+/', ["ab;", "abc."], ["ab."]),
        (
            'start: "select"i NAME+ "from"i NAME ";"\nNAME: /[a-zA-Z_]+/\n%ignore " "',
            ["SELECT a fromm FROM t;"],
            ["SELECT a From FROM t;", "select from from t;"],
        ),
    ],
)
def test_keywords_are_reserved_however_they_are_spelled(definition, valid, invalid):
    grammar = linked(definition)
    check_texts(grammar, valid, invalid)
    for text in valid:
        Lark(definition, parser="earley").parse(text)


@pytest.mark.parametrize(
    ("definition", "valid", "invalid"),
    [
        (
            TOP,
            [f"SELECT TOP 5 id, order_date, total_amount FROM orders WHERE {CONDITION}"],
            [f"SELECT TOP 5 id, order_date, total_amount, FROM orders WHERE {CONDITION}"],
        ),
        (
            'start: "get" SP NAME ";" | "sort" SP "by" SP NAME\nSP: " "\nNAME: /[a-z]+/',
            ["get by;", "sort by by", "sort by get"],
            ["sort a by", "get by"],
        ),
        (
            'start: ("get" | "sort") SP NAME ";" | "sort" SP "by" SP NAME\nSP: " "\nNAME: /[a-z]+/',
            ["get by;", "sort a;", "sort by by"],
            ["sort by;"],
        ),
        (
            'start: (item SP)* "end"\nitem: NAME | "=" SP NAME\nSP: " "\nNAME: /[a-z]+/',
            ["a b end", "= end end", "= b c end"],
            ["end b end", "= b end end"],
        ),
        (
            'start: a "." | "x" b "!"\na: KEY? NAME\nb: KEY NAME?\nKEY: "k"\nNAME: /[a-z]+/\n%ignore "_"',
            ["k_k.", "a.", "x_k_k!", "xy."],
            ["k.", "x_b!", "x.", "x_k."],
        ),
    ],
)
def test_keywords_are_reserved_only_where_they_may_come(definition, valid, invalid):
    grammar = linked(definition)
    check_texts(grammar, valid, invalid)
    for parser in ("earley", "lalr"):
        for text in valid:
            Lark(definition, parser=parser).parse(text)


def test_where_places_are_too_many_keywords_are_reserved_after_the_same_terminal(monkeypatch):
    monkeypatch.setattr("compiler.lark.competitors.MAX_STEPS", 10)
    grammar = linked('start: "get" SP NAME ";" | "sort" SP "by" SP NAME\nSP: " "\nNAME: /[a-z]+/')
    assert [accepts(grammar, text) for text in ("get a;", "sort by a", "get by;")] == [True, True, False]
    monkeypatch.setattr("compiler.lark.competitors.MAX_MERGED_STEPS", 10)
    with pytest.raises(UnsupportedToolset, match="too many terminals may come next"):
        linked('start: "get" SP NAME ";" | "sort" SP "by" SP NAME\nSP: " "\nNAME: /[a-z]+/')


@pytest.mark.parametrize("seed", range(4))
def test_lark_reads_keywords_and_names_in_any_places(seed, caplog):
    """Grammars are made up, and read by Lark's LALR parser if it finds no conflict in them."""
    caplog.set_level("DEBUG", "lark")
    rng = random.Random(seed)
    atoms = ['"a"', '"b"', '"ab"', "NAME", "NAME", "NUM", "SP", "SP", '"="', '"=="', "r1", "r2"]
    num_read = 0
    for _ in range(30):
        rules = [
            " | ".join(
                " ".join(
                    rng.choice(atoms[: 12 if name == "start" else 10]) + rng.choice(["", "", "", "?", "*"])
                    for _ in range(rng.randint(1, 4))
                )
                for _ in range(rng.randint(1, 3))
            )
            for name in ("start", "r1", "r2")
        ]
        definition = 'start: {}\nr1: {}\nr2: {}\nSP: " "\nNAME: /[ab]+/\nNUM: /[0-9]+/\n'.format(*rules)
        try:
            caplog.clear()
            parser = Lark(definition, parser="lalr", debug=True)
            grammar = linked(definition)
        except (LarkError, UnsupportedToolset):
            continue
        if "conflict" in caplog.text:
            continue
        for text in set(inputs(grammar, 1, 3)):
            parser.parse(text)
            num_read += 1
    assert num_read > 10


def test_all_that_python_takes_for_another_case_is_alike():
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    text = "".join(characters)
    for character in "aikszé\u0130\u0131ßµ\u03c3\u0390\ufb05\u0444":
        alike = set(re.findall(re.escape(character), text, re.IGNORECASE))
        assert alike <= _alike().get(character, {character})


def test_hundreds_of_keywords_take_few_automata_each(monkeypatch):
    """Not each two of them are compared over an alphabet of their own."""
    made, over, outside = Counter(), Dfa.over, lark_lowering.beginning_outside
    monkeypatch.setattr(Dfa, "over", lambda dfa, alphabet: made.update("o") or over(dfa, alphabet))
    monkeypatch.setattr(
        lark_lowering, "beginning_outside", lambda dfa, chars: made.update("b") or outside(dfa, chars)
    )
    rng = random.Random(1)
    words = sorted({"".join(rng.choices("ABCDE", k=6)) for _ in range(150)})
    keywords = " | ".join(f'"{word}"i' for word in words)
    definition = f'start: t+\nt: NAME | NUMBER | "(" | k\nNAME: /[a-z_]+/\nNUMBER: /[0-9]+/\n%ignore " "\nk: {keywords}'
    grammar = linked(definition)
    assert made["o"] < 20 * len(words)
    assert made["b"] < 4 * len(words)
    parser = Lark(definition, parser="lalr")
    for text in inputs(grammar, 1, 10):
        parser.parse(text)
    first, second = words[:2]
    good = (f"{first.lower()} {second}(", f"x{first.lower()}", f"{first.lower()}x 1 x", f"{first}1")
    check_texts(grammar, good)


@pytest.mark.parametrize("is_small", [True, False])
def test_of_many_keywords_only_those_of_a_name_are_taken_from_it(monkeypatch, is_small):
    """The union of two long lists would have too many states."""
    monkeypatch.setattr(lexing, "MAX_CELLS", lexing.MAX_CELLS if is_small else 0)
    rng = random.Random(5)
    products, parts = (
        [f"{''.join(rng.choices('ABCDEF', k=9))} {''.join(rng.choices('abcdef', k=9))}" for _ in range(120)]
        for _ in "ab"
    )
    lists = [
        " | ".join(f'"{text}"' for text in (*texts, word))
        for texts, word in ((products, "any"), (parts, "some"))
    ]
    definition = 'start: (A | B | WORD) ("," (A | B | WORD))*\nWORD: /[a-z]+/\nA: {}\nB: {}\n'.format(*lists)
    grammar = linked(definition)
    good = ("any", "some", "anyone", f"x,{products[3]},{parts[-1]},some")
    check_texts(grammar, good)
    assert not accepts(grammar, products[3][:12])
    parser = Lark(definition, parser="lalr")
    for text in (*good, *inputs(grammar, 1, 10)):
        parser.parse(text)
