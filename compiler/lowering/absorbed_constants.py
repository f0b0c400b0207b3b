"""Takes constants out of alternatives that canonicalization added because another alternative admits them.

Beside `{"type": "wait"}`, which may have any other keys, `{"type": "click", "x": 3}` becomes
`{"type": "click" or "wait", "x": 3}`. That is the same union. But where undeclared keys are left out,
`wait` would have the keys of `click`.
"""

from collections.abc import Iterator, Sequence

from jsonschema_rs import CanonicalSchema, canonical

from compiler.frontend.symbolic_forms import form_of
from compiler.lowering.constraints import listed_values


def without_absorbed(schemas: Sequence[CanonicalSchema]) -> list[CanonicalSchema]:
    """The same union; no object has a constant with which another one admits all that it does."""
    alternatives = list(schemas)
    for index, schema in enumerate(schemas):
        view = schema.view()
        if not isinstance(view, canonical.ObjectView):
            continue
        others = [other.view() for other in alternatives[:index] + alternatives[index + 1 :]]
        for key, values in _constants(view):
            own = [value for value in values if not any(_admits(other, view, key, value) for other in others)]
            if 0 < len(own) < len(values):
                with_own = form_of({"properties": {key: {"enum": own}}}, schema.draft)
                alternatives[index] = alternatives[index].intersect(with_own)
    return alternatives


def _constants(view: canonical.ObjectView) -> Iterator[tuple[str, list[str]]]:
    """The required keys for which several texts are listed."""
    for key in view.required:
        values = listed_values(view.properties.get(key))
        if values is not None and len(values) > 1 and all(isinstance(value, str) for value in values):
            yield key, values


def _admits(other: object, view: canonical.ObjectView, key: str, value: str) -> bool:
    """Whether `other` certainly admits every object of the view that has the value under the key."""
    if not isinstance(other, canonical.ObjectView) or not set(other.required) <= set(view.required):
        return False
    limits = other.min_properties, other.max_properties, other.property_names, other.additional_properties
    if any(limit is not None for limit in limits) or other.pattern_properties or other.violations:
        return False
    if value not in (listed_values(other.properties.get(key)) or ()):
        return False
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
