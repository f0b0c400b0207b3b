"""What checks need beside the subject: the compiler under test, ajv, and where a case stands; what they tell."""

import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from compiler import compile_schema, compile_toolset
from fuzz.ajv import Ajv
from fuzz.findings import Finding, Outcome


def _nothing() -> None:
    """In tests nobody waits to hear that a schema is compiled."""


@dataclass(frozen=True)
class Harness:
    """The compiler, which a test may replace by an unsound one; ajv if it is at hand; what to call after compiling."""

    compile_schema: Callable[..., Any] = compile_schema
    compile_toolset: Callable[..., Any] = compile_toolset
    ajv: Ajv | None = None
    compiled: Callable[[], None] = field(default=_nothing)

    def pattern_faults(self, pattern: str, text: str) -> list[str]:
        """Which engines do not find a pattern in a text; an engine that cannot read the pattern says nothing."""
        faults = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                if not re.search(pattern, text):
                    faults.append("Python's re: does not match")
            except (re.error, OverflowError):
                pass
        for name, options in (("fancy_regex", None), ("regex", jsonschema_rs.RegexOptions())):
            try:
                validator = jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
            except jsonschema_rs.ValidationError:
                continue
            if not validator.is_valid(text):
                faults.append(f"Rust's {name}: does not match")
        answers = self.ajv.matches(pattern, [text]) if self.ajv else None
        if answers and not answers[0]:
            faults.append("JavaScript's RegExp: does not match")
        return faults


class Check:
    """The check of one subject, which counts and finds."""

    def __init__(self, kind: str, subject: dict[str, Any], rng: random.Random, harness: Harness) -> None:
        self._kind = kind
        self._subject = subject
        self._rng = rng
        self._harness = harness
        self._outcome = Outcome()

    def _count(self, what: str) -> None:
        self._outcome.counts[what] += 1

    def _find(self, rule: str, detail: str, **text: str) -> None:
        """Note what must not be; `text` is the one text that is to be looked at, if there is one."""
        self._outcome.findings.append(Finding(self._kind, rule, {**self._subject, **text}, detail))
