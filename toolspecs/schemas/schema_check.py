"""Checks that a tool's parameters, or the documents of a toolset, are JSON Schemas.

Each is validated against the metaschema of its dialect (`toolspecs.schemas.dialects`); the metaschemas are
part of jsonschema-rs. A `$schema` outside the table is refused before anything could look it up on the
network.

The documents are schemas by URI that tools may refer to. Nothing is ever fetched. A document is known by one
URI, the one under which it is registered, so that a reference has one meaning: the document's own `$id` may
repeat that URI, and no schema inside the document may have another `$id`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urljoin, urlsplit

import jsonschema_rs

from toolspecs.errors import Fault, InvalidTools, LimitExceeded
from toolspecs.json_pointer import shown_pointer
from toolspecs.json_value import Flaw, Limits, Path, find_flaw, objects_in, type_name, value_at
from toolspecs.nearest import MAX_NAME, near_matches, shorten
from toolspecs.schemas.bundle import absolute
from toolspecs.schemas.dialects import dialect_of, normal_uri
from toolspecs.schemas.drafts import DEFAULT_DRAFT, DRAFT_URIS, OPENAPI_3_0, identifier_keyword
from toolspecs.schemas.metaschemas import SCHEMAS_BY_NAME, metaschema_errors

TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")

FOREIGN_TYPES = {
    "dict": "object",
    "map": "object",
    "hashmap": "object",
    "list": "array",
    "tuple": "array",
    "set": "array",
    "arraylist": "array",
    "str": "string",
    "text": "string",
    "char": "string",
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "decimal": "number",
    "bool": "boolean",
    "none": "null",
}
"""The types of JSON Schema, by the names that other languages and formats have for them."""
_PYTHON_PATTERNS = (
    (re.compile(r"\(\?P<"), "write (?<name>…) for a named group"),
    (
        re.compile(r"\(\?[a-zA-Z]+\)"),
        "not every engine has flags in a pattern: write classes such as [aA]",
    ),
    (re.compile(r"\\[AZz]"), "write ^ for the start and $ for the end"),
)
"""What Python's patterns, and so Pydantic's, have and ECMA-262 does not, with what to write instead."""


def check_schema(schema: Any, limits: Limits) -> tuple[Flaw, ...]:
    """What is wrong with the parameters of a tool, in document order; empty if nothing is.

    Nothing recursive runs before `schema` is known to be within `limits`.
    """
    if flaw := find_flaw(schema, limits):
        return (flaw,)
    if not isinstance(schema, dict):
        message = f"the parameters of a tool are an object schema, not {type_name(schema)}"
        suggestion = 'for a tool without arguments write {"type": "object", "properties": {}}'
        if isinstance(schema, str):
            suggestion = "send the schema as an object, not as JSON text"
        return (Flaw((), "", message, suggestion),)
    if flaw := _draft_flaw(schema):
        return (flaw,)
    flaws = tuple(_metaschema_flaws(schema, limits.num_faults_per_tool, dialect_of(schema)))
    return flaws or tuple(_root_flaws(schema))


def check_document(document: Any, limits: Limits) -> tuple[Flaw, ...]:
    """What is wrong with a document, as `check_schema`; but its schema may be for values of any type."""
    if flaw := find_flaw(document, limits, is_document=True):
        return (flaw,)
    if isinstance(document, bool):
        return ()
    if not isinstance(document, dict):
        message = f"a document is a schema, an object or a boolean, not {type_name(document)}"
        return (Flaw((), "", message),)
    if flaw := _draft_flaw(document):
        return (flaw,)
    dialect = normal_uri(document.get("$schema", DEFAULT_DRAFT))
    return tuple(_metaschema_flaws(document, limits.num_faults_per_tool, dialect))


def fault_of(flaw: Flaw, tool: str | int | None, base: str) -> Fault:
    """The fault for a flaw below the JSON pointer `base`; a client may have written its keyword."""
    keyword = shorten(flaw.keyword, MAX_NAME)
    return Fault(tool, shown_pointer(base, flaw.path), keyword, flaw.message, flaw.suggestion)


def _draft_flaw(schema: dict[str, Any]) -> Flaw | None:
    if dialect_of(schema) in {*DRAFT_URIS, OPENAPI_3_0}:
        return None
    draft = schema["$schema"]
    shown = shorten(repr(draft), 100) if isinstance(draft, str) else type_name(draft)
    known = ", ".join(f"{uri}#" if "draft-0" in uri else uri for uri in DRAFT_URIS)
    suggestion = f"leave it out for 2020-12, or use one of {known}"
    return Flaw(("$schema",), "$schema", f"unknown draft {shown}", suggestion)


def _metaschema_flaws(schema: dict[str, Any], maximum: int, dialect: str) -> Iterator[Flaw]:
    seen: set[Path] = set()
    for error in metaschema_errors(schema, dialect):
        if error.path in seen:
            continue
        seen.add(error.path)
        yield _flaw(schema, error.path, error.message)
        if len(seen) == maximum:
            return


def _flaw(schema: dict[str, Any], path: Path, message: str) -> Flaw:
    keyword = keyword_at(path)
    value = value_at(schema, path)
    if keyword == "type" and isinstance(value, str):
        shown = shorten(repr(value), 60)
        return Flaw(path, keyword, f"unknown type {shown}", _type_suggestion(value))
    return Flaw(path, keyword, shorten(message, 300), _suggestion(keyword, value))


def _type_suggestion(name: str) -> str:
    bare = name.lower()
    if bare == "any":
        return "leave 'type' out to admit any value"
    near = FOREIGN_TYPES.get(bare) or next(iter(near_matches(bare, TYPES, 1)), None)
    return f"did you mean {near!r}?" if near else f"use one of {', '.join(TYPES)}"


def _suggestion(keyword: str, value: Any) -> str:
    if keyword == "required" and isinstance(value, bool):
        return "list the names of required properties in the 'required' of the object around them"
    if keyword in {"exclusiveMinimum", "exclusiveMaximum"} and isinstance(value, bool):
        return f"write the bound itself in {keyword!r}, or set $schema to draft-04"
    if keyword == "items" and isinstance(value, list):
        return "write 'prefixItems', or set $schema to draft-07"
    if keyword in {"pattern", "patternProperties"} and isinstance(value, str):
        return _pattern_suggestion(value)
    return ""


def _pattern_suggestion(pattern: str) -> str:
    """What to write instead of a pattern that cannot be read.

    >>> _pattern_suggestion("(?P<year>[0-9]{4})")
    'write (?<name>…) for a named group'
    """
    for foreign, suggestion in _PYTHON_PATTERNS:
        if foreign.search(pattern):
            return suggestion
    return (
        "write it as ECMA-262 does with the flag u: without needless escapes of letters,"
        " and with `{` only in counts such as {0,2}"
    )


def keyword_at(path: Path) -> str:
    """The last schema keyword of a path; names of properties are not keywords.

    >>> keyword_at(("properties", "type", "maxLength"))
    'maxLength'
    """
    keyword = ""
    is_name = False
    for token in path:
        if is_name or isinstance(token, int):
            is_name = False
            continue
        keyword = token
        is_name = token in SCHEMAS_BY_NAME
    return keyword


def _root_flaws(schema: dict[str, Any]) -> Iterator[Flaw]:
    types = schema.get("type", "object")
    if "object" not in (types if isinstance(types, list) else [types]):
        named = " or ".join(map(str, types)) if isinstance(types, list) else types
        message = f"type {named}, but the arguments of a call are always an object"
        yield Flaw(("type",), "type", message, "wrap the value in a property of an object")


_DOCUMENTS = "/documents"
"""The JSON pointer of the object that holds them."""
BUILT_IN = "json-schema.org"
"""The host of the URIs of the drafts' own schemas."""
_URI = jsonschema_rs.Draft202012Validator({"type": "string", "format": "uri"}, validate_formats=True)


