"""The front end: a document becomes its canonical form, or a refusal that names the culprit."""

import json
import re
from collections.abc import Container, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, Registry, canonical

from compiler.chains import longest_chain
from compiler.cycles import find_cycle
from compiler.depth import check_depth
from compiler.errors import UnsupportedSchema
from compiler.plain import DIALECTS, with_values_described, without_nested_dialects
from compiler.pointer import child, resolve
from toolspecs.bundle import Bundler, objects_in
from toolspecs.references import absolute
from toolspecs.schema_check import keyword_at

MAX_CHAIN = 1_000
"""Schemas that lead to one another in a row; twice as many are too many for a native stack of 8 MB."""

NO_DOCUMENTS: Mapping[str, Any] = MappingProxyType({})
NOTHING = "no value satisfies it"
_ADMIT = "Say what it is to admit, or leave out what refers to it or holds it."
_REGISTER = "Define the target inside the schema, or register its document, by that URI, among `documents`."
_SHORTEN = "Refer to the last schema of the chain directly, or write it out."
_OLDER_DIALECTS = ("http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#")


def canonical_form(
    document: Any, *, documents: Mapping[str, Any] = NO_DOCUMENTS, only_objects: bool = False
) -> CanonicalSchema:
    """The canonical form of a JSON Schema, formats asserted; the dialect is what `$schema` says.

    Nothing is ever fetched: a reference out of the document leads to one of `documents`, by URI, or is
    refused.

    Raises:
        UnsupportedSchema: the document is no schema, cannot be resolved, or admits nothing.
    """
    contents = (document, *documents.values())
    for content in contents:
        check_depth(content)
        _check_text(content)
    _check_dialects(document, documents)
    num_objects = sum(1 for content in contents for _ in objects_in(content))
    if num_objects > MAX_CHAIN and longest_chain(document, documents) > MAX_CHAIN:
        raise UnsupportedSchema(
            "", "$ref", f"leads too deep: through over {MAX_CHAIN} schemas in a row", _SHORTEN
        )
    try:
        registry = registry_of(document, documents)
        schema = _canonical(document, registry)
    except jsonschema_rs.ValidationError as error:
        path = tuple(error.instance_path)
        reason = f"not a valid JSON Schema: {error.message}"
        raise UnsupportedSchema(
            child("", *map(str, path)), keyword_at(path), reason, _other_dialect(document)
        ) from None
    except jsonschema_rs.ReferencingError as error:
        raise _unresolved(document, documents, str(error)) from None
    except canonical.InvalidPattern as error:
        place, keyword = _invalid_pattern(document, documents)
        suggestion = "Write it as ECMA-262 does, with lower counts."
        raise UnsupportedSchema(place, keyword, str(error), suggestion) from None
    except canonical.CanonicalizationError as error:
        raise _unresolved(document, documents, str(error)) from None
    if (cycle := find_cycle(document, documents)) is not None:
        reason = "refers back to itself for the same value, so that nothing says what it admits"
        raise UnsupportedSchema(cycle, "$ref", reason, "Refer to it from a property or an item.")
    if only_objects:
        schema = _only_objects(schema)
    if schema.satisfiability() == canonical.Satisfiability.NO:
        raise _unsatisfiable(document, registry)
    return schema


def _only_objects(schema: CanonicalSchema) -> CanonicalSchema:
    objects = jsonschema_rs.canonicalize({"type": "object"}, draft=schema.draft, validate_formats=True)
    try:
        return schema.intersect(objects)
    except canonical.CanonicalizationError as error:
        # Of objects alone there is nothing to leave out; what is raw the lowering refuses, and tells where.
        if isinstance(schema.view(), canonical.ObjectView | canonical.RawView):
            return schema
        reason = f"its combination of keywords cannot be resolved: {error}"
        raise UnsupportedSchema("", "", reason, "State the parameters as one object.") from None


def _canonical(document: Any, registry: Registry | None) -> CanonicalSchema:
    """The canonical form of the document, or of a plainer one that says the same."""
    plain = without_nested_dialects(document)
    schema = jsonschema_rs.canonicalize(plain, validate_formats=True, offline=True, registry=registry)
    if schema.kind != canonical.CanonicalKind.RAW:
        return schema
    described = with_values_described(plain, schema.draft)
    return jsonschema_rs.canonicalize(described, validate_formats=True, offline=True, registry=registry)


def registry_of(document: Any, documents: Mapping[str, Any]) -> Registry | None:
    """The documents that a schema may refer to, in the schema's dialect where they name none."""
    if not documents:
        return None
    newest = DIALECTS[-1]
    dialect = document.get("$schema", newest) if isinstance(document, dict) else newest
    try:
        draft = jsonschema_rs.canonicalize({"$schema": dialect}, offline=True).draft
        return Registry(list(documents.items()), draft=draft)
    except (ValueError, TypeError) as error:
        raise _unresolved(document, documents, str(error)) from None


def _check_dialects(document: Any, documents: Mapping[str, Any]) -> None:
    """Refuse documents of other dialects than the schema's: engines read what refers to them differently."""
    if not documents:
        return
    own = _dialect(document.get("$schema", DIALECTS[-1]) if isinstance(document, dict) else DIALECTS[-1])
    reached, _ = Bundler(documents).bundle(document)
    for uri, part in reached.items():
        for schema in objects_in(part):
            other = schema.get("$schema")
            if isinstance(other, str) and _dialect(other) != own:
                reason = f"is written in another dialect ({other}) than the schema that refers to it ({own})"
                raise UnsupportedSchema(f"{uri}#/$schema", "$schema", reason, "Write both in one dialect.")


