r"""Writing a grammar in GBNF, which llama.cpp reads.

Marker tokens are written by their ids: `<[151657]>`. Where GBNF has no form for something, or llama.cpp would
take too long, the written grammar admits more texts, never fewer: large counts become any number, and
lookaheads, guards and the marks of keys are left out. So the caller must check what the engine writes.

>>> from compiler.grammar.ebnf import ebnf_grammar
>>> grammar = ebnf_grammar('root ::= "a-b" the_n\nthe_n ::= [0-9] the_n | "\u00e9"')
>>> print(to_gbnf(grammar, Vocabulary.of_bytes()), end="")
root ::= "a\u002Db" the-n
the-n ::= [0-9] the-n | "\u00E9"
"""

from collections.abc import Sequence
from functools import lru_cache

from compiler.grammar.grammar import (
    CharClass,
    Choice,
    Concatenation,
    Expr,
    Grammar,
    GuardedText,
    Literal,
    Prose,
    Repeat,
    RuleRef,
)
from compiler.vocabulary import KEY_MARK, MARKER_START, Vocabulary

MAX_COUNT = 100
"""The highest written count: llama.cpp makes a rule of each repetition, and refuses more than 2,000."""


def to_gbnf(grammar: Grammar, vocabulary: Vocabulary) -> str:
    """The grammar in GBNF for an engine of this vocabulary; the rule `root` comes first."""
    lines: list[str] = []
    for name in (grammar.root, *(name for name in grammar.rules if name != grammar.root)):
        body = grammar.rules[name].body
        if isinstance(body, Prose):
            texts = tuple(text for text in body.excludes if not text.startswith(MARKER_START))
            lines.append(_without(texts, _name(name, grammar)))
        else:
            lines.append(f"{_name(name, grammar)} ::= {_write(body, grammar, vocabulary)}\n")
    return "".join(lines)


def token_choice(token_ids: Sequence[int]) -> str:
    """The grammar of one token, which is any of these."""
    return "root ::= " + " | ".join(f"<[{token_id}]>" for token_id in token_ids) + "\n"


def _name(name: str, grammar: Grammar) -> str:
    """GBNF has no underscores in names, and ours have no hyphens."""
    if name == grammar.root:
        return "root"
    return "root-" if name == "root" else name.replace("_", "-")


def _write(expr: Expr, grammar: Grammar, vocabulary: Vocabulary) -> str:
    match expr:
        case Literal(text):
            return _literal(text, vocabulary)
        case CharClass(ranges):
            return "[" + "".join(map(_range, ranges)) + "]"
        case Repeat(item, low, high):
            return _write(item, grammar, vocabulary) + _count(low, high)
        case Concatenation(items):
            written = ((item, _write(item, grammar, vocabulary)) for item in items)
            return " ".join(f"({text})" if isinstance(item, Choice) else text for item, text in written)
        case Choice(options):
            return " | ".join(_write(option, grammar, vocabulary) for option in options)
        case RuleRef(name) | GuardedText(_, RuleRef(name)):
            return _name(name, grammar)
        case Prose():
            raise AssertionError("prose is the whole body of a rule")


def _literal(text: str, vocabulary: Vocabulary) -> str:
    pieces = (
        f"<[{piece}]>" if isinstance(piece, int) else _quoted(piece.decode().replace(KEY_MARK, ""))
        for piece in vocabulary.pieces(text.encode())
    )
    return " ".join(pieces) or '""'


def _quoted(text: str) -> str:
    return '"' + "".join(map(_escape, text)) + '"'


def _count(low: int, high: int | None) -> str:
    low, high = min(low, MAX_COUNT), None if high is None or high > MAX_COUNT else high
    if high is None and low < 2:
        return "*" if low == 0 else "+"
    return f"{{{low},{'' if high is None else high}}}"


def _range(span: tuple[int, int]) -> str:
    low, high = span
    return _escape(chr(low)) if low == high else f"{_escape(chr(low))}-{_escape(chr(high))}"


def _escape(char: str) -> str:
    """A character in a text or a class, escaped if it means something in either."""
    code = ord(char)
    if 0x20 <= code < 0x7F and char not in '"\\[]^-':
        return char
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


@lru_cache(maxsize=64)
def _without(texts: tuple[str, ...], name: str) -> str:
    """The rules of all texts that contain none of `texts`: an automaton of Aho and Corasick.

    Its states are the beginnings of `texts`. Each becomes a rule, the first one that of the empty text.
    Cached, since most excluded texts are those of the syntax, the same in every grammar.
    """
    states = list(dict.fromkeys([""] + [text[:end] for text in texts for end in range(1, len(text))]))
    names = {state: f"{name}-{at}-" if at else name for at, state in enumerate(states)}
    letters = sorted(set("".join(texts)))
    others = "[^" + "".join(map(_escape, letters)) + "]" if letters else "."
    rules = []
    for state in states:
        by_target: dict[str, list[str]] = {}
        for letter in letters:
            read = state + letter
            if not read.endswith(texts):
                target = next(read[at:] for at in range(len(read) + 1) if read[at:] in names)
                by_target.setdefault(target, []).append(letter)
        options = [f"[{''.join(map(_escape, symbols))}] {names[to]}" for to, symbols in by_target.items()]
        rules.append(f"{names[state]} ::= " + " | ".join([*options, f"{others} {name}", '""']) + "\n")
    return "".join(rules)
