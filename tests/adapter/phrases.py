"""Texts of several words, as people write them: what is to be done, what is sent, what is looked for.

A kind is a block of `phrases.txt`. A text has no mark at its end: only its sense tells which words belong to it.
"""

import re
from functools import partial
from pathlib import Path
from random import Random

from adapter.values import KINDS, Kind, Value, any_word, text_kind

_OTHER_WORD = 0.25
"""The share of phrases that have another word than the file, so that a model copies what it reads."""


def _read() -> dict[str, tuple[str, ...]]:
    """The phrases of each kind."""
    found: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "phrases.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            found[line[2:]] = []
        elif line.strip() and not line.startswith("#"):
            found[next(reversed(found))].append(line.strip())
    return {name: tuple(phrases) for name, phrases in found.items()}


def _draw(phrases: tuple[str, ...], rng: Random) -> Value:
    phrase = rng.choice(phrases)
    if rng.random() < _OTHER_WORD and (
        places := list(re.finditer(r"(?<![\w{'])[a-z]{4,}(?![\w}'])", phrase))
    ):
        place = rng.choice(places)
        phrase = phrase[: place.start()] + any_word(rng) + phrase[place.end() :]
    text = re.sub(r"\{(\w+)\}", lambda kind: KINDS[kind[1]].draw(rng).spoken, phrase)
    return Value(text, text)


PHRASES: dict[str, Kind] = {name: text_kind(partial(_draw, phrases)) for name, phrases in _read().items()}
