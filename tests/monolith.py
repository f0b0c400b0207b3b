"""The one grammar that a linked grammar must equal, joined from the tools' rules; and tools to join."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

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
    choice,
    concat,
    optional,
)
from compiler.syntaxes import Syntax
from compiler.toolset_compiler import lower_tool
from compiler.units.unit import call_of
from compiler.vocabulary import MARKER_START, Vocabulary
from toolspecs.tool import ChoiceMode, Tool

_PLAIN = CharClass.of((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E), (0x80, 0x10FFFF))
_SHARED = {
    "str": Rule(concat(Literal('"'), RuleRef("body"))),
    "body": Rule(
        choice(
            Literal('"'),
            concat(_PLAIN, RuleRef("body")),
            concat(Literal("\\"), CharClass.of(*'"\\/bfnrt'), RuleRef("body")),
        ),
        CharClass.of(*",}]"),
    ),
    "int": Rule(
        concat(
            optional(Literal("-")),
            choice(Literal("0"), concat(CharClass.of((0x31, 0x39)), Repeat(CharClass.of((0x30, 0x39))))),
        )
    ),
}
_STR, _INT = RuleRef("str"), RuleRef("int")


def tool(*items: Expr | str, **rules: Expr) -> Grammar:
    """A grammar whose root is the sequence of `items`, with strings and integers to refer to."""
    body = concat(*(Literal(item) if isinstance(item, str) else item for item in items))
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
        more=choice(Literal("]}"), concat(Literal(", "), _INT, RuleRef("more"))),
    ),
    'quo"ted': tool('{"kind": ', choice(Literal('"a}"'), Literal('"]}, {"'), Literal('"ab"')), "}"),
    "tree": tool('{"next": ', choice(Literal("null"), RuleRef("root")), "}"),
    "many": tool("{", optional(concat(Literal('"s": '), _STR)), "}"),
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


def _object(*required: str, **properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(required)}


_TEXT_OR_LIST = {"type": ["string", "array"], "minLength": 1, "items": {"type": "integer"}}
"""No objects: a guard keeps their keys apart, and the one grammar has none."""

SCHEMAS: Mapping[str, dict[str, object]] = {
    "pay": _object("to", to={"type": "string"}),
    "pay_all": _object("amount", "note", amount={"type": "integer"}, note={"type": "string"}),
    "p": {"type": "object"},
    "pay.all": _object("a", a=_object("b", b=_object("c", c={"enum": [True, None]}))),
    "größe": _object("x", x={"type": "array", "items": {"type": "integer"}, "minItems": 1}),
    'quo"ted': _object("kind", kind={"enum": ["a}", "]}, {", "ab"]}),
    "tree": _object("next", next={"anyOf": [{"type": "null"}, {"$ref": "#"}]}),
    "many": _object(s={"type": ["string", "null"]}, n={"type": ["integer", "string"]}, o=_TEXT_OR_LIST),
}
"""The tools again for syntaxes that tag parameters, whose grammars have to be lowered."""

ARGUMENTS: Mapping[str, Mapping[str, object]] = {
    **{name: json.loads(text) for name, text in SAMPLES.items()},
    "many": {"s": None, "n": "12 <b>", "o": "x\n"},
}

_SUFFIXES = ("", "_by_id", "_v2", ".list", "_now")


def sample_outputs(names: Iterable[str], syntax: Syntax) -> list[str]:
    """Two outputs a tool, of one call and of two, and messages, as a reader sees them."""
    calls = [
        before
        + syntax.spell_name(name)
        + after
        + (f"7{syntax.after_number}" if syntax.after_number else "")
        + sample_arguments(name, syntax)
        + syntax.end
        for name in names
        for before, after in syntax.headers
    ]
    if syntax.messages:
        said = [message.begin + "a < b" for message in syntax.messages]
        leads = [text + syntax.messages[0].end + syntax.message_separator for text in said]
        return [*calls, *said, *(lead + call for lead in leads for call in calls)]
    if syntax.thought:
        calls += [syntax.thought.begin + "a < b" + syntax.thought.end + call for call in calls]
    pairs = [f"{call}{syntax.separator}{other}" for call, other in zip(calls, calls[::-1], strict=True)]
    return [syntax.opening + text + syntax.closing for text in (*calls, *pairs)]


def sample_arguments(name: str, syntax: Syntax) -> str:
    """The arguments of a tool's sample, as the syntax writes them."""
    name = next(base for base in SAMPLES for suffix in _SUFFIXES if name == base + suffix)
    return SAMPLES[name] if syntax.tags is None else tagged(ARGUMENTS[name], syntax)


