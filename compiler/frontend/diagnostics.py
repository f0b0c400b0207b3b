"""Diagnostics: what a refusal by `jsonschema_rs` is about, where in the document, and what to do."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import jsonschema_rs
from jsonschema_rs import Registry, canonical

from compiler.errors import UnsupportedSchema
from compiler.frontend.keywords import IDENTIFIERS, document_pointer, resolve
from compiler.frontend.last_steps import AppliedSchema
from compiler.frontend.references import References
from compiler.regular.formats import FORMATS
from toolspecs.json_pointer import child
from toolspecs.json_value import Limits
from toolspecs.nearest import MAX_NAME, did_you_mean, near_matches, shorten
from toolspecs.schemas.bundle import REFERENCES, absolute
from toolspecs.schemas.drafts import SchemaDraft
from toolspecs.schemas.schema_check import check_document, keyword_at

_NOTHING = "no value satisfies it"
_ADMIT = "Change it so that it admits some value, or remove it with all that refers to it."
REGISTER = "Define the target inside the schema, or register its document by that URI among `documents`."
_NO_BASE = "json-schema:///"
"""What `jsonschema_rs` puts before a reference where no URI is known that it would be relative to."""
_MALFORMED = "Invalid URI"
"""How its messages about URIs that are none begin."""
_RANGE_WITH_SHORTHAND = re.compile(r"\[[^\]]*(?:\\[wdsWDS]-[^\]]|[^\\\[]-\\[wdsWDS])")
"""A shorthand as an end of a range, as in `[\\w-.]`: engines read the hyphen as itself, or refuse."""
_Contents = Mapping[str, Any]
"""The schema, under "", and its documents by URI."""
_OLDER_DIALECTS = (f"{SchemaDraft.DRAFT_7.uri}#", f"{SchemaDraft.DRAFT_4.uri}#")


def invalid_schema(document: Any, error: jsonschema_rs.ValidationError) -> UnsupportedSchema:
    """The refusal of a document that is not a valid schema of its dialect."""
    path, message, suggestion = tuple(error.instance_path), error.message, _other_dialect(document)
    if flaws := check_document(document, Limits()):
        path, message = flaws[0].path, flaws[0].message
        suggestion = suggestion or _sentence(flaws[0].suggestion)
    reason = f"not a valid JSON Schema: {message}"
    return UnsupportedSchema(child("", *map(str, path)), keyword_at(path), reason, suggestion)


def unresolved(
    document: Any, documents: Mapping[str, Any], draft: SchemaDraft, message: str
) -> UnsupportedSchema:
    """The refusal of a reference without a target, or of a malformed URI.

    `message` quotes one of them, by chance; the refusal names the first one.
    """
    contents = {"": document, **documents}
    message = _malformed(contents, draft) or message
    quoted = re.search("'(.+?)'[ :]", message)
    target = quoted[1] if quoted else ""
    is_malformed = message.startswith(_MALFORMED)
    if is_malformed and (place := next(_places_of_identifier(contents, target), None)):
        return UnsupportedSchema(*place, message, "Leave it out, or write a URI.")
    targets = _missing_resources(contents, draft) or {target}
    failing = next(_references_to(targets, References(document, documents)), None)
    if not target or failing is None:
        keyword = "$ref" if "esource" in message or "ointer" in message else ""
        reason = message.replace(target, min(targets)) if target else message
        return UnsupportedSchema("", keyword, reason, REGISTER)
    pointer, keyword, reference, target = failing
    is_joined = "://" in target and target not in reference and not target.startswith(_NO_BASE)
    shown = shorten(f"{reference} ({target})" if is_joined else reference, 300)
    reason = f"refers to {shown}, but there is no such schema"
    return UnsupportedSchema(child(pointer, keyword), keyword, reason, REGISTER)


def _malformed(contents: _Contents, draft: SchemaDraft) -> str | None:
    """The message about the first malformed URI, None if there is none."""
    for uri, content in contents.items():
        try:
            Registry([(uri, content)], draft=draft, retriever=lambda _: True)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            if str(error).startswith(_MALFORMED):
                return str(error)
    return None


def _missing_resources(contents: _Contents, draft: SchemaDraft) -> set[str]:
    """The URIs of all resources that `jsonschema_rs` would have to fetch."""
    missing: set[str] = set()

    def retrieve(uri: str) -> bool:
        missing.add(uri)
        return True  # a schema without references

    with suppress(ValueError, jsonschema_rs.ReferencingError):
        Registry(list(contents.items()), draft=draft, retriever=retrieve)
    return missing


def _references_to(targets: set[str], references: References) -> Iterator[tuple[str, str, str, str]]:
    """The references to some targets in the order of the text: pointer, keyword, text, and the target."""
    found = list(_strings_under(references.contents, REFERENCES))
    for pointer, keyword, reference in found:
        joined = absolute(references.base(pointer)[1], reference)
        for name in (reference, reference.partition("#")[2], *joined):
            if name in targets:
                yield pointer, keyword, reference, name
    # `jsonschema_rs` spells it otherwise if no base is known, and knows a base inside `contentSchema`, too.
    # The target ends with the reference then.
    target = min(targets)
    for pointer, keyword, reference in found:
        if (path := reference.partition("#")[0]) and target.endswith(path):
            yield pointer, keyword, reference, target


def _places_of_identifier(contents: _Contents, identifier: str) -> Iterator[tuple[str, str]]:
    """The pointers and keywords at which a text is an identifier."""
    for pointer, keyword, name in _strings_under(contents, IDENTIFIERS):
        if name == identifier:
            yield child(pointer, keyword), keyword


def invalid_pattern(
    document: Any, documents: Mapping[str, Any], error: canonical.InvalidPattern
) -> UnsupportedSchema:
    """The refusal of the first pattern that is not a regular expression."""
    suggestion = "Write it in the syntax of ECMA-262 and, if it counts, lower the counts."
    for pointer, keyword, text in _patterns({"": document, **documents}):
        try:
            jsonschema_rs.canonicalize({"pattern": text})
        except canonical.InvalidPattern as own:
            if _RANGE_WITH_SHORTHAND.search(text):
                suggestion = r"Escape the hyphen beside a class of characters, as in [\w\-.]."
            return UnsupportedSchema(pointer, keyword, str(own), suggestion)
    return UnsupportedSchema("", "pattern", str(error), suggestion)


def unsatisfiable(
    document: Any, registry: Registry | None, emptied: tuple[AppliedSchema, str] | None
) -> UnsupportedSchema:
    """The refusal of a schema that admits nothing; it points at the part that must exist and cannot.

    If validators admit some of it, it points at the format of the schema that is `emptied`: a schema with a
    listed text which is left out, since validators disagree on it.
    """
    reasons = canonical.find_unsatisfiable(document, validate_formats=True, offline=True, registry=registry)
    if not reasons:
        return _nothing_listed(*emptied) if emptied else UnsupportedSchema("", "", _NOTHING, _ADMIT)
    pointer = _innermost(document, min(reasons), reasons)
    match reasons[pointer]:
        case canonical.UnsatisfiableReason.Conflict(causes):
            keywords = [child(cause.pointer, keyword) for cause in causes for keyword in cause.keywords]
        case canonical.UnsatisfiableReason.Empty(cause):
            keywords = [child(cause.pointer, keyword) for keyword in cause.keywords]
        case _:
            return UnsupportedSchema(pointer, "", f"{_NOTHING}, since it is `false`", _ADMIT)
    match keywords:
        case []:
            return UnsupportedSchema(pointer, "", _NOTHING, _ADMIT)
        case [keyword]:
            name = keyword.rpartition("/")[2]
            return UnsupportedSchema(keyword, name, _NOTHING, "Relax it, or leave it out.")
    if forbidden := _forbidden(resolve(document, pointer)):
        key, near = forbidden
        reason = f"lists {shorten(key, MAX_NAME)!r}, which `additionalProperties` forbids"
        suggestion = f"Declare it in `properties`{did_you_mean(near) or '.'}"
        return UnsupportedSchema(child(pointer, "required"), "required", reason, suggestion)
    reason = f"{_NOTHING}, since these keywords exclude one another: {', '.join(keywords)}"
    return UnsupportedSchema(pointer, "", reason, "Relax one of them, or leave one out.")


def _forbidden(schema: Any) -> tuple[str, tuple[str, ...]] | None:
    """The first required key that a closed object does not declare, and the most similar one that it does."""
    if not isinstance(schema, dict) or schema.get("additionalProperties") is not False:
        return None
    required, properties = schema.get("required"), schema.get("properties", {})
    if "patternProperties" in schema or not isinstance(required, list) or not isinstance(properties, dict):
        return None
    key = next((key for key in required if key not in properties), None)
    return None if key is None else (key, near_matches(key, properties, 1))


def _nothing_listed(emptied: AppliedSchema, text: str) -> UnsupportedSchema:
    """The refusal of a schema of whose listed texts none is valid for all validators of a format."""
    name = emptied.schema["format"]
    limits = FORMATS[name].note if name in FORMATS else ""
    shown = shorten(text, MAX_NAME)
    reason = f"{_NOTHING}: listed texts are left out on which validators disagree, such as {shown}"
    if limits:
        reason += f"; texts of this format are written so: {limits}"
    at = child(emptied.pointer, "format")
    return UnsupportedSchema(at, "format", reason, "List others, or leave it out.")


def _sentence(text: str) -> str:
    """A suggestion of `toolspecs` as one of this package."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(("?", ".")) or not text else ".")


