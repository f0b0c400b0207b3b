"""Words, names and codes of random syllables, which a model cannot know by heart."""

import re
from random import Random

from tiny_model import domains

_ONSETS = (*"bcdfghjklmnprstvwz", "br", "ch", "dr", "fl", "gr", "kl", "pr", "sh", "st", "th", "tr")
_VOWELS = (*"aeiou", "ai", "ea", "io", "ou")
_CODAS = ("", "", "", "n", "r", "s", "l", "t", "k", "m", "nd", "rt")
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
COMMON = tuple(
    re.findall(
        r"\w+",
        """about after all and before big blue bring call check clear daily early end extra final first
    for fresh from full good green group hello help here how idea important in keep kind last late list little
    long look main many more morning near new next night note of old on open our out over own plan please
    quick ready red second short simple small some special start thanks the today tomorrow two under update
    very warm week well what when white with work year yellow your""",
    )
)
"""Words of titles and messages."""
_KNOWN = tuple(sorted({*COMMON}.union(*(domain.words for domain in domains.TRAINING))))
_FREQUENT = "eeettaaooiinnsshhrrddllccuummwwffggyyppbbvkjxqz"


def syllables(rng: Random, low: int = 2, high: int = 3) -> str:
    """An invented word in lower case, of syllables, pieces of real words, or any letters.

    All tokens must occur in many words: a model does not copy a token that it has seen only in a few.
    """
    count, kind = rng.randint(low, high), rng.random()
    if kind < 0.4:
        return "".join(_piece(rng, rng.choice(_KNOWN)) for _ in range(count))
    if kind < 0.5:
        return "".join(rng.choices(_FREQUENT, k=3 * count))
    return "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(count)) + rng.choice(_CODAS)


def _piece(rng: Random, word: str) -> str:
    """Some letters of a word: its beginning, its middle or its end."""
    start = rng.choice((0, rng.randrange(len(word))))
    end = rng.choice((len(word), start + rng.randint(2, 6)))
    return word[start:end]


def proper(rng: Random) -> str:
    """A name: of a person, a place, a product."""
    return syllables(rng, 1, 3).capitalize()


def identifier(rng: Random, num_words: int) -> str:
    """A parameter's or tool's name of invented words, in snake case, or now and then in camel case."""
    words = [syllables(rng, 1, 2) for _ in range(num_words)]
    if num_words > 1 and rng.random() < 0.2:
        return words[0] + "".join(word.capitalize() for word in words[1:])
    return "_".join(words)


def digits(rng: Random, low: int, high: int) -> str:
    """A decimal number of `low` to `high` digits that does not begin with 0."""
    length = rng.randint(low, high)
    return str(rng.randrange(10 ** (length - 1), 10**length))


def code(rng: Random) -> str:
    """A code like those on labels and in databases: `KX-4821`, `zor_17`, `7f3a9c`."""
    letters = "".join(rng.choices(_LETTERS, k=rng.randint(1, 3)))
    forms = (
        lambda: f"{letters}-{digits(rng, 2, 5)}",
        lambda: f"{letters}{digits(rng, 2, 4)}",
        lambda: f"{syllables(rng, 1, 2)}_{digits(rng, 1, 3)}",
        lambda: f"{syllables(rng, 1, 2)}-{syllables(rng, 1, 1)}-{digits(rng, 1, 2)}",
        lambda: "".join(rng.choices("0123456789abcdef", k=rng.randint(6, 8))),
        lambda: f"{letters}/{digits(rng, 4, 4)}/{digits(rng, 1, 3)}",
        lambda: f"#{digits(rng, 2, 5)}",
    )
    return rng.choice(forms)()


def email(rng: Random) -> str:
    """An address at a domain that nobody owns."""
    return f"{syllables(rng, 1, 3)}@{syllables(rng, 1, 2)}.{rng.choice(['com', 'org', 'net', 'example'])}"


def path(rng: Random) -> str:
    """A path of a file."""
    folders = "".join("/" + syllables(rng, 1, 2) for _ in range(rng.randint(1, 2)))
    return f"{folders}/{syllables(rng, 1, 2)}.{rng.choice(['txt', 'csv', 'pdf', 'md', 'png'])}"


def phrase(rng: Random, common: tuple[str, ...]) -> str:
    """A few common and invented words, as in a title."""
    words = [
        rng.choice(common) if rng.random() < 0.6 else syllables(rng, 1, 3) for _ in range(rng.randint(2, 5))
    ]
    text = " ".join(words)
    return text if rng.random() < 0.3 else text[0].upper() + text[1:]