def tagged(arguments: Mapping[str, object], syntax: Syntax) -> str:
    """Arguments in a syntax's tags."""
    assert syntax.tags is not None
    tags, written = syntax.tags, []
    for key, value in arguments.items():
        is_string = isinstance(value, str)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        after = tags.after_string_key if is_string and tags.after_string_key else tags.after_key
        written.append(tags.begin + key + after + text + tags.end)
    return "".join(written)


def toolbox(count: int, syntax: Syntax, vocabulary: Vocabulary) -> dict[str, Grammar]:
    """`count` tools: the ones above, and more of them under longer names."""
    names = [(f"{name}{suffix}", name) for suffix in _SUFFIXES for name in TOOLS][:count]
    if syntax.tags is None:
        return {name: TOOLS[base] for name, base in names}
    return {name: _lowered(base, syntax, vocabulary) for name, base in names}


@cache
def _lowered(name: str, syntax: Syntax, vocabulary: Vocabulary) -> Grammar:
    return lower_tool(Tool(name, "", SCHEMAS[name]), syntax, vocabulary).grammar


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
        unit = call_of(grammar, syntax, vocabulary)
        rules |= {f"t{number}_{rule}": _renamed(body, f"t{number}_") for rule, body in unit.rules.items()}
        for before, after in syntax.headers:
            begin = vocabulary.spell(before) if syntax.messages else ""
            header = begin + syntax.spell_name(name) + vocabulary.spell(after)
            calls.append(concat(Literal(header), RuleRef(f"t{number}_{unit.root}")))
    if syntax.messages:
        return _with_messages(rules, calls, syntax, vocabulary, has_last=mode is not ChoiceMode.REQUIRED)
    parallel = parallel and syntax.separator is not None
    opening, again, closing = (
        Literal(vocabulary.spell(text))
        for text in (syntax.opening + syntax.begin, f"{syntax.separator}{syntax.begin}", syntax.closing)
    )
    if calls:
        rules["call"] = Rule(choice(*calls))
        more = choice(closing, concat(again, RuleRef("call"), RuleRef("more"))) if parallel else closing
        rules["more"] = Rule(more)
        rules["calls"] = Rule(concat(opening, RuleRef("call"), RuleRef("more")))
    if mode is ChoiceMode.REQUIRED:
        thought = syntax.thought
        if thought is None or not {thought.begin, thought.end} <= vocabulary.markers.keys():
            return Grammar(rules, "calls").ebnf
        rules["thought"] = Rule(Prose((thought.end, MARKER_START)))
        begin, end = (Literal(vocabulary.spell(text)) for text in (thought.begin, thought.end))
        whole = concat(optional(concat(begin, RuleRef("thought"), end)), RuleRef("calls"))
        return Grammar({**rules, "output": Rule(whole)}, "output").ebnf
    return _with_text(rules, syntax, vocabulary, has_calls=bool(calls))


def _with_messages(
    rules: dict[str, Rule], calls: list[Expr], syntax: Syntax, vocabulary: Vocabulary, *, has_last: bool
) -> str:
    options = list(calls)
    for number, message in enumerate(syntax.messages):
        rules[f"text{number}"] = Rule(Prose((message.end, MARKER_START)))
        begin, text = Literal(vocabulary.spell(message.begin)), RuleRef(f"text{number}")
        again = Literal(vocabulary.spell(message.end + syntax.message_separator))
        if not message.is_last:
            options.append(concat(begin, text, again, RuleRef("start")))
        elif has_last:
            options.append(concat(begin, text))
    return Grammar({**rules, "start": Rule(choice(*options))}, "start").ebnf


def _with_text(rules: dict[str, Rule], syntax: Syntax, vocabulary: Vocabulary, *, has_calls: bool) -> str:
    spelled = vocabulary.spell(syntax.trigger)
    excludes = f"excludes=({_quoted(syntax.trigger)})"
    if not has_calls:
        return f"root ::= TagDispatch(loop_after_dispatch=false, {excludes})\n"
    body = rules["calls"].body
    assert isinstance(body, Concatenation)
    assert isinstance(body.items[0], Literal)
    rest = concat(Literal(body.items[0].text.removeprefix(spelled)), *body.items[1:])
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
        case Concatenation(items):
            return Concatenation(tuple(_rename(item, prefix) for item in items))
        case Choice(options):
            return Choice(tuple(_rename(option, prefix) for option in options))
        case _:
            return expr
