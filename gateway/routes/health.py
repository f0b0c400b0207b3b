"""Liveness and readiness."""

from typing import Any

from litestar import Response, get

from gateway.parts import WiredParts


@get("/healthz")
async def healthz(parts: WiredParts) -> Response[dict[str, Any]]:
    """The process answers, and starting it anew would mend nothing."""
    health = await parts.runtime.health()
    if health.is_lost:
        return Response({"status": "failed", "reason": health.reason}, status_code=503)
    return Response({"status": "ok"})


@get("/readyz")
async def readyz(parts: WiredParts) -> Response[dict[str, Any]]:
    """Whether requests can be served, and if not, why."""
    reason = await parts.unready_reason()
    if reason:
        return Response({"status": "unready", "reason": reason}, status_code=503)
    return Response({"status": "ready"})
