"""The drafts of JSON Schema: their URIs, their order, and what each of them changed.

>>> SchemaDraft.DRAFT_2019_09 < draft_named("https://json-schema.org/draft/2020-12/schema#")
True
>>> FIRST_WITH_CONST.uri
'http://json-schema.org/draft-06/schema'
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any


class SchemaDraft(IntEnum):
    """A draft of JSON Schema, by the number that jsonschema_rs gives it: newer drafts are greater.

    In draft 4, 1.0 is not an integer. So its schemas cannot be compared with those of other drafts.
    """

    DRAFT_4 = 4
    DRAFT_6 = 6
    DRAFT_7 = 7
    DRAFT_2019_09 = 19
    DRAFT_2020_12 = 20

    @property
    def uri(self) -> str:
        """The value of `$schema` in schemas of this draft, without an empty fragment."""
        return _URIS[self]


_URIS = {
    SchemaDraft.DRAFT_4: "http://json-schema.org/draft-04/schema",
    SchemaDraft.DRAFT_6: "http://json-schema.org/draft-06/schema",
    SchemaDraft.DRAFT_7: "http://json-schema.org/draft-07/schema",
    SchemaDraft.DRAFT_2019_09: "https://json-schema.org/draft/2019-09/schema",
    SchemaDraft.DRAFT_2020_12: "https://json-schema.org/draft/2020-12/schema",
}
_BY_NAME = {uri.partition("://")[2]: draft for draft, uri in _URIS.items()}
"""The drafts by their URI without its scheme."""

DRAFT_URIS = tuple(_URIS.values())
"""From the oldest to the newest."""
NEWEST_DRAFT = SchemaDraft.DRAFT_2020_12
DEFAULT_DRAFT = NEWEST_DRAFT.uri
"""The URI of the draft in which a schema without `$schema` is usually read."""
OPENAPI_3_0 = "https://spec.openapis.org/oas/3.0/schema"
"""What `$schema` names as OpenAPI 3.0 begins with this; a date may follow."""

FIRST_WITH_CONST = SchemaDraft.DRAFT_6
FIRST_WITH_IF = SchemaDraft.DRAFT_7
LAST_WITH_REF_ALONE = SchemaDraft.DRAFT_7
"""In this draft and in older ones, keywords beside `$ref` have no force."""
FIRST_WITH_DEFS = SchemaDraft.DRAFT_2019_09
FIRST_WITH_DEPENDENT_REQUIRED = SchemaDraft.DRAFT_2019_09
"""This draft split `dependencies` into `dependentRequired` and `dependentSchemas`."""
FIRST_WITH_PREFIX_ITEMS = SchemaDraft.DRAFT_2020_12
FIRST_WITH: Mapping[str, SchemaDraft] = {
    **dict.fromkeys(("const", "contains", "propertyNames"), SchemaDraft.DRAFT_6),
    **dict.fromkeys(("if", "then", "else"), FIRST_WITH_IF),
    **dict.fromkeys(("dependentRequired", "dependentSchemas"), FIRST_WITH_DEPENDENT_REQUIRED),
    **dict.fromkeys(("minContains", "maxContains"), SchemaDraft.DRAFT_2019_09),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), SchemaDraft.DRAFT_2019_09),
    **dict.fromkeys(("$anchor", "$recursiveRef"), SchemaDraft.DRAFT_2019_09),
    "prefixItems": FIRST_WITH_PREFIX_ITEMS,
    "$dynamicRef": SchemaDraft.DRAFT_2020_12,
}
"""The first draft that has a keyword with force, for those that not all drafts have."""
LAST_WITH: Mapping[str, SchemaDraft] = {
    "additionalItems": SchemaDraft.DRAFT_2019_09,
    "$recursiveRef": SchemaDraft.DRAFT_2019_09,
}
"""The last draft that has it, for those that a draft dropped and no validator asserts since."""


def draft_named(uri: Any) -> SchemaDraft | None:
    """The draft whose URI this is; None if it is no draft's.

    As for validators, `http` and `https` are the same, and so is the URI with an empty fragment.
    """
    scheme, _, name = uri.removesuffix("#").partition("://") if isinstance(uri, str) else ("", "", "")
    return _BY_NAME.get(name) if scheme in {"http", "https"} else None


def declared_draft(document: Any) -> SchemaDraft | None:
    """The draft that a document declares, the newest one if it declares none; None if it names no draft."""
    return draft_named(document.get("$schema", DEFAULT_DRAFT)) if isinstance(document, dict) else NEWEST_DRAFT


def identifier_keyword(document: Mapping[str, Any]) -> str:
    """The keyword by which schemas of a document name themselves: `id` in draft 4, `$id` since."""
    return "id" if "draft-04" in str(document.get("$schema")) else "$id"
