"""Cases of toolsets: every output reads back as calls with valid arguments, in every call syntax."""

import json
import random
from collections.abc import Iterable
from typing import Any

from soundness.tagged_schemas import arguments_schema
from whole_outputs import admits, parse_calls

from compiler.syntaxes import SYNTAXES
from fuzz.findings import Outcome
from fuzz.harness import Check, Harness
from fuzz.judging import EveryJudge
from fuzz.schemas import make_schema
from fuzz.tokens import draw, vocabulary
from toolspecs.tool import Tool

NUM_OUTPUTS = 6
NUM_BROKEN = 25
_NAMES = ("f", "ff", "get", "get_weather", "a-b", "f1")
_MORE = (*'"[{]}a1', "null", " ", "\n", ", ", '"a", ', "<", "\\", "é", "aaaaaaaa", "")
_TAGGED = [row.name for row in SYNTAXES.values() if row.tags]


class ToolsetCases:
    """Tools of every draft, in every call syntax."""

    name = "toolsets"

    def make(self, rng: random.Random) -> dict[str, Any]:
        """Schemas by the names of tools, a syntax, a choice, and the vocabulary."""
        syntax = rng.choice(list(SYNTAXES))
        names = rng.sample(_NAMES, rng.choice((1, 1, 2, 3)))
        words = (
            [f"crossing {syntax}", f"crossing {syntax} markers"]
            if SYNTAXES[syntax].tags
            else ["bytes", "pieces"]
        )
        return {
            "tools": {name: self._schema(rng) for name in names},
            "syntax": syntax,
            "choice": rng.choice(("required", "required", "auto")),
            "vocabulary": rng.choice(words),
        }

    def _schema(self, rng: random.Random) -> dict[str, Any]:
        return make_schema(rng, only_objects=True)

    def check(self, subject: dict[str, Any], rng: random.Random, harness: Harness) -> Outcome:
        """Compile, draw outputs, and read them as a client does; `subject["text"]` alone, if there is one."""
        return _ToolsetCheck(self.name, subject, rng, harness).outcome()


class TaggedCases(ToolsetCases):
    """Parameters that can be strings or JSON, beside parameters that a guard looks at, in syntaxes with tags."""

    name = "tagged"

    def make(self, rng: random.Random) -> dict[str, Any]:
        """As of toolsets, with a syntax that writes tags."""
        subject = super().make(rng)
        syntax = rng.choice(_TAGGED)
        words = f"crossing {syntax}{rng.choice(('', ' markers'))}"
        return {**subject, "syntax": syntax, "vocabulary": words}

    def _schema(self, rng: random.Random) -> dict[str, Any]:
        return arguments_schema(rng)


class _ToolsetCheck(Check):
    """The check of one toolset."""

    def _schemas(self) -> Iterable[Any]:
        return self._subject["tools"].values()

    def _compile(self) -> None:
        self._grammar = self._harness.compile_toolset(
            [Tool(name, "", schema) for name, schema in self._subject["tools"].items()],
            tokenizer=vocabulary(self._subject["vocabulary"]),
            syntax=self._subject["syntax"],
            tool_choice=self._subject["choice"],
        )

    def _find_judges(self) -> None:
        tools = self._subject["tools"].items()
        self._judges = {name: EveryJudge(schema, self._harness.ajv) for name, schema in tools}

    def _look(self) -> None:
        outputs: list[str] = []
        try:
            for number in range(NUM_OUTPUTS):
                written = draw(self._grammar, self._rng, self._rng.randrange(10 + 30 * number))
                outputs.append(self._grammar.vocabulary.display(written).decode(errors="replace"))
        except AssertionError as error:
            self._find("matcher, mask and closer disagree", str(error) or "a mask is empty")
        except Exception as error:  # noqa: BLE001 - as above
            self._find("raises while decoding", f"{type(error).__name__}: {error}")
        for output in outputs:
            self._judge(output, "drawn")
            for _ in range(NUM_BROKEN):
                changed = self._changed(output)
                try:
                    is_accepted = admits(self._grammar, changed)
                except Exception as error:  # noqa: BLE001 - as above
                    self._find("raises while reading", f"{type(error).__name__}: {changed!r} {error}")
                    continue
                if is_accepted:
                    self._judge(changed, "accepted")
                else:
                    self._count("not accepted")

    def _changed(self, text: str) -> str:
        """The text with one piece changed, left out, put in, or repeated."""
        rng = self._rng
        at = rng.randrange(len(text) + 1)
        to = min(len(text), at + rng.choice((1, 1, 1, 2, 5, 20)))
        more = rng.choice(_MORE)
        return rng.choice(
            (
                text[:at] + text[to:],
                text[:at] + more + text[at:],
                text[:at] + more + text[to:],
                text[:to] + text[at:],
            )
        )

    def _judge(self, output: str, what: str) -> None:
        """Whether an output reads back as calls of the tools, with valid arguments."""
        if what == "given" and not admits(self._grammar, output):
            return
        self._count(what)
        _, calls = parse_calls(output, self._grammar.syntax, self._grammar.parameter_types)
        if not calls and self._subject["choice"] == "required":
            self._find("an output has no calls", output, text=output)
        for name, arguments in calls:
            self._count("calls")
            if name not in self._judges:
                self._find("an output calls an unknown tool", name, text=output)
                continue
            if faults := self._judges[name].faults(arguments.encode()):
                self._find("admits invalid arguments", f"{faults[0]} in {arguments}", text=output)
            elif not isinstance(json.loads(arguments), dict):
                self._find("admits arguments that are no object", arguments, text=output)
