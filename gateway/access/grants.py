"""Grants: what a request may do. Every key has one; without authentication, a grant allows everything.

`gateway/access/route_scopes.py` says which scopes each route needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

GRANT = "callgate.grant"
"""Where a request's scope holds its grant, once `AccessControl` has let it in."""


class KeyScope(StrEnum):
    """What keys are for. `metrics`, the scope of the keys in `metrics_key_file`, opens only `/metrics`."""

    INVOKE = "invoke"
    REGISTER = "register"
    ADMIN = "admin"
    METRICS = "metrics"


ALL_SCOPES = frozenset(KeyScope)


@dataclass(frozen=True, slots=True)
class Grant:
    """What the requests of one key may do.

    Fields that are None are not restricted.
    """

    scopes: frozenset[KeyScope] = ALL_SCOPES
    key_id: str = ""
    """Names the key in the log, and reveals nothing about its secret; empty without authentication."""
    client_id: str = ""
    """The principal's `client_id`; empty if the client's address identifies it."""
    owner: str = ""
    """The principal's `owner`."""
    tenant: str | None = None
    """Whose toolsets the requests see."""
    toolsets: frozenset[str] | None = None
    models: frozenset[str] | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    @property
    def sees_all(self) -> bool:
        """Whether it sees everything: it has no tenant and no restriction."""
        return self.tenant is None and self.toolsets is None and self.models is None

    @property
    def has_limits(self) -> bool:
        """Whether it has limits per minute."""
        return self.requests_per_minute is not None or self.tokens_per_minute is not None

    def has_any(self, needed: frozenset[KeyScope]) -> bool:
        """Whether it has one of the scopes that a route accepts."""
        return not self.scopes.isdisjoint(needed)


def grant_of(scope: Mapping[str, Any]) -> Grant | None:
    """The grant of a request that `AccessControl` has let in; None if it came without a key."""
    grant: Grant | None = scope.get(GRANT)
    return grant
