"""Cases of one schema: what is drawn, closed or accepted is valid."""

import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

from random_decoding import EmptyMask, Generation, RandomDecoder

from compiler.errors import UnsupportedSchema
from fuzz.findings import Outcome
from fuzz.harness import Check, Harness
from fuzz.instances import InstanceMaker, broken, neighbours, spelled
from fuzz.judging import EveryJudge
from fuzz.patterns import make_pattern, texts_near
from fuzz.pools import HOSTILE_STRINGS, PLAIN_STRINGS
from fuzz.schemas import make_schema, with_parts_elsewhere
from fuzz.tokens import draw, vocabulary

BIASES = (0.03, 0.2, 0.6)
MAX_TOKENS = 150
NUM_INSTANCES = 12
NUM_NEIGHBOURS = 4
LARGEST_MINIMUM = 1_000
"""A schema whose shortest text is longer is not asked for budgets."""


class SchemaCases:
    """Schemas of every draft."""

    name = "schemas"

    def make(self, rng: random.Random) -> dict[str, Any]:
        """A schema, how its objects are read, and the vocabulary."""
        return {
            "schema": with_parts_elsewhere(make_schema(rng), rng),
            "objects": rng.choice(("schema", "schema", "closed")),
            "vocabulary": rng.choice(("bytes", "pieces")),
        }

    def check(self, subject: dict[str, Any], rng: random.Random, harness: Harness) -> Outcome:
        """Compile and look at texts; at `subject["text"]` alone, if there is one."""
        return _SchemaCheck(self.name, subject, rng, harness).outcome()


class PatternCases:
    """Patterns that strings or keys must match, or must not."""

    name = "patterns"

    def make(self, rng: random.Random) -> dict[str, Any]:
        """A schema around a pattern."""
        pattern = make_pattern(rng)
        string: dict[str, Any] = {"type": "string", "pattern": pattern}
        if rng.random() < 0.4:
            string |= {"maxLength": rng.choice((1, 3, 8, 9, 20)), "minLength": rng.choice((0, 0, 1, 2))}
        schema = rng.choice(
            (
                string,
                string,
                {"type": "string", "not": {"pattern": pattern}},
                {"type": "string", "allOf": [{"pattern": pattern}, {"pattern": make_pattern(rng)}]},
                {
                    "type": "object",
                    "patternProperties": {pattern: {"type": "null"}},
                    "additionalProperties": False,
                },
                {"type": "object", "patternProperties": {pattern: False}, "minProperties": 1},
                {"type": "array", "items": string, "uniqueItems": True, "minItems": 1},
                {"enum": [*PLAIN_STRINGS, *HOSTILE_STRINGS], "pattern": pattern},
            )
        )
        return {"schema": schema, "objects": "schema", "vocabulary": "bytes"}

    def check(self, subject: dict[str, Any], rng: random.Random, harness: Harness) -> Outcome:
        """As of any schema, with texts that are near the pattern, and with JavaScript without `u` if need be."""
        return _PatternCheck(self.name, subject, rng, harness).outcome()


