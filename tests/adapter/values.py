"""Values of everyday parameters: what stands in the call, and the words in which people say it.

A kind is the name of a function here, as `requests/` uses it. Values mix known words, invented ones and
words of the model's vocabulary, so that a model learns to copy what it reads, not to remember what it saw.
"""

import gzip
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tiny_model import words


@dataclass(frozen=True, slots=True)
class Value:
    """What stands in the call, and how it is said."""

    json: Any
    spoken: str


@dataclass(frozen=True, slots=True)
class Kind:
    """What a parameter's values are like: its schemas, of which a tool has one, and how to draw a value."""

    schemas: tuple[dict[str, Any], ...]
    draw: Callable[[Random], Value]

    @property
    def is_text(self) -> bool:
        """Whether any text is a value."""
        return self.schemas == _TEXT


_TEXT: tuple[dict[str, Any], ...] = ({"type": "string"},)


def _read_pools() -> dict[str, tuple[str, ...]]:
    lines = (Path(__file__).parent / "pools.txt").read_text(encoding="utf-8").splitlines()
    named = (line.partition(": ") for line in lines if not line.startswith("#"))
    return {name: tuple(values.split(", ")) for name, _, values in named}


def _read_vocabulary() -> tuple[tuple[str, ...], ...]:
    """Words in lower case, with a capital, and in capitals, for which SmolLM2's vocabulary has a token.

    Most of these tokens begin with a blank. In a call, a word follows a quotation mark, and is spelled with
    other tokens: a model writes another word instead, unless it has learnt so of very many words.
    """
    packed = (Path(__file__).parent / "vocabulary.txt.gz").read_bytes()
    vocabulary = gzip.decompress(packed).decode().split()
    cases = (str.islower, str.istitle, str.isupper)
    return tuple(tuple(word for word in vocabulary if is_so(word)) for is_so in cases)


_POOLS = _read_pools()
_LOWER, _CAPITAL, _CAPITALS = _read_vocabulary()
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def in_words(number: int) -> str:
    """A number below 100 in words.

    >>> in_words(47)
    'forty-seven'
    """
    if number < len(_SMALL):
        return _SMALL[number]
    tens, ones = divmod(number, 10)
    return _TENS[tens] + (f"-{_SMALL[ones]}" if ones else "")


def text_kind(draw: Callable[[Random], Value]) -> Kind:
    """A kind of any texts."""
    return Kind(_TEXT, draw)


def _known_or_new(known: tuple[str, ...], invent: Callable[[Random], str]) -> Kind:
    """Texts, of which half are invented."""

    def draw(rng: Random) -> Value:
        text = rng.choice(known) if rng.random() < 0.5 else invent(rng)
        return Value(text, text)

    return text_kind(draw)


def any_word(rng: Random) -> str:
    """A word in lower case: of the vocabulary, or invented."""
    return rng.choice(_LOWER) if rng.random() < 0.6 else words.syllables(rng)


def _name(rng: Random) -> str:
    """A word with a capital: of the vocabulary, or invented."""
    return rng.choice(_CAPITAL) if rng.random() < 0.5 else words.proper(rng)


def _noun(rng: Random) -> str:
    """One word or two in lower case."""
    return " ".join(any_word(rng) for _ in range(rng.choice((1, 1, 2))))


