"""What can go wrong between a client and the engine, and before the gateway starts.

GatewayError
├── SettingsError        a setting is unknown or has a bad value: the start fails, naming it and its source
├── MalformedBody        the body is not JSON: line and column
│   └── DeepBody         it is, but nested too deeply to be read
├── InvalidField         a field of a request is unknown, of the wrong type, or cannot be honoured
├── ToolsetConflict      the toolsets of one request define a tool twice
├── RefusedTool          an inline tool's schema cannot be upheld: where among `tools`
├── Unauthorized         the API key is missing or wrong
├── ForeignPage          a page of another site asks, and no API key keeps it out
├── ClientGone           the client closed the connection before it was answered
├── NotReady             the gateway cannot serve yet, or no longer
├── ExtraMissing         a feature needs an optional dependency: names the extra
└── BenchMissing         the benchmarks are in the repository only
"""


class GatewayError(Exception):
    """The root of this package's errors."""


class SettingsError(GatewayError):
    """`name` is the setting, `source` where the bad value came from, empty where the reason tells."""

    def __init__(self, name: str, source: str, reason: str) -> None:
        self.name = name
        self.source = source
        self.reason = reason
        super().__init__(f"setting {name!r}{f' from {source}' if source else ''}: {reason}")


class MalformedBody(GatewayError):
    """The body is not JSON; `line` and `column` count from 1, 0 where unknown."""

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        self.line = line
        self.column = column
        where = f" at line {line}, column {column}" if line else ""
        super().__init__(f"the body {self.fault}: {reason}{where}")

    fault = "is not valid JSON"


class DeepBody(MalformedBody):
    """The body may be JSON, but nobody could read it."""

    fault = "cannot be read"


class InvalidField(GatewayError):
    """`param` is the field's path as the client wrote it, such as `tools[0].function.name`."""

    def __init__(self, param: str, reason: str) -> None:
        self.param = param
        self.reason = reason
        super().__init__(f"{param}: {reason}" if param else reason)


class ToolsetConflict(InvalidField):
    """`tool` is defined by both `first` and `second` (a toolset's name, or "inline tools")."""

    def __init__(self, tool: str, first: str, second: str) -> None:
        self.tool = tool
        self.first = first
        self.second = second
        super().__init__(
            "toolset", f"tool {tool!r} is defined by both {first} and {second}; drop or rename one"
        )


class RefusedTool(GatewayError):
    """Inline tools cannot be upheld; `index` is the place of the first of them in the request's `tools`."""

    def __init__(self, index: int, reason: str) -> None:
        self.index = index
        super().__init__(reason)


class Unauthorized(GatewayError):
    """The API key is missing or wrong."""

    def __init__(self) -> None:
        super().__init__("a valid API key is required: send `Authorization: Bearer KEY`")


class ForeignPage(GatewayError):
    """A browser shows a page of another site, which asks; `origin` is that site."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        super().__init__(
            f"a page of {origin!r} may not call a gateway that needs no API key:"
            " set one, or have the page's own server call"
        )


class ClientGone(GatewayError):
    """The client closed the connection before it was answered; nobody reads this."""

    def __init__(self) -> None:
        super().__init__("the client went away before the answer was whole")


class NotReady(GatewayError):
    """The gateway cannot serve right now."""

    def __init__(self, reason: str, retry_after_s: float = 1.0) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(reason)


class ExtraMissing(GatewayError):
    """`extra` is what `pip install 'callgate[extra]'` adds."""

    def __init__(self, feature: str, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{feature} needs an optional dependency: pip install 'callgate[{extra}]'")


class BenchMissing(GatewayError):
    """The benchmarks are no part of the installed package."""

    def __init__(self) -> None:
        super().__init__(
            "the benchmarks are part of the repository, not of the package:"
            " clone it and `pip install -e '.[dev,bench]'`"
        )
