"""The canonical form of a schema, or a refusal that names what is wrong with it.

`jsonschema_rs.canonicalize` does the work. This module refuses documents that it would not survive or would
read differently from validators, and rewrites what it cannot model.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import chain, combinations
from types import MappingProxyType
from typing import Any, NamedTuple

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, Registry, canonical

from compiler.errors import UnsupportedSchema
from compiler.frontend.conditional_cases import references_in, with_cases
from compiler.frontend.dependent_keys import NO_DEPENDENCIES, DependentKeys, take_dependent_keys
from compiler.frontend.described_values import with_described_values
from compiler.frontend.diagnostics import invalid_pattern, invalid_schema, unresolved, unsatisfiable
from compiler.frontend.dialect_dependent import (
    check_nested_dialects,
    first_dialect_dependent,
    misleading,
    replacement_for,
    without_assertions,
    without_nested_dialects,
)
from compiler.frontend.disputed_texts import (
    TextsByFormat,
    check_lengths,
    first_emptied,
    inner_reading,
    not_valid_for_all,
    outer_reading,
    valid_for_some,
)
from compiler.frontend.folded_patterns import without_folding
from compiler.frontend.keywords import located_in_all
from compiler.frontend.last_steps import AppliedSchema, applied_schemas, below_negations
from compiler.frontend.literals import check_literals
from compiler.frontend.reference_graph import find_cycle, longest_chain
from compiler.frontend.reference_targets import check_reference_targets
from compiler.frontend.symbolic_forms import form_of
from compiler.frontend.unevaluated import check_unevaluated
from toolspecs.json_pointer import child
from toolspecs.json_value import objects_in
from toolspecs.schemas.bundle import Bundler
from toolspecs.schemas.drafts import DEFAULT_DRAFT, DRAFT_URIS, SchemaDraft, declared_draft

_KNOWN_DIALECTS = f"Leave it out for 2020-12, or use one of {', '.join(DRAFT_URIS)}."
MAX_CHAIN = 1_000
"""The longest row of schemas in which each leads to the next; twice as many overflow a stack of 8 MB."""
_MAX_COMBINED = 4
"""The most disputed texts, and assertions, that are read in every combination: each doubles the readings."""
NO_DOCUMENTS: Mapping[str, Any] = MappingProxyType({})


_Reading = Callable[[Any], Any]
"""A document as some validators read it."""


class CanonicalForm(NamedTuple):
    """The canonical form of a schema without its dependencies between keys, and those dependencies."""

    schema: CanonicalSchema
    dependent_keys: DependentKeys = NO_DEPENDENCIES


def canonical_form(
    document: Any, *, documents: Mapping[str, Any] = NO_DOCUMENTS, only_objects: bool = False
) -> CanonicalForm:
    """The canonical form of a JSON Schema, formats asserted, in the dialect that `$schema` names.

    Nothing is ever fetched: a reference that leaves the document must lead to one of `documents`, by URI.
    `only_objects` leaves out all other values.

    >>> form = canonical_form({"type": "integer", "minimum": 2, "not": {"const": 2}})
    >>> form.schema.view().minimum
    3

    Raises:
        UnsupportedSchema: the document is not a schema, cannot be resolved, or admits nothing.
    """
    _check(document, documents)
    rest, dependent_keys = take_dependent_keys(document, documents, draft_of(document))
    return CanonicalForm(_checked_form(rest, documents, only_objects=only_objects), dependent_keys)


def _checked_form(document: Any, documents: Mapping[str, Any], *, only_objects: bool) -> CanonicalSchema:
    schema = _under_all_readings(document, documents)
    if (cycle := find_cycle(document, documents)) is not None:
        reason = "refers back to itself for the same value, so it does not say what it admits"
        keyword = cycle.rpartition("/")[2]
        raise UnsupportedSchema(cycle, keyword, reason, "Refer to it from a property or an item.")
    if only_objects:
        schema = _only_objects(schema)
    if schema.satisfiability() == canonical.Satisfiability.NO:
        emptied = first_emptied(applied_schemas(document, documents), draft_of(document))
        raise unsatisfiable(document, registry_of(document, documents), emptied)
    return schema


def registry_of(
    document: Any, documents: Mapping[str, Any], reading: _Reading = lambda content: content
) -> Registry | None:
    """The documents that a schema may refer to; those without `$schema` are read in the schema's dialect.

    The schema is among them, since they may refer back to it. Canonicalization takes it as it is given there.
    """
    if not documents:
        return None
    try:
        contents = {
            uri: reading(in_cases(without_folding(content, is_referred=True), document, documents))
            for uri, content in {"": document, **documents}.items()
        }
        return Registry(list(contents.items()), draft=draft_of(document))
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        raise unresolved(document, documents, draft_of(document), str(error)) from None


def _dialect(document: Any) -> Any:
    return document.get("$schema", DEFAULT_DRAFT) if isinstance(document, dict) else DEFAULT_DRAFT


def draft_of(document: Any) -> SchemaDraft:
    """The draft that a document is in, the newest one if it names none.

    Raises:
        ValueError: it names no draft.
    """
    if (draft := declared_draft(document)) is None:
        raise ValueError(f"no draft of JSON Schema: {document['$schema']!r}")
    return draft


def in_cases(content: Any, document: Any, documents: Mapping[str, Any]) -> Any:
    """The schema, or one of its documents, with its conditions as cases."""
    return with_cases(content, draft_of(document), references_in((document, *documents.values())))


def _check(document: Any, documents: Mapping[str, Any]) -> None:
    """Refuse what would end the process in native code, and what validators read differently."""
    _check_dialects(document, documents)
    num_objects = sum(1 for content in (document, *documents.values()) for _ in objects_in(content))
    if num_objects > MAX_CHAIN and longest_chain(document, documents) > MAX_CHAIN:
        reason = f"leads too deep, through over {MAX_CHAIN} schemas in a row"
        suggestion = "Refer to the last schema of the chain directly, or write it out."
        raise UnsupportedSchema("", "$ref", reason, suggestion)
    check_reference_targets(document, documents)
    check_literals(document, Bundler(documents).bundle(document)[0] if documents else {})
    check_unevaluated(document, documents)


def _check_dialects(document: Any, documents: Mapping[str, Any]) -> None:
    """Refuse an unknown dialect, and documents in another one than the schema: validators disagree there."""
    if declared_draft(document) is None:
        raise UnsupportedSchema("/$schema", "$schema", "names an unknown dialect", _KNOWN_DIALECTS)
    if not documents:
        return
    own = _without_empty_fragment(_dialect(document))
    reached, _ = Bundler(documents).bundle(document)
    for uri, part in reached.items():
        for schema in objects_in(part):
            other = schema.get("$schema")
            if isinstance(other, str) and _without_empty_fragment(other) != own:
                reason = f"is written in another dialect ({other}) than the schema that refers to it ({own})"
                raise UnsupportedSchema(f"{uri}#/$schema", "$schema", reason, "Write both in one dialect.")


def _without_empty_fragment(uri: Any) -> Any:
    return uri.removesuffix("#") if isinstance(uri, str) else uri


def _canonicalize(document: Any, documents: Mapping[str, Any]) -> CanonicalSchema:
    """The canonical form of the document, or of a rewritten one that admits the same values."""
    canonicalize = partial(jsonschema_rs.canonicalize, validate_formats=True, offline=True)
    try:
        flat = without_folding(document, is_referred=False)
        if (cased := in_cases(flat, flat, documents)) is not flat:
            jsonschema_rs.meta.validate(flat)  # so that errors point into the schema as it is written
        schema = canonicalize(cased, registry=registry_of(document, documents))
        if schema.kind != canonical.CanonicalKind.RAW:
            return schema
        described = partial(with_described_values, draft=schema.draft)
        registry = registry_of(document, documents, described)
        schema = canonicalize(described(cased), registry=registry)
        if schema.kind != canonical.CanonicalKind.RAW or cased is flat:
            return schema
        return canonicalize(described(flat), registry=registry)
    except jsonschema_rs.ValidationError as error:
        raise invalid_schema(document, error) from None
    except canonical.InvalidPattern as error:
        raise invalid_pattern(document, documents, error) from None
    except (jsonschema_rs.ReferencingError, canonical.CanonicalizationError) as error:
        raise unresolved(document, documents, draft_of(document), str(error)) from None


def _under_all_readings(document: Any, documents: Mapping[str, Any]) -> CanonicalSchema:
    """The values that a schema admits however validators read dialect-dependent keywords and listed texts."""
    document = without_nested_dialects(document)
    check_nested_dialects(document)
    schemas = applied_schemas(document, documents)
    draft = draft_of(document)
    check_lengths(schemas, draft)
    forms = [_read_as(document, documents, reading) for reading in _readings(schemas, draft)]
    try:
        if documents and len(forms) > 1:
            forms = list(map(_written_out, forms))
        return reduce(CanonicalSchema.intersect, forms)
    except (canonical.CanonicalizationError, jsonschema_rs.ReferencingError):
        pointer, keyword = first_dialect_dependent(located_in_all(document, documents), draft)
        if not keyword:
            raise _disputed_listing(document, documents, valid_for_some(schemas, draft)) from None
        reason = "is not asserted by all validators, and the schema cannot be enforced under both readings"
        raise UnsupportedSchema(pointer, keyword, reason, replacement_for(keyword)) from None


def _readings(schemas: Collection[AppliedSchema], draft: int) -> list[_Reading]:
    """A reading for each choice of assertions, and of texts taken for valid."""
    below = [each.schema for each in below_negations(schemas)]
    dependent = misleading([each.schema for each in schemas], below, draft)
    of_texts = list(_readings_of_texts(schemas, draft))
    return [
        _composed(reading, partial(without_assertions, assertions=not_made, draft=draft))
        for not_made in _choices(dependent)
        for reading in of_texts
    ]


def _readings_of_texts(schemas: Collection[AppliedSchema], draft: int) -> Iterator[_Reading]:
    """A reading for each choice of the disputed texts that a validator may take for valid."""
    disputed, others = not_valid_for_all(schemas, draft), valid_for_some(schemas, draft)
    for taken in _choices([(name, text) for name, texts in others.items() for text in texts]):
        wide = {name: tuple(text for at, text in taken if at == name) for name, _ in taken}
        narrow = {name: tuple(set(texts) - set(wide.get(name, ()))) for name, texts in disputed.items()}
        yield partial(_read_texts, narrow=narrow, wide=wide)


def _choices(of: Sequence[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Every choice of some pairs, from none to all; of many only none and all."""
    sizes = range(len(of) + 1) if len(of) <= _MAX_COMBINED else (0, len(of))
    return chain.from_iterable(combinations(of, size) for size in sizes)


