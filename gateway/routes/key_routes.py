"""The routes that make, list, rotate and revoke API keys. Only the answer that makes a key contains it."""

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from litestar import Controller, delete, get, post
from litestar.params import FromPath, FromQuery
from msgspec import Meta

from gateway.access.api_keys import DEFAULT_GRACE_S, MAX_GRACE_S, KeyRecord, KeyTerms, MadeKey
from gateway.http.conversion import convert
from gateway.http.error_shapes import KEYS
from gateway.routes.request_context import PageSize, WiredContext, check_query
from gateway.services import WiredServices
from toolspecs.json_value import JSON


class RotationBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `rotate`: how long the old secret is good, in seconds."""

    grace_seconds: Annotated[float, Meta(ge=0, le=MAX_GRACE_S)] = DEFAULT_GRACE_S


class KeyController(Controller):
    """`/v1/keys`."""

    path = KEYS

    @post(status_code=201)
    async def create_key(self, context: WiredContext) -> JSON:
        """Make a key. Only this answer contains it: the store keeps its SHA-256."""
        terms = convert(await context.read_body(), KeyTerms)
        return _made_json(await context.services.keys.create(terms))

    @get(before_request=check_query)
    async def list_keys(
        self, services: WiredServices, after: FromQuery[str | None] = None, limit: PageSize = 1000
    ) -> JSON:
        """A page of the keys after the one with the id `after`, without their secrets, the oldest first."""
        page = await services.keys.page(after, limit)
        return {"keys": [key_json(record) for record in page.items], "next": page.next_key}

    @get("/{key_id:str}")
    async def get_key(self, key_id: FromPath[str], services: WiredServices) -> JSON:
        """One key, without its secret."""
        return key_json(await services.keys.get(key_id))

    @post("/{key_id:str}/rotate", status_code=200)
    async def rotate_key(self, key_id: FromPath[str], context: WiredContext) -> JSON:
        """Give a key a new secret; the old one is good for `grace_seconds` more, by default a day."""
        submitted = await context.read_body(is_optional=True)
        body = convert(submitted, RotationBody)
        return _made_json(await context.services.keys.rotate(key_id, body.grace_seconds))

    @delete("/{key_id:str}")
    async def revoke_key(self, key_id: FromPath[str], services: WiredServices) -> None:
        """Revoke a key; gateways that have just seen it let it in for five seconds more."""
        await services.keys.revoke(key_id)


def key_json(record: KeyRecord) -> JSON:
    """A key without its secret."""
    old = record.secrets[1].ends_at if len(record.secrets) > 1 else None
    terms = {name: _plain(getattr(record.terms, name)) for name in KeyTerms.__struct_fields__}
    return {
        "id": record.key_id,
        **terms,
        "created_at": _plain(record.created_at),
        "is_expired": record.is_expired(datetime.now(UTC)),
        "old_secret_ends_at": _plain(old),
    }


def _made_json(made: MadeKey) -> JSON:
    return {**key_json(made.record), "key": made.text}


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
