"""The errors of this package.

RuntimeFault
├── ModelLoadError      a model cannot be loaded; names it and the reason
│   └── AdapterLoadError  its adapter cannot be
├── UnusableDevice      the device cannot be used; names those that can
├── RequestRefused      this request cannot be served as asked
│   ├── PromptTooLong   the prompt fills the model's context
│   ├── BudgetTooSmall  max_tokens is below the shortest valid output
│   ├── GrammarTooSlow  following its grammar takes too long
│   └── UnknownModel    no such model is served
├── Overloaded          the queue is full; try again after `retry_after_s`
│   └── TooManySequences  the client has too many sequences already
├── DeadlineExceeded    the request's time ran out
├── EngineFault         an external engine did not do as asked; names it
│   ├── EngineRefused   it refuses the request, as every other replica would
│   ├── EngineBroke     it broke off, stalled or failed; another replica may answer
│   │   ├── EngineUnreachable  there is no connection to it
│   │   ├── EngineFull         it has no room for the request; try again after `retry_after_s`
│   │   └── CanaryUnfinished   it did not finish the canary in time
│   ├── PluginMissing   it runs without our grammars
│   └── NoEngine        none of a model's engines takes requests now
├── GrammarNotStored    the store fails, and external engines read grammars from it
└── GenerationFailed    the generation failed, for instance because logits were NaN
    ├── Unforeseen      it failed by an error that nobody foresaw, which only the log tells
    └── EngineStopped   the engine was stopped before the answer was complete
"""

from typing import Any, Self

from toolspecs.nearest import instead, shorten, unknown

MAX_REASON = 700
"""Characters of what an engine did wrong: its own words may be megabytes, which would be kept and logged."""


class RuntimeFault(Exception):
    """The root of this package's errors."""


class ModelLoadError(RuntimeFault):
    """A model cannot be loaded."""

    kind = "model"

    def __init__(self, model: str, reason: str) -> None:
        self.model = model
        self.reason = reason
        super().__init__(f"cannot load {self.kind} {model!r}: {reason}")

    @classmethod
    def of(cls, model: Any, reason: str) -> Self:
        """The error for a transformers model that is in memory already."""
        return cls(model.config.name_or_path or type(model).__name__, reason)


class AdapterLoadError(ModelLoadError):
    """The adapter in the directory `model` cannot be merged into a model."""

    kind = "adapter"


class UnusableDevice(RuntimeFault):
    """A model cannot run on `device`; `usable` are the device names that work."""

    def __init__(self, device: str, usable: tuple[str, ...], reason: str) -> None:
        self.device = device
        self.usable = usable
        super().__init__(
            f"device {device!r} cannot be used ({reason}){instead(device, usable)}; --device cpu always works"
        )


class RequestRefused(RuntimeFault):
    """This request cannot be served as asked, because of `parameter`."""

    def __init__(self, message: str, parameter: str) -> None:
        self.parameter = parameter
        super().__init__(message)


class PromptTooLong(RequestRefused):
    """The prompt fills the model's context. `at_least`: the number of its tokens is a lower bound.

    `num_reserved` tokens of the context are for the output; `context_length` is without them. `remedy` is
    what would shorten the prompt.
    """

    def __init__(
        self,
        num_prompt_tokens: int,
        context_length: int,
        *,
        at_least: bool = False,
        num_reserved: int = 0,
        remedy: str = "",
    ) -> None:
        self.at_least = at_least
        self.num_prompt_tokens = num_prompt_tokens
        self.context_length = context_length
        self.num_reserved = num_reserved
        size = f"at least {num_prompt_tokens}" if at_least else f"{num_prompt_tokens}"
        reserved = f" without {num_reserved} for the shortest valid output" if num_reserved else ""
        super().__init__(
            # Anthropic's clients look for these words, and then summarize the conversation.
            f"the prompt is too long: {size} tokens > {context_length} maximum, the context of this model"
            + reserved
            + (f"; {remedy}" if remedy else ""),
            "messages",
        )


class BudgetTooSmall(RequestRefused):
    """`max_tokens` is below the shortest valid output. `context_length` is given if that is below it, too."""

    def __init__(self, max_tokens: int, minimum: int, context_length: int | None = None) -> None:
        self.max_tokens = max_tokens
        self.minimum = minimum
        size = f"max_tokens is {max_tokens}"
        if context_length is not None:
            size = f"the context of this model has {context_length} tokens"
        super().__init__(
            f"{size}, but the shortest valid output of this request needs at least {minimum}", "max_tokens"
        )


def unfit_budget(
    max_tokens: int, minimum: int, num_prompt_tokens: int, context_length: int
) -> BudgetTooSmall | PromptTooLong:
    """Why the shortest valid output, of `minimum` tokens, does not fit: `max_tokens`, or the context."""
    if context_length <= minimum:
        return BudgetTooSmall(max_tokens, minimum, context_length)
    if max_tokens < minimum:
        return BudgetTooSmall(max_tokens, minimum)
    return PromptTooLong(num_prompt_tokens, context_length - minimum, num_reserved=minimum)


