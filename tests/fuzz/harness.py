"""What checks need beside the subject: the compiler under test, ajv, and where a case stands; what they tell."""

import random
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from compiler import compile_schema, compile_toolset
from compiler.errors import CompilerError
from fuzz.ajv import Ajv
from fuzz.findings import Finding, Outcome
from fuzz.judging import Unjudged, is_schema


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
    """The check of one subject, which counts and finds: it compiles, and looks at what may be written then."""

    refusals: type[Exception] = CompilerError
    """What compiling may raise."""

    def __init__(self, kind: str, subject: dict[str, Any], rng: random.Random, harness: Harness) -> None:
        self._kind = kind
        self._subject = subject
        self._rng = rng
        self._harness = harness
        self._outcome = Outcome()

    def outcome(self) -> Outcome:
        """Counts and findings; of the one text alone that the subject may have."""
        if not all(map(is_schema, self._schemas())):
            self._count("no schema")
            return self._outcome
        try:
            self._compile()
        except self.refusals:
            self._count("refused")
            return self._outcome
        except Exception as error:  # noqa: BLE001 - whatever else is raised is what we look for
            self._find("raises another error", f"{type(error).__name__}: {error}")
            return self._outcome
        self._count("compiled")
        self._harness.compiled()
        try:
            self._find_judges()
        except Unjudged:
            self._count("unjudged")
            return self._outcome
        if "text" in self._subject:
            self._judge(self._subject["text"], "given")
        else:
            self._look()
        return self._outcome

    def _schemas(self) -> Iterable[Any]:
        """The schemas of the subject."""
        raise NotImplementedError

    def _compile(self) -> None:
        """Compile the subject."""
        raise NotImplementedError

    def _find_judges(self) -> None:
        """Find the judges of the schemas; raises Unjudged."""
        raise NotImplementedError

    def _look(self) -> None:
        """Look at texts that are made up."""
        raise NotImplementedError

    def _judge(self, text: str, what: str) -> None:
        """Whether a text that is accepted is valid; one that is `given` may be refused."""
        raise NotImplementedError

    def _count(self, what: str) -> None:
        self._outcome.counts[what] += 1

    def _find(self, rule: str, detail: str, **text: str) -> None:
        """Note what must not be; `text` is the one text that is to be looked at, if there is one."""
        self._outcome.findings.append(Finding(self._kind, rule, {**self._subject, **text}, detail))
