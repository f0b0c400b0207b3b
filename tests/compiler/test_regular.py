"""Patterns and formats as automata: what they accept is valid under two validators."""

import random
from datetime import date

import jsonschema
import jsonschema_rs
import pytest
from corpus import corpus, json_lines
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.regular.dfa import DEAD, Dfa
from compiler.regular.ecma import PatternError
from compiler.regular.formats import BASE64, FORMATS, OUTER
from compiler.regular.language import PatternCondition, language

FORMAT_CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER
MATCHING = [
    ("foo", ["foo", "xfoox"], ["fo", ""]),
    ("^foo|bar$", ["foox", "xbar"], ["xfoox", "barx"]),
    (r"^\d+$", ["0", "12"], ["", "a", "\u0661"]),
    (r"\bfoo\b", ["a foo b", "foo", "foo-x"], ["xfoo", "foo_"]),
    (r"\Bfoo", ["xfoo"], ["foo", " foo"]),
    (r"^(?!x)[a-z]+$", ["abc"], ["xa", ""]),
    (r"^(?=.*\d)[a-z0-9]{3,5}$", ["a1b"], ["abc", "a1", "abcde1"]),
    (r"^[a-z]+(?<!z)$", ["ab"], ["az"]),
    ("^[^/]+$", ["é a"], ["a/b", ""]),
    ("(a|^b)c", ["xac", "bc"], ["xbc"]),
    (r"^[\w.-]{2}$", ["a.", "_-"], ["a", "aé"]),
    (r"^\p{Lu}+$", ["ÀB"], ["a"]),
    (r"^\u0041\x42\t$", ["AB\t"], ["AB"]),
    (r"^[\]\\]$", ["]", "\\"], ["["]),
    ("^a{0}b{2,}$", ["bb", "bbb"], ["ab", "b"]),
    ("^(a?){3}$", ["", "aaa"], ["aaaa"]),
    ("", ["", "x"], []),
    ("^{x}{$", ["{x}{"], ["x"]),
]


@pytest.mark.parametrize(("pattern", "matching", "other"), MATCHING)
def test_patterns_as_ecma_reads_them(pattern, matching, other):
    dfa = language([PatternCondition(pattern)])
    assert [text for text in matching if not dfa.accepts(text)] == []
    assert [text for text in other if dfa.accepts(text)] == []


@pytest.mark.parametrize(
    "pattern",
    ["(a)\\1", "(?<x>a)\\k<x>", "a(?=b)c", "(", "[", "a**", "a{2}{3}", "{2}", "x{2,1}", "\\ud800", "[z-a]", "(?i)a", "a" * 20_000,
     "(((a{500}){500}){500})", "(.{1,900}a){900}", "[ab]*a[ab]{15}",
     # engines read these differently
     "a{,2}", "\\01", "\\<a", "a\\>", "\\b{start}", "[]a]", "[^]", "\\x{41}", "\\x4", "\\u{}", "\\c1", "\\p{C}", "\\p{Greek}"],
)  # fmt: skip
def test_what_is_not_regular_or_too_large_is_refused(pattern):
    with pytest.raises(ValueError, match=r"."):
        language([PatternCondition(pattern)])


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"a\b", "aé"), (r"a\B", "aé"), (r"\bé", "é"), (r"\Bé", "é"), (r"^\W$", "é"), (r"^\w$", "é")],
)
def test_what_engines_dispute_is_accepted_neither_way(pattern, text):
    assert not language([PatternCondition(pattern)]).accepts(text)
    assert not language([PatternCondition(pattern, is_excluded=True)]).accepts(text)


def test_characters_that_another_unicode_may_assign_are_left_out():
    unassigned = "\U0003fffd"
    for pattern in (r"\p{L}", r"\P{L}", r"[^\p{Lu}]"):
        for is_excluded in (False, True):
            assert not language([PatternCondition(f"^{pattern}$", is_excluded=is_excluded)]).accepts(
                unassigned
            )


def test_several_patterns_exclusions_and_values_together():
    dfa = language([PatternCondition("^[ab]+$"), PatternCondition("aa", is_excluded=True)], ("b", "ab"))
    assert [text for text in ("a", "b", "ab", "ba", "aab", "bb") if dfa.accepts(text)] == ["a", "ba", "bb"]


