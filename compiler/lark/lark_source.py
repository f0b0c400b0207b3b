"""Reading a grammar with Lark's loader; what has no counterpart here is refused, with its line."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, chain, count
from typing import Any

from lark import Token, Tree
from lark.exceptions import LarkError
from lark.grammar import NonTerminal
from lark.grammar import Rule as LarkRule
from lark.lexer import TerminalDef
from lark.load_grammar import Grammar, load_grammar

from compiler.digraph import reachable
from compiler.errors import UnsupportedSchema
from compiler.lark.optional_terminals import GrammarWithOptions
from compiler.lark.parts import PART, with_parts_apart
from toolspecs.nearest import MAX_NAME, shorten

START = "start"
MAX_DEFINITION = 50_000
"""The most characters of a grammar."""
MAX_SYMBOLS = 20_000
"""The most symbols in all expansions; repetitions with counts expand."""

COMMON = r"""
DIGIT: "0".."9"
HEXDIGIT: "a".."f"|"A".."F"|DIGIT
INT: DIGIT+
SIGNED_INT: ["+"|"-"] INT
DECIMAL: INT "." INT? | "." INT
_EXP: ("e"|"E") SIGNED_INT
FLOAT: INT _EXP | DECIMAL _EXP?
SIGNED_FLOAT: ["+"|"-"] FLOAT
NUMBER: FLOAT | INT
SIGNED_NUMBER: ["+"|"-"] NUMBER
ESCAPED_STRING: /"(?:[^"\\\n]|\\[^\n])*"/
LCASE_LETTER: "a".."z"
UCASE_LETTER: "A".."Z"
LETTER: UCASE_LETTER | LCASE_LETTER
WORD: LETTER+
CNAME: ("_"|LETTER) ("_"|LETTER|DIGIT)*
WS_INLINE: (" "|/\t/)+
WS: /[ \t\f\r\n]/+
CR: /\r/
LF: /\n/
NEWLINE: (CR? LF)+
SH_COMMENT: /#[^\n]*/
CPP_COMMENT: /\/\/[^\n]*/
C_COMMENT: /\/\*(?:[^*]|\*+[^*\/])*\*+\//
SQL_COMMENT: /--[^\n]*/
"""
"""Lark's own grammar of this name, which stands here because a worker may open no file.

Strings and comments are written without the lazy quantifiers that they have there; their texts are the same.
"""

_DEFINED, _USED = r"^\s*[?!]*{}\b", r"\b{}\b"
_DEFINE = "Define it."
_PLACES = (
    ("'(\\w+)' used but not defined", _USED, _DEFINE),
    ("'(\\w+)' defined more than once", _DEFINED, "Join the definitions with |, or rename one."),
    ("Recursion in terminal '(\\w+)'", _DEFINED, "Make it a rule."),
    (r"inside terminals .* in (\w+)\)", _DEFINED, "Make it a rule, or use terminals in it."),
    (r"template arguments .*\(in rule (\w+)\)", _DEFINED, "Give it as many as it has."),
    (r"\{'(\w+)'.* to ignore", rf"%ignore.*{_USED}", _DEFINE),
    (r"terminal (\w+) is declared", rf"%declare.*{_USED}", _DEFINE),
    (r"\((-?\d+\.\.-?\d+) isn't allowed\)", r"~\s*{}", "Write the lower bound first."),
    ("Empty terminals", '""', "Leave it out."),
    (r"%import of '([\w.]+)'", r"%import\s+\.*{}\b", "Write what you need of it into the grammar."),
    (r"(?:extend|override) \w+ (\w+)", r"%(?:extend|override)\s+[?!]*{}\b", _DEFINE),
)
"""What is said of a grammar, the line that it is about, and a way out; `{}` is what the first part found."""
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*(?:"|$)|/(?:\\.|[^/\\])+(?:/|$)|(?://|#).*')
"""Texts, patterns and comments: no name in them is one of the grammar's."""