class GrammarTooSlow(RequestRefused):
    """Following the grammar of a request took more than `seconds` of processor time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            f"following the grammar of this request took more than {seconds:.2g} s of processor time, because"
            " very many texts or derivations fit; rewrite the grammar so that few do, for example without two"
            " loops in a row that match the same characters, or without arrays of distinct arrays",
            "response_format",
        )


class UnknownModel(RequestRefused):
    """No such model is served."""

    def __init__(self, model: str, served: tuple[str, ...]) -> None:
        self.model = model
        self.served = served
        super().__init__(unknown("model", model, served), "model")


class Overloaded(RuntimeFault):
    """The queue is full."""

    retry_after_s = 1.0

    def __init__(self, reason: str = "the queue is full") -> None:
        super().__init__(f"{reason}; try again in {self.retry_after_s:.0f} s")


class TooManySequences(Overloaded):
    """The client has `most` sequences already; a request has one for each of its `n` choices."""

    def __init__(self, most: int) -> None:
        super().__init__(f"this client has {most} answers running or waiting, which is the limit")


class DeadlineExceeded(RuntimeFault):
    """The request's time ran out before its answer was complete; discard what it has sent."""

    def __init__(self) -> None:
        super().__init__("the time for this request ran out before its answer was complete")


class EngineFault(RuntimeFault):
    """The external engine `engine` did not do as asked; discard what the request has received.

    Details, such as the engine's own words, follow the first colon of the reason. The probes leave them out.
    """

    def __init__(self, engine: str, reason: str) -> None:
        self.engine = engine
        self.reason = shorten(reason, MAX_REASON)
        super().__init__(f"the engine {engine} {self.reason}")


class EngineRefused(EngineFault):
    """An engine refuses a request. It would do so again, and its replicas too."""


class EngineBroke(EngineFault):
    """An engine broke off, stalled, or failed. One of its replicas may answer instead."""


class EngineUnreachable(EngineBroke):
    """There is no connection to an engine."""


class EngineFull(EngineBroke):
    """An engine, or a proxy before it, has no room for a request; try again after `retry_after_s` seconds."""

    def __init__(self, engine: str, reason: str, retry_after_s: float = 1.0) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(engine, reason)


class CanaryUnfinished(EngineBroke):
    """An engine did not finish the canary within `seconds`; a full one may have had others to answer.

    `num_running`: how many requests it says that it computes.
    """

    def __init__(self, engine: str, seconds: float, num_running: int | None) -> None:
        why = f": perhaps it is full; the requests that it says it computes: {num_running}"
        reason = f"did not finish the canary in {seconds:.0f} s"
        super().__init__(engine, f"{reason}{why if num_running else ''}")


class PluginMissing(EngineFault):
    """An engine does not know the grammar of a request, because the plugin does not run in it."""

    def __init__(self, engine: str) -> None:
        super().__init__(
            engine,
            "runs without Callgate's plugin, so it cannot hold an output to a grammar; install callgate in"
            " its environment, start it with xgrammar (vLLM: --structured-outputs-config.backend xgrammar,"
            " SGLang: --grammar-backend xgrammar), and look for the plugin in its log",
        )


class NoEngine(EngineFault):
    """None of the engines of a model takes requests now; try again after `retry_after_s` seconds."""

    def __init__(self, model: str, reasons: tuple[str, ...], retry_after_s: float) -> None:
        self.model = model
        self.retry_after_s = retry_after_s
        RuntimeFault.__init__(self, f"no engine of the model {model!r} takes requests: {'; '.join(reasons)}")


class GrammarNotStored(RuntimeFault):
    """No external engine can read the grammar of a request, because the store fails."""

    retry_after_s = 1.0

    def __init__(self) -> None:
        super().__init__(
            "external engines cannot read the grammar of this request, because the store does not take it;"
            f" try again in {self.retry_after_s:.0f} s, or send tools that were used before: their grammars"
            " are in the engines' memory"
        )


class GenerationFailed(RuntimeFault):
    """This generation ended without a valid output; discard what it has sent."""


class Unforeseen(GenerationFailed):
    """An error that nobody foresaw; who raises this logs it. Clients are not told its text."""

    def __init__(self) -> None:
        super().__init__("the generation failed unexpectedly; the gateway's log says why")


class EngineStopped(GenerationFailed):
    """The engine was stopped before the answer was complete; another engine may serve the request."""

    def __init__(self) -> None:
        super().__init__("the engine was stopped")


def first_line(error: Exception) -> str:
    """The first line of an error's message, or the error's type if there is no message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
