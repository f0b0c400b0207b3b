"""`callgate engines`: the external engines that a running gateway uses."""

import msgspec

from gateway.commands.gateway_client import KeyOption, UrlOption, checked_answer, open_gateway
from gateway.commands.terminal import table


class _EngineReply(msgspec.Struct):
    model: str
    engine: str
    circuit: str
    reason: str | None
    version: str | None
    running: int
    served: int
    failed: int
    refused_tokens: int
    canary_age_s: float | None


class _EnginesReply(msgspec.Struct):
    data: list[_EngineReply]


def engines(*, url: UrlOption = None, api_key: KeyOption = None) -> None:
    """List the external engines: whether each takes requests, its load, and when its canary last passed."""
    with open_gateway(url, api_key) as (client, console):
        engines = checked_answer(client.get("/v1/engines"), _EnginesReply).data
        if not engines:
            console.print("No external engine: the models run in the gateway.")
            return
        columns = ("model", "engine", "takes requests", "version", "running", "served", "failed")
        listing = table(*columns, "refused tokens", "canary")
        for engine in engines:
            counts = map(str, (engine.running, engine.served, engine.failed, engine.refused_tokens))
            canary = "" if engine.canary_age_s is None else f"{engine.canary_age_s:.0f} s ago"
            takes = "yes" if engine.circuit == "closed" else f"no: {engine.reason or engine.circuit}"
            listing.add_row(engine.model, engine.engine, takes, engine.version or "", *counts, canary)
        console.print(listing)
