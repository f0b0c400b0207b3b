"""Settings: precedence, names in errors, and no exposure without a key."""

import pytest

from gateway.errors import SettingsError
from gateway.setting_sources import load
from gateway.settings import Settings
from gateway.settings_table import settings_table


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "callgate.toml"
        path.write_text(text)
        return path

    return write


def test_the_defaults_are_safe_and_embedded(tmp_path):
    settings = load({"data_dir": str(tmp_path)}, environment={})
    assert settings.is_loopback
    assert not settings.has_authentication
    assert settings.store_url == f"sqlite://{tmp_path}/callgate.db"
    assert (settings.model, settings.telemetry, settings.capture_content) == ("demo", "none", False)


def test_the_command_line_beats_the_environment_beats_the_file(config):
    path = config("port = 1\nmax_batch = 1\nmax_waiting = 1\n")
    environment = {"CALLGATE_PORT": "2", "CALLGATE_MAX_BATCH": "2", "CALLGATE_CONFIG": str(path)}
    settings = load({"port": "3", "max_batch": None}, environment=environment)
    assert (settings.port, settings.max_batch, settings.max_waiting) == (3, 2, 1)
    assert settings.max_choices == Settings().max_choices


@pytest.mark.parametrize(
    ("options", "environment", "text", "named"),
    [
        ({"port": "high"}, {}, "", ["port", "command line", "must be a whole number: 'high'"]),
        ({"port": "70000"}, {}, "", ["port", "must be a whole number, at most 65535: '70000'"]),
        ({"request_seconds": "0"}, {}, "", ["must be a number, above 0"]),
        ({"console": "maybe"}, {}, "", ["must be true or false: 'maybe'"]),
        ({"color": "red"}, {}, "", ["color", "no such setting"]),
        ({"api_key": "k"}, {}, "", ["'api_key' from the command line: it must have at least 8 characters"]),
        ({}, {"CALLGATE_PORT": "high"}, "", ["CALLGATE_PORT", "environment"]),
        ({}, {"CALLGATE_PORT": "udp"}, "", ["CALLGATE_PORT", "environment"]),
        ({}, {"CALLGATE_MODLE": "x"}, "", ["CALLGATE_MODLE", "did you mean 'CALLGATE_MODEL'"]),
        (
            {},
            {"CALLGATE_SECRET_FILE": "/s"},
            "",
            ["CALLGATE_SECRET_FILE", "no such setting", "callgate settings"],
        ),
        ({}, {"CALLGATE_TELEMETRY": "fax"}, "", ["CALLGATE_TELEMETRY", "fax"]),
        (
            {"otlp_endpoint": "localhost:4318"},
            {},
            "",
            ["otlp_endpoint", "a URL that begins with http:// or https://"],
        ),
        (
            {"engine": "vllm", "engine_url": ["http://a:8000/v1/"]},
            {},
            "",
            ["'engine_url' from the command line: 'http://a:8000/v1/' ends in /v1", "leave it out"],
        ),
        ({}, {}, 'port = "1"', ["port", "callgate.toml", "must be a whole number: '1'"]),
        ({}, {}, "prot = 1", ["prot", "did you mean 'port'"]),
        ({}, {}, "port = ", ["config", "TOML"]),
        ({}, {}, "[gateway]\nport = 1", ["'gateway'", "write its settings without [gateway] around them"]),
        ({}, {}, 'prompt_tools = "some"', ["prompt_tools", "one of 'all', 'allowed', 'none': 'some'"]),
        ({}, {}, '[[models]]\nmodel = "a"\nalias = ["b"]', ["'models[0].alias'", "did you mean 'aliases'?"]),
        ({}, {}, '[model]\nmodel = "a"', ["'model'", "write the table of each model as [[models]]"]),
        ({}, {}, '[[model]]\nmodel = "a"', ["'model'", "as [[models]]"]),
        ({}, {}, '[models]\nmodel = "a"', ["'models'", "as [[models]]"]),
        ({}, {}, '[[models]]\nsyntax = "hermes"', ["'models[0].model'", "it is required"]),
        (
            {},
            {},
            '[[models]]\nmodel = "a"\n[[models]]\nmodel = "b"\nengine = "vlm"',
            ["'models[1].engine'", "did you mean 'vllm'? There are 'embedded', 'llama_server'"],
        ),
    ],
)
def test_a_bad_setting_fails_with_its_name_and_source(config, options, environment, text, named):
    with pytest.raises(SettingsError) as error:
        load(options, environment=environment, config=config(text))
    assert all(word in str(error.value) for word in named)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"missing\.toml"):
        load(environment={}, config=tmp_path / "missing.toml")


def test_a_bad_secret_is_not_printed():
    with pytest.raises(SettingsError) as error:
        load(environment={"CALLGATE_API_KEY": "hunter2"})
    assert "hunter2" not in str(error.value)


