"""Takes constants out of alternatives that canonicalization added because another alternative admits them.

Beside `{"type": "wait"}`, which may have any other keys, `{"type": "click", "x": 3}` becomes
`{"type": "click" or "wait", "x": 3}`. That is the same union. But where undeclared keys are left out,
`wait` would have the keys of `click`.
"""

from collections.abc import Iterator, Sequence

from jsonschema_rs import CanonicalSchema, canonical

from compiler.frontend.symbolic_forms import form_of
from compiler.lowering.constraints import Constant, constants_of


def without_absorbed(schemas: Sequence[CanonicalSchema]) -> list[CanonicalSchema]:
    """The same union; no object has a constant with which another one admits all that it does."""
    alternatives = list(schemas)
    objects = {i: view for i, each in enumerate(schemas) if (view := _object(each)) is not None}
    for index, view in list(objects.items()):
        for key, constants in _several_constants(view):
            others = [other for i, other in objects.items() if i != index]
            own = constants.difference(*(_admitted(other, view, key) for other in others))
            if own and own != constants:
                with_own = {"properties": {key: {"enum": [value for _, value in own]}}}
                alternatives[index] = alternatives[index].intersect(form_of(with_own, schemas[index].draft))
                objects[index] = _object(alternatives[index]) or view
    return alternatives


def _object(schema: CanonicalSchema) -> canonical.ObjectView | None:
    view = schema.view()
    return view if isinstance(view, canonical.ObjectView) else None


def _several_constants(view: canonical.ObjectView) -> Iterator[tuple[str, frozenset[Constant]]]:
    """The required keys for which several constants are listed."""
    for key in view.required:
        constants = constants_of(view.properties.get(key))
        if constants is not None and len(constants) > 1:
            yield key, constants


def _admitted(other: canonical.ObjectView, view: canonical.ObjectView, key: str) -> frozenset[Constant]:
    """The constants under the key with which `other` certainly admits every object of the view."""
    limits = other.min_properties, other.max_properties, other.property_names, other.additional_properties
    if any(limit is not None for limit in limits) or other.pattern_properties or other.violations:
        return frozenset()
    if not set(other.required) <= set(view.required) or not _admits_others(other, view, key):
        return frozenset()
    return constants_of(other.properties.get(key)) or frozenset()


def _admits_others(other: canonical.ObjectView, view: canonical.ObjectView, key: str) -> bool:
    """Whether `other` certainly admits what the view admits under all keys but the given one."""
    return all(
        name == key or (name in view.properties and _contains(schema, view.properties[name]))
        for name, schema in other.properties.items()
    )


def _contains(schema: CanonicalSchema, part: CanonicalSchema) -> bool:
    """Whether a schema certainly admits all values of another one."""
    if schema == part:
        return True
    try:
        return schema.intersect(part) == part
    except canonical.CanonicalizationError:
        return False