ATOMS = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
"""Characters after a backslash, and classes: no parenthesis or bar in them is syntax."""
_MADE_BY = re.compile(f"_star_|_plus_|_repeat_a|{PART}")
"""What stands in the name of a rule that was made for a part of another one, after the other's name."""
_ALTERNATIVE = "alternative:"
_BEFORE_RULE = re.compile(rf"(?:__)?{_ALTERNATIVE}\d+:|__")
"""What stands before the name of a rule in the name of one that was made for an alternative or a loop."""
_FIRST_LINE = re.compile(r"[^\n]*")


@dataclass(frozen=True, slots=True)
class Symbol:
    """A terminal or a rule, by name; `place` numbers the places at which terminals stand in the rules."""

    name: str
    is_terminal: bool
    place: int = 0


SymbolSequence = tuple[Symbol, ...]


@dataclass(frozen=True)
class LarkSource:
    """A grammar as Lark reads it: terminals by name, the expansions of each rule, what is ignored."""

    definition: str
    terminals: dict[str, TerminalDef]
    rules: dict[str, tuple[SymbolSequence, ...]]
    ignored: tuple[str, ...]

    def refusal(self, name: str, reason: str, suggestion: str = "") -> UnsupportedSchema:
        """The refusal of a terminal or rule, with its line."""
        line = self._line_of(name)
        where = f"line {line}: " if line else ""
        return refusal(f"{where}{self.title_of(name)} {reason}", suggestion)

    def title_of(self, name: str) -> str:
        """What a message calls a terminal or rule; a terminal without a name of its own is shown itself."""
        if name in self.terminals:
            is_named = re.search(rf"(?m)^\s*{re.escape(name)}\b", self.definition)
            return (
                f"terminal {name}"
                if is_named
                else shorten(repr(self.terminals[name].pattern.value), MAX_NAME)
            )
        return f"rule {_written_rule(name).lstrip('_')!r}"

    def _line_of(self, name: str) -> int:
        """The line in which a terminal or rule is defined, or first stands; 0 if it is not found."""
        names = dict.fromkeys((name, _written_rule(name)))
        texts = [rf"^\s*[?!]*{re.escape(each)}\b" for each in names]
        if name in self.terminals:
            pattern = self.terminals[name].pattern
            texts.append(re.escape(pattern.raw or pattern.value))
        lines = list(enumerate(self.definition.splitlines(), 1))
        return next((number for text in texts for number, line in lines if re.search(text, line)), 0)


def _written_rule(name: str) -> str:
    """The rule of the definition for whose part a rule was made; the rule itself if it was not made.

    >>> _written_rule("__alternative:0:start_plus_1")
    'start'
    """
    rule = _MADE_BY.split(name, maxsplit=1)[0]
    before = _BEFORE_RULE.match(rule)
    return rule[before.end() :] if before else rule


def refusal(reason: str, suggestion: str = "") -> UnsupportedSchema:
    """The refusal of a grammar."""
    return UnsupportedSchema("", "", reason, suggestion)


def read_source(definition: str) -> LarkSource:
    """Read a grammar.

    Raises:
        UnsupportedSchema: Lark refuses the grammar, or it is too large, or uses terminals with priorities,
            terminals that are declared elsewhere, or grammars other than `common`.
    """
    if len(definition) > MAX_DEFINITION:
        raise refusal(f"the grammar has more than {MAX_DEFINITION} characters", "Write less.")
    try:
        grammar = load(definition)
        terminals, rules, ignored = grammar.compile([START], set())
    except LarkError as error:
        raise _placed(definition, _reason(error)) from error
    source = LarkSource(
        definition,
        {terminal.name: terminal for terminal in terminals},
        _expansions(rules),
        tuple(dict.fromkeys(ignored)),
    )
    _check(source)
    _check_joined_patterns(source, grammar.term_defs)
    return source