def check_documents(documents: Any, *, limits: Limits) -> None:
    """Check the documents of a toolset.

    Raises:
        InvalidTools: with every fault of every document.
        LimitExceeded: there are more documents than `limits` allows.
    """
    if faults := document_faults(documents, limits):
        raise InvalidTools(faults)


def document_faults(documents: Any, limits: Limits) -> Sequence[Fault]:
    """Every fault of every document of a toolset; raises `LimitExceeded` as `check_documents` does."""
    if not isinstance(documents, dict):
        message = f"documents are an object of schemas by URI, not {type_name(documents)}"
        return [Fault(None, _DOCUMENTS, "", message, 'write {"https://example.com/money": {…}}')]
    if len(documents) > limits.num_documents:
        raise LimitExceeded("num_documents", limits.num_documents, len(documents))
    return [
        fault_of(flaw, None, shown_pointer(_DOCUMENTS, (uri,)))
        for uri, document in documents.items()
        for flaw in _flaws(uri, document, limits)
    ]


def _flaws(uri: str, document: Any, limits: Limits) -> Iterator[Flaw]:
    if flaw := _uri_flaw(uri):
        yield flaw
        return
    flaws = check_document(document, limits)
    yield from flaws
    if not flaws and isinstance(document, dict):
        yield from _identity_flaws(uri, document)


def _uri_flaw(uri: str) -> Flaw | None:
    shown = shorten(ascii(uri), 100)
    normal = _normal(uri) if uri.isascii() and _URI.is_valid(uri) else None
    if normal is None:
        message = f"{shown} is not an absolute URI"
        return Flaw((), "", message, "register it under the URI that tools refer to, with its scheme")
    if "#" in uri:
        return Flaw((), "", f"{shown} has a fragment", "a document's URI ends before the `#`")
    if urlsplit(uri).hostname == BUILT_IN:
        message = f"{shown} is reserved for the schemas of the drafts, which are built in"
        return Flaw((), "", message, "register it under a URI of your own")
    if normal != uri:
        return Flaw((), "", f"{shown} is not in normal form", f"write {shorten(normal, 200)}")
    return None


def _normal(uri: str) -> str | None:
    """A URI in normal form: scheme and host in lower case, no `.` or `..` in its path.

    None if Python cannot read it: it knows fewer forms of addresses in brackets than RFC 3986.
    """
    try:
        parts = urlsplit(uri)
        lowered = parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower())
        if not lowered.netloc:
            return lowered.geturl()
        return urljoin(lowered.geturl(), lowered._replace(scheme="", netloc="").geturl())
    except ValueError:
        return None


def _identity_flaws(uri: str, document: dict[str, Any]) -> Iterator[Flaw]:
    keyword = identifier_keyword(document)
    own = document.get(keyword)
    if isinstance(own, str) and absolute(uri, own)[0] != uri:
        message = f"its {keyword} is {shorten(ascii(own), 100)}, but it is registered under another URI"
        yield Flaw((keyword,), keyword, message, f"register it under its {keyword}, or leave that out")
    for schema in objects_in(document):
        inner = schema.get("$id")
        if schema is not document and isinstance(inner, str) and inner[:1] != "#":
            message = f"it contains another document, {shorten(ascii(inner), 100)}"
            yield Flaw((), "$id", message, "register that document under its own URI, or leave its $id out")
            return
