"""Schemas that declare no dialect, or OpenAPI's: they are written in the draft that they are read in."""

from collections.abc import Mapping
from typing import Any

from compiler.frontend.keywords import transformed, without
from compiler.report import ReportEntry, Verdict
from toolspecs.schemas.dialects import dialect_of
from toolspecs.schemas.drafts import DEFAULT_DRAFT, OPENAPI_3_0, SchemaDraft


def in_declared_dialect(document: Any, documents: Mapping[str, Any]) -> Any:
    """The document with the draft that it is read in as `$schema`; the document itself if it needs none.

    A document without `$schema` keeps its keywords, so it admits what it admits in that draft. A schema that
    refers to other documents is never read in an older draft: the documents may be meant in another one.

    OpenAPI 3.0 defines its schemas as those of draft-04, and `nullable: true` as one more type beside the
    `type` of the same schema. So null is admitted there exactly if the other keywords admit it too.

    >>> in_declared_dialect({"minimum": 0, "exclusiveMinimum": True}, {})["$schema"]
    'http://json-schema.org/draft-04/schema'
    """
    dialect = dialect_of(document)
    if dialect == OPENAPI_3_0:
        return {**transformed(document, _with_null), "$schema": SchemaDraft.DRAFT_4.uri}
    if dialect == DEFAULT_DRAFT or "$schema" in document or documents:
        return document
    return {"$schema": dialect, **document}


def dialect_notes(document: Any, read: Any) -> tuple[ReportEntry, ...]:
    """The entry of a report on a schema that was `read` in a draft which it does not declare."""
    if read is document or "$schema" in document:
        return ()
    note = f"not declared; read in {read['$schema']}#, the newest draft in which the schema is valid"
    return (ReportEntry("", "$schema", Verdict.ANNOTATION, note),)


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("nullable") is not True or not isinstance(schema.get("type"), str):
        return schema
    others = without(schema, {"nullable"})
    return {**others, "type": [schema["type"], "null"]}
