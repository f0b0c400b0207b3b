"""The routes about the state of the gateway: probes, metrics, the version."""

import asyncio
from typing import Any

from litestar import HttpMethod, Response, get, route
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4 as PROMETHEUS_TEXT

from gateway.errors import NoMetrics
from gateway.services import LOST, WiredServices
from gateway.version import VERSION

PROBED = (HttpMethod.GET, HttpMethod.HEAD)
"""The methods of monitors; the server sends no body to HEAD."""


@route(["/healthz", "/health", "/ping"], http_method=PROBED)
async def healthz(services: WiredServices) -> Response[dict[str, Any]]:
    """200 while the process works; 503 when only a restart helps."""
    health = await services.runtime.health()
    if health.is_lost:
        return Response({"status": "failed", "reason": LOST}, status_code=503)
    return Response({"status": "ok"})


@route("/readyz", http_method=PROBED)
async def readyz(services: WiredServices) -> Response[dict[str, Any]]:
    """Whether requests can be served; if not, why."""
    reason = await services.unready_reason()
    if reason:
        return Response({"status": "unready", "reason": reason}, status_code=503)
    return Response({"status": "ready"})


@get("/metrics")
async def metrics(services: WiredServices) -> Response[bytes]:
    """The metrics of all clients together, in Prometheus' text format."""
    if services.meters.registry is None:
        raise NoMetrics
    text = await asyncio.to_thread(services.meters.text)
    return Response(text, media_type=PROMETHEUS_TEXT.partition("; charset")[0])  # Litestar adds it


@get("/version")
async def version() -> dict[str, Any]:
    """The gateway's version."""
    return {"version": VERSION}


HEALTH_ROUTES = (healthz, readyz, metrics, version)