class _SchemaCheck(Check):
    """The check of one schema."""

    _judges: EveryJudge | None = None
    refusals = UnsupportedSchema

    def outcome(self) -> Outcome:
        """Counts and findings."""
        super().outcome()
        if self._judges:
            self._outcome.counts["no verdict: jsonschema fails"] += self._judges.num_failures
        return self._outcome

    def _schemas(self) -> Iterable[Any]:
        return [self._subject["schema"]]

    def _compile(self) -> None:
        self._compiled = self._harness.compile_schema(
            self._subject["schema"],
            tokenizer=vocabulary(self._subject["vocabulary"]),
            objects=self._subject["objects"],
        )

    def _find_judges(self) -> None:
        self._judges = EveryJudge(self._subject["schema"], self._harness.ajv)
        reason = self._judges.ajv_unasked
        self._count(f"ajv is not asked: it {reason}" if reason else "ajv is asked")

    def _look(self) -> None:
        drawn: list[Any] = []
        try:
            drawn = list(self._drawn())
            self._close()
        except EmptyMask as empty:
            self._find("a mask is empty", str(empty))
        except AssertionError as error:
            self._find("matcher, mask and closer disagree", str(error))
        except Exception as error:  # noqa: BLE001 - as above
            self._find("raises while decoding", f"{type(error).__name__}: {error}")
        maker = InstanceMaker(self._subject["schema"], self._rng)
        made = [maker.instance() for _ in range(NUM_INSTANCES)]
        made += self._texts(drawn)
        for value in [*drawn, *made]:
            for other in neighbours(value, self._rng, NUM_NEIGHBOURS):
                self._accept(spelled(other, self._rng))
                self._accept(json.dumps(other))
        for value in drawn:
            for _ in range(NUM_NEIGHBOURS):
                self._accept(broken(spelled(value, self._rng), self._rng))

    def _drawn(self) -> Iterator[Any]:
        """The values of texts that random decoding wrote; each is judged."""
        decoder = RandomDecoder(self._compiled.vocabulary)
        for bias in BIASES:
            text = decoder.decode(self._compiled.matcher(), self._rng, max_tokens=MAX_TOKENS, bias=bias)
            if text is None:
                self._count("unfinished")
                continue
            yield from self._judge_written(text, "drawn")
        for _ in range(2):
            yield from self._judge_written(
                draw(self._compiled, self._rng, self._rng.randrange(60)), "drawn and closed"
            )

    def _close(self) -> None:
        minimum = self._compiled.closer().minimum()
        if minimum > LARGEST_MINIMUM:
            self._count("no budgets: the shortest text is too long")
            return
        assert not self._compiled.closer().fits(minimum - 1), "the closer fits below its minimum"
        for extra in (0, 1, self._rng.randrange(2, 25)):
            written = Generation(self._compiled, minimum + extra, self._rng)
            assert len(written.ids) <= minimum + extra, "longer than its budget"
            list(self._judge_written(written.spelled, "closed at a budget"))

    def _judge_written(self, text: bytes, what: str) -> Iterator[Any]:
        """The value of a text that a mask let through, after judging it."""
        try:
            shown = text.decode()
        except UnicodeDecodeError:
            self._find("writes no UTF-8", repr(text))
            return
        if not self._compiled.accepts(shown):
            self._find("writes what is not accepted", f"{what}: {shown!r}")
        self._judge(shown, what)
        try:
            yield json.loads(shown)
        except ValueError:
            return

    def _judge(self, text: str, what: str) -> None:
        """Whether an accepted text is valid."""
        if what == "given" and not self._compiled.accepts(text):
            return
        self._count(what)
        if faults := [*self._judges.faults(text.encode()), *self._pattern_faults(text)]:
            self._find("admits an invalid text", faults[0], text=text)

    def _accept(self, text: str) -> None:
        try:
            text.encode()
        except UnicodeEncodeError:
            return
        try:
            is_accepted = self._compiled.accepts(text)
        except Exception as error:  # noqa: BLE001 - as above
            self._find("raises while reading", f"{type(error).__name__}: {text!r} {error}")
            return
        if is_accepted:
            self._judge(text, "accepted")
        else:
            self._count("not accepted")

    def _texts(self, drawn: list[Any]) -> list[Any]:
        """More values to look at."""
        return []

    def _pattern_faults(self, text: str) -> list[str]:
        """What other judges say of a text."""
        return []


class _PatternCheck(_SchemaCheck):
    """The check of a schema around a pattern."""

    def _texts(self, drawn: list[Any]) -> list[Any]:
        """Values of the subject's shape with strings that its patterns might match."""
        schema = self._subject["schema"]
        strings = texts_near(schema, drawn, self._rng)
        if schema.get("type") == "object":
            return [{text: None} for text in strings]
        return [[text] for text in strings] if schema.get("type") == "array" else strings

    def _pattern_faults(self, text: str) -> list[str]:
        """What JavaScript and Rust's `regex` say of a string under the schema's own pattern."""
        schema = self._subject["schema"]
        if schema.get("type") != "string" or "pattern" not in schema:
            return []
        return self._harness.pattern_faults(schema["pattern"], json.loads(text))
