"""Equal rules become one, and the texts of a grammar stay the same."""

from hypothesis import given
from hypothesis import strategies as st

from compiler.grammar.grammar import CharClass, Grammar, Literal, Rule, RuleRef, choice, concat
from compiler.grammar.joining import with_joined_rules

AHEAD = CharClass.of(";")
NAMES = ("a", "b", "c", "d", "e", "f")
OPTIONS = st.tuples(st.sampled_from("xy"), st.sampled_from((None, *NAMES)))
"""A character, and the rule that goes on after it; None ends the text."""


def rule(options, *, ahead=AHEAD):
    parts = [concat(Literal(char), RuleRef(name)) if name else Literal(char) for char, name in options]
    return Rule(choice(*parts), ahead)


def texts(grammar, name, length):
    """The texts of a rule of `rule`, of at most so many characters."""
    found = set()
    body = grammar.rules[name].body
    for option in getattr(body, "options", (body,)):
        char, *rest = getattr(option, "items", (option,))
        if not rest:
            found.add(char.text)
        elif length > 1:
            found |= {char.text + text for text in texts(grammar, rest[0].name, length - 1)}
    return found


@given(st.lists(st.lists(OPTIONS, min_size=1, max_size=3, unique=True), min_size=6, max_size=6))
def test_no_text_is_lost_or_won(bodies):
    rules = {name: rule(options) for name, options in zip(NAMES, bodies, strict=True)}
    grammar = Grammar({"root": rule([("x", "a"), ("y", "b")], ahead=None), **rules})
    found = with_joined_rules(grammar)
    assert texts(found, "root", 6) == texts(grammar, "root", 6)


def test_circles_of_equal_rules_become_one():
    circles = {
        f"{part}{number}": rule([("x", f"{other}{number}"), ("y", None)] if part == "a" else [("x", f"{other}{number}")])
        for number in "123"
        for part, other in ("ab", "ba")
    }  # fmt: skip
    grammar = Grammar({"root": rule([("x", "a1"), ("y", "a2"), ("x", "b3")], ahead=None), **circles})
    assert set(with_joined_rules(grammar).rules) == {"root", "a1", "b1"}


def test_rules_that_differ_far_inside_stay_apart():
    chains = {
        f"{part}{number}": rule([("x", f"{part}{number + 1}" if number < 30 else None), ("y", f"{part}1")])
        for number in range(1, 31)
        for part in "ab"
    }
    chains["b30"] = rule([("y", None), ("y", "b1")])
    grammar = Grammar({"root": rule([("x", "a1"), ("y", "b1")], ahead=None), **chains})
    assert len(with_joined_rules(grammar).rules) == 61
    chains["b30"] = rule([("x", None), ("y", "b1")])
    grammar = Grammar({"root": rule([("x", "a1"), ("y", "b1")], ahead=None), **chains})
    assert len(with_joined_rules(grammar).rules) == 31


def test_rules_without_a_lookahead_stay_apart():
    """Of one that stands at a single place, xgrammar knows what follows it."""
    rules = {name: rule([("x", name), ("y", None)], ahead=None) for name in "ab"}
    grammar = Grammar({"root": rule([("x", "a"), ("y", "b")], ahead=None), **rules})
    assert with_joined_rules(grammar) is grammar
