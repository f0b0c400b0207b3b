"""The settings of a plugin inside an engine: what it needs to read the gateway's grammars.

They come from the environment of the engine, by the names of the gateway's settings. No other module of a
plugin reads the environment.

| variable | what |
|---|---|
| `CALLGATE_STORE` | URL of the store that the gateways use; `none`: grammars come with requests |
| `CALLGATE_STORE_PASSWORD` | password of the Redis in it, if the URL holds none |
| `CALLGATE_SECRET` | the gateways' secret, or |
| `CALLGATE_SECRET_FILE` | a file that holds it, such as `secret` in the gateway's `data_dir` |
| `CALLGATE_GRAMMAR_CACHE_BYTES` | memory for grammars, 1 GiB by default |
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolspecs.stores import with_password

_STORE, _PASSWORD = "CALLGATE_STORE", "CALLGATE_STORE_PASSWORD"
_SECRET, _SECRET_FILE = "CALLGATE_SECRET", "CALLGATE_SECRET_FILE"
_CACHE_BYTES = "CALLGATE_GRAMMAR_CACHE_BYTES"
MIN_SECRET_BYTES = 16
NO_STORE = "none"
DEFAULT_CACHE_BYTES = 2**30


class PluginSettingsError(ValueError):
    """A variable of the environment is missing or bad; the message names it and what to do."""


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """Where the units are, the secret that signs units and marks, and the memory for compiled grammars.

    With `store_url` None, units come only with requests.
    """

    store_url: str | None = field(repr=False)
    secret: bytes = field(repr=False)
    cache_bytes: int

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "PluginSettings | None":
        """Read the settings; None if none of them is set, as in an engine that serves no gateway.

        Raises:
            PluginSettingsError: some are set, and others are missing or bad.
        """
        environment = os.environ if environment is None else environment
        store, secret, path = (environment.get(name) for name in (_STORE, _SECRET, _SECRET_FILE))
        if not (store or secret or path):
            return None
        if not store:
            raise PluginSettingsError(
                f"{_STORE} is not set; set it to the URL of the gateway's store, or to {NO_STORE!r} where the"
                " gateway sends grammars with its requests (`engine_units` is `inline`)"
            )
        return cls(
            None if store == NO_STORE else with_password(store, environment.get(_PASSWORD)),
            _secret(secret, path),
            _positive(environment.get(_CACHE_BYTES), DEFAULT_CACHE_BYTES),
        )


def key_of(secret: bytes) -> bytes:
    """The key of a secret, without line breaks at its end, as editors and shells add them."""
    return secret.rstrip(b"\r\n")


def _secret(secret: str | None, path: str | None) -> bytes:
    if secret:
        key = key_of(secret.encode())
    elif path:
        try:
            key = key_of(Path(path).read_bytes())
        except OSError as error:
            raise PluginSettingsError(
                f"{_SECRET_FILE}: {path!r} cannot be read ({error.strerror})"
            ) from error
    else:
        raise PluginSettingsError(
            f"neither {_SECRET} nor {_SECRET_FILE} is set; the engine needs the secret of its gateway"
        )
    if len(key) < MIN_SECRET_BYTES:
        raise PluginSettingsError(
            f"the secret has {len(key)} bytes, but it needs at least {MIN_SECRET_BYTES}"
        )
    return key


def _positive(text: str | None, default: int) -> int:
    if text is None:
        return default
    if not text.isdecimal():
        raise PluginSettingsError(f"{_CACHE_BYTES} must be a number of bytes, not {text[:40]!r}")
    return int(text)
