"""Containment: whether one schema admits all that another does."""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
from jsonschema_rs import canonical


def covers(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> bool:
    """Whether `outer` is proved to admit all that `inner` admits; formats are annotations here."""
    outer_set, inner_set = (jsonschema_rs.canonicalize(dict(s), offline=True) for s in (outer, inner))
    return bool(outer_set.covers(inner_set) == canonical.Containment.YES)
