"""Whether a report tells why a valid instance cannot be written.

A valid instance is *untold* if the mask refuses it, its keys in declared order and in our spelling, though no schema that
applies to it or to a part of it has an entry that says so.
"""

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jsonschema_rs
from soundness.comparison import spellings
from soundness.key_order import in_declared_order

from compiler.frontend.canonical_form import draft_of
from compiler.frontend.keywords import IN_PLACE_MAPS, REFERENCES
from compiler.frontend.source_map import SourceMap
from compiler.report import EnforcementReport, Verdict
from toolspecs.json_pointer import child

_NO_DOCUMENTS: Mapping[str, Any] = MappingProxyType({})
_ON_ORDER = {"keys in their declared order", "undeclared keys after the declared ones"}
_ON_DIGITS = re.compile(r"numbers have at most|^at most \d+ digits$|^no exponent")
_SAME_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", *IN_PLACE_MAPS)
_ANY_KEY = ("additionalProperties", "unevaluatedProperties")
_ANY_ITEM = ("items", "additionalItems", "unevaluatedItems", "contains")

_Applied = Iterator[tuple[str, Any]]
"""Pointers of schemas, each with the value that it applies to."""


def untold(compiled: Any, value: Any, schema: Any, documents: Mapping[str, Any] = _NO_DOCUMENTS) -> bool:
    """Whether a valid value is refused and the report does not say why."""
    if is_accepted(compiled, value, schema, documents):
        return False
    return not told_at(compiled.report, value, schema, documents)


def is_accepted(compiled: Any, value: Any, schema: Any, documents: Mapping[str, Any] = _NO_DOCUMENTS) -> bool:
    """Whether the mask lets a model write a value in declared order, in a spelling of ours."""
    orders = [
        order
        for written in (value, _whole(value))
        for order in (written, *in_declared_order(written, schema, documents))
    ]
    return any(compiled.accepts(text) for order in orders for text in sorted(spellings(order)))


def _whole(value: Any) -> Any:
    """The value, its numbers without a point where they are integers."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_whole(item) for item in value]
        case dict():
            return {key: _whole(item) for key, item in value.items()}
    return value


def told_at(
    report: EnforcementReport, value: Any, schema: Any, documents: Mapping[str, Any] = _NO_DOCUMENTS
) -> list[str]:
    """The entries of the schemas that apply to a value or its parts which may be why it is left out."""
    applied = set(_applied_pointers(value, SourceMap(schema, documents)))
    return [
        f"{entry.pointer}: {entry.keyword} {entry.verdict} {entry.note}"
        for entry in report
        if entry.pointer in applied
        and entry.verdict in (Verdict.NARROWED, Verdict.GUARDED)
        and not all(_is_about_others(note, value) for note in entry.note.split("; "))
    ]


def _is_about_others(note: str, value: Any) -> bool:
    """Whether a note cannot be why a value is left out whose keys are in declared order."""
    return note in _ON_ORDER or (_ON_DIGITS.search(note) is not None and _has_short_numbers(value))


def _has_short_numbers(value: Any) -> bool:
    """Whether all numbers in a value have ten digits at most, and no exponent."""
    match value:
        case int() | float():
            text = repr(value)
            return len(text) <= 10 and "e" not in text
        case list():
            return all(map(_has_short_numbers, value))
        case dict():
            return all(map(_has_short_numbers, value.values()))
    return True


def _applied_pointers(value: Any, source: SourceMap) -> Iterator[str]:
    """The pointers of all schemas that may apply to a value or to a part of it."""
    seen: set[tuple[str, int]] = set()
    pending: list[tuple[str, Any]] = [("", value)]
    while pending:
        pointer, part = pending.pop()
        if (pointer, id(part)) in seen:
            continue
        seen.add((pointer, id(part)))
        yield pointer
        schema = source.at(pointer)
        if isinstance(schema, dict):
            pending += _to_same_value(pointer, schema, part, source)
            pending += [(target, part) for target in _targets(pointer, schema, source)]
            pending += _to_members(pointer, schema, part) if isinstance(part, dict) else ()
            pending += _to_items(pointer, schema, part) if isinstance(part, list) else ()


def _to_same_value(pointer: str, schema: Mapping[str, Any], part: Any, source: SourceMap) -> _Applied:
    for keyword in _SAME_VALUE:
        match schema.get(keyword):
            case list() as schemas:
                for index, inner in enumerate(schemas):
                    if keyword == "allOf" or _may_be_valid(inner, part, source):
                        yield child(pointer, keyword, str(index)), part
            case dict() as schemas if keyword in IN_PLACE_MAPS:
                yield from ((child(pointer, keyword, key), part) for key in schemas)
            case dict() | bool():
                yield child(pointer, keyword), part


def _may_be_valid(schema: Any, value: Any, source: SourceMap) -> bool:
    """Whether a value may be valid for an alternative: what is told of other alternatives is not why it is refused."""
    if not isinstance(schema, dict) or any(f'"{keyword}"' in json.dumps(schema) for keyword in REFERENCES):
        return schema is not False
    draft = draft_of(source.references.document)
    return jsonschema_rs.is_valid(schema, value, draft=draft, validate_formats=True)


def _targets(pointer: str, schema: Mapping[str, Any], source: SourceMap) -> Iterator[str]:
    for keyword in REFERENCES:
        if isinstance(uri := schema.get(keyword), str):
            found = source.references.target(pointer, uri)
            yield from [] if found is None else [found]


def _to_members(pointer: str, schema: Mapping[str, Any], part: dict[str, Any]) -> _Applied:
    for key, item in part.items():
        if key in (schema.get("properties") or ()):
            yield child(pointer, "properties", key), item
        for pattern in schema.get("patternProperties") or ():
            if jsonschema_rs.is_valid({"pattern": pattern}, key):
                yield child(pointer, "patternProperties", pattern), item
        yield from ((child(pointer, keyword), item) for keyword in _ANY_KEY if keyword in schema)
        if "propertyNames" in schema:
            yield child(pointer, "propertyNames"), key


def _to_items(pointer: str, schema: Mapping[str, Any], part: list[Any]) -> _Applied:
    for index, item in enumerate(part):
        for keyword in ("prefixItems", "items"):
            if isinstance(listed := schema.get(keyword), list) and index < len(listed):
                yield child(pointer, keyword, str(index)), item
        for keyword in _ANY_ITEM:
            if isinstance(schema.get(keyword), dict | bool):
                yield child(pointer, keyword), item
