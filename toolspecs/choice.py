"""Which of its tools a model may, must or must not call."""

from dataclasses import dataclass
from enum import StrEnum


class ChoiceMode(StrEnum):
    """`none`: text only; `auto`: text or calls; `required`: at least one call."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """A mode, and the tools it is restricted to (`None`: every tool of the toolset).

    `is_named` marks the choice of one function by name, which wire formats finish differently.
    """

    mode: ChoiceMode = ChoiceMode.AUTO
    allowed: tuple[str, ...] | None = None
    is_named: bool = False

    @classmethod
    def named(cls, name: str) -> "ToolChoice":
        """The choice that calls exactly the tool `name`."""
        return cls(ChoiceMode.REQUIRED, (name,), is_named=True)
