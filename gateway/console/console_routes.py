"""The routes of the console. They need no key: what they send is the same in every gateway of a version."""

from collections.abc import Mapping
from typing import Any

from litestar import Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

from gateway.console.asset_files import Asset, read_assets
from gateway.http.headers import HttpRequest
from toolspecs.toolset import etag_matches

CONSOLE_PATH = "/console"

_SECURITY: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; object-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
"""Pages run only what comes from here, call only this gateway, and stand in no frame of another page."""

_FOR_GOOD = "public, max-age=31536000, immutable"


@get("/")
async def root_page() -> Response[bytes]:
    """Leads a browser to the console; by a relative place, since a proxy may have added a prefix."""
    return _redirect(307, CONSOLE_PATH.removeprefix("/"))


@get(CONSOLE_PATH, sync_to_thread=True)
def console_page(request: HttpRequest) -> Response[bytes | None]:
    """The console's one HTML page; 304 if the browser has it."""
    if request.scope.get("raw_path", b"").endswith(b"/"):  # the page's links begin at the folder above
        return _redirect(308, f"..{CONSOLE_PATH}")
    assets = read_assets()
    etag = f'"{assets.digest}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if etag_matches(request.headers.get("if-none-match", ""), etag, allows_weak=True):
        return Response(None, status_code=304, headers={**_SECURITY, **headers})
    return _asset_response(assets.page, headers)


@get(f"{CONSOLE_PATH}/{{digest:str}}/{{path:path}}", sync_to_thread=True)
def console_file(digest: FromPath[str], path: FromPath[str]) -> Response[bytes | None]:
    """A file of the console. Another version's digest finds nothing: versions do not mix."""
    assets = read_assets()
    asset = assets.files.get(path.removeprefix("/"))
    if asset is None or digest != assets.digest:
        raise NotFoundException
    return _asset_response(asset, {"Cache-Control": _FOR_GOOD})


def _redirect(status: int, place: str) -> Response[Any]:
    """An answer without a body; of None, Litestar would make the JSON `null`."""
    return Response(b"", status_code=status, media_type="text/plain", headers={"Location": place})


def _asset_response(asset: Asset, headers: Mapping[str, str]) -> Response[bytes | None]:
    return Response(asset.content, media_type=asset.media_type, headers={**_SECURITY, **headers})


CONSOLE_ROUTES = (root_page, console_page, console_file)
