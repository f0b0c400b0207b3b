"""The settings of a plugin: the gateway's names, read from the engine's environment."""

import pytest

from gateway.data_dir import read_secret
from gateway.settings import Settings
from runtime.engines.settings import DEFAULT_CACHE_BYTES, PluginSettings, PluginSettingsError

STORE = {"CALLGATE_STORE": "redis://store:6379/0"}
SECRET = {"CALLGATE_SECRET": "0123456789abcdef"}


def test_without_settings_the_engine_serves_no_gateway():
    assert PluginSettings.from_environment({"CALLGATE_PORT": "80", "PATH": "/bin"}) is None


def test_the_gateways_names_are_read(tmp_path):
    settings = PluginSettings.from_environment(STORE | SECRET | {"CALLGATE_STORE_PASSWORD": "p@ss"})
    assert settings == PluginSettings(
        "redis://:p%40ss@store:6379/0", b"0123456789abcdef", DEFAULT_CACHE_BYTES
    )
    path = tmp_path / "secret"
    path.write_bytes(b"of the file, as the gateway wrote it")
    by_file = PluginSettings.from_environment(
        STORE | {"CALLGATE_SECRET_FILE": str(path), "CALLGATE_GRAMMAR_CACHE_BYTES": "1000"}
    )
    assert (by_file.secret, by_file.cache_bytes) == (path.read_bytes(), 1000)


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_the_engine_and_the_gateway_make_the_same_key_of_a_secret(tmp_path, ending):
    """`openssl rand -hex 32 > FILE` ends the file with a line break, and `$(cat FILE)` leaves it out."""
    path = tmp_path / "secret"
    path.write_text(f"0123456789abcdef{ending}", newline="")
    by_file = PluginSettings.from_environment(STORE | {"CALLGATE_SECRET_FILE": str(path)})
    by_text = PluginSettings.from_environment(STORE | {"CALLGATE_SECRET": f"0123456789abcdef{ending}"})
    of_gateway = read_secret(Settings(secret="0123456789abcdef"))
    in_data_dir = read_secret(Settings(data_dir=str(tmp_path)))
    assert {by_file.secret, by_text.secret, of_gateway, in_data_dir} == {b"0123456789abcdef"}


def test_an_engine_can_do_without_a_store():
    settings = PluginSettings.from_environment(SECRET | {"CALLGATE_STORE": "none"})
    assert settings.store_url is None


def test_secrets_are_not_shown():
    shown = repr(PluginSettings.from_environment(STORE | SECRET))
    assert "0123456789" not in shown
    assert "redis" not in shown


BAD = {
    "no store": (SECRET, "CALLGATE_STORE is not set"),
    "no secret": (STORE, "neither CALLGATE_SECRET nor CALLGATE_SECRET_FILE"),
    "short secret": (STORE | {"CALLGATE_SECRET": "short"}, "5 bytes, but it needs at least 16"),
    "no such file": (STORE | {"CALLGATE_SECRET_FILE": "/no/such"}, "CALLGATE_SECRET_FILE: '/no/such'"),
    "no number": (STORE | SECRET | {"CALLGATE_GRAMMAR_CACHE_BYTES": "1 GiB"}, "CALLGATE_GRAMMAR_CACHE_BYTES"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_settings_are_named(case):
    environment, reason = BAD[case]
    with pytest.raises(PluginSettingsError, match=reason):
        PluginSettings.from_environment(environment)