def sample(dfa: Dfa, rng: random.Random, length: int = 40) -> str | None:
    """A random text of the language, None if it does not end in time."""
    state, text = 0, ""
    for _ in range(length):
        if state in dfa.accepting and rng.random() < 0.2:
            return text
        moves = [(i, target) for i, target in enumerate(dfa.table[state]) if target != DEAD]
        if not moves:
            return text
        symbol, state = rng.choice(moves)
        low, high = rng.choice(dfa.alphabet.atoms[symbol])
        text += chr(rng.randint(low, high))
    return text if state in dfa.accepting else None


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("^a$", ["a\n\n", "a\nb", "b", ""]),
        ("^a$\n", ["a", "a\n\n", "a\nb", "b", ""]),
        ("^(a$|b)[^b]?$", ["a\nb", "", "a\n\n"]),
        ("^a$b", ["a", "a\n", "a\n\n", "a\nb", "b", ""]),
    ],
)
def test_an_excluded_end_is_one_for_every_engine(pattern, written):
    dfa = language([PatternCondition(pattern, is_excluded=True)])
    texts = ("a", "a\n", "a\n\n", "a\nb", "b", "")
    assert {text for text in texts if dfa.accepts(text)} == set(written)


def real_patterns(limit: int) -> list[str]:
    found: dict[str, None] = {}
    for path in sorted(corpus("jsonschemabench").glob("*.gz")):
        for case in json_lines(path):
            stack = [case["schema"]]
            while stack:
                value = stack.pop()
                if isinstance(value, dict):
                    if isinstance(value.get("pattern"), str):
                        found[value["pattern"]] = None
                    stack += value.values()
                elif isinstance(value, list):
                    stack += value
    return random.Random(0).sample(sorted(found), limit)


def test_real_patterns_accept_only_what_validators_do():
    rng = random.Random(0)
    refused = []
    for pattern in real_patterns(250):
        try:
            dfa = language([PatternCondition(pattern)])
        except ValueError:
            refused.append(pattern)
            continue
        if not jsonschema_rs.meta.is_valid({"pattern": pattern}):
            continue
        validator = jsonschema_rs.validator_for({"pattern": pattern})
        for text in filter(None, (sample(dfa, rng) for _ in range(10))):
            assert validator.is_valid(text), (pattern, text)
    assert len(refused) <= 5, refused


@settings(deadline=None)
@given(st.text(max_size=6), st.sampled_from(["a.c", "^x?y+$", r"\s", r"^\S*$", "[^a-f]$", r"\w\W"]))
def test_no_text_is_accepted_that_the_validator_rejects(text, pattern):
    if language([PatternCondition(pattern)]).accepts(text):
        assert jsonschema_rs.is_valid({"pattern": pattern}, text)


@settings(deadline=None)
@given(st.text(max_size=6), st.sampled_from(["a.c", r"\s", r"^\S*$", "[^a-f]$", r"\w", r"\d"]))
def test_no_text_is_accepted_that_an_excluded_pattern_matches(text, pattern):
    if language([PatternCondition(pattern, is_excluded=True)]).accepts(text):
        assert not jsonschema_rs.is_valid({"pattern": pattern}, text)


@pytest.mark.parametrize("high", [None, 60])
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_formats_accept_only_what_validators_assert(name, high):
    known = FORMATS[name].within(high)
    parts = [
        PatternCondition(known.pattern),
        *([PatternCondition(known.excluded, is_excluded=True)] if known.excluded else []),
    ]
    dfa = language(parts)
    rng = random.Random(0)
    texts = [text for _ in range(400) if (text := sample(dfa, rng, 120)) is not None]
    texts = [text for text in texts if high is None or len(text) <= high]
    assert len(texts) >= 20
    fast = jsonschema_rs.validator_for({"format": name}, validate_formats=True)
    slow = jsonschema.Draft202012Validator({"format": name}, format_checker=FORMAT_CHECKER)
    assert [text for text in texts if not fast.is_valid(text)] == []
    assert [text for text in texts if not slow.is_valid(text)] == []


MARKS = [
    *" <>{}a1Z:/-.@#?%+*~^|`,;=!'()[]",
    '"',
    "é",
    "\uff11",
    "\u0661",
    "²",
    "\n",
    "\x7f",
    "\u3002",
    "24",
    "::",
    "%41",
    "xn--",
]
"""What texts near a format are made of."""
NEAR_FORMATS = {
    "date": "2024-01-01", "time": "00:00:00Z", "date-time": "2024-01-01T00:00:00Z", "duration": "P1DT1H", "email": "a@b.cd",
    "hostname": "a.bc", "ipv4": "1.2.3.4", "ipv6": "::1", "uuid": "2eb8aa08-aa98-11ea-b4aa-73b441d16380",
    "uri": "http://a.bc/d?e#f", "uri-reference": "/a?b#c", "uri-template": "/a/{b}", "json-pointer": "/a/b",
    "relative-json-pointer": "1/a", "regex": "^a(b|c)*$",
}  # fmt: skip


