"""The folder of the gateway's own files: the secret, and the default store."""

import pytest
from secret_readers import secrets_of_processes

from gateway.data_dir import read_secret, warn_of_own_file, warn_of_own_secret
from gateway.errors import SettingsError
from gateway.server import reach_store
from gateway.settings import Settings


def test_gateways_that_start_at_once_share_one_whole_secret(tmp_path):
    [secret] = secrets_of_processes(str(tmp_path), 4)
    assert len(secret) >= 32
    assert [path.name for path in tmp_path.iterdir()] == ["secret"], "no temporary file is left"


@pytest.mark.parametrize("content", [b"", b"\n", b"too short"])
def test_a_secret_file_without_a_whole_key_is_refused(tmp_path, content):
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(SettingsError, match=r"'secret' from .*/secret: .*at least 16.*delete") as error:
        read_secret(Settings(data_dir=str(tmp_path)))
    assert "too short" not in str(error.value)


@pytest.mark.parametrize("secret", ["", "hunter2"])
def test_a_short_secret_is_refused(tmp_path, secret):
    with pytest.raises(SettingsError, match=r"'secret': .*at least 16") as error:
        read_secret(Settings(data_dir=str(tmp_path), secret=secret))
    assert "hunter2" not in str(error.value)


def test_the_secret_is_made_once_and_for_the_owner_only(tmp_path):
    settings = Settings(data_dir=str(tmp_path / "new"))
    secret = read_secret(settings)
    assert len(secret) >= 32
    assert read_secret(settings) == secret
    assert (tmp_path / "new" / "secret").stat().st_mode & 0o077 == 0
    assert read_secret(Settings(secret="0123456789abcdef")) == b"0123456789abcdef"


def test_a_data_dir_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in ("file", "file/folder"):
        with pytest.raises(SettingsError, match=f"data_dir.*{folder}' is not a folder"):
            read_secret(Settings(data_dir=str(tmp_path / folder)))


async def test_the_folder_of_the_embedded_store_is_made_and_that_of_a_named_one_is_not(tmp_path):
    settings = Settings(data_dir=str(tmp_path / "new" / "er"), secret="0123456789abcdef")
    await reach_store(settings)
    assert (tmp_path / "new" / "er" / "callgate.db").is_file()
    with pytest.raises(SettingsError, match=r"'store'.*no folder '.*nope'"):
        await reach_store(Settings(store=f"sqlite://{tmp_path}/nope/x.db"))
    assert not (tmp_path / "nope").exists()


def test_a_shared_store_without_a_common_secret_is_warned_of(tmp_path, caplog):
    shared = {"data_dir": str(tmp_path), "store": "redis://127.0.0.1:6379/0"}
    warn_of_own_secret(Settings(**shared, secret="0123456789abcdef"))
    warn_of_own_secret(Settings(data_dir=str(tmp_path)))
    assert not caplog.text
    warn_of_own_secret(Settings(**shared))
    assert "give all of them the same `secret`" in caplog.text


def test_engines_elsewhere_that_would_read_a_file_of_this_machine_are_warned_of(tmp_path, caplog):
    remote = {"data_dir": str(tmp_path), "engine": "vllm", "engine_url": ("http://gpu:8000",)}
    warn_of_own_file(Settings(**remote, store="redis://gpu/0"))
    warn_of_own_file(Settings(**remote | {"engine_url": ("http://127.0.0.1:8000",)}))
    warn_of_own_file(Settings(**remote | {"engine": "vllm_stock"}))
    assert not caplog.text
    warn_of_own_file(Settings(**remote))
    assert "http://gpu:8000 reads grammars from the store, which is a file" in caplog.text
