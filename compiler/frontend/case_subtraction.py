"""Intersections and differences of unions of schemas.

Each union is a list of *cases*. A schema that cannot be subtracted exactly is subtracted in part: the result
has only values that are known to fail it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

from jsonschema_rs import CanonicalSchema, canonical

from compiler.frontend.keywords import prefix_items_keyword
from compiler.frontend.symbolic_forms import (
    NOTHING,
    Cases,
    DocumentForms,
    TooManyCases,
    are_disjoint,
    branches_of,
    has_one_of,
    has_one_of_in_property,
)

MAX_CASES = 120


def negation_of(schema: CanonicalSchema) -> Any:
    """A JSON Schema of what `schema` does not admit; None if it is not known, or takes long to find."""
    if has_one_of(schema):
        return None
    try:
        negation = schema.negate().to_json_schema()
    except canonical.CanonicalizationError:
        return None
    # By itself, without the document, a negation with a reference has no meaning.
    return None if isinstance(negation, dict) and "$ref" in str(negation) else negation


def distinct(cases: Iterable[CanonicalSchema], max_cases: int) -> Cases:
    """The cases that are not known to be empty, without duplicates.

    Raises:
        TooManyCases: they are more than `max_cases`.
    """
    kept: Cases = []
    for case in cases:
        if case.satisfiability() != canonical.Satisfiability.NO and case not in kept:
            kept.append(case)
        if len(kept) > max_cases:
            raise TooManyCases(f"it has more than {max_cases} cases")
    return kept


def intersection(first: Cases, second: Cases) -> Cases:
    """The values that both unions admit; raises TooManyCases."""
    return distinct((a.intersect(b) for a, b in product(first, second)), MAX_CASES)


@dataclass
class CaseSubtraction:
    """Subtracts unions of at most `max_cases` cases from one another.

    `negation_of` is the function of that name, or one that remembers what it returned. With `takes_first`, a
    difference that consists of several cases is only the first of them. It `is_narrowed` once a difference
    leaves out some of its values.
    """

    forms: DocumentForms
    negation_of: Callable[[CanonicalSchema], Any]
    max_cases: int
    takes_first: bool = False
    is_narrowed: bool = False

    def difference(self, cases: Cases, excluded: Cases) -> Cases:
        """The values that the union `cases` admits and the union `excluded` does not, or some of them.

        Raises:
            CanonicalizationError: none of them has a form.
        """
        for other in excluded:
            cases = self._distinct(rest for case in cases for rest in self._rest(case, other))
        return cases

    def _distinct(self, cases: Iterable[CanonicalSchema]) -> Cases:
        return distinct(cases, self.max_cases)

    def _rest(self, schema: CanonicalSchema, excluded: CanonicalSchema) -> Cases:
        """The values that `schema` admits and `excluded` does not, or some of them."""
        if are_disjoint(schema, excluded):
            return [schema]
        if not has_one_of_in_property(excluded):
            with suppress(canonical.CanonicalizationError):
                exact = schema.subtract(excluded)
                if not self.takes_first or not isinstance(exact.view(), canonical.AnyOfView):
                    return list(branches_of(exact))
        return self._rest_by_view(schema, excluded)

    def _rest_by_view(self, schema: CanonicalSchema, excluded: CanonicalSchema) -> Cases:
        """As `_rest`, where the difference has no form as a whole, or has more cases than are taken."""
        match excluded.view():
            case canonical.AnyOfView(branches):
                return self.difference([schema], list(branches))
            case canonical.ReferenceView():
                return self._rest(schema, self.forms.target(excluded))
            case canonical.ConstView(value):
                return self._without([schema], value)
            case canonical.EnumView(values):
                return reduce(self._without, values, [schema])
            case canonical.ObjectView() as view:
                self.is_narrowed = True
                return self._restricted(schema, self._failing(view))
            case _:
                raise canonical.UnsupportedResult("it cannot be negated")

    def _without(self, cases: Cases, value: Any) -> Cases:
        """The values that the cases admit, without one value."""
        conditions = _other_values(value, prefix_items_keyword(self.forms.draft))
        return self._distinct(rest for case in cases for rest in self._restricted(case, conditions))

    def _restricted(self, schema: CanonicalSchema, conditions: Iterable[Any]) -> Cases:
        """The values of a schema that satisfy any of the conditions, which are JSON Schemas."""
        cases: Cases = []
        for condition in conditions:
            try:
                cases += self._distinct([schema.intersect(self.forms.form_of(condition))])
            except canonical.CanonicalizationError:
                self.is_narrowed = True
            if cases and self.takes_first:
                break
        return cases

    def _failing(self, view: canonical.ObjectView) -> Iterator[Any]:
        """JSON Schemas of values that all fail the view; they do not admit all values that fail it."""
        yield {"not": {"type": "object"}}
        yield from ({"type": "object", "properties": {key: NOTHING}} for key in view.required)
        for key, schema in view.properties.items():
            if (negation := self.negation_of(schema)) is not None:
                yield {"type": "object", "required": [key], "properties": {key: negation}}


def _other_values(value: Any, prefix: str) -> list[Any]:
    """JSON Schemas whose union is every value except `value`.

    `prefix` is the keyword that lists the schemas of the first items.
    """
    match value:
        case list():
            return _other_than_array(value, prefix)
        case dict():
            return _other_than_object(value, prefix)
        case _:
            return [{"not": {"enum": [value]}}]


def _other_than_array(value: list[Any], prefix: str) -> list[Any]:
    return [
        {"not": {"type": "array"}},
        *([{"type": "array", "maxItems": len(value) - 1}] if value else ()),
        {"type": "array", "minItems": len(value) + 1},
        *(
            {"type": "array", "minItems": index + 1, prefix: [*[{}] * index, other]}
            for index, item in enumerate(value)
            for other in _other_values(item, prefix)
        ),
    ]


def _other_than_object(value: dict[str, Any], prefix: str) -> list[Any]:
    return [
        {"not": {"type": "object"}},
        {"type": "object", "minProperties": len(value) + 1},
        *({"type": "object", "properties": {key: NOTHING}} for key in value),
        *(
            {"type": "object", "required": [key], "properties": {key: other}}
            for key, item in value.items()
            for other in _other_values(item, prefix)
        ),
    ]
