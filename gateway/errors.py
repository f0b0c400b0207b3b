"""What can go wrong in the gateway: at its start, and between a client and the engine.

GatewayError
├── SettingsError        a setting is unknown or has a bad value; the start fails and names it and its source
├── LargeBody            the body has more bytes than the route takes
├── EncodedBody          the body is compressed
├── WrongMediaType       the body says that it is of another type than JSON
├── TooManyBodies        too many large bodies are being read
├── TooMuchHeld          the running requests of the same client hold too much memory
├── TooManyImports       too many sources are being read
├── MalformedBody        the body is not JSON: line and column
│   └── UnreadableBody   the body may be JSON, but it holds too much or is nested too deeply
├── InvalidField         a field of a request is of the wrong type, or cannot be honoured
│   ├── UnknownField     there is no such field
│   ├── ToolsetConflict  the toolsets of one request define a tool twice
│   ├── TooManyTools     the tools of one request are too many or too large together
│   ├── ThreadUnsupported  a Messages request refers to a stored thread
│   └── UnknownPrevious  a Responses request continues a response that is not stored
├── NoEffect             a field has no effect on this answer, and the setting `strict_fields` is on
├── UnknownKey           there is no API key with this id
├── TooManyKeys          there are as many API keys as there may be
├── UnknownResponse      no response is stored under this id
├── RefusedTool          the schema of an inline tool cannot be enforced: its index in `tools`
├── MalformedHead        the head of the request can be read in two ways, or is not for this server
├── Unauthorized         the API key is missing or wrong
├── Forbidden            the API key may not do this
├── RateLimited          the API key has used up its requests or tokens of a minute
├── ForeignHost          the request calls the gateway by a host name that is not allowed
├── ForeignPage          a web page of another site sent the request, and the gateway asks for no API key
├── ClientGone           the client closed the connection before the answer was complete
├── NotReady             the gateway cannot serve yet, or no longer
│   ├── StillLoading     the gateway loads its models
│   └── KeysUnavailable  the store is out, so an API key cannot be looked up
├── NoMetrics            the settings switch metrics off
├── UnknownRequest       no request with this id is kept, for this client
├── UnknownGrammar       no grammar with this digest is in memory
├── ExtraMissing         a feature needs an optional dependency; the extra that installs it
└── BenchMissing         the benchmarks are not installed; they are part of the repository
"""

import math
from collections.abc import Mapping, Sequence

from toolspecs.nearest import MAX_NAME, shorten

_MAX_SOURCES = 8
_METRICS_KEY = "one of the keys of the setting metrics_key_file or, without it, a key with the scope admin"


class GatewayError(Exception):
    """The root of this package's errors."""


class SettingsError(GatewayError):
    """`name` is the setting; `source` says where the bad value came from, or is empty."""

    def __init__(self, name: str, source: str, reason: str) -> None:
        self.name = name
        self.source = source
        self.reason = reason
        super().__init__(f"setting {name!r}{f' from {source}' if source else ''}: {reason}")


class LargeBody(GatewayError):
    """The body has more than the `limit` bytes that the setting `setting` allows."""

    def __init__(self, limit: int, setting: str) -> None:
        self.limit = limit
        self.setting = setting
        super().__init__(
            f"the body is larger than {limit} bytes, which is the limit of the setting {setting}"
        )


class EncodedBody(GatewayError):
    """The body is in a `Content-Encoding`, such as gzip."""

    def __init__(self, encoding: str) -> None:
        shown = shorten(encoding, MAX_NAME)
        super().__init__(f"the body has Content-Encoding {shown!r}, and none is taken; send it uncompressed")


class WrongMediaType(GatewayError):
    """The body's `Content-Type` is another one than JSON's."""

    def __init__(self, media_type: str) -> None:
        shown = shorten(media_type, MAX_NAME)
        super().__init__(f"the body must be JSON: send Content-Type: application/json, not {shown!r}")


class TooManyBodies(GatewayError):
    """Large bodies came faster than they could be read, from this client or from all."""

    def __init__(self) -> None:
        super().__init__(
            "as many large requests are being read as the setting max_large_bodies allows;"
            " send this one again later"
        )


class TooMuchHeld(GatewayError):
    """What a client's running requests hold would take `num_bytes` of memory, and `most` are allowed."""

    retry_after_s = 2.0

    def __init__(self, num_bytes: int, most: int) -> None:
        super().__init__(
            f"with this one, the bodies and toolsets of this client's running requests take {num_bytes} bytes"
            f" of memory, and the setting max_held_bytes allows {most}; try again when some have ended, or"
            " send fewer at once"
        )


