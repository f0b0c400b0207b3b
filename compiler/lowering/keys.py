"""Lowering of keys: the names that a schema of strings admits, with their quotes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.grammar.grammar import union
from compiler.lowering.views import strings_of
from compiler.scalars.strings import StringConstraint

if TYPE_CHECKING:
    from jsonschema_rs import CanonicalSchema

    from compiler.frontend.outline import Site
    from compiler.grammar.grammar import Expr
    from compiler.lowering.lowering import Lowering


def lower_key(lowering: Lowering, schema: CanonicalSchema, site: Site) -> Expr | None:
    """The keys that a schema admits in an object at a place; None if there is none.

    Raises:
        UnsupportedSchema: which keys these are cannot be told.
    """
    found = strings_of(schema, lambda inner: lowering.unfold(inner, site))
    return union([_lower(lowering, strings, site) for strings in found])


def _lower(lowering: Lowering, strings: StringConstraint | list[str], site: Site) -> Expr | None:
    if isinstance(strings, StringConstraint):
        return lowering.string(strings, site, is_key=True)
    return union([lowering.style.text(name) for name in strings])
