"""Intersections and differences of unions of schemas.

Each union is a list of *cases*. A schema that cannot be subtracted exactly is subtracted in part: the result
has only values that are known to fail it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
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


class CaseSubtraction:
    """Combines the unions of one expansion. `is_narrowed` once a difference leaves out some of its values.

    `negation_of` is the function of that name, or one that remembers what it returned.
    """

    def __init__(self, forms: DocumentForms, negation_of: Callable[[CanonicalSchema], Any]) -> None:
        self._forms = forms
        self._negation_of = negation_of
        self._prefix = prefix_items_keyword(forms.draft)
        self._max_cases = MAX_CASES
        self._takes_first = False
        """Whether a difference that consists of several cases is only the first of them."""
        self.is_narrowed = False

    def limited(self, find: Callable[[], Cases], max_cases: int) -> Cases:
        """The cases that `find` finds. If they are more than `max_cases`, only the first of each difference.

        Raises:
            TooManyCases: these are still too many.
        """
        took_first, self._max_cases = self._takes_first, max_cases
        try:
            return find()
        except TooManyCases:
            if took_first:
                raise
            self._max_cases = MAX_CASES
            self._takes_first = self.is_narrowed = True
            return find()
        finally:
            self._takes_first, self._max_cases = took_first, MAX_CASES

    def distinct(self, cases: Iterable[CanonicalSchema]) -> Cases:
        """The cases that are not known to be empty, without duplicates.

        Raises:
            TooManyCases: they are more than allowed.
        """
        kept: Cases = []
        for case in cases:
            if case.satisfiability() != canonical.Satisfiability.NO and case not in kept:
                kept.append(case)
            if len(kept) > self._max_cases:
                raise TooManyCases(f"it has more than {self._max_cases} cases")
        return kept

    def intersection(self, first: Cases, second: Cases) -> Cases:
        """The values that both unions admit."""
        return self.distinct(a.intersect(b) for a, b in product(first, second))

    def difference(self, cases: Cases, excluded: Cases) -> Cases:
        """The values that the union `cases` admits and the union `excluded` does not, or some of them.

        Raises:
            CanonicalizationError: none of them has a form.
        """
        for other in excluded:
            cases = self.distinct(rest for case in cases for rest in self._rest(case, other))
        return cases

    def _rest(self, schema: CanonicalSchema, excluded: CanonicalSchema) -> Cases:
        """The values that `schema` admits and `excluded` does not, or some of them."""
        if are_disjoint(schema, excluded):
            return [schema]
        if not has_one_of_in_property(excluded):
            with suppress(canonical.CanonicalizationError):
                exact = schema.subtract(excluded)
                if not self._takes_first or not isinstance(exact.view(), canonical.AnyOfView):
                    return list(branches_of(exact))
        return self._rest_by_view(schema, excluded)

    def _rest_by_view(self, schema: CanonicalSchema, excluded: CanonicalSchema) -> Cases:
        """As `_rest`, where the difference has no form as a whole, or has more cases than are taken."""
        match excluded.view():
            case canonical.AnyOfView(branches):
                return self.difference([schema], list(branches))
            case canonical.ReferenceView():
                return self._rest(schema, self._forms.target(excluded))
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
        conditions = _other_values(value, self._prefix)
        return self.distinct(rest for case in cases for rest in self._restricted(case, conditions))

    def _restricted(self, schema: CanonicalSchema, conditions: Iterable[Any]) -> Cases:
        """The values of a schema that satisfy any of the conditions, which are JSON Schemas."""
        cases: Cases = []
        for condition in conditions:
            try:
                cases += self.distinct([schema.intersect(self._forms.form_of(condition))])
            except canonical.CanonicalizationError:
                self.is_narrowed = True
            if cases and self._takes_first:
                break
        return cases

    def _failing(self, view: canonical.ObjectView) -> Iterator[Any]:
        """JSON Schemas of values that all fail the view; they do not admit all values that fail it."""
        yield {"not": {"type": "object"}}
        yield from ({"type": "object", "properties": {key: NOTHING}} for key in view.required)
        for key, schema in view.properties.items():
            if (negation := self._negation_of(schema)) is not None:
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
