"""Expansion of canonical forms that stayed symbolic because of a reference in them.

`{"allOf": [{"$ref": "#/$defs/node"}, {"required": ["id"]}]}` with a recursive `node` is such a form: it
becomes the intersection of `node`'s definition with the other schema. A combination that has no canonical
form as a whole often has one in cases, so everything here is a union of schemas. Where a schema cannot be
subtracted exactly, only values stay that are known to fail it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial, reduce
from itertools import product
from typing import Any, NamedTuple

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical

from compiler.frontend.keywords import prefix_items_keyword

MAX_CASES = 120
MAX_ALONE = 32
"""The most cases of an exact `oneOf` with overlapping alternatives; a grammar of more takes much memory."""
_MAX_WHOLE = 16
"""The most alternatives of a `oneOf` that become one form: the time grows with the cube of their number."""
_MAX_REFERENCES = 50
_MAX_NESTING = 50
_NOTHING: dict[str, Any] = {"not": {}}

Cases = list[CanonicalSchema]
"""A union of schemas."""


def form_of(document: Any, draft: int) -> CanonicalSchema:
    """The canonical form of a schema that the compiler itself writes, to be combined with forms of `draft`.

    The schema must use only what all drafts share: `enum` for one value, `{"not": {}}` for nothing.
    """
    return jsonschema_rs.canonicalize(document, draft=draft, validate_formats=True, offline=True)


class Expansion(NamedTuple):
    """The cases of an expanded form; `is_narrowed`: they admit less than the form does."""

    cases: Cases
    is_narrowed: bool


class _Bounds(NamedTuple):
    """Bounds of a form: the `inner` cases admit no more than it does, the `outer` ones no less.

    They are the same cases where the form can be expanded exactly.
    """

    inner: Cases
    outer: Cases


class TooManyCases(canonical.UnsupportedResult):
    """A combination has more cases than it may."""


class _Conjunction(NamedTuple):
    """The schemas of an `allOf` in the order in which they are combined.

    `P` and `oneOf: [A, B]` is `oneOf: [P and A, P and B]`: a value of `P` is admitted by as many alternatives
    of the one as of the other, and any other value by none. So alternatives that differ only in `P`, such as
    by a key that it requires, are disjoint before they are subtracted from one another.
    """

    plain: Cases
    exclusive: list[Cases]
    """The alternatives of each `oneOf`."""
    negated: Cases
    """What each `not` excludes."""

    @classmethod
    def of(cls, branches: Iterable[CanonicalSchema]) -> "_Conjunction":
        parts = cls([], [], [])
        for branch in branches:
            match branch.view():
                case canonical.OneOfView(alternatives):
                    parts.exclusive.append(list(alternatives))
                case canonical.NotView(inner):
                    parts.negated.append(inner)
                case _:
                    parts.plain.append(branch)
        return parts


class Expander:
    """Expands the forms of one document."""

    def __init__(self, document: CanonicalSchema) -> None:
        self._document = document
        self._draft = document.draft
        self._prefix = prefix_items_keyword(document.draft)
        self._is_narrowed = False
        self._stops_early = False
        self._max_cases = MAX_CASES
        self._opposites: dict[CanonicalSchema, Any] = {}
        self._expansions: dict[CanonicalSchema, Expansion] = {}

    def expand(self, schema: CanonicalSchema) -> Expansion:
        """Follow the outermost references and carry out the combination of their targets, as a union.

        The only case is the schema itself if there is nothing to expand. Equal schemas are expanded once.

        Raises:
            CanonicalizationError: the result has no canonical form, or a reference has no target.
        """
        if schema not in self._expansions:
            self._expansions[schema] = self._expand(schema)
        return self._expansions[schema]

    def _expand(self, schema: CanonicalSchema) -> Expansion:
        match schema.view():
            case canonical.ReferenceView():
                return Expansion([self._target(schema)], is_narrowed=False)
            case canonical.AnyOfView():
                return Expansion([schema], is_narrowed=False)
        with suppress(canonical.CanonicalizationError):
            whole = self._whole(schema)
            if whole != schema:
                return Expansion([whole], is_narrowed=False)
        self._is_narrowed = False
        return Expansion(self._cases(schema, 0), self._is_narrowed)

    def _whole(self, schema: CanonicalSchema) -> CanonicalSchema:
        """The expansion as one form."""
        match schema.view():
            case canonical.ReferenceView():
                return self._target(schema)
            case canonical.NotView(inner):
                return self._whole(inner).negate()
            case canonical.AllOfView(branches):
                return self._whole_of_all(branches)
            case canonical.OneOfView():
                return self._whole_of_all([schema])
            case canonical.TypedGroupView(type_name, body):
                return self._of_type(type_name, self._whole(body))
            case _:
                return schema

    def _whole_of_all(self, branches: Iterable[CanonicalSchema]) -> CanonicalSchema:
        """The values that all of some schemas admit, as one form."""
        parts = _Conjunction.of(branches)
        whole = reduce(CanonicalSchema.intersect, map(self._whole, parts.plain), self._form_of({}))
        for alternatives in parts.exclusive:
            if len(alternatives) > _MAX_WHOLE:
                raise TooManyCases("it is better expanded case by case")
            whole = self._alone_of(self._within(whole, alternatives))
        for negated in parts.negated:
            excluded = self._whole(negated)
            whole = whole if _are_disjoint(whole, excluded) else _checked(whole.subtract(excluded))
        return whole

    def _cases(self, schema: CanonicalSchema, depth: int) -> Cases:
        """The expansion as a union of schemas that can be combined."""
        if depth > _MAX_NESTING:
            raise canonical.UnsupportedResult("it is combined with itself endlessly")
        match schema.view():
            case canonical.ReferenceView():
                return self._cases(self._target(schema), depth + 1)
            case canonical.AnyOfView(branches):
                return [part for branch in branches for part in self._cases(branch, depth + 1)]
            case canonical.AllOfView(branches):
                return self._cases_of_all(branches, depth)
            case canonical.OneOfView() | canonical.NotView():
                return self._cases_of_all([schema], depth)
            case canonical.TypedGroupView(type_name, body):
                return [self._of_type(type_name, part) for part in self._cases(body, depth + 1)]
            case _:
                return [schema]

    def _bounds(self, schema: CanonicalSchema, depth: int) -> "_Bounds":
        """The expansion for a place where it is subtracted: there, nothing may be missing from it."""
        was_narrowed, self._is_narrowed = self._is_narrowed, False
        cases = self._cases(schema, depth)
        is_narrowed = self._is_narrowed
        self._is_narrowed |= was_narrowed
        return _Bounds(cases, self._widened(schema, depth) if is_narrowed else cases)

    def _widened(self, schema: CanonicalSchema, depth: int) -> Cases:
        """Cases that admit all that a schema admits, and more: nothing is subtracted."""
        if depth > _MAX_NESTING:
            raise canonical.UnsupportedResult("it is combined with itself endlessly")
        match schema.view():
            case canonical.ReferenceView():
                return self._widened(self._target(schema), depth + 1)
            case canonical.NotView():
                return [self._form_of({})]
            case canonical.AllOfView(branches):
                return reduce(self._intersect, (self._widened(branch, depth + 1) for branch in branches))
            case canonical.AnyOfView(branches) | canonical.OneOfView(branches):
                return [part for branch in branches for part in self._widened(branch, depth + 1)]
            case canonical.TypedGroupView(type_name, body):
                return [self._of_type(type_name, part) for part in self._widened(body, depth + 1)]
            case _:
                return [schema]

    def _within(self, outer: CanonicalSchema, alternatives: Cases) -> Cases:
        """The values of `outer` that each alternative admits, without those that admit none."""
        intersections = [outer.intersect(self._whole(schema)) for schema in alternatives]
        return [shared for shared in intersections if shared.satisfiability() != canonical.Satisfiability.NO]

    def _alone_of(self, schemas: Cases) -> CanonicalSchema:
        """The values that exactly one of the schemas admits, as one form.

        Disjoint schemas are not subtracted from one another.
        """

        def alone(index: int) -> CanonicalSchema:
            schema = schemas[index]
            others = schemas[:index] + schemas[index + 1 :]
            return reduce(_subtraction, [o for o in others if not _are_disjoint(schema, o)], schema)

        return reduce(_union, map(alone, range(len(schemas))), self._form_of(_NOTHING))

    def _cases_of_all(self, branches: Iterable[CanonicalSchema], depth: int) -> Cases:
        """The values that all of some schemas admit."""
        parts = _Conjunction.of(branches)
        plain = (self._cases(branch, depth + 1) for branch in parts.plain)
        cases = reduce(self._intersect, plain, [self._form_of({})])
        for alternatives in parts.exclusive:
            all_bounds = [self._bounds(schema, depth + 1) for schema in alternatives]
            cases = self._exactly_one(
                [_Bounds(*(self._intersect(cases, bound) for bound in bounds)) for bounds in all_bounds]
            )
        for negated in parts.negated:
            excluded = self._bounds(negated, depth + 1).outer
            cases = self._some_if_many(partial(self._subtract, cases, excluded), MAX_CASES)
        return cases

    def _form_of(self, document: Any) -> CanonicalSchema:
        return form_of(document, self._draft)

    def _target(self, schema: CanonicalSchema) -> CanonicalSchema:
        """The first schema on a chain of references that is not itself a reference."""
        target = schema
        for _ in range(_MAX_REFERENCES):
            match target.view():
                case canonical.ReferenceView(uri):
                    definition = target.definition(uri) or self._document.definition(uri)
                    if definition is None:
                        raise canonical.CanonicalizationError(f"{uri!r} has no target")
                    target = definition
                case _:
                    return target
        raise canonical.CanonicalizationError(f"it is a chain of more than {_MAX_REFERENCES} references")

    def _of_type(self, type_name: str, body: CanonicalSchema) -> CanonicalSchema:
        """The values of a type that `body` admits; draft 4 tells the integer 1 from the number 1.0."""
        match body.view():
            case canonical.ConstView(value) if type_name == "integer":
                return body if _is_integer(value) else self._form_of({"not": {}})
            case canonical.EnumView(values) if type_name == "integer":
                return self._form_of({"enum": list(filter(_is_integer, values))})
            case _:
                return self._form_of({"type": type_name}).intersect(body)

    def _intersect(self, first: Cases, second: Cases) -> Cases:
        return self._live(a.intersect(b) for a, b in product(first, second))

    def _exactly_one(self, unions: "list[_Bounds]") -> Cases:
        """The values that exactly one of the unions admits; some of them where there are too many cases."""
        num_cases = sum(len(union.inner) for union in unions)
        return self._some_if_many(
            partial(self._each_alone, unions), min(MAX_CASES, max(MAX_ALONE, num_cases))
        )

    def _some_if_many(self, find: Callable[[], Cases], most: int) -> Cases:
        """The cases that `find` finds; some of them if they are more than `most`."""
        stopped_early, self._max_cases = self._stops_early, most
        try:
            return find()
        except TooManyCases:
            if stopped_early:
                raise
            self._max_cases = MAX_CASES
            self._stops_early = self._is_narrowed = True
            return find()
        finally:
            self._stops_early, self._max_cases = stopped_early, MAX_CASES

    def _each_alone(self, unions: "list[_Bounds]") -> Cases:
        cases: Cases = []
        for index, union in enumerate(unions):
            others = [part for other in (*unions[:index], *unions[index + 1 :]) for part in other.outer]
            cases += self._subtract(union.inner, others)
        return self._live(cases)

    def _subtract(self, cases: Cases, others: Cases) -> Cases:
        for other in others:
            cases = self._live(rest for part in cases for rest in self._difference(part, other))
        return cases

    def _difference(self, part: CanonicalSchema, other: CanonicalSchema) -> Cases:  # noqa: PLR0911 - one case per view
        """The values that `part` admits and `other` does not; only some of these if not all have a form."""
        if _are_disjoint(part, other):
            return [part]
        if not _has_exclusive_member(other):
            with suppress(canonical.CanonicalizationError):
                exact = part.subtract(other)
                if not self._stops_early or not isinstance(exact.view(), canonical.AnyOfView):
                    return list(_branches(exact))
        match other.view():
            case canonical.AnyOfView(branches):
                return self._subtract([part], list(branches))
            case canonical.ReferenceView():
                return self._difference(part, self._target(other))
            case canonical.ConstView(value):
                return self._without([part], value)
            case canonical.EnumView(values):
                return reduce(self._without, values, [part])
            case canonical.ObjectView() as view:
                self._is_narrowed = True
                return self._restricted(part, self._failing(view))
            case _:
                raise canonical.UnsupportedResult("it cannot be negated")

    def _without(self, cases: Cases, value: Any) -> Cases:
        return self._live(
            rest for part in cases for rest in self._restricted(part, _unequal(value, self._prefix))
        )

    def _restricted(self, part: CanonicalSchema, conditions: Iterable[Any]) -> Cases:
        """The values of a schema that satisfy any of the conditions, which are JSON Schemas."""
        cases: Cases = []
        for condition in conditions:
            try:
                cases += self._live([part.intersect(self._form_of(condition))])
            except canonical.CanonicalizationError:
                self._is_narrowed = True
            if cases and self._stops_early:
                break
        return cases

    def _failing(self, view: canonical.ObjectView) -> Iterator[Any]:
        """Schemas whose values all fail the view; some other values fail it too."""
        yield {"not": {"type": "object"}}
        yield from ({"type": "object", "properties": {key: _NOTHING}} for key in view.required)
        for key, schema in view.properties.items():
            if (opposite := self._opposite(schema)) is not None:
                yield {"type": "object", "required": [key], "properties": {key: opposite}}

    def _opposite(self, schema: CanonicalSchema) -> Any:
        """What a schema does not admit, as JSON Schema; None if that is not known, or takes long to find."""
        if schema not in self._opposites:
            self._opposites[schema] = None
            with suppress(canonical.CanonicalizationError):
                opposite = None if _has_exclusive(schema) else schema.negate().to_json_schema()
                if not (isinstance(opposite, dict) and "$ref" in str(opposite)):
                    self._opposites[schema] = opposite
        return self._opposites[schema]

    def _live(self, cases: Iterator[CanonicalSchema] | Cases) -> Cases:
        """The cases that are not known to be empty, without duplicates."""
        live: Cases = []
        for part in cases:
            if part.satisfiability() != canonical.Satisfiability.NO and part not in live:
                live.append(part)
            if len(live) > self._max_cases:
                raise TooManyCases(f"it has more than {self._max_cases} cases")
        return live


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _has_exclusive(schema: CanonicalSchema) -> bool:
    """Whether it combines others by a symbolic `oneOf`: its negation takes long, and mostly has no form."""
    match schema.view():
        case canonical.OneOfView():
            return True
        case canonical.AllOfView(branches) | canonical.AnyOfView(branches):
            return any(map(_has_exclusive, branches))
        case canonical.NotView(inner) | canonical.TypedGroupView(_, inner):
            return _has_exclusive(inner)
        case _:
            return False


def _has_exclusive_member(schema: CanonicalSchema) -> bool:
    """Whether it is an object with a property of which `_has_exclusive` holds."""
    match schema.view():
        case canonical.ObjectView() as view:
            return any(map(_has_exclusive, view.properties.values()))
        case _:
            return False


def _branches(schema: CanonicalSchema) -> Iterator[CanonicalSchema]:
    match schema.view():
        case canonical.AnyOfView(branches):
            yield from branches
        case _:
            yield schema


def _subtraction(schema: CanonicalSchema, other: CanonicalSchema) -> CanonicalSchema:
    return _checked(schema.subtract(other))


def _union(first: CanonicalSchema, second: CanonicalSchema) -> CanonicalSchema:
    return _checked(first.union(second))


def _checked(schema: CanonicalSchema) -> CanonicalSchema:
    """The schema, unless it has too many alternatives."""
    match schema.view():
        case canonical.AnyOfView(branches) if len(branches) > MAX_ALONE:
            raise TooManyCases(f"it has more than {MAX_ALONE} cases")
    return schema


def _are_disjoint(first: CanonicalSchema, second: CanonicalSchema) -> bool:
    try:
        return first.intersect(second).satisfiability() == canonical.Satisfiability.NO
    except canonical.CanonicalizationError:
        return False


def _unequal(value: Any, prefix: str) -> list[Any]:
    """Schemas whose union is every value except this one; `prefix` is the keyword for the first items."""
    match value:
        case list():
            return [
                {"not": {"type": "array"}},
                *([{"type": "array", "maxItems": len(value) - 1}] if value else ()),
                {"type": "array", "minItems": len(value) + 1},
                *(
                    {"type": "array", "minItems": index + 1, prefix: [*[{}] * index, other]}
                    for index, item in enumerate(value)
                    for other in _unequal(item, prefix)
                ),
            ]
        case dict():
            return [
                {"not": {"type": "object"}},
                {"type": "object", "minProperties": len(value) + 1},
                *({"type": "object", "properties": {key: _NOTHING}} for key in value),
                *(
                    {"type": "object", "required": [key], "properties": {key: other}}
                    for key, item in value.items()
                    for other in _unequal(item, prefix)
                ),
            ]
        case _:
            return [{"not": {"enum": [value]}}]
