"""Grammars in EBNF made up at random: masks and closers write the texts that a reader of the grammars' trees finds.

A tree is a tuple: `("text", t)`, `("class", is_negated, ranges)`, `("rule", name)`, `("repeat", tree, low, high)`,
`("sequence", trees)` or `("choice", trees)`. It is written as llama.cpp documents it, and read here without that.
"""

import random

import pytest
from fuzz.tokens import vocabulary
from random_decoding import Generation, RandomDecoder

from compiler.errors import UnsupportedSchema
from compiler.response_format import ResponseFormat, compile_format

CHARACTERS = "ab1 -\"\\\n\té°я😀]^[#'/)(|*{}.:=\x7f"
NAMES = ("root", "item", "the-rest")
COUNTS = {"?": (0, 1), "*": (0, None), "+": (1, None), "{2}": (2, 2), "{1,3}": (1, 3), "{2,}": (2, None)}
ESCAPES = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
IN_CLASS = ESCAPES | {"[": "\\[", "]": "\\]", "-": "\\u002d", "^": "\\u005e"}


def made_choice(rng, name, depth):
    sequences = [
        ("sequence", tuple(made_item(rng, name, depth) for _ in range(rng.choice((1, 1, 2, 3)))))
        for _ in range(rng.choice((1, 1, 2, 3)))
    ]
    return ("choice", tuple(sequences))


def made_item(rng, name, depth):
    later = NAMES[NAMES.index(name) + 1 :]
    kind = rng.choice(("text", "text", "class", "class", "rule", "choice", "recursion"))
    if kind == "class":
        ends = [
            sorted((rng.choice(CHARACTERS), rng.choice(CHARACTERS))) for _ in range(rng.choice((1, 1, 2)))
        ]
        ranges = [(low, high) if rng.random() < 0.3 else (low, low) for low, high in ends]
        tree = ("class", rng.random() < 0.3, tuple(ranges))
    elif kind == "rule" and later:
        tree = ("rule", rng.choice(later))
    elif kind == "choice" and depth:
        tree = made_choice(rng, name, depth - 1)
    elif kind == "recursion":
        tree = ("sequence", (("text", rng.choice("ab(")), ("rule", name)))
    else:
        tree = ("text", "".join(rng.choices(CHARACTERS, k=rng.choice((0, 1, 1, 2, 3)))))
    return ("repeat", tree, *COUNTS[rng.choice(list(COUNTS))]) if rng.random() < 0.4 else tree


def written(tree):
    match tree:
        case ("text", text):
            return '"' + "".join(ESCAPES.get(c, c) for c in text) + '"'
        case ("class", is_negated, ranges):
            spelled = [
                f"\\U{ord(low):08X}-\\U{ord(high):08X}" if low < high else IN_CLASS.get(low, low)
                for low, high in ranges
            ]
            return f"[{'^' * is_negated}{''.join(spelled)}]"
        case ("rule", name):
            return name
        case ("repeat", inner, low, high):
            return f"({written(inner)})" + next(
                sign for sign, count in COUNTS.items() if count == (low, high)
            )
        case ("sequence", trees):
            return " ".join(map(written, trees))
        case ("choice", trees):
            return "(" + " | ".join(map(written, trees)) + ")"


class Reader:
    """Reads one text; `ends` are the places at which a tree may end that begins at a place."""

    def __init__(self, rules, text):
        self._rules, self._text, self._known = rules, text, {}

    def is_whole(self):
        return len(self._text) in self.ends(("rule", "root"), 0)

    def ends(self, tree, start):
        match tree:
            case ("text", text):
                return {start + len(text)} if self._text.startswith(text, start) else set()
            case ("class", is_negated, ranges):
                is_in = any(low <= c <= high for low, high in ranges for c in self._text[start : start + 1])
                return {start + 1} if start < len(self._text) and is_in != is_negated else set()
            case ("rule", name):
                if (name, start) not in self._known:
                    self._known[name, start] = self.ends(self._rules[name], start)
                return self._known[name, start]
            case ("sequence", trees):
                places = {start}
                for inner in trees:
                    places = {end for place in places for end in self.ends(inner, place)}
                return places
            case ("choice", trees):
                return {end for inner in trees for end in self.ends(inner, start)}
            case ("repeat", inner, low, high):
                most = len(self._text) + low if high is None else high
                found, places = set(), {start}
                for number in range(most + 1):
                    found |= places if number >= low else set()
                    places = {end for place in places for end in self.ends(inner, place)}
                return found


@pytest.mark.parametrize("seed", range(5))
def test_texts_are_those_of_the_grammar(seed):
    rng = random.Random(seed)
    num_read = {True: 0, False: 0}
    for _ in range(30):
        rules = {name: made_choice(rng, name, 1) for name in NAMES}
        source = "\n".join(f'{name} ::= {written(tree)} # "c [' for name, tree in rules.items())
        try:
            compiled = compile_format(ResponseFormat("grammar", source), tokenizer=vocabulary("pieces"))
        except UnsupportedSchema:  # too ambiguous, or a rule without texts
            continue
        drawn = [
            RandomDecoder(compiled.vocabulary).decode(compiled.matcher(), rng, max_tokens=15, bias=bias)
            for bias in (0.1, 0.6)
        ]
        minimum = compiled.closer().minimum()
        outputs = [text.decode() for text in drawn if text is not None]
        outputs += [Generation(compiled, minimum + extra, rng).text for extra in (0, 1, 4)]
        for text in outputs:
            assert compiled.accepts(text)
            at, more = rng.randrange(len(text) + 1), rng.choice(CHARACTERS)
            for other in (text, text[:at] + more + text[at:], text[:at] + text[at + 1 :]):
                is_accepted = compiled.accepts(other)
                assert is_accepted == Reader(rules, other).is_whole(), (source, other)
                num_read[is_accepted] += 1
    assert min(num_read.values()) > 20
