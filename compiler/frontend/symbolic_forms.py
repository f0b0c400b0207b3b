"""What canonical forms are combined of, and where their references lead.

A form is *symbolic* where canonicalization left a reference, or a combination of forms, as it was written.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical

NOTHING: dict[str, Any] = {"not": {}}
"""The JSON Schema that no value satisfies, in any draft."""
_MAX_CHAIN = 50
"""The most references that lead to a form one after another."""

Cases = list[CanonicalSchema]
"""A union of schemas."""


class TooManyCases(canonical.UnsupportedResult):
    """A combination has more cases than it may."""


class Conjunction(NamedTuple):
    """The schemas of an `allOf`, in the order in which they are combined.

    `P` and `oneOf: [A, B]` together are `oneOf: [P and A, P and B]`: a value of `P` satisfies as many
    alternatives of the one as of the other, and no other value satisfies either of the two. Alternatives that
    are disjoint only within `P`, such as by a key that it requires, need not be subtracted from one another.
    """

    plain: Cases
    one_ofs: list[Cases]
    """The alternatives of each `oneOf`."""
    negated: Cases
    """The schema inside each `not`."""

    @classmethod
    def of(cls, branches: Iterable[CanonicalSchema]) -> "Conjunction":
        """The branches of an `allOf`, sorted by kind."""
        parts = cls([], [], [])
        for branch in branches:
            match branch.view():
                case canonical.OneOfView(alternatives):
                    parts.one_ofs.append(list(alternatives))
                case canonical.NotView(inner):
                    parts.negated.append(inner)
                case _:
                    parts.plain.append(branch)
        return parts


class DocumentForms:
    """The forms that references of one document lead to, and new forms in its draft."""

    def __init__(self, document: CanonicalSchema) -> None:
        self._document = document
        self.draft = document.draft

    def target(self, schema: CanonicalSchema) -> CanonicalSchema:
        """The first schema on a chain of references that is not itself a reference.

        Raises:
            CanonicalizationError: there is none, or the chain is too long.
        """
        target = schema
        for _ in range(_MAX_CHAIN):
            match target.view():
                case canonical.ReferenceView(uri):
                    definition = target.definition(uri) or self._document.definition(uri)
                    if definition is None:
                        raise canonical.CanonicalizationError(f"{uri!r} has no target")
                    target = definition
                case _:
                    return target
        raise canonical.CanonicalizationError(f"it is a chain of more than {_MAX_CHAIN} references")

    def form_of(self, document: Any) -> CanonicalSchema:
        """As `form_of`, in the draft of the document."""
        return form_of(document, self.draft)

    def of_type(self, type_name: str, body: CanonicalSchema) -> CanonicalSchema:
        """The values of a type that `body` admits; draft 4 tells the integer 1 from the number 1.0."""
        match body.view():
            case canonical.ConstView(value) if type_name == "integer":
                return body if _is_integer(value) else self.form_of(NOTHING)
            case canonical.EnumView(values) if type_name == "integer":
                return self.form_of({"enum": list(filter(_is_integer, values))})
            case _:
                return self.form_of({"type": type_name}).intersect(body)


def form_of(document: Any, draft: int) -> CanonicalSchema:
    """The canonical form of a schema that the compiler itself writes, to be combined with forms of `draft`.

    The schema must use only what all drafts share: `enum` for one value, `{"not": {}}` for nothing.
    """
    return jsonschema_rs.canonicalize(document, draft=draft, validate_formats=True, offline=True)


def are_disjoint(first: CanonicalSchema, second: CanonicalSchema) -> bool:
    """Whether no value satisfies both schemas, as far as that can be found out."""
    try:
        return first.intersect(second).satisfiability() == canonical.Satisfiability.NO
    except canonical.CanonicalizationError:
        return False


def branches_of(schema: CanonicalSchema) -> Iterator[CanonicalSchema]:
    """The branches of an `anyOf`; any other schema by itself."""
    match schema.view():
        case canonical.AnyOfView(branches):
            yield from branches
        case _:
            yield schema


def has_one_of(schema: CanonicalSchema) -> bool:
    """Whether a symbolic `oneOf` is combined in it: its negation takes long, and mostly has no form."""
    match schema.view():
        case canonical.OneOfView():
            return True
        case canonical.AllOfView(branches) | canonical.AnyOfView(branches):
            return any(map(has_one_of, branches))
        case canonical.NotView(inner) | canonical.TypedGroupView(_, inner):
            return has_one_of(inner)
        case _:
            return False


def has_one_of_in_property(schema: CanonicalSchema) -> bool:
    """Whether it is an object with a property in which a symbolic `oneOf` is combined."""
    match schema.view():
        case canonical.ObjectView() as view:
            return any(map(has_one_of, view.properties.values()))
        case _:
            return False


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
