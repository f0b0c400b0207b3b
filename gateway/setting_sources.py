"""Where settings come from: command line over environment (`CALLGATE_…`) over a TOML file over defaults.

Only this module reads the environment.

>>> load({"port": "9000"}, environment={"CALLGATE_MODEL": "random"}).port
9000
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from gateway.errors import InvalidField, SettingsError
from gateway.http.conversion import convert, expected_at
from gateway.http.plain_reasons import plain
from gateway.model_settings import USED_BY, ModelSettings
from gateway.settings import Settings
from gateway.settings_table import PREFIX, settings_table, variable_of
from gateway.sources.outbound import (
    CERTIFICATE_VARIABLES,
    SourceAccess,
    SourceCredentials,
    origin_of_url,
)
from toolspecs.nearest import did_you_mean, near_matches

COMMAND_LINE, ENVIRONMENT = "the command line", "the environment"
DEFAULT_URL = "http://127.0.0.1:8080"

_OTHER_VARIABLES = ("CONFIG", "URL", "CORPUS")
"""What else begins with `CALLGATE_`: the file of settings, the gateway of client commands, data of tests."""
_OF_KUBERNETES = re.compile(
    r"(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
"""What Kubernetes sets in every pod of a namespace with a service named callgate, or callgate-redis."""
_SECRET = frozenset({"secret", "api_key", "store_password", "source_token", "source_client_secret"})
"""Settings whose values no error shows."""
_LIBRARY_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")


def load(
    options: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: str | Path | None = None,
) -> Settings:
    """Merge all sources. `options` come from the command line, by field name; None means not given.

    Raises:
        SettingsError: a setting is unknown or bad, or an open address has no authentication.
    """
    return load_with_sources(options, environment=environment, config=config)[0]


def load_with_sources(
    options: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: str | Path | None = None,
) -> tuple[Settings, Mapping[str, str]]:
    """As `load`, with the source of each setting that is not left to its default."""
    environment = os.environ if environment is None else environment
    path = config or environment.get(f"{PREFIX}CONFIG")
    set_options = {name: value for name, value in (options or {}).items() if value not in (None, [])}
    sources: list[tuple[str, dict[str, Any]]] = [
        (COMMAND_LINE, set_options),
        (ENVIRONMENT, _from_environment(environment)),
        *([(str(path), _from_file(Path(path)))] if path else []),
    ]
    values: dict[str, Any] = {}
    source_of: dict[str, str] = {}
    for source, source_values in reversed(sources):
        for name, value in source_values.items():
            values[name] = _convert(name, value, source)
            source_of[name] = source
    settings = Settings(**values)
    _check_host(settings, source_of)
    _check_exposure(settings, source_of)
    _check_models(settings, source_of)
    return settings, source_of


def client_settings(url: str | None, api_key: str | None) -> tuple[str, str | None]:
    """The URL of the gateway that a client command talks to, and the API key that it sends.

    What is not given comes from the environment. The URL may end in `/v1`, as those of OpenAI's clients do.
    """
    base = url or os.environ.get(f"{PREFIX}URL") or DEFAULT_URL
    return base.rstrip("/").removesuffix("/v1"), api_key or os.environ.get(f"{PREFIX}API_KEY")


def source_credentials(environment: Mapping[str, str] | None = None) -> SourceCredentials:
    """The credentials that a client command sends to a source of tools, from the environment.

    Raises:
        SettingsError: an OAuth client lacks its issuer.
    """
    environment = os.environ if environment is None else environment
    names = ("source_token", "source_client_id", "source_client_secret", "source_issuer")
    credentials = SourceCredentials(*(environment.get(variable_of(name)) or None for name in names))
    credentials.check()
    return credentials


def source_access(url: str, *, is_named: bool) -> SourceAccess:
    """Where a client command may read the source at a URL that somebody registered.

    If the user named the source's origin (`is_named`), the command reads it in any network, with the
    credentials of the environment. Otherwise it reads public addresses and those in `source_networks`.

    Raises:
        SettingsError: the credentials or the networks in the environment are malformed.
    """
    if is_named:
        return SourceAccess("0.0.0.0/0, ::/0", source_credentials(), origin_of_url(url))
    return SourceAccess(os.environ.get(variable_of("source_networks")) or "")


def library_environment() -> dict[str, str]:
    """Only the variables that the libraries of a child process may need: others may be secrets."""
    return {name: os.environ[name] for name in _LIBRARY_VARIABLES if name in os.environ}


def source_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables for a process that reads a source: those for libraries, and the trusted certificates.

    Empty ones are left out: an empty path is the working folder, which the process could read then.
    """
    environment = os.environ if environment is None else environment
    names = (*_LIBRARY_VARIABLES, *CERTIFICATE_VARIABLES)
    return {name: environment[name] for name in names if environment.get(name)}


