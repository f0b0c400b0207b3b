"""Grants: what a request may do. A key has one, and without authentication every request has the whole one.

`gateway/route_scopes.py` says which scopes each route needs.
"""

from dataclasses import dataclass
from enum import StrEnum

GRANT = "callgate.grant"
"""Where a request's scope holds its grant, once `AccessControl` has let it in."""


class KeyScope(StrEnum):
    """What keys are for. `metrics` opens `/metrics` alone, and is what keys of `metrics_key_file` have."""

    INVOKE = "invoke"
    REGISTER = "register"
    ADMIN = "admin"
    METRICS = "metrics"


ALL_SCOPES = frozenset(KeyScope)


@dataclass(frozen=True, slots=True)
class Grant:
    """What the requests of one key may do.

    `key_id` names the key in the log and tells nothing about its secret; without authentication it is empty.
    `share` and `owner` are those of the principal, empty where the client's address says who it is. `tenant`
    is whose toolsets it sees. Of what is None, it may use all.
    """

    scopes: frozenset[KeyScope] = ALL_SCOPES
    key_id: str = ""
    share: str = ""
    owner: str = ""
    tenant: str | None = None
    toolsets: frozenset[str] | None = None
    models: frozenset[str] | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    @property
    def sees_all(self) -> bool:
        """Whether there is nothing that it does not see: no tenant, and no bounds."""
        return self.tenant is None and self.toolsets is None and self.models is None

    @property
    def has_limits(self) -> bool:
        """Whether its requests are counted."""
        return self.requests_per_minute is not None or self.tokens_per_minute is not None

    def has_any(self, needed: frozenset[KeyScope]) -> bool:
        """Whether one of the scopes that a route needs is among its own."""
        return not self.scopes.isdisjoint(needed)
