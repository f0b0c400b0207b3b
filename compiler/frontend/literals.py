r"""Patterns that regular expression engines read differently, and literals that they match differently.

Canonicalization asks one engine whether a pattern matches a listed key or value. Engines disagree: in Python,
`\w` matches letters of every script, and `$` matches before a final line break. Where a model may write any
text, the lowering leaves out the texts that engines disagree on. It cannot leave out a listed one, so such a
schema is refused. So is one with a pattern that has another syntax in another engine, such as `a{,2}`: it may
be resolved before the lowering reads it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from compiler.errors import UnsupportedSchema
from compiler.frontend.keywords import listed_values, located_in_all
from compiler.regular.dfa import TooManyStates
from compiler.regular.ecma import parse
from compiler.regular.engine_differences import may_be_disputed
from compiler.regular.language import PatternCondition, language
from compiler.regular.pattern_tree import PatternError
from toolspecs.json_pointer import child

_ODD = re.compile(r"[^\x20-\x7e]|^$")
r"""Texts that engines match differently: these characters, and the empty text by `\B`."""
_DECLARING = ("properties", "dependentRequired", "dependentSchemas", "dependencies")


class _Pattern(NamedTuple):
    pointer: str
    keyword: str
    text: str


def check_literals(document: Any, documents: Mapping[str, Any]) -> None:
    """Refuse a pattern that engines read differently, or match differently against a literal.

    A literal is a key or value that the pattern may be applied to, in the schema or in one of the `documents`
    by URI that it refers to.

    Raises:
        UnsupportedSchema: they disagree.
    """
    schemas = list(located_in_all(document, documents))
    of_keys, of_values = _patterns(schemas)
    for pattern in (*of_keys, *of_values):
        _check_syntax(pattern)
    keys = {key for _, schema in schemas for key in listed_keys(schema) if _ODD.search(key)}
    values = {text for _, schema in schemas for text in listed_texts(schema) if _ODD.search(text)}
    keys |= values  # listed objects have keys, and `propertyNames` can list keys
    if not keys:
        return
    if any("propertyNames" in schema for _, schema in schemas):
        of_keys += of_values
    for patterns, literals in ((of_keys, keys), (of_values, values)):
        for pattern in patterns if literals else ():
            for literal in _disputed(pattern.text, sorted(literals)):
                raise UnsupportedSchema(
                    pattern.pointer,
                    pattern.keyword,
                    f"engines disagree on whether {literal!r} matches it",
                    r"Write character classes instead of shorthands such as \w.",
                )


def _patterns(schemas: Iterable[tuple[str, dict[str, Any]]]) -> tuple[list[_Pattern], list[_Pattern]]:
    """The patterns of keys, and those of values."""
    of_keys, of_values = [], []
    for pointer, schema in schemas:
        if isinstance(schema.get("pattern"), str):
            of_values.append(_Pattern(child(pointer, "pattern"), "pattern", schema["pattern"]))
        if isinstance(schema.get("patternProperties"), dict):
            of_keys += [
                _Pattern(child(pointer, "patternProperties", text), "patternProperties", text)
                for text in schema["patternProperties"]
            ]
    return of_keys, of_values


def _check_syntax(pattern: _Pattern) -> None:
    """Refuse a pattern with a construct that engines read differently.

    The parser stops at its first error. What stands after it counts as such a construct if it may be one.
    """
    try:
        parse(pattern.text)
    except PatternError as error:
        if error.is_disputed or may_be_disputed(pattern.text):
            raise UnsupportedSchema(pattern.pointer, pattern.keyword, str(error), error.suggestion) from None


def _disputed(pattern: str, literals: list[str]) -> Iterator[str]:
    """The literals that some engines match and others do not."""
    if r"\B" not in pattern:
        literals = [literal for literal in literals if literal]
    if not literals:
        return
    try:
        found_by_all = language([PatternCondition(pattern)])
        found_by_none = language([PatternCondition(pattern, is_excluded=True)])
    except (PatternError, TooManyStates):  # nothing is known about the pattern
        yield from literals
        return
    for literal in literals:
        if not found_by_all.accepts(literal) and not found_by_none.accepts(literal):
            yield literal


def listed_keys(schema: Mapping[str, Any]) -> Iterator[str]:
    """Every key that a schema declares or requires."""
    for keyword in _DECLARING:
        if isinstance(schema.get(keyword), dict):
            yield from schema[keyword]
            for needed_keys in schema[keyword].values():
                yield from _texts(needed_keys) if isinstance(needed_keys, list) else ()
    yield from _texts(schema.get("required"))


def listed_texts(schema: Mapping[str, Any]) -> Iterator[str]:
    """Every string in `enum` and `const` of a schema, keys included."""
    for _, value in listed_values(schema):
        yield from _texts(value)


def _texts(value: Any) -> Iterator[str]:
    """Every string in a value, keys included."""
    stack = [value]
    while stack:
        match stack.pop():
            case str() as text:
                yield text
            case list() as items:
                stack += items
            case dict() as members:
                stack += [*members, *members.values()]
