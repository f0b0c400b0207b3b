"""Keywords that have no force where they stand: up to draft 7 beside `$ref`, and before their first draft."""

from collections.abc import Mapping
from typing import Any

from compiler.frontend.keywords import ASSERTIONS
from toolspecs.drafts import FIRST_WITH, LAST_WITH_REF_ALONE, SchemaDraft

_DRAFT_NAMES = {SchemaDraft.DRAFT_2019_09: "2019-09", SchemaDraft.DRAFT_2020_12: "2020-12"}


def without_force(schema: Mapping[str, Any], draft: int) -> dict[str, str]:
    """The keywords of one schema that are not asserted in its draft, each with a note that says why.

    >>> without_force({"$ref": "#/a", "minLength": 3, "title": "b"}, SchemaDraft.DRAFT_7)
    {'minLength': 'ignored beside $ref up to draft 7; write both in allOf'}
    >>> without_force({"prefixItems": []}, SchemaDraft.DRAFT_7)
    {'prefixItems': 'ignored: draft 7 does not have it; declare draft 2020-12'}
    """
    asserted = [keyword for keyword in schema if keyword in ASSERTIONS]
    if "$ref" in schema and draft <= LAST_WITH_REF_ALONE:
        note = "ignored beside $ref up to draft 7; write both in allOf"
        return {keyword: note for keyword in asserted if keyword != "$ref"}
    return {
        keyword: f"ignored: draft {_name_of(draft)} does not have it; declare draft {_name_of(first)}"
        for keyword in asserted
        if draft < (first := FIRST_WITH.get(keyword, SchemaDraft.DRAFT_4))
    }


def _name_of(draft: int) -> str:
    return _DRAFT_NAMES.get(SchemaDraft(draft), str(int(draft)))