def let_threads_wait() -> None:
    """Let OpenMP's threads sleep while they wait for one another; call it before torch is imported.

    By default a waiting thread spins for milliseconds. Beside other busy processes, it takes that time from
    the thread that it waits for, and answers take several times longer. A policy that the user set is kept.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"} & os.environ.keys():
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def _check_host(settings: Settings, source_of: Mapping[str, str]) -> None:
    """Check that the host is no URL and has no port, as other programs take them."""
    name, has_port, port = settings.host.rpartition(":")
    if "/" in settings.host:
        reason = f"{settings.host!r} is not an address; write it without a scheme or a path, as in 127.0.0.1"
    elif has_port and ":" not in name and port.isdecimal():
        alone = name or "127.0.0.1"
        reason = f"{settings.host!r} names a port, which is a setting of its own: host {alone!r}, port {port}"
    else:
        return
    raise SettingsError("host", source_of.get("host", "the defaults"), reason)


def _check_exposure(settings: Settings, source_of: Mapping[str, str]) -> None:
    if not settings.is_loopback and not settings.has_authentication:
        raise SettingsError(
            "host",
            source_of.get("host", "the defaults"),
            f"other machines can reach {settings.host}, and authentication is off;"
            " set api_key, api_key_file or require_keys, or listen on 127.0.0.1",
        )


def _check_models(settings: Settings, source_of: Mapping[str, str]) -> None:
    """Check that every model has an engine that uses its settings, and that they are in one place only."""
    own = sorted(source_of.keys() & set(ModelSettings.__struct_fields__))
    if settings.models and own:
        raise SettingsError(own[0], source_of[own[0]], "the models are set in [[models]]; set this there too")
    for number, model in enumerate(settings.served_models):
        place = f"models[{number}]." if settings.models else ""
        if (model.engine == "embedded") == bool(model.engine_url):
            reason = (
                "the engine 'embedded' runs in this process; set another engine, such as 'vllm'"
                if model.engine_url
                else f"the engine {model.engine!r} needs a URL, such as http://host:8000"
            )
            raise SettingsError(f"{place}engine_url", source_of.get("engine_url", ""), reason)
        for url in model.engine_url:
            if url.rstrip("/").endswith("/v1"):
                reason = (
                    f"{url!r} ends in /v1, below which are only the engine's routes for clients; leave it out"
                )
                raise SettingsError(f"{place}engine_url", source_of.get("engine_url", ""), reason)
        if name := model.unused_field():
            reason = (
                f"the engine {model.engine!r} does not use it, only {', '.join(USED_BY[name])}; leave it out"
            )
            raise SettingsError(f"{place}{name}", source_of.get(name, ""), reason)
    if settings.particles > 1 and all(model.engine != "embedded" for model in settings.served_models):
        reason = "only the embedded engine draws particles, and no model runs in it; set accept or draft"
        raise SettingsError("particles", source_of["particles"], reason)


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    name_of_variable = {variable_of(name): name for name in Settings.__struct_fields__}
    values = {}
    for variable, value in environment.items():
        if variable in name_of_variable:
            # Kubernetes sets this one for a service named callgate, to an address.
            if not (name_of_variable[variable] == "port" and value.startswith("tcp://")):
                values[name_of_variable[variable]] = value
        elif variable.startswith(PREFIX) and not _is_foreign(variable[len(PREFIX) :]):
            near = _nearest(variable[len(PREFIX) :].lower(), name_of_variable.values(), variable_of)
            reason = f"there is no such setting{near or '; `callgate settings` lists them'}"
            raise SettingsError(variable, ENVIRONMENT, reason)
    return values


def _is_foreign(name: str) -> bool:
    return name in _OTHER_VARIABLES or bool(_OF_KUBERNETES.fullmatch(name))


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError("config", str(path), error.strerror or str(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError("config", str(path), f"not valid TOML: {error}") from error


def _convert(name: str, value: Any, source: str) -> Any:
    hints = get_type_hints(Settings, include_extras=True)
    if name not in hints:
        is_table = isinstance(value, dict) and not value.keys().isdisjoint(hints)
        hint = f"; write its settings without [{name}] around them" if is_table else _nearest(name, hints)
        raise SettingsError(name, source, f"there is no such setting{hint}")
    shown = variable_of(name) if source == ENVIRONMENT else name
    is_text = source in {COMMAND_LINE, ENVIRONMENT}
    if (name == "models" and isinstance(value, dict)) or (name == "model" and isinstance(value, dict | list)):
        raise SettingsError(name, source, "write the table of each model as [[models]]")
    if is_text and name in {setting.name for setting in settings_table() if setting.is_repeatable}:
        value = [
            part.strip()
            for text in ([value] if isinstance(value, str) else value)
            for part in text.split(",")
        ]
    try:
        if isinstance(value, list) and not is_text:
            return convert(value, hints[name])
        return msgspec.convert(value, hints[name], strict=not is_text)
    except InvalidField as error:
        raise SettingsError(f"{name}{error.param}", source, error.reason) from error
    except msgspec.ValidationError as error:
        is_shown = name not in _SECRET and isinstance(value, str | int | float)
        message = str(error).partition(" - at `")[0]
        reason = plain(message, is_typed=False) + (f": {value!r}" if is_shown else "")
        if expected := str(expected_at(hints[name], "", value)):
            reason = f"it must be one of {expected}: {value!r}"
        raise SettingsError(shown, source, reason) from error


def _nearest(name: str, names: Iterable[str], shown: Callable[[str], str] = str) -> str:
    return did_you_mean(map(shown, near_matches(name, names, 1, cutoff=0.75)))
