"""What is wrong with a schema by the metaschema of its draft.

The validator lists all errors before it gives the first one, takes some 0.1 ms for each, and holds the
interpreter's lock all the while: half a megabyte of wrong subschemas would stop the whole process for half a
minute. So a schema is only asked whether it is valid. If it is not, errors are looked for in one subschema
after the other, each without those inside it, and lists are cut.

>>> from toolspecs.schemas.drafts import DEFAULT_DRAFT
>>> schema = {"properties": {"a": {"type": "strin"}, "b": {"minLength": -1}}}
>>> [error.path for error in metaschema_errors(schema, DEFAULT_DRAFT)]
[('properties', 'a', 'type'), ('properties', 'b', 'minLength')]
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import jsonschema_rs

from toolspecs.json_value import Path
from toolspecs.schemas.drafts import OPENAPI_3_0, SchemaDraft

_VALIDATORS: Mapping[str, type[jsonschema_rs.Validator]] = {
    SchemaDraft.DRAFT_4.uri: jsonschema_rs.Draft4Validator,
    SchemaDraft.DRAFT_6.uri: jsonschema_rs.Draft6Validator,
    SchemaDraft.DRAFT_7.uri: jsonschema_rs.Draft7Validator,
    SchemaDraft.DRAFT_2019_09.uri: jsonschema_rs.Draft201909Validator,
    SchemaDraft.DRAFT_2020_12.uri: jsonschema_rs.Draft202012Validator,
}

SCHEMAS_BY_NAME = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
"""Keywords whose value is an object of schemas by name."""
SINGLE_SCHEMAS = frozenset(
    {
        *("not", "if", "then", "else"),
        *("items", "additionalItems", "unevaluatedItems", "contains"),
        *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    }
)
"""Keywords whose value is a schema, and can fail a value."""
SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
"""Keywords whose value is a list of schemas; `items` is one up to draft 2019-09."""
_WITH_SCHEMAS = SCHEMAS_BY_NAME | SINGLE_SCHEMAS | SCHEMA_LISTS | {"contentSchema"}
_MAX_MEMBERS = 20
"""Members of a wrong list or object in which errors are looked for."""
_NOT_CHECKED = ("uri", "uri-reference")


@dataclass(frozen=True, slots=True)
class MetaschemaError:
    """Why a schema is not valid, and the path to the value at fault."""

    path: Path
    message: str


def is_valid_in(schema: Any, uri: str) -> bool:
    """Whether a schema is valid in a dialect; takes a fraction of a microsecond for each value."""
    return _metaschema(uri).is_valid(schema)


def metaschema_errors(schema: Any, uri: str) -> Iterator[MetaschemaError]:
    """Why a schema is not valid in a dialect, one subschema after the other; nothing if it is valid.

    Each error is located as deep in the schema as possible.
    """
    if is_valid_in(schema, uri):
        return
    has_found = False
    for path, part in _parts(schema, _applicators(uri)):
        if not is_valid_in(part, uri):
            has_found = True
            yield from (MetaschemaError((*path, *inside), why) for inside, why in _errors_of(part, uri))
    if not has_found:
        yield MetaschemaError((), f"it is not valid by {uri}")


def _parts(schema: Any, applicators: frozenset[str]) -> Iterator[tuple[Path, Any]]:
    """The schema and the schemas in it, in document order, each with its path.

    In each, `{}` stands for the schemas that it has itself.
    """
    pending: list[tuple[Path, Any]] = [((), schema)]
    while pending:
        path, part = pending.pop()
        if isinstance(part, dict):
            divided = {
                keyword: _divided(keyword, part[keyword]) for keyword in part if keyword in applicators
            }
            inner = [
                ((*path, key, *at), subschema)
                for key, (_, subschemas) in divided.items()
                for at, subschema in subschemas
            ]
            pending += reversed(inner)
            part = {**part, **{keyword: hollow for keyword, (hollow, _) in divided.items()}}
        yield path, part


def _divided(keyword: str, value: Any) -> tuple[Any, list[tuple[Path, Any]]]:
    """The value of a keyword with `{}` for each schema in it, and these schemas with their paths.

    Booleans stay where they are: not all drafts have them as schemas.
    """
    if isinstance(value, dict) and keyword in SCHEMAS_BY_NAME:
        members: Iterable[tuple[str | int, Any]] = value.items()
    elif keyword in SCHEMAS_BY_NAME or isinstance(value, bool):
        return value, []
    elif isinstance(value, list):
        members = enumerate(value)
    else:
        return {}, [((), value)]
    hollow: Any = value.copy()
    subschemas: list[tuple[Path, Any]] = []
    for key, member in members:
        is_list_of_names = keyword == "dependencies" and isinstance(member, list)
        if not (is_list_of_names or isinstance(member, bool)):
            hollow[key] = {}
            subschemas.append(((key,), member))
    return hollow, subschemas


def _errors_of(part: Any, uri: str) -> Iterator[tuple[Path, str]]:
    """What is wrong with a schema that has no schemas in it: its scalars first, then lists and objects."""
    if not isinstance(part, dict):
        yield from _errors_in(part, uri)
        return
    scalars = {keyword: value for keyword, value in part.items() if not isinstance(value, list | dict)}
    yield from _errors_in(scalars, uri)
    for keyword, value in part.items():
        if isinstance(value, list | dict) and not is_valid_in({keyword: value}, uri):
            errors = list(_errors_in({keyword: _cut(value)}, uri))
            yield from errors or [((keyword,), f"this is not what {keyword!r} may be")]


def _cut(value: Any, num_levels: int = 2) -> Any:
    """The first members of a list or an object, and of those in it."""
    most = _MAX_MEMBERS if num_levels else 0
    if isinstance(value, list):
        return [_cut(item, num_levels - 1) for item in value[:most]]
    if isinstance(value, dict):
        return {name: _cut(item, num_levels - 1) for name, item in islice(value.items(), most)}
    return value


def _errors_in(part: Any, uri: str) -> Iterator[tuple[Path, str]]:
    """The errors of a small value."""
    for error in _metaschema(uri).iter_errors(part):
        deepest = deepest_error(error)
        yield tuple(deepest.instance_path), deepest.message


def deepest_error(error: Any) -> Any:
    """The error deepest in the instance; for an `anyOf`, the error of the branch that got deepest."""
    while branches := getattr(error.kind, "context", None):
        inner = [cause for branch in branches for cause in branch]
        cause = max(inner, key=lambda cause: len(cause.instance_path), default=error)
        if len(cause.instance_path) <= len(error.instance_path):
            return error
        error = cause
    return error


def _is_any(_: str) -> bool:
    return True


@cache
def _metaschema(uri: str) -> jsonschema_rs.Validator:
    draft = SchemaDraft.DRAFT_4.uri if uri == OPENAPI_3_0 else uri
    # Of all formats only patterns are checked: real schemas have identifiers that no draft allows.
    formats = dict.fromkeys(_NOT_CHECKED, _is_any)
    return _VALIDATORS[draft]({"$ref": draft}, validate_formats=True, formats=formats)


@cache
def _applicators(uri: str) -> frozenset[str]:
    """The keywords of a draft that have schemas: none of them may be a number."""
    return frozenset(key for key in _WITH_SCHEMAS if not is_valid_in({key: 5}, uri))
