"""The errors of the compiler.

CompilerError
├── UnsupportedSchema       some keyword of a schema cannot be enforced, or nothing satisfies the schema
│   └── LimitReached        compiling the schema takes too much time or memory
│       └── NotTried        too many other schemas of the same request reached their limits
│           └── NotReached  the time for compiling the request was over
├── UnsupportedToolset      some tools of a toolset are refused, or the chosen tool is not among them
├── CompilingUnfinished     the time for compiling a request was over; no tool is known to be at fault
├── UnsupportedGrammar      the back end refused a grammar
├── MatchingTooSlow         following a grammar took too long: very many derivations fit the text
├── UnknownSyntax           no call syntax has that name
├── CorruptUnit             stored bytes are not a unit of this vocabulary and this version
├── TakesLonger             a first try was too short for the schema; it is to be compiled as a long job
├── CompilerOverloaded      too much is to be compiled right now
│   ├── TooManyCompilations too much of it was sent by the same client
│   └── TooManyGrammars     the running answers of the same client hold too much
└── WorkersUnavailable      no compile worker can be started

UnsupportedKeyword never leaves the lowering, which adds the pointer and raises UnsupportedSchema instead.
"""

from collections.abc import Sequence

from toolspecs.nearest import unknown


class CompilerError(ValueError):
    """The root of this package's errors."""


class UnsupportedSchema(CompilerError):
    """A schema is refused: `reason` says why, `suggestion` what to do.

    >>> str(UnsupportedSchema("/properties/a/pattern", "pattern", "counts beyond 1000", "Lower the count."))
    '/properties/a/pattern: counts beyond 1000. Lower the count.'
    >>> str(UnsupportedSchema("/properties/a", "$ref", "cannot be resolved"))
    '/properties/a ($ref): cannot be resolved'

    `pointer` leads to the keyword at fault or, if the schema does not contain that keyword, to the schema
    object. In another document that the schema refers to, it begins with the URI of the document and `#`.
    """

    def __init__(self, pointer: str, keyword: str, reason: str, suggestion: str = "") -> None:
        self.pointer = pointer
        self.keyword = keyword
        self.reason = reason
        self.suggestion = suggestion
        names_keyword = not keyword or pointer.endswith(f"/{keyword}")
        where = pointer or "/" if names_keyword else f"{pointer or '/'} ({keyword})"
        super().__init__(f"{where}: {reason}" + (f". {suggestion}" if suggestion else ""))


class UnsupportedKeyword(ValueError):
    """Rules of a string or number cannot enforce `keyword`: `reason` says why, `suggestion` what to do."""

    def __init__(self, keyword: str, reason: str, suggestion: str = "") -> None:
        self.keyword = keyword
        self.reason = reason
        self.suggestion = suggestion
        super().__init__(f"{keyword}: {reason}" + (f" {suggestion}" if suggestion else ""))


class LimitReached(UnsupportedSchema):
    """Compiling the schema took too much time or memory, or ended the worker."""


class NotTried(LimitReached):
    """Compiling the schema was not started: too many others of its request reached their limits."""


class NotReached(NotTried):
    """Compiling the schema was not started: the time of its request was over."""


class UnsupportedToolset(CompilerError):
    """Some tools of a toolset are refused; `refusals` are their names and errors.

    The name is empty where no single tool is at fault.
    """

    def __init__(self, refusals: Sequence[tuple[str, UnsupportedSchema]]) -> None:
        self.refusals = tuple(refusals)
        super().__init__(
            "; ".join(f"tool {name!r}: {error}" if name else str(error) for name, error in self.refusals)
        )


class CompilingUnfinished(CompilerError):
    """`tools` were not reached within the `seconds` of a request; the others are compiled and cached."""

    def __init__(self, tools: Sequence[str], seconds: float) -> None:
        self.tools = tuple(tools)
        self.seconds = seconds
        super().__init__(
            f"compiling this request takes longer than {seconds:g} seconds:"
            f" {len(self.tools)} tools were not reached."
            " Send it again, since the others are cached now, or send fewer tools at a time"
        )


class MatchingTooSlow(CompilerError):
    """A mask or a text took more than `seconds`, as very many texts or derivations fit; its output ends."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"a grammar took more than {seconds:.2g} s: very many texts or derivations fit")


class UnsupportedGrammar(CompilerError):
    """The back end refused a grammar."""


class UnknownSyntax(CompilerError):
    """No call syntax has that name."""

    def __init__(self, name: str, available: tuple[str, ...]) -> None:
        self.name = name
        self.available = available
        super().__init__(unknown("call syntax", name, available))


class CorruptUnit(CompilerError):
    """Stored bytes are not a unit of this vocabulary and this version: it must be compiled again."""


class TakesLonger(CompilerError):
    """A first try was too short for the schema. It never leaves the grammar cache."""


class CompilerOverloaded(CompilerError):
    """Too much is to be compiled right now; the schema is not at fault. Try again in `retry_after_s`."""

    def __init__(self, reason: str, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(f"the compiler is busy: {reason}; try again in {retry_after_s:g} s")


class TooManyCompilations(CompilerOverloaded):
    """Too many schemas of one client wait to be compiled."""

    def __init__(self, num_waiting: int, retry_after_s: float) -> None:
        reason = f"{num_waiting} schemas of this client wait to be compiled, and no more may"
        super().__init__(reason, retry_after_s)


class TooManyGrammars(CompilerOverloaded):
    """The grammars of a client's running answers would take `num_bytes` of memory, and `most` are allowed."""

    retry_after_s = 2.0

    def __init__(self, num_bytes: int, most: int) -> None:
        CompilerError.__init__(
            self,
            f"with this one, the grammars of this client's running answers take {num_bytes} bytes, and they"
            f" may take {most}; try again when some have ended, or send tools and formats that they have",
        )


class WorkersUnavailable(CompilerError):
    """No compile worker can be started; the schema is not at fault."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no compile worker can be started: {reason}")