def test_a_bad_header_of_a_model_is_not_printed(config):
    text = '[[models]]\nmodel = "a"\nengine_headers = {Authorization = ["hunter2"]}'
    with pytest.raises(SettingsError, match=r"engine_headers\.Authorization.* must be a text") as error:
        load(environment={}, config=config(text))
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("store", "url"),
    [
        ("redis://redis:6379/0", "redis://:p%40%2F%23%25@redis:6379/0"),
        ("rediss://me@redis/1", "rediss://me:p%40%2F%23%25@redis/1"),
        ("redis://:own@redis/0", "redis://:own@redis/0"),
        ("sqlite:///tmp/a.db", "sqlite:///tmp/a.db"),
    ],
)
def test_the_password_of_a_store_is_written_into_its_url(store, url):
    assert Settings(store=store, store_password="p@/#%").store_url == url


def test_variables_of_other_programs_are_left_alone():
    load(environment={"CALLGATES": "1", "PATH": "/bin"})


@pytest.mark.parametrize("service", ["CALLGATE", "CALLGATE_REDIS", "CALLGATE_ENGINE"])
def test_what_kubernetes_sets_for_services_is_left_alone(service):
    address = f"{service}_PORT_8080_TCP"
    settings = load(
        environment={
            f"{service}_SERVICE_HOST": "10.0.0.1",
            f"{service}_SERVICE_PORT": "8080",
            f"{service}_SERVICE_PORT_HTTP": "8080",
            f"{service}_PORT": "tcp://10.0.0.1:8080",
            address: "tcp://10.0.0.1:8080",
            **{f"{address}_{part}": "tcp" for part in ("PROTO", "PORT", "ADDR")},
        }
    )
    assert settings.port == 8080


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org"])
def test_an_open_address_needs_a_key(host):
    with pytest.raises(SettingsError, match="api_key") as error:
        load({"host": host}, environment={})
    assert error.value.name == "host"
    assert load({"host": host, "api_key": "0123456789"}, environment={}).host == host


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("localhost:8080", "host 'localhost', port 8080"),
        (":8080", "host '127.0.0.1', port 8080"),
        ("http://127.0.0.1", "without a scheme"),
    ],
)
def test_a_host_has_no_port_and_no_scheme(host, told):
    with pytest.raises(SettingsError, match=told) as error:
        load({"host": host}, environment={})
    assert error.value.name == "host"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_hosts_need_no_key(host):
    assert load({"host": host}, environment={}).is_loopback


@pytest.mark.parametrize(
    ("engine", "text", "name"),
    [
        ("embedded", 'tokenizer = "t"', "tokenizer"),
        ("embedded", 'engine_model = "m"', "engine_model"),
        ("embedded", 'engine_key_file = "k"', "engine_key_file"),
        ("embedded", 'engine_units = "inline"', "engine_units"),
        ("embedded", "engine_seeds = false", "engine_seeds"),
        ("vllm_stock", 'engine_units = "inline"', "engine_units"),
        ("vllm", 'adapter = "a"', "adapter"),
        ("vllm", 'adapter = "a"\ntokenizer = "t"', "adapter"),
        ("vllm", 'engine_units = "inline"\ntokenizer = "t"\nengine_seeds = false', None),
        ("embedded", 'adapter = "a"\nengine_shared_prefixes = true', None),
        ("embedded", 'tokenizer = ""\nengine_key_file = ""', None),  # as `${NAME:-}` of a compose file
    ],
)
def test_a_field_of_a_model_that_its_engine_does_not_use_is_refused(config, engine, text, name):
    """Otherwise a model would run without its adapter, and nobody would notice."""
    url = "" if engine == "embedded" else 'engine_url = ["http://a:1"]'
    path = config(f'[[models]]\nmodel = "a"\n\n[[models]]\nmodel = "b"\nengine = "{engine}"\n{url}\n{text}')
    if name is None:
        assert len(load(environment={}, config=path).models) == 2
    else:
        with pytest.raises(SettingsError, match=f"engine '{engine}' does not use it, only") as error:
            load(environment={}, config=path)
        assert error.value.name == f"models[1].{name}"


@pytest.mark.parametrize(
    ("variable", "value"),
    [("MODEL", "b"), ("SAMPLING_DEFAULTS", "openai"), ("PROMPT_TOOLS", "none"), ("TOOL_SEARCH", "5")],
)
def test_what_each_model_says_for_itself_is_not_set_beside_the_tables_of_models(config, variable, value):
    """It would have no effect: each table has its own value, or the default."""
    path = config('[[models]]\nmodel = "a"')
    with pytest.raises(SettingsError, match="set this there too") as error:
        load(environment={f"CALLGATE_{variable}": value}, config=path)
    assert error.value.name == variable.lower()


def test_particles_need_a_model_in_the_embedded_engine(config):
    options = {"engine": "vllm", "engine_url": ["http://a:1"], "particles": "4"}
    with pytest.raises(SettingsError, match="only the embedded engine draws particles") as error:
        load(options, environment={})
    assert error.value.name == "particles"
    text = 'particles = 4\n[[models]]\nmodel = "a"\n[[models]]\nmodel = "b"\nengine = "vllm"\nengine_url = ["http://a:1"]'
    assert load(environment={}, config=config(text)).particles == 4


def test_every_setting_is_documented():
    for setting in settings_table():
        assert len(setting.description) > 20, setting.name
    tables = {"models"}  # of the TOML file, described with it
    documented = [setting.name for setting in settings_table()]
    assert documented == [name for name in Settings.__struct_fields__ if name not in tables]
