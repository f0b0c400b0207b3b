"""The gateway's settings: command line over environment (`CALLGATE_…`) over a TOML file over defaults.

The fields of `Settings` are the one table that names, types, bounds and documents every setting; command line
options, environment variables, `callgate settings` and the documentation all come from it. This is the only
module that reads the environment.
"""

import ipaddress
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import quote

import msgspec
import platformdirs
from msgspec import Meta

from gateway.body import expected_at
from gateway.errors import SettingsError
from toolspecs.nearest import did_you_mean, near_matches

PREFIX = "CALLGATE_"
COMMAND_LINE, ENVIRONMENT = "the command line", "the environment"
DEMO_MODEL, RANDOM_MODEL = "demo", "random"
DEFAULT_URL = "http://127.0.0.1:8080"

Count = Annotated[int, Meta(ge=1)]


def _data_dir() -> str:
    return platformdirs.user_data_dir("callgate", appauthor=False)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be configured; see `load` for where values come from."""

    host: Annotated[str, Meta(description="Address to listen on; any but loopback needs an API key.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0 takes a free one.")] = 8080
    model: Annotated[
        str,
        Meta(
            min_length=1,
            description="Model to serve: a directory, a hub id, `demo` for the bundled one, or `random`.",
        ),
    ] = DEMO_MODEL
    model_name: Annotated[
        str | None, Meta(description="Name the model is served under; by default the last part of `model`.")
    ] = None
    syntax: Annotated[
        str | None,
        Meta(description="How calls are spelled (hermes, llama3, …); by default the model's own way."),
    ] = None
    device: Annotated[str, Meta(description="Device the model runs on: auto, cpu, cuda, cuda:1, ….")] = "auto"
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16", "float64"],
        Meta(description="Type of the weights: auto, float32, bfloat16, float16, float64."),
    ] = "auto"
    max_batch: Annotated[int, Meta(ge=1, description="Sequences decoded together.")] = 16
    max_waiting: Annotated[int, Meta(ge=1, description="Requests queued before new ones get 429.")] = 256
    kv_bytes: Annotated[int, Meta(ge=1 << 20, description="Memory for the KV cache, in bytes.")] = 512 << 20
    context_length: Annotated[
        Annotated[int, Meta(ge=16)] | None,
        Meta(description="Longest prompt and answer together, in tokens; by default the model's."),
    ] = None
    default_max_tokens: Annotated[
        int, Meta(ge=1, description="Budget of a request that names none, in tokens.")
    ] = 2048
    num_threads: Annotated[
        Count | None,
        Meta(description="Threads a model on the CPU computes with; by default torch's choice."),
    ] = None
    jump_forward: Annotated[
        bool,
        Meta(description="Write what the grammar leaves no choice about without drawing it token by token."),
    ] = True
    request_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Longest time for an answer, in seconds; a request may ask for less."),
    ] = None
    max_choices: Annotated[int, Meta(ge=1, description="Largest `n` of one request.")] = 16
    data_dir: Annotated[
        str,
        Meta(min_length=1, description="Folder for what the gateway itself keeps: its database, its secret."),
    ] = msgspec.field(default_factory=_data_dir)
    store: Annotated[
        str | None,
        Meta(
            description="Where toolsets live: sqlite://PATH, in a folder that is there, or redis://HOST/DB;"
            " default: a file in data_dir."
        ),
    ] = None
    store_password: Annotated[
        str | None,
        Meta(description="Password of a Redis whose URL in `store` holds none; any characters, as they are."),
    ] = None
    grammar_cache_bytes: Annotated[int, Meta(ge=0, description="Memory for compiled grammars, in bytes.")] = (
        512 << 20
    )
    compile_workers: Annotated[
        int,
        Meta(
            ge=0,
            description="Processes that compile schemas; 0 compiles in the gateway's own, without bounds on"
            " time and memory.",
        ),
    ] = 4
    compile_seconds: Annotated[
        float,
        Meta(gt=0, description="Longest that a schema may take to compile, in seconds of processor time."),
    ] = 3.0
    compile_request_seconds: Annotated[
        float,
        Meta(
            gt=0,
            description="Longest that one request may compile, in seconds by the clock.",
        ),
    ] = 120.0
    compile_bytes: Annotated[
        int, Meta(ge=1 << 26, description="Memory that a schema may take to compile, in bytes.")
    ] = 512 << 20
    secret: Annotated[
        Annotated[str, Meta(min_length=16)] | None,
        Meta(
            description="Key that signs stored grammars; gateways that share a store share it."
            " By default one is made and kept in `data_dir`.",
        ),
    ] = None
    api_key: Annotated[
        Annotated[str, Meta(min_length=8)] | None,
        Meta(description="Key that clients send as `Authorization: Bearer KEY`."),
    ] = None
    api_key_file: Annotated[
        str | None, Meta(description="File of such keys, one a line; `#` begins a comment.")
    ] = None
    max_body_bytes: Annotated[int, Meta(ge=1024, description="Largest request body, in bytes.")] = 20_000_000
    telemetry: Annotated[
        Literal["none", "console", "otlp"], Meta(description="Where traces go: none, console, otlp.")
    ] = "none"
    otlp_endpoint: Annotated[
        Annotated[str, Meta(pattern=r"^https?://[^/\s]+")] | None,
        Meta(description="URL for traces, such as http://localhost:4318/v1/traces."),
    ] = None
    genai_conventions: Annotated[
        Literal["1.36", "1.37"],
        Meta(description="Version of the GenAI semantic conventions that spans follow."),
    ] = "1.37"
    capture_content: Annotated[
        bool, Meta(description="Record prompts and arguments in traces; they can hold personal data.")
    ] = False
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Least severe log line written.")
    ] = "info"

    @property
    def store_url(self) -> str:
        """`store`, with its password, or the embedded default."""
        url = self.store or f"sqlite://{Path(self.data_dir, 'callgate.db')}"
        scheme, mark, rest = url.partition("://")
        if self.store_password is None or not scheme.startswith("redis"):
            return url
        user, _, host = rest.rpartition("@")
        return url if ":" in user else f"{scheme}{mark}{user}:{quote(self.store_password, safe='')}@{host}"

    @property
    def shares_store(self) -> bool:
        """Whether other gateways can use the store, too."""
        return not self.store_url.startswith("sqlite:")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def has_authentication(self) -> bool:
        """Whether clients have to send a key."""
        return self.api_key is not None or self.api_key_file is not None


def load(
    options: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: str | Path | None = None,
) -> Settings:
    """Merge the sources. `options` (None: not given) are the command line's, named as the fields are.

    Raises:
        SettingsError: a setting is unknown or bad, or the whole is unsafe.
    """
    environment = os.environ if environment is None else environment
    path = config or environment.get(f"{PREFIX}CONFIG")
    given = {name: value for name, value in (options or {}).items() if value is not None}
    sources: list[tuple[str, dict[str, Any]]] = [
        (COMMAND_LINE, given),
        (ENVIRONMENT, _from_environment(environment)),
        *([(str(path), _from_file(Path(path)))] if path else []),
    ]
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for source, found in reversed(sources):
        for name, value in found.items():
            values[name] = _convert(name, value, source)
            origin[name] = source
    settings = Settings(**values)
    _check_exposure(settings, origin)
    return settings


def client_settings(
    url: str | None, api_key: str | None, *, environment: Mapping[str, str] | None = None
) -> tuple[str, str | None]:
    """The gateway a client command talks to, and the key it sends: as given, else from the environment.

    The base URL of an OpenAI client, which ends in `/v1`, does as well.
    """
    environment = os.environ if environment is None else environment
    base = url or environment.get(f"{PREFIX}URL") or DEFAULT_URL
    return (
        base.rstrip("/").removesuffix("/v1"),
        api_key or environment.get(f"{PREFIX}API_KEY"),
    )


def variable_of(name: str) -> str:
    """The environment's spelling of a setting."""
    return f"{PREFIX}{name.upper()}"


