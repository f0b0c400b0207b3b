"""The API keys in the settings: clients' keys, which may do everything, and keys that only open `/metrics`.

They do not change while the gateway runs. Keys that are made and revoked are in the store
(`gateway/access/api_keys.py`).
"""

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gateway.access.grants import ALL_SCOPES, Grant, KeyScope
from gateway.errors import SettingsError
from gateway.settings import Settings

MIN_KEY_LENGTH = 8


@dataclass(frozen=True, slots=True)
class ConfiguredKeys:
    """The keys in the settings. If there are `metrics_keys`, only they open `/metrics`, and nothing else."""

    keys: tuple[str, ...] = ()
    metrics_keys: tuple[str, ...] = ()
    is_required: bool = False
    """Whether clients need keys even if there are none here, but in the store."""

    @classmethod
    def read(cls, settings: Settings) -> "ConfiguredKeys":
        """Read the keys.

        Raises:
            SettingsError: a file has no key, or the one of metrics keys has a client's key.
        """
        own = (settings.api_key,) if settings.api_key else ()
        keys = (*own, *_keys_of_file("api_key_file", settings.api_key_file))
        metrics_keys = _keys_of_file("metrics_key_file", settings.metrics_key_file)
        if settings.metrics_key_file and not set(metrics_keys).isdisjoint(keys):
            reason = "one of its keys is an API key too, but a metrics key opens only /metrics; make another"
            raise SettingsError("metrics_key_file", settings.metrics_key_file, reason)
        return cls(keys, metrics_keys, settings.require_keys)

    @property
    def are_needed(self) -> bool:
        """Whether clients need keys."""
        return self.is_required or bool(self.keys)

    def grant_of(self, headers: Mapping[bytes, bytes]) -> Grant | None:
        """The grant of the key that a request sends; None if it sends none of these keys."""
        for sent in keys_sent(headers):
            if known_key(sent, self.metrics_keys):
                return Grant(frozenset({KeyScope.METRICS}), "metrics")
            if key := known_key(sent, self.keys):
                digest = hashlib.sha256(key.encode()).hexdigest()
                # Its place among the keys, since a short key could be guessed from its digest.
                key_id = f"settings-{self.keys.index(key) + 1}"
                return Grant(self.scopes_of(ALL_SCOPES), key_id, f"key {digest[:16]}", digest[:32])
        return None

    def scopes_of(self, scopes: frozenset[KeyScope]) -> frozenset[KeyScope]:
        """`scopes`, without `metrics` if there are metrics keys."""
        return scopes - {KeyScope.METRICS} if self.metrics_keys else scopes


def _keys_of_file(setting: str, path: str | None) -> tuple[str, ...]:
    """The keys of the file that a setting names; none if it names no file."""
    if not path:
        return ()
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SettingsError(setting, path, f"{reason}; it must be a file of keys, one per line") from error
    keys = tuple(_keys_in(text, setting, path))
    if not keys:
        raise SettingsError(setting, path, "the file has no key; write one per line")
    return keys


def _keys_in(text: str, setting: str, source: str) -> Iterator[str]:
    """The keys of a file, one per line. Blank lines and comments are skipped: no comment may become a key."""
    for number, line in enumerate(text.splitlines(), 1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if len(key) < MIN_KEY_LENGTH or len(key.split()) > 1:
            reason = (
                f"line {number} is not a key: a key has at least {MIN_KEY_LENGTH} characters and no blanks"
            )
            raise SettingsError(setting, source, reason)
        yield key


def known_key(sent: bytes, keys: Iterable[str]) -> str | None:
    """The one of `keys` that was sent, or None. Its time does not depend on how similar the keys are.

    A header is bytes. Clients encode a key beyond ASCII as UTF-8 or as Latin-1.
    """
    matches = [
        known for known in keys for spelling in _spellings(known) if hmac.compare_digest(sent, spelling)
    ]
    return matches[0] if matches else None


def _spellings(key: str) -> Iterator[bytes]:
    yield key.encode()
    with suppress(UnicodeEncodeError):
        yield key.encode("latin-1")


def keys_sent(headers: Mapping[bytes, bytes]) -> Iterator[bytes]:
    """The keys of a request: OpenAI's clients send them in `Authorization`, Anthropic's in `X-API-Key`."""
    scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        yield key.strip()
    if b"x-api-key" in headers:
        yield headers[b"x-api-key"].strip()