def load(definition: str) -> Grammar:
    """A grammar as it is read here: Lark takes it in place of a text.

    Raises:
        LarkError: Lark refuses the grammar.
        UnsupportedSchema: a template uses itself.
    """
    read = load_grammar(definition, "the grammar", [_import_common], global_keep_all_tokens=False)  # type: ignore[no-untyped-call]
    grammar, _ = read
    _check_templates(definition, grammar.rule_defs)
    _replace_brackets(grammar.rule_defs)
    rule_defs = with_parts_apart(grammar.rule_defs, max_symbols=MAX_SYMBOLS)
    return GrammarWithOptions(list(_apart(rule_defs)), grammar.term_defs, grammar.ignore)


def _import_common(_base: object, path: str) -> tuple[str, str]:
    """The text of an imported grammar. Lark asks this function first, and it raises, so no file is opened."""
    if path == "common.lark":
        return path, COMMON
    raise LarkError(f"%import of {path.removesuffix('.lark')!r}: only `%import common` is read")


def _reason(error: LarkError) -> str:
    text = _FIRST_LINE.match(str(error).strip())
    return text[0].rstrip(":. ")[:300] if text else "Lark refuses the grammar"


def _placed(definition: str, reason: str) -> UnsupportedSchema:
    """The refusal of a grammar for a reason that does not name the line, but what is in it."""
    for said, place, suggestion in _PLACES:
        if found := re.search(said, reason):
            written = re.compile(place.format(*map(re.escape, found.groups())))
            lines = [_QUOTED.sub(_emptied, line) for line in definition.splitlines()]
            numbers = [number for number, line in enumerate(lines, 1) if written.search(line)]
            # Of two definitions, the second one is to blame.
            return refusal(f"line {numbers[-1]}: {reason}" if numbers else reason, suggestion)
    return refusal(reason)


def _emptied(quoted: re.Match[str]) -> str:
    return quoted[0] if quoted[0] == '""' else "''"


def _check_templates(definition: str, rule_defs: Iterable[Any]) -> None:
    """Refuse templates that use themselves: Lark expands them without end."""
    trees = {str(name): tree for name, parameters, tree, _ in rule_defs if parameters}
    uses = {
        name: {str(usage.children[0].name) for usage in tree.find_data("template_usage")} & trees.keys()
        for name, tree in trees.items()
    }
    for name in trees:
        if name in reachable(uses[name], uses.__getitem__):
            lines = definition.splitlines()
            line = next((n for n, text in enumerate(lines, 1) if text.lstrip(" ?!").startswith(name)), 0)
            raise refusal(f"line {line}: template {name!r} uses itself", "Write a rule for each use.")


def _replace_brackets(rule_defs: Iterable[Any]) -> None:
    """Write `(x)?` for `[x]`: the texts are the same, but Lark refuses a rule with `[x] [x]`."""
    for _, _, tree, _ in rule_defs:
        for part in tree.find_data("maybe"):
            part.data = "expr"
            part.children.append(Token("OP", "?"))


def _apart(rule_defs: Iterable[Any]) -> Iterator[Any]:
    """The rules as Lark defines them, with a rule of its own for each alternative.

    Lark refuses a rule two of whose alternatives have a text in common that is spelled alike, as
    `a: b ("," b)* | b` has; OpenAI's examples have such rules. `_expansions` puts them together again.
    """
    for name, parameters, tree, options in rule_defs:
        if parameters or len(tree.children) == 1:
            yield name, parameters, tree, options
            continue
        names = [f"{_ALTERNATIVE}{number}:{name}" for number in range(len(tree.children))]
        choices = [Tree("expansion", [Tree("value", [NonTerminal(alternative)])]) for alternative in names]
        yield name, parameters, Tree("expansions", choices), options
        for alternative, child in zip(names, tree.children, strict=True):
            yield alternative, parameters, Tree("expansions", [child]), options