def _dialect(uri: Any) -> Any:
    return uri.removesuffix("#") if isinstance(uri, str) else uri


def _unresolved(document: Any, documents: Mapping[str, Any], message: str) -> UnsupportedSchema:
    """The refusal of a reference to nowhere; `message` quotes its target."""
    quoted = re.search("'([^']*)'", message)
    target = quoted[1] if quoted else ""
    references = [
        (child(start + pointer, "$ref"), reference, absolute(_base(start, part), reference))
        for start, part in _parts(document, documents)
        for pointer, reference in _spelled(part, "$ref")
    ]
    # Below an inner `$id` a reference starts from there; what it spells is how its target ends.
    found = [each for each in references if target and target in each[2]] or [
        each for each in references if (path := each[1].partition("#")[0]) and target.endswith(path)
    ]
    if found:
        place, reference, _ = found[0]
        reason = f"refers to {reference}, which is not there: {message.partition(' and ')[0]}"
        return UnsupportedSchema(place, "$ref", reason, _REGISTER)
    keyword = "$ref" if "esource" in message or "ointer" in message else ""
    return UnsupportedSchema("", keyword, message, _REGISTER)


def _parts(document: Any, documents: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schema and its documents, each with what stands before pointers into it."""
    yield "", document
    yield from ((f"{uri}#", part) for uri, part in documents.items())


def _base(start: str, part: Any) -> str:
    """The URI that references in a part start from."""
    own = part.get("$id", "") if isinstance(part, dict) else ""
    return start.removesuffix("#") or (own if isinstance(own, str) else "")


def _invalid_pattern(document: Any, documents: Mapping[str, Any]) -> tuple[str, str]:
    """The first place with a pattern that cannot be read, and its keyword."""
    for start, part in _parts(document, documents):
        for pointer, keyword, text in _patterns(part):
            try:
                jsonschema_rs.canonicalize({"pattern": text})
            except canonical.InvalidPattern:
                return start + pointer, keyword
    return "", "pattern"


def _patterns(document: Any) -> Iterator[tuple[str, str, str]]:
    """Every pattern with its pointer and its keyword."""
    for pointer, text in _spelled(document, "pattern"):
        yield child(pointer, "pattern"), "pattern", text
    for pointer, holder in _objects(document):
        keyword = "patternProperties"
        if isinstance(patterns := holder.get(keyword), dict):
            yield from ((child(pointer, keyword, text), keyword, text) for text in patterns)


def _other_dialect(document: Any) -> str:
    """The way out where a document without `$schema` is written in an older dialect."""
    if not isinstance(document, dict) or "$schema" in document:
        return ""
    for dialect in _OLDER_DIALECTS:
        if jsonschema_rs.meta.is_valid({**document, "$schema": dialect}):
            return f'It is valid in an older dialect: declare "$schema": "{dialect}".'
    return ""


def _check_text(document: Any) -> None:
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnsupportedSchema("", "", "has a lone surrogate in a text", "Remove it.") from None
    except ValueError:  # of more digits than Python writes
        raise UnsupportedSchema("", "", "has a number of too many digits", "Shorten it.") from None


def _unsatisfiable(document: Any, registry: Registry | None) -> UnsupportedSchema:
    reasons = canonical.find_unsatisfiable(document, validate_formats=True, offline=True, registry=registry)
    if not reasons:
        return UnsupportedSchema("", "", NOTHING, _ADMIT)
    place = _innermost(document, min(reasons), reasons)
    match reasons[place]:
        case canonical.UnsatisfiableReason.Conflict(causes):
            keywords = [child(cause.pointer, keyword) for cause in causes for keyword in cause.keywords]
        case canonical.UnsatisfiableReason.Empty(cause):
            keywords = [child(cause.pointer, keyword) for keyword in cause.keywords]
        case _:
            return UnsupportedSchema(place, "", f"{NOTHING}: it is written as false", _ADMIT)
    match keywords:
        case []:
            return UnsupportedSchema(place, "", NOTHING, _ADMIT)
        case [keyword]:
            name = keyword.rpartition("/")[2]
            return UnsupportedSchema(keyword, name, NOTHING, "Relax it, or leave it out.")
    reason = f"{NOTHING}: these exclude one another: {', '.join(keywords)}"
    return UnsupportedSchema(place, "", reason, "Relax one of them, or leave it out.")


def _innermost(document: Any, place: str, reasons: Container[str]) -> str:
    """The part of the schema at `place` that must be there and admits nothing, or the schema itself."""
    while isinstance(schema := resolve(document, place), dict):
        required = schema.get("required")
        names = required if isinstance(required, list) else []
        parts = [child(place, "properties", name) for name in names if isinstance(name, str)]
        parts += [child(place, "items")] if schema.get("minItems") else []
        inner = next((part for part in parts if part in reasons), None)
        if inner is None:
            break
        place = inner
    return place


def _spelled(document: Any, keyword: str) -> Iterator[tuple[str, str]]:
    """Every object that spells a keyword with a text, by its pointer, and the text."""
    for pointer, holder in _objects(document):
        if isinstance(text := holder.get(keyword), str):
            yield pointer, text


def _objects(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object in a JSON value, with its pointer."""
    stack = [("", document)]
    while stack:
        pointer, value = stack.pop()
        if isinstance(value, dict):
            yield pointer, value
            stack += [(child(pointer, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            stack += [(child(pointer, str(index)), inner) for index, inner in enumerate(value)]