class TooManyImports(GatewayError):
    """Too many sources are being read, for this client or for all clients."""

    def __init__(self) -> None:
        super().__init__("too many sources are being imported; send this one again later")


class MalformedBody(GatewayError):
    """The body is not JSON; `line` and `column` count from 1 and are 0 if unknown."""

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        self.line = line
        self.column = column
        where = f" at line {line}, column {column}" if line else ""
        super().__init__(f"the body {self.fault}: {reason}{where}")

    fault = "is not valid JSON"


class UnreadableBody(MalformedBody):
    """The body may be JSON, but it holds too much or is nested too deeply to be read."""

    fault = "cannot be read"


class InvalidField(GatewayError):
    """`param` is the field's path as the client wrote it, such as `tools[0].function.name`."""

    def __init__(self, param: str, reason: str) -> None:
        self.param = param
        self.reason = reason
        super().__init__(f"{param}: {reason}" if param else reason)


class UnknownField(InvalidField):
    """There is no such field; the reason names similar ones."""


class ThreadUnsupported(InvalidField):
    """A Messages request refers to a stored thread; Anthropic's clients then send the whole conversation."""

    def __init__(self) -> None:
        super().__init__("thread", "messages are not stored here: send the whole conversation in messages")


class UnknownPrevious(InvalidField):
    """A Responses request continues a response that is not stored."""

    def __init__(self, error: "UnknownResponse") -> None:
        super().__init__("previous_response_id", f"{error}; send the whole conversation in input")


class NoEffect(GatewayError):
    """The field `param` has no effect on this answer, and the setting `strict_fields` is on."""

    def __init__(self, param: str, reason: str = "") -> None:
        self.param = param
        reason = reason or "it has no effect with this model or this response format; leave it out"
        super().__init__(f"{param}: {reason}")


class ToolsetConflict(InvalidField):
    """`tool` is defined by both `first` and `second` (a toolset's name, or "inline tools")."""

    def __init__(self, tool: str, first: str, second: str) -> None:
        self.tool = tool
        self.first = first
        self.second = second
        super().__init__(
            "toolset", f"tool {tool!r} is defined by both {first} and {second}; drop or rename one"
        )


class UnknownResponse(GatewayError):
    """This client has no stored response with this id: it was deleted, has expired or never existed."""

    def __init__(self, response_id: str) -> None:
        self.response_id = response_id
        super().__init__(
            f"no response {response_id!r} is stored: it was deleted, has expired, or never existed"
        )


class UnknownKey(GatewayError):
    """There is no API key with the id `key_id`."""

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        super().__init__(f"there is no API key {key_id!r}; GET /v1/keys or `callgate keys list` lists them")


class TooManyKeys(GatewayError):
    """There are as many API keys as there may be."""

    def __init__(self, maximum: int) -> None:
        super().__init__(
            f"there are {maximum} API keys, which is the limit; revoke some, such as those that have expired"
        )


class TooManyTools(InvalidField):
    """The tools of a request are too many or too large; `sources` lists their toolsets with sizes."""

    def __init__(self, sources: Mapping[str, int], maximum: int, unit: str) -> None:
        sizes = ", ".join(f"{size} in {source}" for source, size in list(sources.items())[:_MAX_SOURCES])
        more = f" and more in {len(sources) - _MAX_SOURCES} others" if len(sources) > _MAX_SOURCES else ""
        super().__init__(
            "toolset",
            f"a request may have at most {maximum} {unit}, but it has {sizes}{more}; name fewer toolsets",
        )


class RefusedTool(GatewayError):
    """Inline tools cannot be enforced; `index` is the index of the first of them in the request's `tools`."""

    def __init__(self, index: int, reason: str) -> None:
        self.index = index
        super().__init__(reason)


