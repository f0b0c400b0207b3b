"""Invented tools: parameters of a domain or of random words, and sets of tools that are easily mixed up."""

import zlib
from dataclasses import dataclass, replace
from random import Random

from tiny_model import words
from tiny_model.domains import Domain
from tiny_model.parameters import Parameter, invent, object_schema
from toolspecs.tool import Tool


@dataclass(frozen=True, slots=True)
class Invented:
    """A tool, and what requests for it are made of; `actions` are phrases for what it does."""

    tool: Tool
    parameters: tuple[Parameter, ...]
    actions: tuple[str, ...]

    @property
    def shape(self) -> str:
        """The kinds of its parameters, in order."""
        return ",".join(parameter.shape for parameter in self.parameters)


def is_held_out(shape: str) -> bool:
    """Whether a shape is held out: a quarter of those with several parameters is never trained on."""
    return "," in shape and zlib.crc32(shape.encode()) % 4 == 0


@dataclass(frozen=True, slots=True)
class ToolStyle:
    """How tools are invented: shares of random names, long descriptions and jargon, and the shapes.

    In jargon, verbs and nouns are invented, few, and shared by the tools of a set: one alone seldom tells
    which tool is meant. `rich` is the share of parameters that are more than the usual: negative numbers,
    lists of choices, objects that hold booleans.
    """

    num_parameters: tuple[int, int] = (1, 5)
    random_names: float = 0.4
    verbose: float = 0.1
    jargon: float = 0.0
    rich: float = 0.0
    held_out_shapes: bool = False


def invent_tools(rng: Random, domains: tuple[Domain, ...], style: ToolStyle, count: int) -> list[Invented]:
    """`count` tools with different names and actions, mostly of one domain."""
    home = rng.choice(domains)
    if style.jargon and rng.random() < style.jargon:
        home = _in_jargon(rng, home)
    tools: dict[str, Invented] = {}
    taken: set[str] = set()
    while len(tools) < count:
        domain = home if rng.random() < 0.75 else rng.choice(domains)
        tool = _invent(rng, domain, style)
        is_new = tool.tool.name not in tools and not taken & {*tool.actions}
        if is_new and is_held_out(tool.shape) == style.held_out_shapes:
            tools[tool.tool.name] = tool
            taken |= {*tool.actions}
    return list(tools.values())


def _in_jargon(rng: Random, domain: Domain) -> Domain:
    nouns = [words.syllables(rng, 1, 3) for _ in range(rng.randint(1, 4))]
    fewest = 2 if len(nouns) > 1 else 4
    verbs = [(words.syllables(rng, 1, 2), words.syllables(rng, 1, 2)) for _ in range(rng.randint(fewest, 6))]
    return replace(domain, verbs=tuple(verbs), nouns=tuple(nouns))


def _invent(rng: Random, domain: Domain, style: ToolStyle) -> Invented:
    parameters = _parameters(rng, domain, style)
    is_random = rng.random() < style.random_names
    if is_random and rng.random() < 0.5:
        verbs, noun = (words.syllables(rng, 1, 2),) * 2, words.syllables(rng, 1, 3)
    else:
        verbs, noun = rng.choice(domain.verbs), rng.choice(domain.nouns)
    plain, synonym = (f"{_spaced(verb)} {_article(noun)}{_spaced(noun)}" for verb in verbs)
    name = _name(rng, verbs[0], noun, is_random=is_random)
    description = rng.choice((plain, synonym, synonym)) if rng.random() < 0.9 else ""
    # A random name has a description, or requests use the name.
    actions = [f"{use} {name}" for use in ("use", "call", "run")]
    if description or not is_random:
        actions = [description or plain] if is_random else [plain, description or plain]
    if not is_random and rng.random() < 0.15:
        actions += [f"call {name}", f"use {name}"]
    schema = object_schema(parameters) | ({"additionalProperties": False} if rng.random() < 0.25 else {})
    text = _sentence(rng, description)
    if text and rng.random() < style.verbose:
        remarks = rng.sample(_REMARKS, rng.choice((1, 1, 2, 3)))
        text = " ".join([f"{text.removesuffix('.')}.", *remarks]).format(noun=_spaced(noun))
    tool = Tool(name, text, schema)
    return Invented(tool, parameters, tuple(dict.fromkeys(actions)))


def _parameters(rng: Random, domain: Domain, style: ToolStyle) -> tuple[Parameter, ...]:
    fewest, most = style.num_parameters
    count = rng.choices(range(fewest, most + 1), _WEIGHTS[fewest : most + 1])[0]
    if style.held_out_shapes:
        count = max(2, count)
    attributes = rng.sample(domain.attributes, count)
    is_random = rng.random() < style.random_names
    chosen = {
        words.identifier(rng, rng.randint(1, 2)) if is_random or rng.random() < 0.1 else name: kind
        for name, kind in attributes
    }
    choices = domain.choices
    if is_random or rng.random() < 0.3:
        choices = tuple(dict.fromkeys(words.syllables(rng, 1, 2) for _ in range(rng.randint(2, 5))))
    return tuple(
        invent(
            rng,
            name,
            kind,
            choices,
            is_required=rng.random() < 0.75,
            verbose=style.verbose,
            is_rich=rng.random() < style.rich,
        )
        for name, kind in chosen.items()
    )


_WEIGHTS = (1, 3, 5, 5, 3, 2, 1, 1, 1)


def _name(rng: Random, verb: str, noun: str, *, is_random: bool) -> str:
    if is_random:
        return words.identifier(rng, 2)
    forms = (
        f"{verb}_{noun}",
        f"{verb}_{noun}",
        verb + "".join(part.capitalize() for part in noun.split("_")),
        f"{noun}_{verb}",
        f"{noun}.{verb}",
        f"{verb}-{noun}",
    )
    return rng.choice(forms)


def _sentence(rng: Random, action: str) -> str:
    if not action:
        return ""
    forms = ("{0}.", "{0}", "Use this to {1}.", "{0} with the given details.", "Lets you {1}.")
    return rng.choice(forms).format(action[0].upper() + action[1:], action)


_REMARKS = (
    "Returns the {noun} with all its details.",
    "Fails if there is no such {noun}, or if it has been taken already.",
    "Needs the permission to change what belongs to others.",
    "Call this once for each {noun}; a second call has no effect.",
    "What is left out keeps its value.",
    "The answer holds an identifier, which other calls take.",
    "Do not use this for more than one {noun} at a time. Results may take a few seconds.",
)
"""Further sentences in descriptions; no request depends on them."""


def _article(noun: str) -> str:
    return "an " if noun[0] in "aeiou" else "a "


def _spaced(name: str) -> str:
    return name.replace("_", " ")