def _expansions(rules: Iterable[LarkRule]) -> dict[str, tuple[SymbolSequence, ...]]:
    """The expansions of each rule, with alternatives put together again and places numbered."""
    by_name: dict[str, list[SymbolSequence]] = {}
    for rule in rules:
        symbols = tuple(Symbol(str(symbol.name), symbol.is_term) for symbol in rule.expansion)
        by_name.setdefault(rule.origin.name, []).append(symbols)
    places = count(1)
    return {
        name: tuple(
            tuple(replace(symbol, place=next(places)) if symbol.is_terminal else symbol for symbol in symbols)
            for symbols in _right_recursive(name, tuple(dict.fromkeys(_together(expansions, by_name))))
        )
        for name, expansions in by_name.items()
        if not name.startswith(_ALTERNATIVE)
    }


def _together(
    expansions: list[SymbolSequence], by_name: Mapping[str, list[SymbolSequence]]
) -> list[SymbolSequence]:
    """The expansions of a rule; of its alternatives, if these have rules of their own (see `_apart`)."""
    if not (expansions[0] and expansions[0][0].name.startswith(_ALTERNATIVE)):
        return expansions
    return [symbols for (alternative,) in expansions for symbols in by_name[alternative.name]]


def _right_recursive(name: str, expansions: tuple[SymbolSequence, ...]) -> tuple[SymbolSequence, ...]:
    """A loop that Lark wrote with recursion on the left, `a: x | a x`, with recursion on the right.

    The texts are the same, and masks are much faster (see `compiler.grammar.grammar`).
    """
    again = Symbol(name, is_terminal=False)
    heads = [expansion for expansion in expansions if again not in expansion]
    tails = [expansion[1:] for expansion in expansions if expansion[:1] == (again,)]
    if not tails or set(heads) != set(tails) or len(heads) + len(tails) != len(expansions):
        return expansions
    return (*heads, *((*head, again) for head in heads))


def _check(source: LarkSource) -> None:
    if START not in source.rules:
        raise refusal(f"there is no rule {START!r}", f"Name the rule of the whole text {START!r}.")
    symbols = [s for expansions in source.rules.values() for expansion in expansions for s in expansion]
    if len(symbols) > MAX_SYMBOLS:
        raise refusal(f"its rules expand into more than {MAX_SYMBOLS} symbols", "Lower the counts.")
    for terminal in source.terminals.values():
        if terminal.priority:
            raise source.refusal(terminal.name, "has a priority", "Leave it out: the longest match wins.")
    used = {symbol.name for symbol in symbols if symbol.is_terminal} | set(source.ignored)
    for name in sorted(used - source.terminals.keys()):
        raise _placed(source.definition, f"terminal {name} is declared but not defined")


def _check_joined_patterns(
    source: LarkSource, term_defs: Iterable[tuple[str, tuple[Tree[Any] | None, int]]]
) -> None:
    """Refuse patterns with alternatives of their own beside other parts of a terminal.

    Lark writes such parts one after the other, as they stand: it reads `/a|b/ "c"` as `a|bc`, OpenAI as
    `(a|b)c`.
    """
    for name, (tree, _) in term_defs:
        if tree is None:  # it is declared alone
            continue
        joined = (parts.children for parts in tree.find_data("expansion") if len(parts.children) > 1)
        split = next(filter(None, map(_alternatives_of, chain.from_iterable(joined))), None)
        if split and name in source.terminals:
            reason = (
                f"has {shorten(split, MAX_NAME)} beside other parts: Lark groups its alternatives with them"
            )
            raise source.refusal(name, reason, "Put the alternatives in parentheses, as in /(a|b)/.")


def _alternatives_of(part: Tree[Any]) -> str:
    """The pattern that a part of a terminal is, if it has alternatives outside of all groups; else ""."""
    while part.data in {"expansions", "expansion", "value"} and len(part.children) == 1:
        part = part.children[0]
    written = str(part.children[0]) if part.data == "literal" else ""
    syntax = ATOMS.sub("", written) if written.startswith("/") else ""
    depths = accumulate((character == "(") - (character == ")") for character in syntax)
    is_split = any(character == "|" and depth == 0 for character, depth in zip(syntax, depths, strict=True))
    return written if is_split else ""
