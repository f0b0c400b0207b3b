"""API keys: with keys, a request needs `Authorization: Bearer KEY`; without keys, any program may call."""

import hmac
from collections.abc import Iterable, Iterator
from pathlib import Path

from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send

from gateway.errors import ForeignPage, SettingsError, Unauthorized
from gateway.settings import Settings

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Routes that need no key."""

MIN_KEY_LENGTH = 8


def read_keys(settings: Settings) -> tuple[str, ...]:
    """The keys of the settings `api_key` and `api_key_file`; raises SettingsError if the file gives none."""
    keys = [settings.api_key] if settings.api_key else []
    if settings.api_key_file:
        try:
            text = Path(settings.api_key_file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError("api_key_file", settings.api_key_file, str(error)) from error
        found = list(_keys_in(text, settings.api_key_file))
        if not found:
            raise SettingsError("api_key_file", settings.api_key_file, "the file holds no key")
        keys += found
    return tuple(keys)


def _keys_in(text: str, source: str) -> Iterator[str]:
    """The keys of a file, one per line. Blank lines and comments are skipped: no comment may become a key."""
    for number, line in enumerate(text.splitlines(), 1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if len(key) < MIN_KEY_LENGTH or len(key.split()) > 1:
            reason = (
                f"line {number} is not a key: a key has at least {MIN_KEY_LENGTH} characters and no blanks"
            )
            raise SettingsError("api_key_file", source, reason)
        yield key


def is_known(key: str, keys: Iterable[str]) -> bool:
    """Whether `key` is one of `keys`; the time that this takes does not depend on how similar they are."""
    matches = [hmac.compare_digest(key.encode(), known.encode()) for known in keys]
    return any(matches)


class ApiKeyMiddleware(ASGIMiddleware):
    """Refuses requests without a known key. If there are no keys, it refuses those of other sites' web pages.

    A browser sends the requests of every page from the user's own machine, and names the page's site in
    `Origin`.
    """

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Raise Unauthorized or ForeignPage, or pass the request on."""
        headers = dict(scope["headers"])
        if not self._keys:
            origin = headers.get(b"origin", b"").decode("latin-1")
            if origin and origin.partition("://")[2] != headers.get(b"host", b"").decode("latin-1"):
                raise ForeignPage(origin)
        elif scope["path"] not in OPEN_PATHS:
            scheme, _, key = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
            if scheme.lower() != "bearer" or not is_known(key.strip(), self._keys):
                raise Unauthorized
        await next_app(scope, receive, send)
