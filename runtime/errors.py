"""What can go wrong while generating.

RuntimeFault
├── ModelLoadError      a model cannot be loaded: path and reason
├── UnusableDevice      there is no such device here; those there are
├── RequestRefused      this request cannot be served as asked
│   ├── PromptTooLong   the prompt leaves no room in the context
│   ├── BudgetTooSmall  max_tokens is below the shortest valid output
│   └── UnknownModel    no such model is served
├── Overloaded          the queue is full, try again after `retry_after_s`
├── DeadlineExceeded    the time for this request is over
└── GenerationFailed    this sequence failed (NaN logits)
    └── EngineStopped   the engine was stopped before the answer was whole
"""

from typing import Any, Self

from toolspecs.nearest import instead, unknown


class RuntimeFault(Exception):
    """The root of this package's errors."""


class ModelLoadError(RuntimeFault):
    """A model cannot be loaded."""

    def __init__(self, model: str, reason: str) -> None:
        self.model = model
        self.reason = reason
        super().__init__(f"cannot load model {model!r}: {reason}")

    @classmethod
    def of(cls, model: Any, reason: str) -> Self:
        """The error of transformers' model, read already."""
        return cls(model.config.name_or_path or type(model).__name__, reason)


class UnusableDevice(RuntimeFault):
    """A model cannot run on `device`; `usable` are the names that can be given."""

    def __init__(self, device: str, usable: tuple[str, ...], reason: str) -> None:
        self.device = device
        self.usable = usable
        super().__init__(
            f"device {device!r} cannot be used ({reason}){instead(device, usable)}; --device cpu always can"
        )


class RequestRefused(RuntimeFault):
    """This request cannot be served as asked; `parameter` names the culprit."""

    def __init__(self, message: str, parameter: str) -> None:
        self.parameter = parameter
        super().__init__(message)


class PromptTooLong(RequestRefused):
    """The prompt leaves no room in the context; `at_least` so many tokens where they were not counted."""

    def __init__(self, num_prompt_tokens: int, context_length: int, *, at_least: bool = False) -> None:
        self.num_prompt_tokens = num_prompt_tokens
        self.context_length = context_length
        size = f"at least {num_prompt_tokens}" if at_least else f"{num_prompt_tokens}"
        super().__init__(
            f"the prompt has {size} tokens, which leaves no room in this model's context of {context_length}",
            "messages",
        )


class BudgetTooSmall(RequestRefused):
    """`max_tokens` is below the shortest valid output."""

    def __init__(self, max_tokens: int, minimum: int) -> None:
        self.max_tokens = max_tokens
        self.minimum = minimum
        super().__init__(
            f"max_tokens is {max_tokens}, but the shortest valid output of this request needs {minimum}",
            "max_tokens",
        )


class UnknownModel(RequestRefused):
    """No such model is served."""

    def __init__(self, model: str, served: tuple[str, ...]) -> None:
        self.model = model
        self.served = served
        super().__init__(unknown("model", model, served), "model")


class Overloaded(RuntimeFault):
    """The queue is full."""

    def __init__(self, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(f"the queue is full; try again in {retry_after_s:.0f} s")


class DeadlineExceeded(RuntimeFault):
    """The request's time was over before its answer was whole; nothing it sent may be used."""

    def __init__(self) -> None:
        super().__init__("the time for this request was over before its answer was whole")


class GenerationFailed(RuntimeFault):
    """This generation ended without a valid output; nothing it sent may be used."""


class EngineStopped(GenerationFailed):
    """The engine was stopped before the answer was whole: another one may serve it."""

    def __init__(self) -> None:
        super().__init__("the engine was stopped")
