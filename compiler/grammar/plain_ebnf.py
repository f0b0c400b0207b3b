r"""Writing a grammar for an engine whose own xgrammar compiles it, with the engine's own vocabulary.

There, a marker token is also a text like any other. So markers are written by their ids, and prose has none
of their spellings in it. Guards, lookaheads and the marks of keys are left out. The sender has to check
what comes back: the engine may write a marker inside of a string, where its spelling is a text.

xgrammar 0.2.8 caches masks by the shape of a rule, and leaves the ids of tokens out of that shape: a
compiler that has read `Token(1)` in one grammar gives its mask for `Token(2)` in another one, and then
refuses what that mask allows. So a marker's rule has a second choice, which no text fits and which makes
the shape its own: a character of an empty class, repeated as often as the id says.

>>> vocabulary = Vocabulary.from_tokens([b"a", b"<call>", b""], markers={"<call>": 1}, stop_ids=[2])
>>> print(to_plain_ebnf(Grammar({"root": Rule(Literal(vocabulary.spell("<call>a")))}), vocabulary), end="")
root ::= marker_1 "a"
marker_1 ::= Token(1) | [^\u0000-\U0010ffff]{1001}
"""

from collections.abc import Iterator

from compiler.grammar.grammar import (
    CharClass,
    Choice,
    Concatenation,
    Expr,
    Grammar,
    Literal,
    Prose,
    Repeat,
    Rule,
    RuleRef,
    concat,
    subexpressions,
    to_ebnf,
)
from compiler.vocabulary import KEY_MARK, MARKER_START, Vocabulary

_LONG = 1000
"""A repetition so often is one edge of xgrammar's automaton, whose count is part of its shape."""


def to_plain_ebnf(grammar: Grammar, vocabulary: Vocabulary) -> str:
    """The grammar in xgrammar's EBNF, root rule first."""
    names: dict[int, str] = {}  # of the markers in it: a vocabulary may have thousands
    rules = {name: Rule(_plain(rule.body, vocabulary, names)) for name, rule in grammar.rules.items()}
    assert not rules.keys() & set(names.values()), "no rule is called as one of a marker"
    undefined = {name: Rule(Literal("")) for name in names.values()}
    text = to_ebnf(Grammar(undefined | rules, grammar.root))
    for token_id, name in names.items():
        text = text.replace(f'{name} ::= ""\n', f"{name} ::= {_token(token_id)}\n")
    return text


def _token(token_id: int) -> str:
    """One token, in a rule of its own shape; xgrammar writes small counts out, and then drops the choice."""
    return f"Token({token_id}) | [^\\u0000-\\U0010ffff]{{{_LONG + token_id}}}"


def is_longer(grammar: Grammar, num_characters: int) -> bool:
    """Whether it certainly has more characters than that when it is written; counts no further."""
    num = 0
    for rule in grammar.rules.values():
        for expr in subexpressions(rule.body):
            match expr:
                case Literal(text):
                    num += len(text)
                case CharClass(ranges) | Repeat(CharClass(ranges)):
                    num += len(ranges)
                case _:
                    num += 1
            if num > num_characters:
                return True
    return False


def _plain(expr: Expr, vocabulary: Vocabulary, names: dict[int, str]) -> Expr:
    match expr:
        case Literal(text):
            return concat(*(_piece(piece, names) for piece in vocabulary.pieces(text.encode())))
        case Concatenation(items):
            return Concatenation(tuple(_plain(item, vocabulary, names) for item in items))
        case Choice(options):
            return Choice(tuple(_plain(option, vocabulary, names) for option in options))
        case Prose(excludes):
            return Prose(tuple(dict.fromkeys(_excluded(excludes, vocabulary))))
        case _:
            return expr


def _piece(piece: bytes | int, names: dict[int, str]) -> Expr:
    if isinstance(piece, int):
        return RuleRef(names.setdefault(piece, f"marker_{piece}"))
    return Literal(piece.decode().replace(KEY_MARK, ""))


def _excluded(texts: tuple[str, ...], vocabulary: Vocabulary) -> Iterator[str]:
    for text in texts:
        if text == MARKER_START:  # of every marker
            yield from vocabulary.markers
        else:
            yield vocabulary.display(text.encode()).decode()
