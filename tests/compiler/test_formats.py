"""Formats: every text that is written is valid for every validator, and what all agree on is written."""

import random
from contextlib import suppress
from datetime import date
from functools import cache
from itertools import pairwise

import jsonschema
import jsonschema_rs
import pytest
from automaton_samples import sample
from fuzz import pools
from hypothesis import given
from hypothesis import strategies as st

from compiler import compile_schema
from compiler.regular.dfa import Dfa
from compiler.regular.formats import BASE64, FORMATS, WrittenTexts
from compiler.regular.language import PatternCondition, is_valid_for_all, language, may_be_valid
from compiler.report import Verdict

FORMAT_CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER


def texts_of(known: WrittenTexts) -> Dfa:
    """The automaton of a format, the bound of its whole length left aside."""
    patterns = [known.pattern, *([known.lengths] if known.lengths else [])]
    return language([PatternCondition(pattern) for pattern in patterns])


def forms(name: str) -> list[WrittenTexts]:
    """A format where a guard counts, and where rules do."""
    known = FORMATS[name]
    return [known, *([known.counted] if known.counted else [])]


@cache
def judges(name: str):
    """What validators say of a text."""
    rust = jsonschema_rs.validator_for({"format": name}, validate_formats=True)
    python = jsonschema.Draft202012Validator({"format": name}, format_checker=FORMAT_CHECKER)
    return rust.is_valid, python.is_valid


def takes(judge, text: str) -> bool:
    """Whether a validator takes a text; Python's `jsonschema` fails on some digits."""
    with suppress(ValueError):
        return judge(text)
    return False


def judged_alike(name: str, text: str) -> bool:
    return all(judge(text) for judge in judges(name))


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_formats_accept_only_what_validators_assert(name):
    is_known = not any(judge("*{ ") for judge in judges(name))
    assert is_known, "no validator here knows this format, so none can judge its texts"
    rng = random.Random(name)
    for known in forms(name):
        dfa, most = texts_of(known), known.max_length or 300
        short = [sample(dfa, rng, 60) for _ in range(300)]
        long = [sample(dfa, rng, most, ends=0.01) for _ in range(100)]
        texts = [text for text in (*short, *long) if text is not None and len(text) <= most]
        assert len(texts) >= 100
        assert [text for text in texts if not judged_alike(name, text)] == []


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
def test_texts_near_a_format_are_accepted_only_if_they_are_of_it(name):
    rng = random.Random(name)
    for known in forms(name):
        dfa = texts_of(known)
        texts = [text for _ in range(1_500) if dfa.accepts(text := near(NEAR_FORMATS[name], rng))]
        assert [text for text in texts if not judged_alike(name, text)] == []


