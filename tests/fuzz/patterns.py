"""Patterns made up at random, and texts that they might match."""

import random
from collections.abc import Iterator
from typing import Any

from compiler.frontend.keywords import inside
from fuzz.pools import HOSTILE_STRINGS, PATTERNS, PLAIN_STRINGS

_ATOMS = (
    *"ab1-_. é", "\\d", "\\w", "\\s", "\\D", "\\W", "\\S", "[ab]", "[^a]", "[a-z]", "[A-Za-z0-9_.-]", "[\\w-]", "[^\\s]", "\\.", "\\-", "\\/", "\\\\",
    "\\b", "\\B", "\\n", "\\t", "\\x41", "\\u00e9", "\\u{1F600}", "😀", "[😀-😃]", "\\p{L}", "\\P{Lu}", "[\\s\\S]", "[^\\x00-\\x7f]", "\\0", "\\cA", "^", "$",
    "[\\b]", "[a\\]]", "[-a]", "[a-]", "[^]", "[]", "{", "}", "]", "\\1", "\\k<n>", "\\u212a", "\\ufeff", "\\x85", "[\\d-x]", "[&&a]", "/",
)  # fmt: skip
_COUNTS = (
    *("", "", "", "", "*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}", "*?", "+?", "{0}", "{8,12}", "{1,40}"),
    *("{0000000000002}", "{01,0000000000003}"),
)
_LOOKAROUND = ("(?=", "(?!", "(?<=", "(?<!")
_CLASSES = ("[a-z]", "[A-Z]", "\\d", "[^a-z]", "a", "ab", "\\s", "[!@#]")


def make_pattern(rng: random.Random) -> str:
    """A pattern; now and then one that people write."""
    chance = rng.random()
    if chance < 0.1:
        return rng.choice(PATTERNS)
    if chance < 0.2:
        return _password(rng)
    body = _alternatives(rng, 2)
    if rng.random() < 0.15:
        body = rng.choice(_LOOKAROUND[:2]) + _alternatives(rng, 1) + ")" + body
    if rng.random() < 0.05:
        body += rng.choice(_LOOKAROUND[2:]) + _sequence(rng, 1) + ")"
    return rng.choice(("^", "^", "^", "")) + body + rng.choice(("$", "$", "$", ""))


def _password(rng: random.Random) -> str:
    """Lookaheads from the start, and a length."""
    heads = "".join(
        f"(?{rng.choice('==!')}{rng.choice(('.*', '.*', '[^x]*', ''))}{rng.choice(_CLASSES)}{rng.choice(('', '$'))})"
        for _ in range(rng.randint(1, 3))
    )
    body = rng.choice((".", "[a-zA-Z\\d]", "\\S", "[\\w-]", "[^\\s]"))
    low = rng.randint(0, 9)
    return f"^{heads}{body}{rng.choice(('*', '+', f'{{{low},}}', f'{{{low},{low + rng.randint(0, 20)}}}'))}$"


def _alternatives(rng: random.Random, depth: int) -> str:
    return "|".join(_sequence(rng, depth) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def _sequence(rng: random.Random, depth: int) -> str:
    return "".join(_atom(rng, depth) + rng.choice(_COUNTS) for _ in range(rng.choice((1, 1, 2, 2, 3))))


def _atom(rng: random.Random, depth: int) -> str:
    if depth > 0 and rng.random() < 0.25:
        opening = rng.choice(("(", "(?:", "(?:", "(?<n>")) if rng.random() < 0.85 else rng.choice(_LOOKAROUND)
        return opening + _alternatives(rng, depth - 1) + ")"
    return rng.choice(_ATOMS[: rng.choice((12, 12, 30, 30, len(_ATOMS)))])


def texts_near(schema: Any, drawn: list[Any], rng: random.Random) -> list[str]:
    """Texts that a schema's patterns might match: of pools, of the patterns' own characters, and near drawn ones."""
    alphabet = "".join(part.get("pattern", "") for part in inside(schema)) + "ab1 -\né😀\x85A"
    made = ["".join(rng.choices(alphabet, k=rng.randrange(6))) for _ in range(12)]
    written = list(_strings(drawn))
    ends = [text + end for text in written for end in ("\n", "\u2028", "a", "")]
    starts = [start + text for text in written for start in ("\n", "b", "\ufeff")]
    pool = [*rng.sample(PLAIN_STRINGS, 5), *rng.sample(HOSTILE_STRINGS, 12)]
    return [*made, *pool, *ends, *starts]


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _strings(item)
        case dict():
            yield from value
