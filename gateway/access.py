"""Who may call: static API keys, sent as `Authorization: Bearer KEY`."""

import hmac
from collections.abc import Iterable, Iterator
from pathlib import Path

from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send

from gateway.errors import SettingsError, Unauthorized
from gateway.settings import Settings

OPEN_PATHS = frozenset({"/healthz", "/readyz"})


MIN_KEY_LENGTH = 8


def read_keys(settings: Settings) -> tuple[str, ...]:
    """The keys of `api_key` and `api_key_file`; raises SettingsError where the file gives none."""
    keys = [settings.api_key] if settings.api_key else []
    if settings.api_key_file:
        try:
            text = Path(settings.api_key_file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError("api_key_file", settings.api_key_file, str(error)) from error
        found = list(_keys_in(text, settings.api_key_file))
        if not found:
            raise SettingsError("api_key_file", settings.api_key_file, "it holds no key")
        keys += found
    return tuple(keys)


def _keys_in(text: str, source: str) -> Iterator[str]:
    """The keys of a file, but for blank lines and comments: no word of a comment may let anybody in."""
    for number, line in enumerate(text.splitlines(), 1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if len(key) < MIN_KEY_LENGTH or len(key.split()) > 1:
            reason = f"line {number} is no key: one has at least {MIN_KEY_LENGTH} characters and no blanks"
            raise SettingsError("api_key_file", source, reason)
        yield key


def is_known(key: str, keys: Iterable[str]) -> bool:
    """Whether `key` is among `keys`, in a time that does not tell how nearly."""
    matches = [hmac.compare_digest(key.encode(), known.encode()) for known in keys]
    return any(matches)


class ApiKeyMiddleware(ASGIMiddleware):
    """Refuses requests without a known key; no keys at all let everybody in."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Raise Unauthorized, or pass on."""
        if self._keys and scope["path"] not in OPEN_PATHS:
            headers = dict(scope["headers"])
            scheme, _, key = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
            if scheme.lower() != "bearer" or not is_known(key.strip(), self._keys):
                raise Unauthorized
        await next_app(scope, receive, send)
