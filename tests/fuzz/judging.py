"""What three validators say of a text, and where one of them is not asked, with the reason."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
from soundness.judges import Judges
from soundness.schemas import DIALECTS

from compiler.frontend.keywords import inside
from fuzz.ajv import Ajv, NoAnswer

DRAFTS = {dialect: draft for draft, dialect in DIALECTS.items()}


@dataclass(frozen=True, slots=True)
class Unasked:
    """Schemas of a draft of which a validator's word does not count, and why."""

    reason: str
    holds: Callable[[dict[str, Any], int], bool]


def _has_tuple(schema: dict[str, Any]) -> bool:
    return "prefixItems" in schema or isinstance(schema.get("items"), list)


AJV_UNASKED = (
    Unasked("divides in binary, where 0.07 is no multiple of 0.01", lambda schema, _: "multipleOf" in schema),
    Unasked(
        "knows no internationalised formats",
        lambda schema, _: str(schema.get("format"))[:3] in {"iri", "idn"},
    ),
    Unasked(
        "asserts `type` beside `$ref`", lambda schema, draft: draft <= 7 and {"$ref", "type"} <= schema.keys()
    ),
    Unasked("asserts `if` before draft 7", lambda schema, draft: draft < 7 and "if" in schema),
    Unasked(
        "takes items that `contains` evaluates for unevaluated, since 2020-12",
        lambda schema, draft: draft >= 2020 and "unevaluatedItems" in schema,
    ),
    Unasked(
        "looks at no `contains` of an empty array beside a tuple",
        lambda schema, _: "contains" in schema and _has_tuple(schema),
    ),
    Unasked(
        "forgets what is evaluated beside `dependentSchemas` whose key is not there",
        lambda schema, _: {"dependentSchemas", "unevaluatedProperties"} <= schema.keys(),
    ),
    Unasked("leaves `__proto__` out of `properties`", lambda schema, _: "__proto__" in json.dumps(schema)),
)
"""Where ajv differs from the specification, or asserts less than we promise."""
PYTHON_UNASKED = (
    Unasked(
        "takes an empty pattern of keys for none beside `additionalProperties`",
        lambda schema, _: "" in schema.get("patternProperties", ()) and "additionalProperties" in schema,
    ),
)
"""Where `jsonschema` differs from the specification."""


def _reasons(rules: tuple[Unasked, ...], schema: Any) -> list[str]:
    parts, draft = list(inside(schema)), draft_of(schema)
    return [rule.reason for rule in rules if any(rule.holds(part, draft) for part in parts)]


class Unjudged(Exception):
    """A validator cannot read the schema, so nobody can say what is valid."""


def is_schema(schema: Any) -> bool:
    """Whether a document is a schema of its draft, and its references lead somewhere."""
    try:
        jsonschema_rs.validator_for(schema, validate_formats=True, offline=True)
        return jsonschema_rs.meta.is_valid(schema)
    except (ValueError, jsonschema_rs.ReferencingError):
        return False


def draft_of(schema: Any) -> int:
    """The draft of a document, a key of `DIALECTS`."""
    return DRAFTS[schema["$schema"]] if isinstance(schema, dict) and "$schema" in schema else 2020


class EveryJudge:
    """All judges of one schema."""

    def __init__(self, schema: Any, ajv: Ajv | None) -> None:
        try:
            self._both = Judges(schema)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise Unjudged(str(error)) from error
        self.ajv_unasked = "" if ajv else "not at hand"
        self._ajv = ajv
        self._number = 0
        self.num_failures = 0
        self.python_unasked = "".join(_reasons(PYTHON_UNASKED, schema)[:1])
        if ajv:
            reasons = _reasons(AJV_UNASKED, schema)
            try:
                self._number = ajv.read(schema, draft_of(schema))
            except NoAnswer:
                reasons.append("cannot read the schema")
            self.ajv_unasked = reasons[0] if reasons else ""

    def faults(self, text: bytes) -> list[str]:
        """What is wrong with a text, by any judge; empty if nothing is."""
        try:
            faults = self._both.faults(text)
        except Exception:  # noqa: BLE001 - Python's `jsonschema` fails on some references to anchors
            self.num_failures += 1
            return []
        if self.python_unasked:
            faults = [fault for fault in faults if not fault.startswith(("jsonschema:", "jsonschema,"))]
        if not self.ajv_unasked and not any(fault.startswith("no strict JSON") for fault in faults):
            try:
                fault = self._ajv.fault(self._number, text.decode())
            except NoAnswer:
                return faults
            faults += [f"ajv: {fault}"] if fault else []
        return faults