VALID_FORMATS = [
    ("date", ["2024-02-29", "2000-02-29", "2023-12-31"], ["2023-02-29", "1900-02-29", "0000-01-01", "2023-04-31"]),
    ("date-time", ["1963-06-19T08:30:06.283185Z", "2026-01-01T00:00:00+02:00"], ["1963-06-19 08:30:06Z"]),
    ("email", ["joe.bloggs@example.com", "a+b@x-y.co.uk", "o'brien@averyveryverylonglabel.example", "te~st@a.b.3",
        "a" * 64 + "@" + "b" * 63 + "." + "c" * 63 + "." + "d" * 40],
     ["a@", "a..b@c.de", "@x.y", "a@b", "a" * 65 + "@b.c", "a@" + "b" * 64 + ".c", "a@bc--d.e", '"a"@b.c', "a@b.c."]),
    ("idn-email", ["é@müller.de", "用户@例え.jp"], ["中" * 22 + "@b.c", "a@É.de"]),
    ("hostname", ["localhost", "www.example.com", "a-name-with-many-parts-and-34-letters.io", "1.2.3.4", "a" * 63,
        ".".join(["a" * 63] * 3)], ["-a", "a-", "a..b", "a b", "a.", "a" * 64, "xn--a", "ab--c"]),
    ("idn-hostname", ["müller-und-co.de", "例え.jp", "www.пример.com", "한국.kr"], ["É.de", "中" * 12, "ﬁ", "é--é"]),
    ("uri", ["http://foo.bar/?baz=qux#quux", "urn:oasis:names", "mailto:a@b.c", "file:///C:/a", "http://localhost:11434",
        "http://[::1]:8080/a", "http://[2001:db8::ff00:42:8329]", "http://u:p%20w@h:65535?a#b", "http://[v1.a]", "a://",
        "https://xn--9ca.example/a%2Fb/(c)?d=[e]".replace("[", "%5B").replace("]", "%5D")],
     ["//foo", "mailto:", "a b", "http://a b", "http://h:x", "http://[::1", "http://[1::2::3]", "http://é", "a:%4", "1a:b"]),
    ("uri-reference", ["", "?", "#a", "//h:1/b", "a:", "../a/b", "/a//b", "a/b:c", "a:b"], [":", "1:2", "//a b", "#a#b"]),
    ("iri", ["http://müller.de/straße?größe#übung", "a:", "tag:é"], ["http://h/\ue000", "http://h/😀", "é:b"]),
    ("iri-reference", ["é", "//é/ü", "?\ue000"], ["é:b", "a b"]),
    ("uri-template", ["http://a/{b}{/c*}{?d,e:30}{&f}{#g}", "{+a%41b}", "é%41", "[a]"], ["{", "{}", "{a b}", "{=a}", "'"]),
    ("ipv6", ["::", "::1", "1::", "fe80::1:2", "1:2:3:4:5:6:7:8"], ["1::2::3", ":::", "12345::"]),
    ("ipv4", ["192.168.0.1"], ["256.1.1.1", "01.1.1.1", "1.1.1"]),
    ("uuid", ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08aa9811eab4aa73b441d16380"]),
    ("regex", ["^\\s*(it|describe)\\(['\"]([^'\"]+)['\"]", r"\b[a-z_][a-z0-9_]{2,}$", "a.*?"], ["(a", "[a", "a**", "\\", "^*"]),
    ("duration", ["P4DT12H30M5S", "P1Y", "PT0S", "P2W"], ["P", "PT", "P1YT", "1Y"]),
    ("duration", ["P99999999W", "PT604800S"], ["P999999999W", "P9999999Y", "PT99999999H"]),  # beyond timedelta
]  # fmt: skip


@pytest.mark.parametrize(("name", "valid", "invalid"), VALID_FORMATS)
def test_formats_accept_what_people_write(name, valid, invalid):
    dfa = texts_of(FORMATS[name])
    assert [text for text in valid if not (dfa.accepts(text) and judged_alike(name, text))] == []
    assert [text for text in invalid if dfa.accepts(text)] == []


def test_labels_beyond_ascii_are_short_enough_however_they_are_encoded():
    """The longest encoding (RFC 3492) of n characters up to `last`, whatever they are."""

    def num_digits(delta: int, bias: int) -> int:
        for digit in range(1, 99):
            threshold = min(max(36 * digit - bias, 1), 26)
            if delta < threshold:
                return digit
            delta = (delta - threshold) // (36 - threshold)
        raise AssertionError

    def smallest(digits: int) -> int:
        """The smallest delta that may need so many digits."""
        low, high = 0, 1 << 30
        while low < high:
            middle = (low + high) // 2
            needs = max(num_digits(middle, bias) for bias in range(300)) >= digits
            low, high = (low, middle) if needs else (middle + 1, high)
        return low

    deltas = [0, *(smallest(digits) for digits in range(2, 8))]
    steps = [after - before for before, after in pairwise(deltas)]
    assert steps == sorted(steps)

    def longest(count: int, last: int) -> int:
        found = 0
        for num_beyond in range(1, count + 1):  # the others are ASCII, with a delimiter after them
            left = (last - 0x80) * (count + 1) + count * count  # more than the sum of all deltas
            digits = num_beyond
            for step in sorted(steps * num_beyond):
                left -= step
                digits += left >= 0
            found = max(found, digits + count - num_beyond + (num_beyond < count))
        return len("xn--") + found

    assert longest(15, 0x45F) <= 63
    assert longest(11, 0xD7A3) <= 63
    of_alphabets = max((longest(n, 0x45F) + 1) / (n + 1) for n in range(1, 16))
    of_all = max((longest(n, 0xD7A3) + 1) / (n + 1) for n in range(1, 12))
    assert max(of_alphabets, of_all) * (FORMATS["idn-hostname"].max_length + 1) - 1 <= 253


@pytest.mark.parametrize(
    ("schema", "text", "too_long"),
    [
        (
            {"format": "uri", "minLength": 1, "maxLength": 2083},
            "https://u@[::1]:8080/a%20b#c" + "d" * 2055,
            "d",
        ),
        ({"format": "uri-reference", "maxLength": 40}, "//" + "h" * 38, "h"),
        ({"format": "email", "maxLength": 320}, "a@" + ("b" * 62 + ".") * 3 + "d" * 62, "c"),
        ({"format": "email", "maxLength": 70}, "a" * 30 + "@" + "b" * 36 + ".co", "d"),
        ({"format": "hostname"}, "a" * 63 + ("." + "b" * 62) * 3, "c"),
        ({"format": "hostname", "maxLength": 100}, "a" * 36 + "." + "b" * 63, "c"),
        ({"format": "idn-hostname"}, "é" * 15 + ".de", "é"),
    ],
)
def test_lengths_of_formats_are_counted_while_they_are_written(schema, text, too_long):
    compiled = compile_schema({"type": "string", **schema})
    assert judged_alike(schema["format"], text)
    assert compiled.accepts(f'"{text}"')
    assert not compiled.accepts(f'"{text}{too_long * 60}"')
    verdicts = {entry.keyword: entry.verdict for entry in compiled.report}
    assert Verdict.GUARDED in verdicts.values()


def test_where_no_guard_counts_names_are_shorter():
    schema = {"type": "array", "items": {"type": "string", "format": "hostname"}, "uniqueItems": True}
    compiled = compile_schema(schema)
    assert compiled.accepts('["' + "a" * 63 + '"]')
    assert not compiled.accepts('["' + "a" * 60 + '.bcd"]')
    assert next(e.note for e in compiled.report if e.keyword == "format").endswith("at most 63 characters")


@pytest.mark.parametrize("name", sorted(NEAR_FORMATS))
def test_nothing_that_a_validator_takes_for_a_format_is_written_where_it_may_not_hold(name):
    rng = random.Random(0)
    dfa = language([PatternCondition(FORMATS[name].outer, is_excluded=True)])
    texts = [text for _ in range(3_000) if dfa.accepts(text := near(NEAR_FORMATS[name], rng))]
    assert [text for text in texts if any(judge(text) for judge in judges(name))] == []
    assert texts or name == "uri-reference"


ODD_TEXTS = {
    "date": ["0000-01-01", "+12345-01-01", "20240101", "2024-W01-1", "20,4-01-01"],
    "time": ["24:00:00Z", "12:00:00", "12:00", "1:2:3", "12:00:00+0100", "23:59:60Z", "12:00:00Z\n", "1-:00:00Z"],
    "date-time": ["2024-01-01 12:00:00Z", "2024-01-01", "12:00:00", "5:00:00Z", "2024-01-01T24:00:00Z", "20240101T120000Z", "*991-12-31T00:00:00Z"],
    "duration": ["-P1D", "+P1D", "p1d", "P1,5D", "P-1D", "P1S1M", "P6,T5H", "P0003-06-04T12:30:05"],
    "email": ["a@b", "@here", "Ann <a@b.c>"],
    "hostname": ["a.", "a_b", "xn--a", "a\n", "\u212a", "\u0661", "m\u00fcller.de"],
    "idn-hostname": ["A.de", "\u00c9", "a\u3002b"],
    "ipv4": ["1", "127.1", "0x7f.1", "01.2.3.4"],
    "ipv6": ["::ffff:1.2.3.4", "::1%eth0", "[::1]", "::1/64", " ::1 ", "1:2:3:4:5:6:1.2.3.4"],
    "uuid": ["2eb8aa08aa9811eab4aa73b441d16380", "{2eb8aa08-aa98-11ea-b4aa-73b441d16380}", "urn:uuid:2eb8aa08-aa98-11ea-b4aa-73b441d16380",
        "1-1-1-1-1", "0xb8aa08-aa98-11ea-b4aa-73b441d16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638\u0661", "{0x00000000,0x0000"],
    "uri": ["a: b", "//a", "mailto:", "http://{a}", "a:%"],
    "uri-reference": ["50%", "<x>", "{id}", "a|b", "a\n"],
    "relative-json-pointer": ["101", "0+1/a", "\u00b2"],
    "regex": ["C++", "(?i)a", "{"],
}  # fmt: skip
"""Texts that some validator takes: Python's, Rust's, ajv's with its fast formats, Go's, Java's, .NET's."""
PLAIN_TEXTS = {
    "date": ["1h", "24h", "7d", "30d", "5m", "2024", "2024-Q1", "12345", "1.0.0", "9780306406157"],
    "time": ["1h", "24h", "7d", "16:9", "4:3", "noon", "any:any"],
    "date-time": ["1h", "24h", "7d", "30d", "16:9", "90210", "1.0.0"],
    "duration": ["P0", "P1", "PM", "PST", "Premium", "prepaid", "P"],
    "email": ["me", "a b"],
    "hostname": ["*", "C#", "C++", "a b", "", "-", "N/A", "a:b", "(a)"],
    "idn-hostname": ["*", "C#", ""],
    "ipv4": ["", ".", "v1", "1.2.3.4.5", "\u65e5"],
    "ipv6": ["user:read", "16:9", "a:b", "12:00:00", "std::string", "a:b:c:d", "10:20:30"],
    "uuid": ["current-user", "en-US", "not-started", "a-b-c-d", "a-b-c-d-x", "-", "us-east-1"],
    "uri": ["16:9", ":", "a b:c", "a_b:c", "12:00"],
    "uri-reference": ["Not Started", "a b"],
    "relative-json-pointer": ["7d", "1h", "1.0", "\u65e5"],
    "regex": ["*", "+1", "?"],
}
"""Texts that people list beside a format, and that no validator takes for it."""


@pytest.mark.parametrize("name", sorted(ODD_TEXTS))
def test_a_listed_text_may_be_of_a_format_where_some_validator_takes_it(name):
    assert [text for text in ODD_TEXTS[name] if not may_be_valid(name, text)] == []
    assert [text for text in ODD_TEXTS[name] if is_valid_for_all(name, text)] == []


@pytest.mark.parametrize("name", sorted(PLAIN_TEXTS))
def test_a_listed_text_is_not_of_a_format_where_no_validator_takes_it(name):
    assert [text for text in PLAIN_TEXTS[name] if may_be_valid(name, text)] == []
    assert [text for text in PLAIN_TEXTS[name] if any(judge(text) for judge in judges(name))] == []


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_whatever_a_validator_takes_may_be_of_the_format(name):
    rng = random.Random(name)
    known, dfa = FORMATS[name], texts_of(FORMATS[name])
    samples = [text for _ in range(200) if (text := sample(dfa, rng, known.max_length or 60)) is not None]
    assert [text for text in samples if not may_be_valid(name, text)] == []
    starts = [*samples[:20], *pools.likely_texts(name), NEAR_FORMATS.get(name, "a")]
    texts = [near(rng.choice(starts), rng) for _ in range(3_000)]
    missed = [text for text in texts if not may_be_valid(name, text)]
    assert [text for text in missed if any(takes(judge, text) for judge in judges(name))] == []


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


@given(st.dates())
def test_every_date_of_the_calendar_is_accepted(day: date):
    assert language([PatternCondition(FORMATS["date"].pattern)]).accepts(day.isoformat())


def test_what_ajv_takes_for_a_reference_is_not_written_where_the_format_must_not_hold():
    compiled = compile_schema({"type": "string", "not": {"format": "uri-reference"}})
    assert not compiled.accepts('"\\""')
    assert compiled.accepts('"a b"')
