"""`callgate keys`: manages the API keys of a store. Running gateways see the changes."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from gateway.access.api_keys import DEFAULT_GRACE_S, MAX_GRACE_S, ApiKeys, KeyRecord, KeyTerms, MadeKey
from gateway.commands.command_options import ConfigOption, with_store
from gateway.commands.terminal import errors_explained, output, table
from gateway.data_dir import open_existing_store, open_store_of
from gateway.http.conversion import convert
from gateway.setting_sources import load
from gateway.settings import Settings
from toolspecs.store import Store

keys = typer.Typer(help="API keys, in the store.", no_args_is_help=True)

T = TypeVar("T")

KeyArgument = Annotated[str, typer.Argument(help="The key's id, as `callgate keys list` shows it.")]


@keys.command()
@with_store()
def create(
    name: Annotated[str, typer.Argument(help="What the key is for, such as the name of an agent.")],
    *,
    scope: Annotated[
        list[str] | None,
        typer.Option(help="invoke (the default), register or admin; repeat it for several."),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(help="Tenant whose toolsets, and no others, the key sees.")
    ] = None,
    toolset: Annotated[
        list[str] | None, typer.Option(help="Toolset that the key may use; by default all.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Model that the key may use; by default all.")
    ] = None,
    requests_per_minute: Annotated[int | None, typer.Option(help="Most requests in a minute.")] = None,
    tokens_per_minute: Annotated[
        int | None, typer.Option(help="Most tokens in a minute, of prompts and answers.")
    ] = None,
    expires_in_days: Annotated[
        float | None, typer.Option(min=0, max=36_500, help="Days until the key expires; by default never.")
    ] = None,
    config: ConfigOption = None,
    **options: Any,
) -> None:
    """Make a key and print it: it cannot be shown again. The first one needs `--scope admin`."""
    with errors_explained():
        terms = {
            "name": name,
            "scopes": scope or ["invoke"],
            "tenant": tenant,
            "toolsets": toolset or None,
            "models": model or None,
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
            "expires_at": _in_days(expires_in_days),
        }
        _show(_done(options, config, lambda keys: keys.create(convert(terms, KeyTerms)), open_store_of))


@keys.command("list")
@with_store()
def list_all(*, config: ConfigOption = None, **options: Any) -> None:
    """List all keys, without their secrets."""
    with errors_explained():
        records = _done(options, config, lambda keys: keys.records())
    listing = table("id", "name", "scopes", "tenant", "bound to", "a minute", "expires")
    now = datetime.now(UTC)
    for record in records:
        listing.add_row(*_row(record, now))
    output().print(listing)


@keys.command()
@with_store()
def rotate(
    key_id: KeyArgument,
    *,
    grace_seconds: Annotated[
        float, typer.Option(min=0, max=MAX_GRACE_S, help="How long the old secret is good.")
    ] = DEFAULT_GRACE_S,
    config: ConfigOption = None,
    **options: Any,
) -> None:
    """Give a key a new secret and print it; the old one is good for a while."""
    with errors_explained():
        _show(_done(options, config, lambda keys: keys.rotate(key_id, grace_seconds)))


@keys.command()
@with_store()
def revoke(key_id: KeyArgument, *, config: ConfigOption = None, **options: Any) -> None:
    """Revoke a key; gateways that have just seen it let it in for five seconds more."""
    with errors_explained():
        _done(options, config, lambda keys: keys.revoke(key_id))
    typer.echo(f"revoked {key_id}", err=True)


def _done(
    options: dict[str, Any],
    config: Path | None,
    work: Callable[[ApiKeys], Awaitable[T]],
    open_store: Callable[[Settings], Store] = open_existing_store,
) -> T:
    """The result of `work` on the keys of the store in the settings."""
    settings = load(options, config=config)

    async def worked() -> T:
        store = open_store(settings)
        try:
            return await work(ApiKeys(store))
        finally:
            await store.close()

    return asyncio.run(worked())


def _show(new_key: MadeKey) -> None:
    """Print the key alone on standard output, for scripts."""
    message = f"key {new_key.record.key_id}, {new_key.record.terms.name!r}; it is shown once:"
    typer.echo(message, err=True)
    typer.echo(new_key.text)


def _in_days(days: float | None) -> datetime | None:
    return None if days is None else datetime.now(UTC) + timedelta(days=days)


def _row(record: KeyRecord, now: datetime) -> tuple[str, ...]:
    terms = record.terms
    bounds = [*(terms.toolsets or ()), *(f"model {name}" for name in terms.models or ())]
    limits = {"requests": terms.requests_per_minute, "tokens": terms.tokens_per_minute}
    expires = terms.expires_at.isoformat(timespec="minutes") if terms.expires_at else ""
    return (
        record.key_id,
        terms.name,
        ", ".join(terms.scopes),
        terms.tenant or "",
        ", ".join(bounds),
        ", ".join(f"{limit} {kind}" for kind, limit in limits.items() if limit is not None),
        f"expired {expires}" if record.is_expired(now) else expires,
    )