def _check_exposure(settings: Settings, origin: Mapping[str, str]) -> None:
    if not settings.is_loopback and not settings.has_authentication:
        raise SettingsError(
            "host",
            origin.get("host", "the defaults"),
            f"{settings.host} can be reached from other machines, and authentication is off;"
            " set api_key or api_key_file, or listen on 127.0.0.1",
        )


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    known = {variable_of(name): name for name in Settings.__struct_fields__}
    found = {}
    for variable, value in environment.items():
        if variable in known:
            found[known[variable]] = value
        elif variable.startswith(PREFIX) and (
            near := _nearest(variable[len(PREFIX) :].lower(), known.values())
        ):
            # Only likely slips: the prefix also occurs in what Kubernetes sets for a service of this name.
            raise SettingsError(variable, ENVIRONMENT, f"there is no such setting{near}")
    return found


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
        raise SettingsError(name, source, f"there is no such setting{_nearest(name, hints)}")
    shown = variable_of(name) if source == ENVIRONMENT else name
    is_text = source in {COMMAND_LINE, ENVIRONMENT}
    try:
        return msgspec.convert(value, hints[name], strict=not is_text)
    except msgspec.ValidationError as error:
        secret = name in {"secret", "api_key", "store_password"}
        reason = f"{error}" + ("" if secret else f": {value!r}")
        if expected := str(expected_at(hints[name], "", value)):
            reason += f"; expected {expected}"
        raise SettingsError(shown, source, reason) from error


def _nearest(name: str, known: Iterable[str]) -> str:
    return did_you_mean(near_matches(name, known, 1, cutoff=0.75))


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table of settings."""

    name: str
    type_name: str
    default: str
    description: str

    @property
    def option(self) -> str:
        """The command line's spelling."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment's spelling."""
        return variable_of(self.name)


def settings_table() -> Iterator[Setting]:
    """Every setting, in order."""
    hints = get_type_hints(Settings, include_extras=True)
    for field in msgspec.structs.fields(Settings):
        value_type, meta = get_args(hints[field.name])
        default = _default_text(field)
        yield Setting(field.name, _type_name(value_type), default, meta.description)


def _type_name(value_type: Any) -> str:
    if get_origin(value_type) is Literal:
        return ", ".join(map(str, get_args(value_type)))
    if args := get_args(value_type):  # optional, or with bounds
        return _type_name(args[0])
    return {str: "text", int: "integer", float: "number", bool: "true, false"}[value_type]


def _default_text(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return "the user's data directory"
    if isinstance(field.default, bool):
        return str(field.default).lower()
    return "" if field.default is None else str(field.default)