def _read_texts(content: Any, narrow: TextsByFormat, wide: TextsByFormat) -> Any:
    return outer_reading(inner_reading(content, narrow), wide)


def _composed(after: _Reading, before: _Reading) -> _Reading:
    return lambda content: after(before(content))


def _read_as(document: Any, documents: Mapping[str, Any], reading: _Reading) -> CanonicalSchema:
    """The canonical form of a reading of the document and of the documents that it refers to."""
    read, others = reading(document), {uri: reading(content) for uri, content in documents.items()}
    return _canonicalize(read, others)


def _written_out(form: CanonicalSchema) -> CanonicalSchema:
    """The form with all that it refers to as its own definitions, which have names of their own.

    Without this, forms that read another document differently cannot be combined.
    """
    return form_of(form.to_json_schema(), form.draft)


def _disputed_listing(
    document: Any, documents: Mapping[str, Any], disputed: TextsByFormat
) -> UnsupportedSchema:
    """The refusal of a schema that cannot be enforced for every validator, with a format and a text."""
    schemas = located_in_all(document, documents)
    formats = ((at, schema["format"]) for at, schema in schemas if "format" in schema)
    pointer, name = next(((at, name) for at, name in formats if name in disputed), ("", next(iter(disputed))))
    text = disputed[name][0]
    reason = (
        f"is read differently by validators, such as for the listed {text!r}, and cannot be enforced for all"
    )
    return UnsupportedSchema(child(pointer, "format"), "format", reason, "Use `pattern` instead.")


def _only_objects(schema: CanonicalSchema) -> CanonicalSchema:
    try:
        return schema.intersect(form_of({"type": "object"}, schema.draft))
    except canonical.CanonicalizationError as error:
        # An object view admits only objects already. The lowering refuses a raw view, and knows where it is.
        if isinstance(schema.view(), canonical.ObjectView | canonical.RawView):
            return schema
        reason = f"its combination of keywords cannot be resolved: {error}"
        raise UnsupportedSchema("", "", reason, "Write the parameters as one object.") from None