class MalformedHead(GatewayError):
    """The head of the request is ambiguous, or is not for this server."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the head of the request is refused: {reason}")


class Unauthorized(GatewayError):
    """The API key is missing or wrong."""

    def __init__(self) -> None:
        super().__init__("a valid API key is required: send `Authorization: Bearer KEY` or `X-API-Key: KEY`")


class Forbidden(GatewayError):
    """The API key has none of the scopes that the route accepts."""

    def __init__(self, needed: Sequence[str], scopes: Sequence[str]) -> None:
        self.needed = tuple(needed)
        self.scopes = tuple(scopes)
        key = _METRICS_KEY if self.needed == ("metrics",) else f"a key with the scope {' or '.join(needed)}"
        super().__init__(f"this route needs {key}; this key has {', '.join(scopes)}")


class RateLimited(GatewayError):
    """An API key has used up its `limit` of requests or tokens (`kind`) per minute.

    The request would take `amount` of it. After `retry_after_s` seconds enough is free again for this
    request, after `reset_s` the whole limit.
    """

    def __init__(
        self, kind: str, limit: int, *, remaining: int, amount: int, retry_after_s: float, reset_s: float
    ) -> None:
        self.kind = kind
        self.limit = limit
        self.remaining = remaining
        self.retry_after_s = retry_after_s
        self.reset_s = reset_s
        is_of_tokens = kind == "tokens"
        needs = f", and this request reserves {amount}" if is_of_tokens else ""
        remedy = ", or lower max_tokens" if is_of_tokens else ""
        super().__init__(
            f"this key may use {limit} {kind} a minute, and has {remaining} left{needs};"
            f" try again in {math.ceil(retry_after_s)} s{remedy}"
        )


class ForeignHost(GatewayError):
    """The request calls the gateway by the name `host`, which is not allowed."""

    def __init__(self, host: str, *, needs_key: bool) -> None:
        self.host = host
        if not host:
            super().__init__("the request has no header `Host`; send one that names this gateway")
            return
        remedy = "add it to the setting `allowed_hosts`" + ("" if needs_key else ", or set `api_key`")
        super().__init__(
            f"this gateway does not answer to {shorten(host, MAX_NAME)!r}, only to localhost and to the hosts"
            f" of its settings; {remedy}"
        )


class ForeignPage(GatewayError):
    """A browser sent the request for a page of another site; `origin` is that site."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        super().__init__(
            f"a page of {shorten(origin, MAX_NAME)!r} may not call a gateway that runs without an API key;"
            " add its origin to the setting `cors_origins`, set `api_key`, or let the page's server call"
        )


class ClientGone(GatewayError):
    """The client closed the connection before the answer was complete; nobody reads this message."""

    def __init__(self) -> None:
        super().__init__("the client closed the connection before the answer was complete")


class NotReady(GatewayError):
    """The gateway cannot serve right now; the message is the reason."""

    retry_after_s = 1.0


class StillLoading(NotReady):
    """The gateway has been started, and has not loaded its models yet."""

    retry_after_s = 5.0

    def __init__(self) -> None:
        super().__init__("the gateway is loading its models; send this again later (GET /readyz is 200 then)")


class KeysUnavailable(NotReady):
    """The store is down, so an API key that was not seen lately cannot be looked up."""

    def __init__(self) -> None:
        super().__init__("the store cannot be used, so this API key cannot be looked up; send it again later")


class NoMetrics(GatewayError):
    """The settings switch metrics off."""

    def __init__(self) -> None:
        super().__init__("this gateway measures nothing: its setting `metrics` is off")


class UnknownRequest(GatewayError):
    """No request of this client with this id is kept: it is too old, still runs, or never existed."""

    def __init__(self, request_id: str, *, is_off: bool) -> None:
        self.request_id = request_id
        why = (
            "the setting `recent_requests` is 0" if is_off else "it is too old, still runs, or never existed"
        )
        super().__init__(f"no request {shorten(request_id, MAX_NAME)!r} is kept here: {why}")


class UnknownGrammar(GatewayError):
    """No grammar with this digest is in memory here."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        super().__init__(
            f"no grammar {shorten(digest, MAX_NAME)!r} is in this gateway's memory; it comes back with the"
            " next request that needs it, or the next report on its toolset"
        )


class ExtraMissing(GatewayError):
    """`extra` is what `pip install 'callgate[extra]'` adds."""

    def __init__(self, feature: str, extra: str) -> None:
        self.feature = feature
        self.extra = extra
        super().__init__(f"{feature} needs an optional dependency: pip install 'callgate[{extra}]'")


class BenchMissing(GatewayError):
    """The benchmarks are not part of the installed package."""

    def __init__(self) -> None:
        super().__init__(
            "the benchmarks are part of the repository, not of the installed package:"
            " clone it and `pip install -e '.[dev,bench]'`"
        )
