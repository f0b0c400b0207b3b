"""Reads the files of `requests/`: domains of tools, and the sentences that ask for them.

A sentence is a tree of parts. To write it is to walk the tree: words are copied, one of several alternatives
is chosen, a part that may be left out is written or not, and a parameter is drawn and said.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from adapter.phrases import PHRASES
from adapter.values import KINDS, PARAMETRIC, VOCABULARY, Kind, Value, choices, several

REQUESTS = Path(__file__).parent / "requests"
_KINDS = KINDS | PHRASES


@dataclass(frozen=True, slots=True)
class Words:
    """Words as they are."""

    text: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A parameter's value: said if `literal` is None, else set to it without a word."""

    parameter: str
    literal: str | None = None


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several sentences."""

    options: tuple["Sentence", ...]


@dataclass(frozen=True, slots=True)
class Maybe:
    """A sentence that may be left out."""

    inner: "Sentence"


Part = Words | Slot | OneOf | Maybe
Sentence = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its names, of which a tool has one, its kind, and whether a call may leave it out."""

    names: tuple[str, ...]
    kind: Kind
    is_optional: bool


@dataclass(frozen=True, slots=True)
class Template:
    """A tool with its names, what it does, and the sentences that ask for it."""

    names: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    description: str
    sentences: tuple[Sentence, ...]


def spelled(template: Template) -> Template:
    """The same tool, whose texts are words of the vocabulary."""
    parameters = tuple(
        replace(parameter, kind=VOCABULARY) if parameter.kind.is_text else parameter
        for parameter in template.parameters
    )
    return replace(template, parameters=parameters)


@cache
def domains() -> dict[str, tuple[Template, ...]]:
    """The templates of each domain.

    Raises:
        ValueError: a line cannot be read, or a sentence does not say what its tool requires; names the line.
    """
    found: dict[str, list[Template]] = {}
    tool, asks = "", []
    texts = [path.read_text(encoding="utf-8") for path in sorted(REQUESTS.glob("*.txt"))]
    for line in [*"".join(texts).splitlines(), "= end"]:
        if line.startswith("  "):
            asks.append(line.strip())
        elif line.strip() and not line.startswith("#"):
            if tool:
                found[next(reversed(found))].append(_template(tool, asks))
            tool, asks = ("", []) if line.startswith("= ") else (line, [])
            if line.startswith("= "):
                found[line[2:]] = []
    del found["end"]
    return {name: tuple(templates) for name, templates in found.items()}


def _template(line: str, asks: Sequence[str]) -> Template:
    match = re.fullmatch(r"([\w/]+)\((.*)\)  (.+)", line)
    if match is None:
        raise ValueError(f"cannot read the tool {line!r}")
    parameters = tuple(_parameter(text) for text in _split(match[2]))
    sentences = tuple(parse(ask) for ask in asks)
    known = {parameter.names[0] for parameter in parameters}
    required = {parameter.names[0] for parameter in parameters if not parameter.is_optional}
    for ask, sentence in zip(asks, sentences, strict=True):
        if not set(_slots(sentence)) <= known:
            raise ValueError(f"{match[1]} has no such parameter: {ask!r}")
        if not required <= set(_certain(sentence)):
            raise ValueError(f"{match[1]} is asked for without all that it requires: {ask!r}")
    return Template(tuple(match[1].split("/")), parameters, match[3], sentences)


def _split(text: str) -> Iterator[str]:
    """The parameters of a tool; the commas inside of a kind's arguments do not count."""
    yield from filter(None, (part.strip() for part in re.split(r",\s*(?![^(]*\))", text)))


def _parameter(text: str) -> Parameter:
    name, _, kind = text.partition(": ")
    return Parameter(tuple(name.rstrip("?").split("/")), _kind(kind), name.endswith("?"))


