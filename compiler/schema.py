"""From one JSON Schema to one grammar: `lower_schema` for any vocabulary, `compile_schema` for one."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from compiler.compiled_format import CompiledFormat
from compiler.errors import UnsupportedSchema
from compiler.frontend.canonical_form import NO_DOCUMENTS, canonical_form
from compiler.frontend.definitions import DefinedSchema, with_definitions
from compiler.frontend.depth import check_contents
from compiler.frontend.expansion import Expander
from compiler.frontend.source_map import SourceMap
from compiler.frontend.undeclared_dialects import dialect_notes, in_declared_dialect
from compiler.grammar.grammar import Grammar
from compiler.guard.ambiguities import Ambiguities, AmbiguousPaths
from compiler.lowering.json_text import FLEXIBLE, JsonFormatting
from compiler.lowering.schema_lowering import SchemaLowering
from compiler.lowering.tagged_arguments import ParameterTags, TaggedArguments
from compiler.prepared_vocabulary import VocabularySource, prepare
from compiler.report import EnforcementReport
from toolspecs.tool import KeyOrder

MAX_GRAMMAR_CHARS = 3_000_000
"""A larger grammar takes longer than ten seconds to compile."""

Objects = Literal["schema", "closed"]
"""Whether objects take undeclared keys as the schema says, or are closed wherever it declares keys."""


@dataclass(frozen=True, slots=True)
class LoweredSchema:
    """The grammar of a schema's valid texts, and the report on how it enforces each keyword.

    `types` has, by key, the JSON types that a reader may take a tagged parameter for (see
    `compiler.constraint.ParameterTypes`).
    """

    grammar: Grammar
    report: EnforcementReport
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def lower_schema(
    schema: Any,
    *,
    documents: Mapping[str, Any] = NO_DOCUMENTS,
    objects: Objects = "schema",
    formatting: JsonFormatting = FLEXIBLE,
    only_objects: bool = False,
    key_order: KeyOrder = "declared",
    tags: ParameterTags | None = None,
) -> LoweredSchema:
    """Lower a schema without compiling it for any vocabulary.

    `only_objects` leaves out values that are not objects. With the `key_order` "any", declared keys come in
    any order; the report tells of objects where they do not. With `tags`, the keys and values of the object
    are written between tags.

    Raises:
        UnsupportedSchema: a keyword cannot be enforced, or nothing satisfies the schema.
    """
    check_contents((schema, *documents.values()))
    read = in_declared_dialect(schema, documents)
    defined = with_definitions(read, documents)
    try:
        with _without_collections():
            lowered = _lowered(defined, objects, formatting, key_order, tags, only_objects=only_objects)
    except UnsupportedSchema as refusal:
        if (pointer := defined.original(refusal.pointer)) == refusal.pointer:
            raise
        raise UnsupportedSchema(pointer, refusal.keyword, refusal.reason, refusal.suggestion) from refusal
    entries = lowered.report.entries
    if defined.written_at:
        entries = tuple(replace(entry, pointer=defined.original(entry.pointer)) for entry in entries)
    return replace(lowered, report=EnforcementReport((*dialect_notes(schema, read), *entries)))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Let Python not look for garbage: while rules are made there is hardly any. Looking takes a sixth."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _lowered(
    defined: DefinedSchema,
    objects: Objects,
    formatting: JsonFormatting,
    key_order: KeyOrder,
    tags: ParameterTags | None,
    *,
    only_objects: bool,
) -> LoweredSchema:
    read, documents = defined.document, defined.documents
    form = canonical_form(read, documents=documents, only_objects=only_objects)
    new_lowering = partial(
        SchemaLowering,
        form.schema,
        SourceMap(read, documents),
        form.dependent_keys,
        is_closed=objects == "closed",
        formatting=formatting,
        key_order=key_order,
        expander=Expander(form.schema),
    )
    lowering = new_lowering(ambiguities=Ambiguities())
    while True:
        arguments = TaggedArguments(lowering, tags) if tags else None
        try:
            grammar = lowering.grammar(arguments.lower if arguments else None)
            break
        except AmbiguousPaths as ambiguous:
            if not lowering.revise(ambiguous.ambiguities):
                lowering = new_lowering(ambiguities=lowering.ambiguities)
    if len(grammar.ebnf) > MAX_GRAMMAR_CHARS:
        size = f"a grammar of {len(grammar.ebnf) / 1e6:.0f} million characters"
        raise UnsupportedSchema("", "", f"its combinations expand into {size}", "Combine fewer alternatives.")
    types = arguments.types if arguments else {}
    return LoweredSchema(grammar, EnforcementReport(tuple(lowering.reporter.report())), types)


def compile_schema(
    schema: Any,
    *,
    documents: Mapping[str, Any] = NO_DOCUMENTS,
    tokenizer: VocabularySource = None,
    objects: Objects = "schema",
    key_order: KeyOrder = "declared",
    formatting: JsonFormatting = FLEXIBLE,
) -> CompiledFormat:
    """Compile a JSON Schema (dict or bool) for a tokenizer's vocabulary, of bytes if none is given.

    `objects="closed"` leaves out undeclared keys of objects that declare some, unless the schema explicitly
    admits others; `"schema"` admits what the schema does. With `key_order="any"`, declared keys come in any
    order, not in that of the schema; the report tells of objects where they do not. `documents` are the
    schemas that this one may refer to, by URI; nothing is fetched.

        >>> compiled = compile_schema({"properties": {"a": {"type": "integer"}}, "required": ["a"]})
        >>> compiled.accepts('{"a": 1}'), compiled.accepts('{"a": "1"}')
        (True, False)
        >>> [(entry.pointer, entry.keyword, str(entry.verdict)) for entry in compiled.report][-1]
        ('/properties/a', 'type', 'narrowed')

    Raises:
        UnsupportedSchema: a keyword cannot be enforced, or nothing satisfies the schema.
    """
    lowered = lower_schema(
        schema, documents=documents, objects=objects, key_order=key_order, formatting=formatting
    )
    compiled = CompiledFormat(lowered.grammar, lowered.report, prepare(tokenizer))
    compiled.compile()
    return compiled
