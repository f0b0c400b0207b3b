"""The expansion of a symbolic form as one canonical form, where it has one."""

from collections.abc import Iterable
from functools import reduce

from jsonschema_rs import CanonicalSchema, canonical

from compiler.frontend.symbolic_forms import (
    NOTHING,
    Cases,
    Conjunction,
    DocumentForms,
    TooManyCases,
    are_disjoint,
    has_one_of_in_property,
)

MAX_ALTERNATIVES = 16
"""The most alternatives of a `oneOf` that become one form: the time grows with the cube of their number."""
_MAX_BRANCHES = 32
"""The most branches of an `anyOf` that a combination may become."""
MAX_NEGATED = 10_000
"""The most characters of an object that is subtracted although a symbolic `oneOf` is in a property of it.

Vega-Lite's have 18,000, and it takes 1.5 s to find that the difference has no form.
"""


def single_form(schema: CanonicalSchema, forms: DocumentForms) -> CanonicalSchema:
    """Follow the references of a form and carry out its combination; `forms` has their targets.

    A form with nothing to expand is returned as it is.

    Raises:
        CanonicalizationError: the result has no canonical form, or a reference has no target.
        TooManyCases: case by case it is expanded faster.
    """
    match schema.view():
        case canonical.ReferenceView():
            return forms.target(schema)
        case canonical.NotView(inner):
            return single_form(inner, forms).negate()
        case canonical.AllOfView(branches):
            return _conjunction(branches, forms)
        case canonical.OneOfView():
            return _conjunction([schema], forms)
        case canonical.TypedGroupView(type_name, body):
            return forms.of_type(type_name, single_form(body, forms))
        case _:
            return schema


def _conjunction(branches: Iterable[CanonicalSchema], forms: DocumentForms) -> CanonicalSchema:
    """The values that all branches admit."""
    parts = Conjunction.of(branches)
    form = forms.form_of({})
    for schema in parts.plain:
        form = form.intersect(single_form(schema, forms))
    for alternatives in parts.one_ofs:
        if len(alternatives) > MAX_ALTERNATIVES:
            raise TooManyCases(f"it has more than {MAX_ALTERNATIVES} alternatives")
        form = _exactly_one(_satisfiable_intersections(form, alternatives, forms), forms)
    for negated in parts.negated:
        excluded = single_form(negated, forms)
        form = form if are_disjoint(form, excluded) else _difference(form, excluded)
    return form


def _satisfiable_intersections(form: CanonicalSchema, alternatives: Cases, forms: DocumentForms) -> Cases:
    """The intersection of `form` with each alternative, without those that admit nothing."""
    intersections = [form.intersect(single_form(schema, forms)) for schema in alternatives]
    return [shared for shared in intersections if shared.satisfiability() != canonical.Satisfiability.NO]


def _exactly_one(schemas: Cases, forms: DocumentForms) -> CanonicalSchema:
    """The values that exactly one of the schemas admits; disjoint schemas are not subtracted."""
    union = forms.form_of(NOTHING)
    for index, schema in enumerate(schemas):
        others = schemas[:index] + schemas[index + 1 :]
        overlapping = [other for other in others if not are_disjoint(schema, other)]
        union = _bounded(union.union(reduce(_difference, overlapping, schema)))
    return union


def _difference(schema: CanonicalSchema, excluded: CanonicalSchema) -> CanonicalSchema:
    if has_one_of_in_property(excluded) and len(str(excluded.to_json_schema())) > MAX_NEGATED:
        raise canonical.UnsupportedResult("it takes long to subtract, and mostly has no form")
    return _bounded(schema.subtract(excluded))


def _bounded(schema: CanonicalSchema) -> CanonicalSchema:
    """The schema, unless it has too many branches."""
    match schema.view():
        case canonical.AnyOfView(branches) if len(branches) > _MAX_BRANCHES:
            raise TooManyCases(f"it has more than {_MAX_BRANCHES} cases")
    return schema