def _of_vocabulary(rng: Random) -> str:
    pool = rng.choice((_LOWER, _LOWER, _LOWER, _LOWER, _CAPITAL))
    return " ".join(rng.choice(pool) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def _written(make: Callable[[Random], str], *schemas: dict[str, Any]) -> Kind:
    """Texts that are said as they are written."""

    def draw(rng: Random) -> Value:
        text = make(rng)
        return Value(text, text)

    return Kind(schemas or _TEXT, draw)


def _person(rng: Random) -> str:
    first = rng.choice(_POOLS["people"]) if rng.random() < 0.6 else _name(rng)
    last = rng.choice(_POOLS["surnames"]) if rng.random() < 0.5 else _name(rng)
    return first if rng.random() < 0.3 else f"{first} {last}"


def _company(rng: Random) -> str:
    return f"{_name(rng)} {rng.choice(_POOLS['company ends'])}"


def _title(rng: Random) -> str:
    return f"{_name(rng)} {_name(rng)}"


def _quoted(rng: Random) -> Value:
    text = words.phrase(rng, _LOWER)
    quote = rng.choice('""\'')
    return Value(text, f"{quote}{text}{quote}")


def _numbers(low: int, high: int, step: int = 1) -> Kind:
    schema = {"type": "integer", "minimum": low, "maximum": high}

    def draw(rng: Random) -> Value:
        number = rng.randrange(low, high + 1, step)
        can_be_words = 1 <= number < 100 and rng.random() < 0.3
        return Value(number, in_words(number) if can_be_words else str(number))

    return Kind(({"type": "integer"}, schema), draw)


def _picked(*values: Any) -> Kind:
    kind = {str: "string", int: "integer"}.get(type(values[0]), "number")
    if any(isinstance(value, float) for value in values):
        kind = "number"
    schemas = ({"type": kind, "enum": list(values)}, {"type": kind})

    def draw(rng: Random) -> Value:
        value = rng.choice(values)
        return Value(value, str(value))

    return Kind(schemas, draw)


def _minutes(rng: Random) -> Value:
    number = rng.choice((5, 10, 15, 20, 25, 30, 40, 45, 50, 60, 75, 90, 120))
    said = [
        f"{number} minutes",
        f"{number} min",
        f"{in_words(number)} minutes" if number < 100 else f"{number} min",
    ]
    special = {
        15: "a quarter of an hour",
        30: "half an hour",
        60: "an hour",
        90: "an hour and a half",
        120: "two hours",
    }
    said += [special[number]] * 3 if number in special else []
    return Value(number, rng.choice(said))


def _clock(rng: Random) -> Value:
    hour, minute = rng.randrange(24), rng.choice((0, 0, 0, 15, 30, 30, 45, rng.randrange(60)))
    written = f"{hour:02}:{minute:02}"
    half = "am" if hour < 12 else "pm"
    short = hour % 12 or 12
    said = [written, written, f"{hour}:{minute:02}"]
    said += [f"{short}:{minute:02} {half}"] if minute else [f"{short} {half}", f"{short} {half}"]
    time_of_day = "in the morning" if hour < 12 else "in the afternoon" if hour < 18 else "in the evening"
    if minute == 30:
        said.append(f"half past {in_words(short)} {time_of_day}")
    if minute == 15:
        said.append(f"quarter past {in_words(short)} {time_of_day}")
    if minute == 45:
        said.append(f"quarter to {in_words(short % 12 + 1)} {_before(hour + 1)}")
    if (hour, minute) == (12, 0):
        said += ["noon", "noon"]
    return Value(written, rng.choice(said))


def _before(hour: int) -> str:
    return "in the morning" if hour <= 12 else "in the afternoon" if hour < 18 else "in the evening"


def _date(rng: Random) -> Value:
    year, month, day = rng.randint(2024, 2031), rng.randint(1, 12), rng.randint(1, 28)
    written = f"{year}-{month:02}-{day:02}"
    name = _MONTHS[month - 1]
    said = [written] * 4 + [
        f"{name} {day}, {year}",
        f"{day} {name} {year}",
        f"{name} {day}{_ordinal(day)} {year}",
    ]
    return Value(written, rng.choice(said))


def _ordinal(number: int) -> str:
    return "th" if 10 < number < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _amount(rng: Random) -> Value:
    cents = rng.random() < 0.5
    number = round(rng.uniform(1, 10 ** rng.randint(1, 4)), 2) if cents else rng.randint(1, 5000)
    said = f"{number:.2f}" if cents else f"{number:,}" if rng.random() < 0.2 else str(number)
    return Value(number, rng.choice((said, said, f"{said} euros", f"${said}")))


def _percent(rng: Random) -> Value:
    number = rng.randint(0, 20) * 5
    said = [f"{number}%", f"{number} percent", f"{in_words(number)} percent" if number < 100 else "100%"]
    return Value(
        number,
        rng.choice(["halfway", *said] if number == 50 else ["all the way", *said] if number == 100 else said),
    )


def _rate(rng: Random) -> Value:
    number = rng.randint(10, 79) / 10
    return Value(number, str(number))


def _weekdays(rng: Random) -> Value:
    chosen = sorted(rng.sample(range(7), rng.randint(1, 3)))
    names = [_DAY_NAMES[day] + rng.choice(("", "s")) for day in chosen]
    return Value([_DAYS[day] for day in chosen], _listed(rng, names))


def _listed(rng: Random, said: list[str]) -> str:
    if len(said) == 1:
        return said[0]
    return ", ".join(said[:-1]) + rng.choice((" and ", ", ", " & ", ", and ")) + said[-1]


def _month(rng: Random) -> Value:
    number = rng.randint(1, 12)
    return Value(number, _MONTHS[number - 1])


def _year(rng: Random) -> Value:
    number = rng.randint(2015, 2032)
    return Value(number, str(number))


def _letters(rng: Random, count: int) -> str:
    return "".join(rng.choices(string.ascii_uppercase, k=count))


def _plate(rng: Random) -> str:
    return rng.choice(
        (
            f"{_letters(rng, 2)}-{_letters(rng, 2)} {words.digits(rng, 3, 4)}",
            f"{_letters(rng, 3)}{words.digits(rng, 3, 4)}",
        )
    )


def _street(rng: Random) -> str:
    return f"{words.digits(rng, 1, 3)} {_name(rng)} {rng.choice(('Road', 'Lane', 'Avenue', 'Square', 'Way'))}"


def _station(rng: Random) -> str:
    return f"{_name(rng)} {rng.choice(('Square', 'Park', 'Gate', 'Bridge', 'Market', 'Hill'))}"


def _service(rng: Random) -> str:
    return rng.choice(
        (
            any_word(rng),
            f"{words.syllables(rng, 1, 2)}-{words.syllables(rng, 1, 2)}",
            f"{rng.choice(('db', 'api', 'web'))}-{words.digits(rng, 1, 2)}",
        )
    )


def digits(low: int, high: int) -> Kind:
    """Texts of digits, which keep their zeros."""

    def draw(rng: Random) -> Value:
        text = "".join(rng.choices(string.digits, k=rng.randint(low, high)))
        return Value(text, text)

    return Kind((*_TEXT, {"type": "string", "pattern": rf"^\d{{{low},{high}}}$"}), draw)


def several(item: Kind) -> Kind:
    """Lists of one to four different values."""

    def draw(rng: Random) -> Value:
        drawn = {value.json: value for value in (item.draw(rng) for _ in range(rng.randint(1, 4)))}
        return Value(list(drawn), _listed(rng, [value.spoken for value in drawn.values()]))

    schema = {"type": "array", "items": item.schemas[0]}
    return Kind((schema, schema | {"minItems": 1}), draw)


def choices(spoken: dict[str, str]) -> Kind:
    """One of some values, each with its words."""
    schema = {"type": "string", "enum": list(spoken)}

    def draw(rng: Random) -> Value:
        value = rng.choice(list(spoken))
        return Value(value, spoken[value])

    return Kind((schema,), draw)


FLAG = Kind(({"type": "boolean"},), lambda rng: Value(value := rng.random() < 0.5, "yes" if value else "no"))
"""Requests never name a flag: the words of a template say it."""

_HOURS = {"type": "string", "description": "24-hour time, HH:MM"}
_DAY_SCHEMA = {"type": "string", "enum": list(_DAYS)}
VOCABULARY = _written(_of_vocabulary)
"""One to three words of the vocabulary."""
KINDS: dict[str, Kind] = {
    "flag": FLAG,
    "room": _known_or_new(_POOLS["rooms"], _noun),
    "city": _known_or_new(_POOLS["cities"], _name),
    "thing": _known_or_new(_POOLS["things"], _noun),
    "food": _known_or_new(_POOLS["foods"], _noun),
    "drug": _known_or_new(_POOLS["drugs"], any_word),
    "subject": _known_or_new(_POOLS["subjects"], any_word),
    "person": _written(_person),
    "doctor": _written(lambda rng: f"Dr. {rng.choice((rng.choice(_POOLS['surnames']), _name(rng)))}"),
    "company": _written(_company),
    "title": _written(_title),
    "team": _written(lambda rng: f"{rng.choice(('FC', 'SC', 'United', 'Real'))} {_name(rng)}"),
    "place": _written(lambda rng: rng.choice((_name(rng), _station(rng)))),
    "station": _written(_station),
    "street": _written(_street),
    "code": _written(words.code),
    "plate": _written(_plate),
    "word": _written(any_word),
    "service": _written(_service),
    "flagname": _written(lambda rng: words.identifier(rng, 2)),
    "channel": _written(lambda rng: rng.choice(("", "#")) + any_word(rng)),
    "hostname": _written(lambda rng: f"{any_word(rng)}.{words.syllables(rng, 1, 2)}.example"),
    "filename": _written(lambda rng: words.path(rng).rpartition("/")[2]),
    "url": _written(
        lambda rng: f"https://{words.syllables(rng, 1, 2)}.example/{words.syllables(rng, 1, 2)}",
        {"type": "string"},
        {"type": "string", "format": "uri"},
    ),
    "ticker": _written(
        lambda rng: rng.choice((rng.choice(_CAPITALS), _letters(rng, rng.randint(3, 4)))),
        {"type": "string"},
        {"type": "string", "pattern": "^[A-Z]+$"},
    ),
    "quoted": text_kind(_quoted),
    "minutes": Kind(({"type": "integer"}, {"type": "integer", "minimum": 1}), _minutes),
    "percent": Kind(({"type": "integer"}, {"type": "integer", "minimum": 0, "maximum": 100}), _percent),
    "clock": Kind((_HOURS, _HOURS | {"pattern": r"^\d\d:\d\d$"}), _clock),
    "date": Kind(
        ({"type": "string", "format": "date"}, {"type": "string", "description": "YYYY-MM-DD"}), _date
    ),
    "days": Kind(
        ({"type": "array", "items": _DAY_SCHEMA}, {"type": "array", "items": _DAY_SCHEMA, "minItems": 1}),
        _weekdays,
    ),
    "amount": Kind(({"type": "number"}, {"type": "number", "minimum": 0}), _amount),
    "rate": Kind(({"type": "number"},), _rate),
    "month": Kind(({"type": "integer", "minimum": 1, "maximum": 12},), _month),
    "year": Kind(({"type": "integer"},), _year),
}
PARAMETRIC: dict[str, Callable[..., Kind]] = {
    "int": _numbers,
    "step": _numbers,
    "pick": _picked,
    "digits": digits,
}
