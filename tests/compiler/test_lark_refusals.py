"""Grammars for Lark that cannot be upheld: the refusal says which line, why, and what to write instead."""

import random
from string import ascii_lowercase

import pytest
from custom_inputs import linked

from compiler.errors import UnsupportedToolset


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ("start: A\nA: /a*?b/", "line 2: terminal A has a lazy quantifier"),
        ("start: A\nA: /[0-9]+|[0-9]+[.][0-9]+/", "line 2: terminal A takes '0' of '0.0'"),
        ("start: A\nA: /[ab]{2,3}/+", "line 2: terminal A takes 'aaa' of 'aaaa'"),
        ("start: A\nA: /a(?=b)/", "line 2: terminal A depends on the text around it"),
        ("start: A\nA: /^a/", "line 2: terminal A depends on the text around it"),
        ("start: A\n\nA: /a*b*/", "line 3: terminal A admits the empty text"),
        ('start: "x"\n | /|a/', "line 2: '|a' takes '' of 'a'"),
        ("start: A\nA: /a*?/", "line 2: terminal A has a lazy quantifier"),
        ("start: /(b|ba)*/", "line 1: '(b|ba)+' takes 'b' of 'ba'"),
        ("start: A+\nA: /a*/", "rule 'start' has texts that may begin and end"),
        ('\nstart: ("x"? "y"?)+ "y" | "z"', "line 2: rule 'start' has texts that may begin and end"),
        ("start: A\nA.2: /a/", "line 2: terminal A has a priority"),
        ("start: A\nA: /(a)\\1/", "line 2: terminal A has"),
        ("start: A\nA: /(?i:[a-z]+)/", "line 2: terminal A has the flag i"),
        ('start: A\nB: /[+]|-/\nA: B "1"', "line 3: terminal A has /[+]|-/ beside other parts"),
        ("start: A\nA: (/a|b/) /c/ | /d/", "line 2: terminal A has /a|b/ beside other parts"),
        ('start: "a"\n%ignore /(#|%)|;/ "x"', "'(#|%)|;x' has /(#|%)|;/ beside other parts"),
        ("start: A\n%declare A", "line 2: terminal A is declared but not defined"),
        ("start: A\n%import python.NAME -> A", "line 2: %import of 'python': only `%import common` is read"),
        ("%import .secrets.A\nstart: A", "line 1: %import of 'secrets'"),
        ('start: "a"\n     | /a/ // a\n     | a', "line 3: Rule 'a' used but not defined"),
        ('start: A\nA: "a"\nA: "b"', "line 3: Terminal 'A' defined more than once"),
        ("start: A\nA: B\nB: A", "line 2: Recursion in terminal 'A'"),
        ('start: A\nA: b\nb: "b"', "line 2: Rules aren't allowed inside terminals"),
        ('start: "a"\n%ignore WS', "line 2: Terminals {'WS'} were marked to ignore"),
        ('start: a{"x", "y"}\na{x}: x', "line 1: Wrong number of template arguments"),
        ('start: "a"\n%extend b: "b"', "line 2: Can't extend rule b"),
        ('start: "b"\n     | "a"~3..2', "line 2: Bad Range"),
        ('start: A\nA: ""', "line 2: Empty terminals are not allowed"),
        ('begin: "a"', "there is no rule 'start'"),
        ('start: "a" (', "at line 1 column"),
        ('start: e\ne: e "+" e | "1"', "line 2: rule 'e' has texts that may begin and end"),
        ('start: a\na: a "x"', "no text can be written"),
        ("start: A A\nA: /a+/", "no text can be written"),
        ("start: /a{1,5000}/", "counts beyond 1000"),
        ('start: a{"x"}\na{x}: a{a{x}}', "line 2: template 'a' uses itself"),
        ('start: a{"x"}\na{x}: b{x}\nb{x}: x a{x}', "line 2: template 'a' uses itself"),
        ("start: " + "(" * 3_000 + '"a"' + ")" * 3_000, "nested"),
        ('start: "a"~1000000', "its shortest text has more than 65536 bytes"),
        ("start: " + "a" * 60_000, "more than 50000 characters"),
    ],
    ids=str,
)
def test_what_cannot_be_upheld_is_refused(definition, said):
    with pytest.raises(UnsupportedToolset) as refused:
        linked(definition)
    [(_, error)] = refused.value.refusals
    assert error.pointer == "/definition"
    assert said in error.reason


@pytest.mark.parametrize(
    ("definition", "way_out"),
    [
        ("start: /a.b/s", r"Write [\s\S] for a dot that takes line breaks."),
        ("start: /a b/x", "Leave out x, with the blanks and comments."),
        ("start: /[a-z]/im", "Write classes such as [aA]. Leave out m."),
        ("start: /a(/", r"Close it, or write \( for the parenthesis."),
        ('start: "a"\n | foo', "Define it."),
    ],
)
def test_a_refusal_tells_a_way_out(definition, way_out):
    with pytest.raises(UnsupportedToolset) as refused:
        linked(definition)
    [(_, error)] = refused.value.refusals
    assert error.suggestion == way_out


def test_a_terminal_that_is_too_large_without_its_keywords_is_refused():
    rng = random.Random(1)
    keywords = " | ".join(f'"{"".join(rng.choices(ascii_lowercase, k=80))}"' for _ in range(40))
    with pytest.raises(
        UnsupportedToolset, match="line 2: terminal WORD needs an automaton of more than 3000"
    ):
        linked(f"start: WORD | k\nWORD: /[a-z]+/\nk: {keywords}")
