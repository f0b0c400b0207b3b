"""The gateway's settings: their names, types, bounds, defaults and descriptions.

`gateway.setting_sources` says where the values come from; `gateway.settings_table` lists the settings.
"""

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import platformdirs
from msgspec import Meta

from gateway.http.plain_reasons import URL_PATTERN
from gateway.model_settings import GenerationSettings
from gateway.sources.outbound import SourceAccess, SourceCredentials
from toolspecs.stores import is_shared, with_password

DATABASE = "callgate.db"


def is_loopback(host: str) -> bool:
    """Whether a host always means the machine that names it, whatever name servers say."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _data_dir() -> str:
    return platformdirs.user_data_dir("callgate", appauthor=False)


class Settings(GenerationSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be configured; `gateway.setting_sources.load` says where the values come from."""

    # Where it listens, and who may call

    host: Annotated[str, Meta(description="Address to listen on; any but loopback needs an API key.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0 takes a free one.")] = 8080
    allowed_hosts: Annotated[
        str | None,
        Meta(
            description="Hosts under which clients may call, separated by commas, such as"
            " gateway.example:8443. Loopback's names are always allowed. Without this setting, they are the"
            " only ones, or with API keys every host is allowed."
        ),
    ] = None
    cors_origins: Annotated[
        str | None,
        Meta(
            description="Origins whose web pages may call, separated by commas, such as https://app.example;"
            " * allows all, and needs API keys."
        ),
    ] = None
    trusted_proxies: Annotated[
        str | None,
        Meta(
            description="Addresses or networks of proxies, separated by commas. Without API keys, their"
            " header X-Forwarded-For tells clients apart."
        ),
    ] = None

    # API keys

    api_key: Annotated[
        Annotated[str, Meta(min_length=8)] | None,
        Meta(
            description="Key that clients send as `Authorization: Bearer KEY`. The list of processes shows an"
            " option to everyone on the machine; prefer `api_key_file`."
        ),
    ] = None
    api_key_file: Annotated[
        str | None, Meta(description="File of API keys, one per line; `#` begins a comment.")
    ] = None
    require_keys: Annotated[
        bool,
        Meta(
            description="Require an API key even without `api_key` and `api_key_file`: one of the store's,"
            " which `callgate keys` and /v1/keys make."
        ),
    ] = False

    # The store, and what clients may keep in it

    data_dir: Annotated[
        str,
        Meta(min_length=1, description="Folder for the gateway's own files: its database and its secret."),
    ] = msgspec.field(default_factory=_data_dir)
    store: Annotated[
        str | None,
        Meta(
            description="Where toolsets are stored: sqlite://PATH in an existing folder, redis://HOST/DB, or"
            " redis+sentinel://HOST,HOST/MASTER; by default a file in data_dir."
        ),
    ] = None
    store_password: Annotated[
        str | None,
        Meta(description="Password of the Redis in `store`, if its URL holds none; it is not escaped."),
    ] = None
    store_wait_seconds: Annotated[
        float,
        Meta(ge=0, description="Longest time that `serve` waits for Redis at its start, in seconds."),
    ] = 0.0
    store_revisions: Annotated[
        int,
        Meta(
            ge=1,
            description="Newest revisions of each toolset that are kept, besides those that requests name.",
        ),
    ] = 50
    store_deleted_days: Annotated[
        float, Meta(ge=0, description="Days for which a deleted toolset can be restored.")
    ] = 30.0
    quota_bytes: Annotated[
        int,
        Meta(
            ge=1 << 20,
            description="Most compressed bytes of revisions that one API key may store; without keys, all"
            " clients together.",
        ),
    ] = 1 << 30
    quota_toolsets: Annotated[
        int, Meta(ge=1, description="Most toolsets of one API key; without keys, of all clients together.")
    ] = 1000
    response_seconds: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds for which responses are stored, for `previous_response_id`; 0 stores none.",
        ),
    ] = 86_400.0
    response_bytes: Annotated[
        int,
        Meta(
            ge=1 << 20,
            description="Most compressed bytes of stored responses of one API key; the oldest are dropped.",
        ),
    ] = 64 << 20

    # Grammars

    grammar_cache_bytes: Annotated[int, Meta(ge=0, description="Memory for compiled grammars, in bytes.")] = (
        512 << 20
    )
    compile_workers: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="Worker processes that compile schemas; by default one more than the cores that the"
            " gateway may use, at most 4. 0 compiles in the gateway's own process, without limits on time and"
            " memory.",
        ),
    ] = None
    compile_seconds: Annotated[
        float,
        Meta(gt=0, description="Most processor time to compile one schema, in seconds."),
    ] = 3.0
    compile_request_seconds: Annotated[
        float,
        Meta(
            gt=0,
            description="Most time that one request may spend compiling, in seconds.",
        ),
    ] = 120.0
    compile_bytes: Annotated[
        int, Meta(ge=1 << 26, description="Most memory to compile one schema, in bytes.")
    ] = 512 << 20
    secret: Annotated[
        Annotated[str, Meta(min_length=16)] | None,
        Meta(
            description="Key that signs stored grammars; gateways that share a store need the same. By"
            " default one is made and kept in `data_dir`.",
        ),
    ] = None

    # Sources of tools

    source_token: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description="Bearer token for sources of tools. `callgate tools import` sends it to the source"
            " that it reads; a gateway sends it only to `source_origins`."
        ),
    ] = None
    source_client_id: Annotated[
        str | None,
        Meta(description="Id of an OAuth client, whose token MCP servers get instead of `source_token`."),
    ] = None
    source_client_secret: Annotated[
        str | None, Meta(description="Secret of the OAuth client, sent only to `source_issuer`.")
    ] = None
    source_issuer: Annotated[
        Annotated[str, Meta(pattern=URL_PATTERN)] | None,
        Meta(description="URL of the authorization server that knows the OAuth client."),
    ] = None
    source_origins: Annotated[
        str | None,
        Meta(
            description="Origins, separated by commas, such as https://tools.example, to which a gateway"
            " sends `source_token` or the token of its OAuth client when it imports tools. Whoever may"
            " register can then import what these origins show to the gateway."
        ),
    ] = None
    source_networks: Annotated[
        str | None,
        Meta(
            description="Networks, separated by commas, such as 10.1.0.0/16, from which a gateway imports"
            " tools besides public addresses."
        ),
    ] = None

    # Connections and bodies

    max_connections: Annotated[
        int,
        Meta(
            ge=1,
            description="Most connections at once; another one closes the connection that was idle longest.",
        ),
    ] = 512
    head_seconds: Annotated[
        float, Meta(gt=0, description="Longest time for a client to send the head of a request, in seconds.")
    ] = 10.0
    body_seconds: Annotated[
        float, Meta(gt=0, description="Longest time for a client to send the body of a request, in seconds.")
    ] = 60.0
    stall_seconds: Annotated[
        float, Meta(gt=0, description="Longest time that a client may leave its answer unread, in seconds.")
    ] = 60.0
    idle_seconds: Annotated[
        int,
        Meta(ge=1, description="Longest time that a connection may stay without a request, in seconds."),
    ] = 5
    drain_seconds: Annotated[
        float,
        Meta(ge=0, description="Seconds that running answers may go on after the gateway is told to stop."),
    ] = 5.0
    max_body_bytes: Annotated[int, Meta(ge=1024, description="Largest request body, in bytes.")] = 4_000_000
    max_toolset_bytes: Annotated[
        int, Meta(ge=1024, description="Largest body that registers or checks tools, in bytes.")
    ] = 4_000_000
    max_body_values: Annotated[
        int, Meta(ge=1024, description="Most JSON values in a body: objects, arrays, and what is in them.")
    ] = 250_000
    max_large_bodies: Annotated[
        int,
        Meta(
            ge=1, description="Most bodies above 100 kB in memory at once; one client may have half of them."
        ),
    ] = 16
    max_held_bytes: Annotated[
        int,
        Meta(
            ge=1 << 20,
            description="Most memory, in bytes, that the requests of one client may take until they are"
            " answered: their bodies, and the toolsets that they name.",
        ),
    ] = 500_000_000
    strict_fields: Annotated[
        bool,
        Meta(
            description="Refuse requests with unknown fields, hints for other servers, or typing errors in"
            " keywords of their schemas, instead of ignoring these and naming them in the header"
            " X-Callgate-Ignored."
        ),
    ] = False

    # What is recorded and shown

    telemetry: Annotated[
        Literal["none", "console", "otlp"],
        Meta(description="Where traces go: none, console, otlp. With otlp, metrics go there too."),
    ] = "none"
    otlp_endpoint: Annotated[
        Annotated[str, Meta(pattern=URL_PATTERN)] | None,
        Meta(description="URL for traces, such as http://localhost:4318/v1/traces."),
    ] = None
    otlp_metrics_endpoint: Annotated[
        Annotated[str, Meta(pattern=URL_PATTERN)] | None,
        Meta(
            description="URL for metrics; by default the URL for traces, with `metrics` instead of `traces`."
        ),
    ] = None
    otlp_protocol: Annotated[
        Literal["http", "grpc"], Meta(description="How traces and metrics are sent: http, grpc.")
    ] = "http"
    genai_conventions: Annotated[
        Literal["1.36", "1.37"],
        Meta(description="Version of the GenAI semantic conventions for spans."),
    ] = "1.37"
    capture_content: Annotated[
        bool, Meta(description="Record prompts and arguments in traces; they may hold personal data.")
    ] = False
    content_redactor: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")] | None,
        Meta(
            description="Python function, as module:function, for captured content: it gets the attribute's"
            " name and text, and returns the text to record, or None."
        ),
    ] = None
    metrics: Annotated[
        bool, Meta(description="Measure requests, masks, grammars and engines, and show this at /metrics.")
    ] = True
    metrics_key_file: Annotated[
        str | None,
        Meta(
            description="File of keys, one per line, that open /metrics and nothing else. With such a file,"
            " no other key opens /metrics."
        ),
    ] = None
    metrics_toolsets: Annotated[
        bool,
        Meta(
            description="Label metrics with the names of the first 100 toolsets; clients choose these names."
        ),
    ] = False
    console: Annotated[bool, Meta(description="Show the web console at /console.")] = True
    recent_requests: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000,
            description="Requests to models whose timings are kept in memory, without content, for"
            " /v1/requests and the console; 0 keeps none.",
        ),
    ] = 500
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="Least severe log level that is written."),
    ] = "info"
    log_format: Annotated[Literal["text", "json"], Meta(description="Format of the log: text or json.")] = (
        "text"
    )
    access_log: Annotated[
        bool, Meta(description="Log a line for each request except probes: route, status, time, key, trace.")
    ] = True

    @property
    def store_url(self) -> str:
        """The URL of the store with its password; by default a file in `data_dir`."""
        return with_password(self.store or f"sqlite://{Path(self.data_dir, DATABASE)}", self.store_password)

    @property
    def source_access(self) -> SourceAccess:
        """Where the gateway may import tools from, and its credentials there; raises SettingsError."""
        return SourceAccess(self.source_networks or "", self.source_credentials, self.source_origins or "")

    @property
    def source_credentials(self) -> SourceCredentials:
        """The credentials that are sent to sources of tools."""
        return SourceCredentials(
            self.source_token, self.source_client_id, self.source_client_secret, self.source_issuer
        )

    @property
    def shares_store(self) -> bool:
        """Whether gateways on other machines can use the store too."""
        return is_shared(self.store_url)

    @property
    def metrics_endpoint(self) -> str | None:
        """The URL that metrics are sent to; None if these settings do not determine one."""
        if self.otlp_metrics_endpoint or not self.otlp_endpoint:
            return self.otlp_metrics_endpoint
        base, separator, rest = self.otlp_endpoint.rpartition("/v1/traces")
        if separator and not rest.strip("/"):
            return f"{base}/v1/metrics"
        return self.otlp_endpoint if self.otlp_protocol == "grpc" else None  # gRPC's URLs have no paths

    @property
    def sends_metrics(self) -> bool:
        """Whether metrics can be sent; False if the URL for traces determines none for metrics."""
        return self.metrics_endpoint is not None or self.otlp_endpoint is None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def has_authentication(self) -> bool:
        """Whether clients need an API key."""
        return self.require_keys or self.has_configured_keys

    @property
    def has_configured_keys(self) -> bool:
        """Whether the settings themselves have API keys."""
        return self.api_key is not None or self.api_key_file is not None
