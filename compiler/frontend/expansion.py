"""Expansion of canonical forms that stayed symbolic because of a reference in them.

`{"allOf": [{"$ref": "#/$defs/node"}, {"required": ["id"]}]}` with a recursive `node` is such a form. Its
expansion is the intersection of `node`'s definition with the other schema. A combination that has no
canonical form as a whole (`single_form`) often has one in cases, as a union of schemas. Where a schema cannot
be subtracted exactly, only values stay that are known to fail it (`case_subtraction`).
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, partial, reduce
from typing import Any, NamedTuple

from jsonschema_rs import CanonicalSchema, canonical

from compiler.frontend.case_subtraction import MAX_CASES, CaseSubtraction, distinct, intersection, negation_of
from compiler.frontend.single_form import single_form
from compiler.frontend.symbolic_forms import Cases, Conjunction, DocumentForms, TooManyCases

MAX_EXACT = 32
"""The most cases of an exact `oneOf` with overlapping alternatives; a grammar of more takes much memory."""
_MAX_NESTING = 50


class Expansion(NamedTuple):
    """The cases of an expanded form; `is_narrowed`: they admit less than the form does."""

    cases: Cases
    is_narrowed: bool


class Expander:
    """Expands the forms of one document; equal forms are expanded once."""

    def __init__(self, document: CanonicalSchema) -> None:
        self._forms = DocumentForms(document)
        self._negation_of = cache(negation_of)
        self._expansions: dict[CanonicalSchema, Expansion] = {}

    def expand(self, schema: CanonicalSchema) -> Expansion:
        """Follow the outermost references and carry out the combination of their targets, as a union.

        The only case is the schema itself if there is nothing to expand.

        Raises:
            CanonicalizationError: the result has no canonical form, or a reference has no target.
        """
        if schema not in self._expansions:
            self._expansions[schema] = self._expand(schema)
        return self._expansions[schema]

    def _expand(self, schema: CanonicalSchema) -> Expansion:
        match schema.view():
            case canonical.ReferenceView():
                return Expansion([self._forms.target(schema)], is_narrowed=False)
            case canonical.AnyOfView():
                return Expansion([schema], is_narrowed=False)
        with suppress(canonical.CanonicalizationError):
            form = single_form(schema, self._forms)
            if form != schema:
                return Expansion([form], is_narrowed=False)
        expansion = _CaseExpansion(self._forms, self._negation_of)
        cases = expansion.cases(schema)
        return Expansion(cases, expansion.is_narrowed)


class _Bounds(NamedTuple):
    """Bounds of a form: the `inner` cases admit no more than it does, the `outer` ones no less.

    They are the same cases where the form can be expanded exactly.
    """

    inner: Cases
    outer: Cases


class _CaseExpansion:
    """Expands one form case by case. `nesting` counts the forms around one, so that the expansion ends."""

    def __init__(self, forms: DocumentForms, negation_of: Callable[[CanonicalSchema], Any]) -> None:
        self._forms = forms
        self._negation_of = negation_of
        self.is_narrowed = False
        """Whether the cases admit less than the form does."""

    def cases(self, schema: CanonicalSchema, nesting: int = 0) -> Cases:
        """The expansion as a union of schemas that can be combined."""
        _check_nesting(nesting)
        match schema.view():
            case canonical.ReferenceView():
                return self.cases(self._forms.target(schema), nesting + 1)
            case canonical.AnyOfView(branches):
                return [case for branch in branches for case in self.cases(branch, nesting + 1)]
            case canonical.AllOfView(branches):
                return self._conjunction(branches, nesting)
            case canonical.OneOfView() | canonical.NotView():
                return self._conjunction([schema], nesting)
            case canonical.TypedGroupView(type_name, body):
                return [self._forms.of_type(type_name, case) for case in self.cases(body, nesting + 1)]
            case _:
                return [schema]

    def _conjunction(self, branches: Iterable[CanonicalSchema], nesting: int) -> Cases:
        """The values that all branches admit."""
        parts = Conjunction.of(branches)
        plain = (self.cases(branch, nesting + 1) for branch in parts.plain)
        cases = reduce(intersection, plain, [self._forms.form_of({})])
        for alternatives in parts.one_ofs:
            all_bounds = [self._bounds(schema, nesting + 1) for schema in alternatives]
            cases = self._exactly_one(
                [_Bounds(*(intersection(cases, bound) for bound in bounds)) for bounds in all_bounds]
            )
        for negated in parts.negated:
            excluded = self._bounds(negated, nesting + 1).outer
            cases = self._subtracted(
                partial(CaseSubtraction.difference, cases=cases, excluded=excluded), MAX_CASES
            )
        return cases

    def _exactly_one(self, unions: list[_Bounds]) -> Cases:
        """The values that exactly one of the unions admits; some of them where there are too many cases."""
        num_cases = sum(len(union.inner) for union in unions)
        max_cases = min(MAX_CASES, max(MAX_EXACT, num_cases))
        return self._subtracted(partial(_without_overlaps, unions), max_cases)

    def _subtracted(self, combine: Callable[[CaseSubtraction], Cases], max_cases: int) -> Cases:
        """What `combine` finds by subtractions. If it has too many cases, only the first of each difference.

        Raises:
            TooManyCases: these are still too many.
        """
        subtraction = CaseSubtraction(self._forms, self._negation_of, max_cases)
        try:
            cases = combine(subtraction)
        except TooManyCases:
            subtraction = CaseSubtraction(
                self._forms, self._negation_of, MAX_CASES, takes_first=True, is_narrowed=True
            )
            cases = combine(subtraction)
        self.is_narrowed |= subtraction.is_narrowed
        return cases

    def _bounds(self, schema: CanonicalSchema, nesting: int) -> _Bounds:
        """The expansion for a place where it is subtracted: there, nothing may be missing from it."""
        inner = _CaseExpansion(self._forms, self._negation_of)
        cases = inner.cases(schema, nesting)
        self.is_narrowed |= inner.is_narrowed
        return _Bounds(cases, self._widened(schema, nesting) if inner.is_narrowed else cases)

    def _widened(self, schema: CanonicalSchema, nesting: int) -> Cases:
        """Cases that admit all that a schema admits, and more: nothing is subtracted."""
        _check_nesting(nesting)
        match schema.view():
            case canonical.ReferenceView():
                return self._widened(self._forms.target(schema), nesting + 1)
            case canonical.NotView():
                return [self._forms.form_of({})]
            case canonical.AllOfView(branches):
                widened = (self._widened(branch, nesting + 1) for branch in branches)
                return reduce(intersection, widened)
            case canonical.AnyOfView(branches) | canonical.OneOfView(branches):
                return [case for branch in branches for case in self._widened(branch, nesting + 1)]
            case canonical.TypedGroupView(type_name, body):
                return [self._forms.of_type(type_name, case) for case in self._widened(body, nesting + 1)]
            case _:
                return [schema]


def _without_overlaps(unions: list[_Bounds], subtraction: CaseSubtraction) -> Cases:
    """The values of each union that no other union admits."""
    cases: Cases = []
    for index, union in enumerate(unions):
        others = [case for other in (*unions[:index], *unions[index + 1 :]) for case in other.outer]
        cases += subtraction.difference(union.inner, others)
    return distinct(cases, subtraction.max_cases)


def _check_nesting(nesting: int) -> None:
    if nesting > _MAX_NESTING:
        raise canonical.UnsupportedResult("it is combined with itself endlessly")
