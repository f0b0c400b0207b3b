"""Lowering of keys: the names that a schema of strings admits, with their quotes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jsonschema_rs import canonical

from compiler.grammar import union
from compiler.strings import StringConstraint
from compiler.views import string_constraint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jsonschema_rs import CanonicalSchema

    from compiler.grammar import Expr
    from compiler.lowering import Lowering
    from compiler.outline import Site


def lower_key(lowering: Lowering, schema: CanonicalSchema, site: Site) -> Expr | None:  # noqa: PLR0911 - one case per view
    """The keys that a schema admits in an object at a place; None if there is none.

    Raises:
        UnsupportedSchema: which keys these are cannot be told.
    """
    match schema.view():
        case canonical.ConstView(str() as name):
            return lowering.style.text(name)
        case canonical.EnumView(values):
            return union([lowering.style.text(name) for name in values if isinstance(name, str)])
        case canonical.MultiTypeView(types) if "string" not in types:
            return None
        case canonical.TrueView() | canonical.MultiTypeView():
            return lowering.string(StringConstraint(), site, is_key=True)
        case canonical.StringView() as view:
            return lowering.string(string_constraint(view, schema.draft), site, is_key=True)
        case canonical.AnyOfView(branches):
            return _any_key(lowering, branches, site)
        case canonical.RawView():
            raise lowering.reporter.refusal(site, "propertyNames", "the names cannot be resolved")
        case (
            canonical.ReferenceView()
            | canonical.NotView()
            | canonical.AllOfView()
            | canonical.OneOfView()
            | canonical.TypedGroupView()
        ):
            return _any_key(lowering, lowering.unfold(schema, site), site)
        case _:  # of another type than strings
            return None


def _any_key(lowering: Lowering, schemas: Iterable[CanonicalSchema], site: Site) -> Expr | None:
    return union([lower_key(lowering, schema, site) for schema in schemas])
