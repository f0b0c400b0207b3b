"""The JSON form of a grammar, in which a stored unit keeps it."""

import json
from typing import Any

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
    Rule,
    RuleRef,
)
from compiler.guard.plan import plan_from_json, plan_to_json
from compiler.guard.string_automaton import automaton_from_json, automaton_to_json


def grammar_to_json(grammar: Grammar) -> str:
    """The JSON form: `{"root": name, "rules": {name: [body, lookahead or null]}, "plan": plan or null}`.

    The form of a client's grammar begins with `"is_free": true`.

    An expression is an array that begins with its kind. `root ::= "a" | [0-9]*` is
    `{"root":"root","rules":{"root":[["choice",["text","a"],["repeat",["class",48,57],0,null]],null]},"plan":null}`.
    """
    rules = {
        name: [_write(rule.body), None if rule.lookahead is None else _write(rule.lookahead)]
        for name, rule in grammar.rules.items()
    }
    plan = None if grammar.plan is None else plan_to_json(grammar.plan)
    content: dict[str, Any] = {"is_free": True} if grammar.is_client_grammar else {}
    content |= {"root": grammar.root, "rules": rules, "plan": plan}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def grammar_from_json(text: str) -> Grammar:
    """The grammar that `grammar_to_json` wrote.

    Raises:
        ValueError: the text does not come from `grammar_to_json`.
    """
    try:
        content = json.loads(text)
        rules = {
            name: Rule(_read(body), None if ahead is None else _read_lookahead(ahead))
            for name, (body, ahead) in content["rules"].items()
        }
        plan = content["plan"]
        read = None if plan is None else plan_from_json(plan)
        return Grammar(rules, content["root"], read, is_client_grammar=content.get("is_free", False))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not the JSON form of a grammar: {error}") from error


def is_of_client_grammar(text: str) -> bool:
    """Whether a JSON form is that of a grammar whose rules a client wrote; it is not read for this."""
    return text.startswith('{"is_free":true')


def _write(expr: Expr) -> list[Any]:  # noqa: PLR0911 - one case per kind of expression
    match expr:
        case Literal(text):
            return ["text", text]
        case CharClass(ranges):
            return ["class", *(bound for span in ranges for bound in span)]
        case Repeat(item, low, high):
            return ["repeat", _write(item), low, high]
        case Concatenation(items):
            return ["sequence", *map(_write, items)]
        case Choice(options):
            return ["choice", *map(_write, options)]
        case RuleRef(name):
            return ["rule", name]
        case Prose(excludes):
            return ["prose", *excludes]
        case GuardedText(automaton, widened):
            return ["guarded", widened.name, automaton_to_json(automaton)]


def _read(node: list[Any]) -> Expr:  # noqa: PLR0911 - one case per kind of expression
    tag, *rest = node
    match tag:
        case "text":
            return Literal(*rest)
        case "class":
            return _read_class(node)
        case "repeat":
            item, low, high = rest
            return Repeat(_read_class(item), low, high)
        case "sequence":
            return Concatenation(tuple(map(_read, rest)))
        case "choice":
            return Choice(tuple(map(_read, rest)))
        case "rule":
            return RuleRef(*rest)
        case "prose":
            return Prose(tuple(rest))
        case "guarded":
            name, automaton = rest
            return GuardedText(automaton_from_json(automaton), RuleRef(name))
        case _:
            raise ValueError(f"no expression is tagged {tag!r}")


def _read_lookahead(node: list[Any]) -> CharClass | RuleRef:
    return RuleRef(node[1]) if node[0] == "rule" else _read_class(node)


def _read_class(node: list[Any]) -> CharClass:
    tag, *bounds = node
    if tag != "class":
        raise ValueError(f"expected a character class, found {tag!r}")
    return CharClass(tuple(zip(bounds[::2], bounds[1::2], strict=True)))
