"""Keys, texts and numbers that are hard to get right."""

import random
from typing import Any

PLAIN_KEYS = ("a", "b", "c", "ab", "abc", "x-1", "kind")
HOSTILE_KEYS = (
    "", "é", "e\u0301", "/", "~0", "~1", "%25", "__proto__", "toString", "$ref", '"', "\\", "\n", "\x00", "\x1f", " ", "a b",
    "😀", "\ufdd0", "\uffff", "\u2028", "type", "<a>", "0", "-1", "a" * 40,
)  # fmt: skip
PLAIN_STRINGS = ("", "a", "b", "ab", "abc", "x-1", "12", "aaaa", "abcdefgh", "1", "true", "null")
HOSTILE_STRINGS = (
    "é", "e\u0301", '"', "\\", "\n", "a\n", "\x00", "\x7f", "\x85", "\u2028", "\ufeff", "\ufdd0", "\uffff", "\U0010ffff", "😀", "😀😀😀",
    " ", "\t", "/", "[1]", "{", "</a>", "İ", "ß", "\u212a", "\u0661", "a" * 9, "é" * 8, "2024-02-29", "a@b.co", "\u200d", "٣",
)  # fmt: skip
SMALL_NUMBERS = (0, 1, -1, 2, 3, 5, 10, 0.5, -0.5, 1.5, 2.5, 100, 0.1, -3, 7, 12, 99)
HOSTILE_NUMBERS = (
    2**53, 2**53 + 1, 2**53 - 1, -(2**53) - 1, 2**63 - 1, 2**63, 2**63 + 1, -(2**63) - 1, 2**64, 10**16 + 1, 10**21, 10**22, 10**23, 1e23, 1e22,
    1e308, -1e308, 1.7976931348623157e308, 5e-324, 1e-7, 1e-10, 1e-20, 0.30000000000000004, 0.3, 99.99, 123456789012345678901234567890,
    1e16, 9007199254740993.0, 0.07, 1e15, 999999999999999, 123456.789, -0.0, 1e-300, 4.35, 1.005,
)  # fmt: skip
DIVISORS = (1, 2, 3, 5, 7, 10, 0.5, 0.1, 0.01, 1.5, 2.5, 0.3, 12, 100, 1e-7, 1e3, 86400, 997, 0.07, 2**53)
PATTERNS = (
    "^a", "b$", "^[a-z]+$", "^(ab|b)*$", "\\d{2}", "^\\w{1,3}$", "^[^a]*$", "^x-", "^$", "a.c", "^(?!a)", "^(?=.*b)", "[\\s\\S]", "^\\S+$",
    "^a|b$", "\\u00e9", "^.{2}$", "^(a|aa)+$", "[^\\x00-\\x7f]", "^[a-z]+(-[a-z]+)*$", "^(?=.*[a-z])(?=.*\\d).{3,12}$", "^(?!.*aa)[ab]{2,9}$",
    "^x-[a-z]*$", "^\\S+( \\S+)*$", "^[A-Z][a-z]{0,20}$", "^(?:a{3}b?)+$", "\\bab\\b", "^\\D*$", ".", "", "a{2,}", '^[^"\\\\]{1,10}$', "^.*$",
    "^(?!ab$)", "(?<=a)$", "^[\\w.-]+$", "^\\s*$", "^(a|b|ab)(c|bcd)$", "^\\d{3}-\\d{4}$", "^.{3,8}$", "(a|b){2,3}$", "^(?=a)(?!ab).{1,30}$",
)  # fmt: skip
FORMATS = {
    "date": ("2024-02-29", "2023-02-29", "1999-12-31", "0000-01-01", "2024-13-01"),
    "time": ("12:00:00Z", "23:59:60Z", "00:00:00+24:00", "12:00:00.5-01:30", "12:00:00z", "24:00:00Z"),
    "date-time": ("2024-02-29T12:00:00Z", "2024-02-29t12:00:00z", "2024-02-30T00:00:00Z", "2024-01-01T00:00:00.1+00:00"),
    "email": ("a@b.co", "a.b+c@d-e.com", "a@[127.0.0.1]", '"a b"@c.de', "a@b", ".a@b.co", "a..b@c.de", "a@-b.co", "é@b.co"),
    "idn-email": ("a@b.co", "é@b.co"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000", "123e4567e89b12d3a456426614174000"),
    "ipv4": ("127.0.0.1", "256.0.0.1", "01.2.3.4", "1.2.3", "0.0.0.0"),
    "ipv6": ("::1", "1::2::3", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::1%eth0", "fe80::"),
    "hostname": ("a.b", "-a.b", "a-.b", "localhost", "1.2", "a_b.c", "a" * 63, "a" * 64, "xn--a", "A.B", "a."),
    "idn-hostname": ("a.b", "é.com"),
    "uri": ("http://a.b/c?d#e", "urn:a:b", "//a", "a:", "http://[::1]:80/", "http://a:99999", "http://localhost:11434", "http://%41", "http://a b"),
    "uri-reference": ("/a", "a", "?b", "#c", "", "//a/b", "a:b:c", "\\", "1:2"),
    "iri": ("http://é.com/é", "http://a.b"),
    "iri-reference": ("/é", "a"),
    "uri-template": ("http://a/{b}", "{a}{+b}{?c,d*}", "{a:3}", "{", "a b"),
    "json-pointer": ("", "/a", "/a~0~1", "/a~", "a"),
    "relative-json-pointer": ("0", "1/a", "01", "0#", "-1"),
    "regex": ("a", "[a-z]+", "(", "\\p{L}", "(?=a)", "a{2}", "[", "\\"),
    "duration": ("P1D", "PT1H", "P1Y2M3DT4H5M6S", "P1W", "P", "PT", "P1H", "P1D2W", "PT0.5S"),
    "unknown": ("a",),
}  # fmt: skip
"""Texts by format, valid ones and others."""


def likely_texts(name: str) -> tuple[str, ...]:
    """The texts of a format of ours."""
    assert name in FORMATS, (
        f"write likely texts of the format {name!r}, valid and not, into FORMATS in tests/fuzz/pools.py"
    )
    return FORMATS[name]


def mostly(
    rng: random.Random, plain: tuple[Any, ...], hostile: tuple[Any, ...], probability: float = 0.75
) -> Any:
    """One of `plain` most of the time."""
    return rng.choice(plain if rng.random() < probability else hostile)
