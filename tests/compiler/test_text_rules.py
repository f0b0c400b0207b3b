"""Automata as rules: pruning and inlining change no language, and the back end can cache the rules."""

import random
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.digraph import cyclic_components
from compiler.grammar.grammar import CharClass, RuleRef, subexpressions
from compiler.lowering.json_text import SPACED
from compiler.regular import charset
from compiler.regular.dfa import DEAD
from compiler.regular.language import PatternCondition, language
from compiler.regular.transition_pruning import MAX_STEPS, prune_transitions
from compiler.scalars.length_bounds import START, BoundedAutomaton, bounded_by_count, other_than
from compiler.schema import lower_schema

PATTERNS = st.recursive(
    st.sampled_from(["a", "b", ".", "[^a]", "[ab]", "-"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=2).map(lambda both: f"(?:{'|'.join(both)})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda item: f"(?:{item[0]}){item[1]}"),
    ),
    max_leaves=7,
)
TEXTS = st.text("ab-c\n", max_size=9)


def admits(texts: BoundedAutomaton, text: str) -> bool:
    """Whether one of the paths of a text ends in an accepting state or in a suffix."""
    states, found = {START}, False
    for at in range(len(text) + 1):
        suffixes = [texts.suffixes[state] for state in states if state in texts.suffixes]
        rest = text[at:]
        found = found or any(
            suffix.low <= len(rest)
            and (suffix.high is None or len(rest) <= suffix.high)
            and all(charset.contains(suffix.ranges, ord(char)) for char in rest)
            for suffix in suffixes
        )
        if at == len(text):
            return found or bool(states & texts.accepting)
        states = {
            target
            for state in states
            for target, ranges in texts.transitions[state].items()
            if charset.contains(ranges, ord(text[at]))
        }
    raise AssertionError


@settings(max_examples=150, derandomize=True)
@given(
    PATTERNS,
    st.sampled_from(["", "^"]),
    st.sampled_from(["", "$"]),
    st.lists(TEXTS, min_size=20),
    st.integers(0, 3),
    st.sampled_from([MAX_STEPS, 100, 30]),
)
def test_pruned_searches_accept_the_same_texts(pattern, before, after, texts, low, max_steps):
    dfa = language([PatternCondition(f"{before}{pattern}{after}")])
    for high in (None, low + 4):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "compiler.scalars.length_bounds.prune_transitions",
                partial(prune_transitions, max_steps=max_steps),
            )
            bounded = bounded_by_count(dfa, low, high)
        for text in texts:
            is_within = low <= len(text) and (high is None or len(text) <= high)
            assert (bounded is not None and admits(bounded, text)) == (is_within and dfa.accepts(text)), text


@pytest.mark.parametrize(
    ("pattern", "num_transitions", "num_left"),
    [
        (r"\d{4}-\d\d-\d\d", 23, 14),
        ("[.]s?css$", 17, 7),
        ("^[^@]+@[^@]+[.][a-z]{2,}$", 15, 9),
        ("^(?!.*foo)", 11, 11),
    ],
)
def test_redundant_transitions_of_searches_are_pruned(pattern, num_transitions, num_left):
    dfa = language([PatternCondition(pattern)])
    rows, _ = prune_transitions(dfa)
    assert [sum(len(set(row) - {DEAD}) for row in table) for table in (dfa.table, rows)] == [
        num_transitions,
        num_left,
    ]


@pytest.mark.parametrize(
    "schema",
    [
        *({"format": name} for name in ("uri", "uri-reference", "email", "hostname", "date-time", "uuid", "ipv6")),
        *(
            {"pattern": pattern}
            for pattern in (
                "^[a-z]+(-[a-z]+)*$", r"^\d+(\.\d+)*$", "^[^@]+@[^@]+[.][a-z]{2,}$", "[.]js$", "foo", "^file:.+[.]x$",
                r"^[.\-A-Za-z0-9]+([=!,]{1,2}[./\-A-Za-z0-9]+)+$", "^(a|b[c-e]+)*$",
            )
        ),
    ],
    ids=str,
)  # fmt: skip
def test_rules_form_no_cycles_but_loops(schema):
    """Otherwise the back end compiles them, and all rules that lead to them, anew for every grammar."""
    item = {"type": "string", **schema}
    grammar = lower_schema(
        {"type": "object", "additionalProperties": False, "properties": {"a": item, "b": item}},
        formatting=SPACED,
    ).grammar
    following = {
        name: [part.name for part in subexpressions(rule.body) if isinstance(part, RuleRef)]
        for name, rule in grammar.rules.items()
    }
    assert cyclic_components(following) == []


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        ("^" + "".join(rf"(?:-{name}\w\w\w\w\w\w)?" for name in "ABCDEFGHIJKLMNO") + "$", 90),
        ("^" + "".join(f"(?:{name}[a-z]+)*" for name in "ABCDEFGHIJKLMNOPQRST") + "$", 200),
        (r"^(?:[a-z]{2,9}\.){1,3}[a-z]{2,6}$", 40),
    ],
)
def test_what_many_states_lead_to_is_not_written_out(pattern, most):
    """Every copy of a set of characters takes milliseconds to compile."""
    rules = lower_schema({"type": "string", "pattern": pattern}, formatting=SPACED).grammar.rules
    assert (
        sum(isinstance(part, CharClass) for rule in rules.values() for part in subexpressions(rule.body))
        <= most
    )


@pytest.mark.parametrize(
    "pattern",
    [
        "^(?:[a-z]*[0-9]){1000}",
        "^" + "".join(f"{chr(0x4E00 + number)}?" for number in range(200)) + "[a-z]+$",
    ],
)
def test_many_moves_by_a_few_characters_are_affordable(pattern):
    lower_schema({"type": "string", "pattern": pattern, "maxLength": 5000}, formatting=SPACED)


def test_what_is_said_twice_is_written_once():
    item = {"type": "string", "format": "email"}
    sizes = [
        len(
            lower_schema(
                {"type": "object", "properties": dict.fromkeys(names, item)}, formatting=SPACED
            ).grammar.rules
        )
        for names in ("a", "abc")
    ]
    assert sizes[1] < sizes[0] + 50


@settings(max_examples=100, derandomize=True)
@given(st.lists(st.text("ab", max_size=4), min_size=1, max_size=8), st.lists(st.text("abc", max_size=5)))
def test_other_than_admits_all_texts_but_those(left_out, texts):
    bounded = other_than(left_out)
    for text in (*texts, *left_out):
        assert admits(bounded, text) == (text not in left_out)


def test_circles_are_the_largest():
    rng = random.Random(3)
    for _ in range(200):
        following = {node: [t for t in range(9) if rng.random() < 0.2] for node in range(9)}
        reach = {node: {node} for node in following}
        for _ in following:
            reach = {n: r.union(*(reach[t] for m in r for t in following[m])) for n, r in reach.items()}
        expected = {frozenset(t for t in reach[n] if n in reach[t]) for n in following}
        assert {frozenset(circle) for circle in cyclic_components(following)} == {
            c for c in expected if len(c) > 1
        }
