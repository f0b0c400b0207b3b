"""Keywords that have no force where they stand: in a draft without them, or up to draft 7 beside `$ref`."""

from collections.abc import Mapping
from typing import Any

from compiler.frontend.keywords import ASSERTIONS
from compiler.report import IGNORED
from toolspecs.drafts import FIRST_WITH, LAST_WITH, LAST_WITH_REF_ALONE, NEWEST_DRAFT, SchemaDraft

_DRAFT_NAMES = {SchemaDraft.DRAFT_2019_09: "2019-09", SchemaDraft.DRAFT_2020_12: "2020-12"}


def idle_keywords(schema: Mapping[str, Any], draft: int) -> dict[str, str]:
    """The keywords of one schema that are not asserted in its draft, each with a note that says why.

    >>> idle_keywords({"$ref": "#/a", "minLength": 3, "title": "b"}, SchemaDraft.DRAFT_7)
    {'minLength': 'ignored beside $ref up to draft 7; write both in allOf'}
    >>> idle_keywords({"prefixItems": []}, SchemaDraft.DRAFT_7)
    {'prefixItems': 'ignored: draft 7 does not have it; declare draft 2020-12'}
    """
    asserted = [keyword for keyword in schema if keyword in ASSERTIONS]
    if "$ref" in schema and draft <= LAST_WITH_REF_ALONE:
        note = f"{IGNORED} beside $ref up to draft 7; write both in allOf"
        return {keyword: note for keyword in asserted if keyword != "$ref"}
    notes = {}
    for keyword in asserted:
        first = FIRST_WITH.get(keyword, SchemaDraft.DRAFT_4)
        last = LAST_WITH.get(keyword, NEWEST_DRAFT)
        if not first <= draft <= last:
            having = _name_of(first if draft < first else last)
            notes[keyword] = f"{IGNORED}: draft {_name_of(draft)} does not have it; declare draft {having}"
    return notes


def _name_of(draft: int) -> str:
    return _DRAFT_NAMES.get(SchemaDraft(draft), str(int(draft)))