def near(text: str, rng: random.Random) -> str:
    """The text with up to three characters inserted, replaced or removed, or a text of some marks."""
    if rng.random() < 0.5:
        return "".join(rng.choices(MARKS, k=rng.randint(0, 4)))
    chars = list(text)
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(chars))
        chars[at : at + rng.randint(0, 1)] = rng.choice([[], [rng.choice(MARKS)]])
    return "".join(chars)


@pytest.mark.parametrize("name", sorted(NEAR_FORMATS))
def test_nothing_that_a_validator_takes_for_a_format_is_written_where_it_may_not_hold(name):
    rng = random.Random(0)
    dfa = language([PatternCondition(OUTER[name], is_excluded=True)])
    texts = [text for _ in range(3_000) if dfa.accepts(text := near(NEAR_FORMATS[name], rng))]
    fast = jsonschema_rs.validator_for({"format": name}, validate_formats=True)
    slow = jsonschema.Draft202012Validator({"format": name}, format_checker=FORMAT_CHECKER)
    assert [text for text in texts if fast.is_valid(text) or slow.is_valid(text)] == []
    assert texts or name == "uri-reference"


VALID_FORMATS = [
    ("date", ["2024-02-29", "2000-02-29", "2023-12-31"], ["2023-02-29", "1900-02-29", "0000-01-01", "2023-04-31"]),
    ("date-time", ["1963-06-19T08:30:06.283185Z", "2026-01-01T00:00:00+02:00"], ["1963-06-19 08:30:06Z"]),
    ("email", ["joe.bloggs@example.com", "a+b@x-y.co.uk", "o'brien@averyveryverylonglabel.example"], ["a@", "a..b@c.de", "@x.y"]),
    ("hostname", ["localhost", "www.example.com", "a-name-with-many-parts-and-34-letters.io"], ["-a", "a-", "a..b", "a b"]),
    ("uri", ["http://foo.bar/?baz=qux#quux", "urn:oasis:names", "mailto:a@b.c", "file:///C:/a"], ["//foo", "http://", "a b"]),
    ("ipv6", ["::", "::1", "1::", "fe80::1:2", "1:2:3:4:5:6:7:8"], ["1::2::3", ":::", "12345::"]),
    ("ipv4", ["192.168.0.1"], ["256.1.1.1", "01.1.1.1", "1.1.1"]),
    ("uuid", ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08aa9811eab4aa73b441d16380"]),
    ("regex", ["^\\s*(it|describe)\\(['\"]([^'\"]+)['\"]", r"\b[a-z_][a-z0-9_]{2,}$", "a.*?"], ["(a", "[a", "a**", "\\", "^*"]),
    ("duration", ["P4DT12H30M5S", "P1Y", "PT0S", "P2W"], ["P", "PT", "P1YT", "1Y"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "valid", "invalid"), VALID_FORMATS)
def test_formats_accept_what_people_write(name, valid, invalid):
    known = FORMATS[name]
    dfa = language(
        [
            PatternCondition(known.pattern),
            *([PatternCondition(known.excluded, is_excluded=True)] if known.excluded else []),
        ]
    )
    assert [text for text in valid if not dfa.accepts(text)] == []
    assert [text for text in invalid if dfa.accepts(text)] == []


def test_base64_is_what_a_strict_decoder_takes():
    dfa = language([PatternCondition(BASE64)])
    validator = jsonschema_rs.Draft7Validator({"contentEncoding": "base64"})
    texts = [
        prefix + end
        for prefix in ("", "AB+/")
        for end in ("", "QQ==", "QR==", "QUE=", "QUF=", "Q===", "QUJD", "Q")
    ]
    assert [text for text in texts if dfa.accepts(text) and not validator.is_valid(text)] == []
    assert [text for text in texts if dfa.accepts(text)] == [
        prefix + end for prefix in ("", "AB+/") for end in ("", "QQ==", "QUE=", "QUJD")
    ]


@settings(deadline=None)
@given(st.dates())
def test_every_date_of_the_calendar_is_accepted(day: date):
    assert language([PatternCondition(FORMATS["date"].pattern)]).accepts(day.isoformat())


def test_a_refusal_says_why():
    with pytest.raises(PatternError, match="backreference"):
        language([PatternCondition(r"(a)\1")])
