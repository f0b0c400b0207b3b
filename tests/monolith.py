"""The one grammar that a linked grammar must equal, joined from the tools' rules; and tools to join."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from compiler.grammar import (
    CharClass,
    Choice,
    Expr,
    Grammar,
    Literal,
    Repeat,
    Rule,
    RuleRef,
    Sequence,
    choice,
    optional,
    sequence,
)
from compiler.syntaxes import Syntax
from compiler.unit import append
from compiler.vocabulary import Vocabulary
from toolspecs.choice import ChoiceMode

_PLAIN = CharClass.of((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E), (0x80, 0x10FFFF))
_SHARED = {
    "str": Rule(sequence(Literal('"'), RuleRef("body"))),
    "body": Rule(
        choice(
            Literal('"'),
            sequence(_PLAIN, RuleRef("body")),
            sequence(Literal("\\"), CharClass.of(*'"\\/bfnrt'), RuleRef("body")),
        ),
        CharClass.of(*",}]"),
    ),
    "int": Rule(
        sequence(
            optional(Literal("-")),
            choice(Literal("0"), sequence(CharClass.of((0x31, 0x39)), Repeat(CharClass.of((0x30, 0x39))))),
        )
    ),
}
_STR, _INT = RuleRef("str"), RuleRef("int")


def tool(*items: Expr | str, **rules: Expr) -> Grammar:
    """A grammar whose root is the sequence of `items`, with strings and integers to refer to."""
    body = sequence(*(Literal(item) if isinstance(item, str) else item for item in items))
    return Grammar({"root": Rule(body), **{name: Rule(rule) for name, rule in rules.items()}, **_SHARED})


TOOLS: Mapping[str, Grammar] = {
    "pay": tool('{"to": ', _STR, "}"),
    "pay_all": tool('{"amount": ', _INT, ', "note": ', _STR, "}"),
    "p": tool("{}"),
    "pay.all": tool('{"a": {"b": {"c": ', choice(Literal("true"), Literal("null")), "}}}"),
    "größe": tool(
        '{"x": [',
        _INT,
        RuleRef("more"),
        more=choice(Literal("]}"), sequence(Literal(", "), _INT, RuleRef("more"))),
    ),
    'quo"ted': tool('{"kind": ', choice(Literal('"a}"'), Literal('"]}, {"'), Literal('"ab"')), "}"),
    "tree": tool('{"next": ', choice(Literal("null"), RuleRef("root")), "}"),
    "many": tool("{", optional(sequence(Literal('"s": '), _STR)), "}"),
}


SAMPLES: Mapping[str, str] = {
    "pay": '{"to": "Ann }}, "}',
    "pay_all": '{"amount": -120, "note": "\\"ok\\" ]"}',
    "p": "{}",
    "pay.all": '{"a": {"b": {"c": null}}}',
    "größe": '{"x": [1, 20, -3]}',
    'quo"ted': '{"kind": "]}, {"}',
    "tree": '{"next": {"next": {"next": null}}}',
    "many": '{"s": ""}',
}


_SUFFIXES = ("", "_by_id", "_v2", ".list", "_now")


def sample_outputs(names: Iterable[str], syntax: Syntax) -> list[str]:
    """Two outputs a tool, of one call and of two, as a reader sees them."""
    samples = {f"{name}{suffix}": SAMPLES[name] for suffix in _SUFFIXES for name in SAMPLES}
    calls = [syntax.header(name) + samples[name] + syntax.end for name in names]
    pairs = [call + syntax.separator + other for call, other in zip(calls, calls[::-1], strict=True)]
    return [syntax.opening + text + syntax.closing for text in (*calls, *pairs)]


def toolbox(count: int) -> dict[str, Grammar]:
    """`count` tools: the ones above, and more of them under longer names."""
    tools = {f"{name}{suffix}": TOOLS[name] for suffix in _SUFFIXES for name in TOOLS}
    return dict(list(tools.items())[:count])


def monolith(
    grammars: Mapping[str, Grammar],
    syntax: Syntax,
    vocabulary: Vocabulary,
    mode: ChoiceMode,
    *,
    parallel: bool,
) -> str:
    """EBNF of the whole language, as xgrammar compiles it."""
    rules: dict[str, Rule] = {}
    calls = []
    for number, (name, grammar) in enumerate(grammars.items()):
        unit = append(grammar, vocabulary.spell(syntax.end))
        rules |= {f"t{number}_{rule}": _renamed(body, f"t{number}_") for rule, body in unit.rules.items()}
        header = syntax.spell_name(name) + vocabulary.spell(syntax.after_name)
        calls.append(sequence(Literal(header), RuleRef(f"t{number}_{unit.root}")))
    opening, again, closing = (
        Literal(vocabulary.spell(text))
        for text in (syntax.opening + syntax.begin, syntax.separator + syntax.begin, syntax.closing)
    )
    if calls:
        rules["call"] = Rule(choice(*calls))
        more = choice(closing, sequence(again, RuleRef("call"), RuleRef("more"))) if parallel else closing
        rules["more"] = Rule(more)
        rules["calls"] = Rule(sequence(opening, RuleRef("call"), RuleRef("more")))
    if mode is ChoiceMode.REQUIRED:
        return Grammar(rules, "calls").ebnf
    return _with_text(rules, syntax, vocabulary, has_calls=bool(calls))


def _with_text(rules: dict[str, Rule], syntax: Syntax, vocabulary: Vocabulary, *, has_calls: bool) -> str:
    spelled = vocabulary.spell(syntax.trigger)
    excludes = f"excludes=({_quoted(syntax.trigger)})"
    if not has_calls:
        return f"root ::= TagDispatch(loop_after_dispatch=false, {excludes})\n"
    body = rules["calls"].body
    assert isinstance(body, Sequence)
    assert isinstance(body.items[0], Literal)
    rest = sequence(Literal(body.items[0].text.removeprefix(spelled)), *body.items[1:])
    ebnf = Grammar({**rules, "top": Rule(RuleRef("calls")), "calls": Rule(rest)}, "top").ebnf
    option = "" if spelled == syntax.trigger else f", {excludes}"
    dispatch = f"TagDispatch(({_quoted(spelled)}, calls), loop_after_dispatch=false{option})"
    return ebnf.replace("root ::= calls\n", f"root ::= {dispatch}\n", 1)


def _quoted(text: str) -> str:
    escaped = (c if " " <= c <= "~" and c not in '"\\' else f"\\u{ord(c):04x}" for c in text)
    return '"' + "".join(escaped) + '"'


def _renamed(rule: Rule, prefix: str) -> Rule:
    return replace(rule, body=_rename(rule.body, prefix))


def _rename(expr: Expr, prefix: str) -> Expr:
    match expr:
        case RuleRef(name):
            return RuleRef(prefix + name)
        case Sequence(items):
            return Sequence(tuple(_rename(item, prefix) for item in items))
        case Choice(options):
            return Choice(tuple(_rename(option, prefix) for option in options))
        case _:
            return expr