def _kind(text: str) -> Kind:
    """A kind by its name, with arguments if it has any, or by its choices."""
    if "|" in text:
        pairs = (choice.partition("~") for choice in text.split("|"))
        return choices({value: spoken or value for value, _, spoken in pairs})
    name, _, arguments = text.rstrip(")").partition("(")
    if name == "list":
        return several(_KINDS[arguments])
    return PARAMETRIC[name](*json.loads(f"[{arguments}]")) if arguments else _KINDS[name]


_TOKEN = re.compile(r"\{(\w+)(?:=(\w+))?\}|[()\[\]|]|[^{}()\[\]|]+")


def parse(text: str) -> Sentence:
    """The sentence of a line.

    Raises:
        ValueError: brackets do not match, or a brace is left.

    >>> parse("play {show}[ now]")
    (Words(text='play '), Slot(parameter='show', literal=None), Maybe(inner=(Words(text=' now'),)))
    """
    tokens = list(_TOKEN.finditer(text))
    if "".join(token[0] for token in tokens) != text:
        raise ValueError(f"cannot read the sentence {text!r}")
    tokens.reverse()
    (sentence,) = _options(tokens, "")
    return sentence


def _options(tokens: list[re.Match[str]], closing: str) -> tuple[Sentence, ...]:
    """Read up to the closing bracket; `tokens` are reversed, and used up."""
    options: list[list[Part]] = [[]]
    while tokens:
        token = tokens.pop()
        match token[0]:
            case "(":
                options[-1].append(OneOf(_options(tokens, ")")))
            case "[":
                (inner,) = _options(tokens, "]")
                options[-1].append(Maybe(inner))
            case "|" if closing == ")":
                options.append([])
            case ")" | "]" as bracket:
                if bracket != closing:
                    raise ValueError(f"{bracket!r} closes nothing in {token.string!r}")
                return tuple(map(tuple, options))
            case words:
                options[-1].append(Slot(token[1], token[2]) if token[1] else Words(words))
    if closing:
        raise ValueError(f"{closing!r} is missing")
    return tuple(map(tuple, options))


def _slots(sentence: Sentence) -> Iterator[str]:
    """The parameters that a sentence may say."""
    for part in sentence:
        match part:
            case Slot(parameter):
                yield parameter
            case Maybe(inner):
                yield from _slots(inner)
            case OneOf(options):
                for option in options:
                    yield from _slots(option)
            case Words():
                pass


def _certain(sentence: Sentence) -> Iterator[str]:
    """The parameters that a sentence says in any case."""
    for part in sentence:
        match part:
            case Slot(parameter):
                yield parameter
            case OneOf(options):
                yield from set.intersection(*(set(_certain(option)) for option in options))
            case Maybe() | Words():
                pass


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a tool, and the arguments that it asks for, by their first names in declared order.

    A text that begins with a value must not get a capital: the value would be another.
    """

    text: str
    arguments: dict[str, Any]
    begins_with_value: bool


def write(rng: Random, template: Template) -> Request:
    """A request for a tool, with values drawn at random."""
    values: dict[str, Value] = {}
    kinds = {parameter.names[0]: parameter.kind for parameter in template.parameters}
    text = _written(rng, rng.choice(template.sentences), kinds, values)
    begins = any(value.spoken and text.startswith(value.spoken) for value in values.values())
    return Request(text, {name: values[name].json for name in kinds if name in values}, begins)


def _written(rng: Random, sentence: Sentence, kinds: dict[str, Kind], values: dict[str, Value]) -> str:
    text = ""
    for part in sentence:
        match part:
            case Words(words):
                text += words
            case OneOf(options):
                text += _written(rng, rng.choice(options), kinds, values)
            case Maybe(inner) if rng.random() < 0.5:
                text += _written(rng, inner, kinds, values)
            case Slot(parameter, None):
                values[parameter] = kinds[parameter].draw(rng)
                text += values[parameter].spoken
            case Slot(parameter, str(literal)):
                values[parameter] = Value({"true": True, "false": False}.get(literal, literal), "")
            case _:
                pass
    return text
