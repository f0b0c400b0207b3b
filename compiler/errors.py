"""What can go wrong while compiling.

CompilerError
├── UnsupportedSchema       a schema whose every keyword cannot be upheld, or that admits nothing
│   └── LimitReached        a schema that takes too much time or memory to compile
│       └── NotTried        a schema of a request that had too many of these
│           └── NotReached  a schema of a request whose time for compiling was over
├── UnsupportedToolset      a toolset with such schemas (all of them named), or with an unknown tool chosen
├── CompilingUnfinished     a request's time for compiling was over; nothing is known to be wrong
├── UnsupportedGrammar      a grammar the back end refused
├── UnknownSyntax           no call syntax has that name
├── CorruptUnit             stored bytes that are no unit of this vocabulary and this version
└── WorkersUnavailable      no process can be had that compiles

UnsupportedKeyword never leaves the lowering, which knows the place and makes an UnsupportedSchema of it.
"""

from collections.abc import Sequence

from toolspecs.nearest import unknown


class CompilerError(ValueError):
    """The root of this package's errors."""


class UnsupportedSchema(CompilerError):
    """`reason` says why, `suggestion` the way out.

    `pointer` is the place of what is to blame: `keyword` itself where one is and is spelled, else the schema
    that it is about. In a document that the schema refers to it is a URI, `#` and the pointer proper.
    """

    def __init__(self, pointer: str, keyword: str, reason: str, suggestion: str = "") -> None:
        self.pointer = pointer
        self.keyword = keyword
        self.reason = reason
        self.suggestion = suggestion
        is_told = not keyword or pointer.endswith(f"/{keyword}")
        where = pointer or "/" if is_told else f"{pointer or '/'} ({keyword})"
        super().__init__(f"{where}: {reason}" + (f". {suggestion}" if suggestion else ""))


class UnsupportedKeyword(ValueError):
    """A string or number cannot uphold `keyword`, for `reason`; `suggestion` is the way out."""

    def __init__(self, keyword: str, reason: str, suggestion: str = "") -> None:
        self.keyword = keyword
        self.reason = reason
        self.suggestion = suggestion
        super().__init__(f"{keyword}: {reason}" + (f" {suggestion}" if suggestion else ""))


class LimitReached(UnsupportedSchema):
    """Compiling the schema took too much time or memory, or ended the process that did it."""


class NotTried(LimitReached):
    """Compiling the schema was not begun, because of the others of its request."""


class NotReached(NotTried):
    """Compiling the schema was not begun, because the time of its request was over."""


class UnsupportedToolset(CompilerError):
    """Every bad tool of a toolset, by name."""

    def __init__(self, refusals: Sequence[tuple[str, UnsupportedSchema]]) -> None:
        self.refusals = tuple(refusals)
        super().__init__("; ".join(f"tool {name!r}: {error}" for name, error in self.refusals))


class CompilingUnfinished(CompilerError):
    """`tools` were not reached within the `seconds` of a request; the others are compiled, and kept."""

    def __init__(self, tools: Sequence[str], seconds: float) -> None:
        self.tools = tuple(tools)
        self.seconds = seconds
        super().__init__(
            f"compiling what was asked for takes longer than {seconds:g} seconds:"
            f" {len(self.tools)} tools were not reached;"
            " send it again, since what was compiled is kept, or send fewer tools at a time"
        )


class UnsupportedGrammar(CompilerError):
    """The back end refused a grammar."""


class UnknownSyntax(CompilerError):
    """No call syntax has that name."""

    def __init__(self, name: str, available: tuple[str, ...]) -> None:
        self.name = name
        self.available = available
        super().__init__(unknown("call syntax", name, available))


class CorruptUnit(CompilerError):
    """Stored bytes that are no unit of this vocabulary and this version; compile it again."""


class WorkersUnavailable(CompilerError):
    """No process can be had that compiles; no fault of the schema's."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no compile worker can be started: {reason}")
