"""Liveness and readiness."""

from typing import Any

from litestar import Response, get

from gateway.parts import WiredParts


@get("/healthz", sync_to_thread=False)
def healthz() -> dict[str, Any]:
    """The process answers."""
    return {"status": "ok"}


@get("/readyz")
async def readyz(parts: WiredParts) -> Response[dict[str, Any]]:
    """Whether requests can be served, and if not, why."""
    reason = await parts.unready_reason()
    if reason:
        return Response({"status": "unready", "reason": reason}, status_code=503)
    return Response({"status": "ready"})
