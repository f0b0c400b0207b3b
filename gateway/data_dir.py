"""The folder `data_dir`, where the gateway keeps its own files: its secret, and its database by default."""

import logging
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from gateway.errors import SettingsError
from gateway.settings import DATABASE, Settings, is_loopback
from runtime.engines.settings import MIN_SECRET_BYTES, key_of
from toolspecs.errors import InvalidStoreURL
from toolspecs.store import Store
from toolspecs.stores import file_of, open_store

_log = logging.getLogger(__name__)


def read_secret(settings: Settings) -> bytes:
    """The key that signs stored grammars: the setting, or a key that is made once and kept in `data_dir`.

    Raises:
        SettingsError: the key is too short, or `data_dir` cannot be written to.
    """
    if settings.secret is not None:
        return _checked_secret(settings.secret.encode(), "", "make one with `openssl rand -hex 32`")
    path = Path(settings.data_dir, "secret")
    make_data_dir(settings)
    try:
        if not path.exists():
            _make_secret(path)
        secret = path.read_bytes()
    except OSError as error:
        raise _bad_data_dir(settings, error) from error
    return _checked_secret(secret, str(path), "delete the file, and the next start makes a new key")


def warn_of_own_secret(settings: Settings) -> None:
    """Log a warning if other gateways may share the store but cannot know this gateway's own secret."""
    if settings.shares_store and settings.secret is None:
        _log.warning(
            "the store can be shared, but `secret` is not set: gateways with different secrets ignore each"
            " other's stored grammars and compile their own; give all of them the same `secret`"
        )


def warn_of_own_file(settings: Settings) -> None:
    """Log a warning if engines on other machines read grammars from a store that is a file on this one."""
    urls = [url for model in settings.served_models if model.reads_store for url in model.engine_url]
    others = [url for url in urls if not is_loopback(urlsplit(url).hostname or "")]
    if others and not settings.shares_store:
        _log.warning(
            "the engine %s reads grammars from the store, which is a file on this machine; use a Redis that"
            " both reach (--store redis://HOST/0), or set engine_units = 'inline'",
            others[0],
        )


def open_store_of(settings: Settings) -> Store:
    """The store of the settings. Only the default store gets its folder created.

    Raises:
        SettingsError: its URL is wrong, or `data_dir` cannot be written to.
    """
    if settings.store is None:
        make_data_dir(settings)
        _make_private(Path(settings.data_dir))
    with _wrong_urls_are_settings_errors():
        return open_store(settings.store_url)


def open_existing_store(settings: Settings) -> Store:
    """The store of the settings, unless it is a file that does not exist: nothing is created.

    Raises:
        SettingsError: its URL is wrong, or its file does not exist.
    """
    with _wrong_urls_are_settings_errors():
        path = file_of(settings.store_url)
    if path is not None and not path.exists():
        name = "data_dir" if settings.store is None else "store"
        raise SettingsError(name, "", f"there is no store {path}; choose another with --store or --data-dir")
    return open_store_of(settings)


@contextmanager
def _wrong_urls_are_settings_errors() -> Iterator[None]:
    try:
        yield
    except InvalidStoreURL as error:
        raise SettingsError("store", "", str(error)) from error


def make_data_dir(settings: Settings) -> None:
    """Create the folder `data_dir` if it is missing; raises SettingsError."""
    try:
        Path(settings.data_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _bad_data_dir(settings, error) from error


def _make_private(folder: Path) -> None:
    """Remove other users' access to the default database, which earlier versions allowed."""
    for path in folder.glob(f"{DATABASE}*"):
        with suppress(OSError):  # another user owns it
            path.chmod(path.stat().st_mode & 0o700)


def _make_secret(path: Path) -> None:
    """Write a new key, readable by the owner only. If several processes do so at once, the first one wins.

    The file gets its name only when it is complete, so that no other process reads a part of it.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".secret-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_hex(32).encode())
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        Path(temporary).unlink()


def _checked_secret(secret: bytes, source: str, remedy: str) -> bytes:
    """The key, unless it is too short; raises SettingsError."""
    key = key_of(secret)
    if len(key) < MIN_SECRET_BYTES:
        reason = f"the key has {len(key)} bytes, but it needs at least {MIN_SECRET_BYTES}; {remedy}"
        raise SettingsError("secret", source, reason)
    return key


def _bad_data_dir(settings: Settings, error: OSError) -> SettingsError:
    folder = Path(settings.data_dir).absolute()
    reason = f"{str(folder)!r} is not a folder that can be written to ({error.strerror})"
    return SettingsError(
        "data_dir", "", f"{reason}; choose another with --data-dir, it is created if it does not exist"
    )