def _other_dialect(document: Any) -> str:
    """The suggestion for a document without `$schema` that is written in an older dialect."""
    if not isinstance(document, dict) or "$schema" in document:
        return ""
    for dialect in _OLDER_DIALECTS:
        if jsonschema_rs.meta.is_valid({**document, "$schema": dialect}):
            return f'It is valid in an older dialect: declare "$schema": "{dialect}".'
    return ""


def _innermost(document: Any, pointer: str, reasons: Container[str]) -> str:
    """The innermost of `reasons` below `pointer` that only required properties and items lead to."""
    while isinstance(schema := resolve(document, pointer), dict):
        required = schema.get("required")
        names = required if isinstance(required, list) else []
        parts = [child(pointer, "properties", name) for name in names if isinstance(name, str)]
        parts += [child(pointer, "items")] if schema.get("minItems") else []
        inner = next((part for part in parts if part in reasons), None)
        if inner is None:
            break
        pointer = inner
    return pointer


def _patterns(contents: _Contents) -> Iterator[tuple[str, str, str]]:
    """Every pattern with its pointer and its keyword, in the order of the text."""
    for pointer, holder in _objects(contents):
        for keyword, value in holder.items():
            if keyword == "pattern" and isinstance(value, str):
                yield child(pointer, keyword), keyword, value
            elif keyword == "patternProperties" and isinstance(value, dict):
                yield from ((child(pointer, keyword, text), keyword, text) for text in value)


def _strings_under(contents: _Contents, keywords: Container[str]) -> Iterator[tuple[str, str, str]]:
    """Every string under some keywords: the pointer of the object that has it, the keyword, the string."""
    for pointer, holder in _objects(contents):
        for keyword, text in holder.items():
            if keyword in keywords and isinstance(text, str):
                yield pointer, keyword, text


def _objects(contents: _Contents) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object in some documents, with its pointer, in the order of the text."""
    stack = [(document_pointer(uri), content) for uri, content in reversed(list(contents.items()))]
    while stack:
        pointer, value = stack.pop()
        inner: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            yield pointer, value
            inner = value.items()
        elif isinstance(value, list):
            inner = enumerate(value)
        stack += reversed([(child(pointer, str(key)), each) for key, each in inner])
