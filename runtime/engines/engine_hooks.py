"""What a plugin replaces or calls in its engine, and the versions that it knows; both are checked first.

An engine that differs is refused: it does not start.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import wraps
from importlib import import_module
from typing import Any


class UnknownEngine(RuntimeError):
    """This engine is not one that the plugin knows; the message names both versions."""


@dataclass(frozen=True, slots=True)
class EngineHook:
    """A method that is replaced or called, and the parameters that it must have."""

    module: str
    owner: str
    method: str
    parameters: tuple[str, ...]

    def owner_class(self) -> Any:
        """The class that has it; imports its module."""
        return getattr(import_module(self.module), self.owner)

    def replace(self, make: Callable[[Any], Any]) -> None:
        """Put what `make` makes of the method into its place."""
        original = getattr(self.owner_class(), self.method)
        setattr(self.owner_class(), self.method, wraps(original)(make(original)))


@dataclass(frozen=True, slots=True)
class KnownEngine:
    """An engine's name, and the versions whose sources were read, as patterns such as `0.32.*`."""

    name: str
    versions: tuple[str, ...]

    def check(self, version: str) -> None:
        """Raise UnknownEngine for a version that the plugin has not been tried with."""
        if not any(fnmatchcase(version, pattern) for pattern in self.versions):
            versions = " and ".join(self.versions)
            raise UnknownEngine(
                f"this is {self.name} {version}, and this version of callgate knows {self.name} {versions}:"
                " install one of these, or a callgate that knows this one. To start this engine without"
                " callgate, unset CALLGATE_STORE and CALLGATE_SECRET."
            )

    def check_hook(self, hook: EngineHook, version: str) -> None:
        """Raise UnknownEngine if a method is missing, or has other parameters."""
        method = getattr(hook.owner_class(), hook.method, None)
        parameters = tuple(inspect.signature(method).parameters) if method is not None else None
        if parameters != hook.parameters:
            hook_name = f"{hook.owner}.{hook.method}"
            raise UnknownEngine(
                f"{self.name} {version} has another {hook_name} than callgate expects: {parameters}, not"
                f" {hook.parameters}"
            )
