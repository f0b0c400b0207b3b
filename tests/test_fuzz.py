"""Fuzzing: some cases of each kind hold, and an unsound matcher is found and shrunk."""

import json
import random
from pathlib import Path

import pytest
from fuzz import driver
from fuzz.ajv import Ajv, is_at_hand
from fuzz.driver import Settings, fuzz
from fuzz.findings import Finding, Outcome
from fuzz.harness import Harness
from fuzz.instances import InstanceMaker, spelled
from fuzz.judging import EveryJudge, is_schema
from fuzz.kinds import KINDS, TURNS, case
from fuzz.schemas import make_schema
from fuzz.shrinking import shrink, smaller
from soundness.schemas import DIALECTS

from compiler import compile_schema, compile_toolset
from toolspecs.tool import Tool

NEEDS_NODE = pytest.mark.skipif(
    not is_at_hand(), reason="Node or ajv is not at hand: `make fuzz` installs it"
)


@pytest.mark.parametrize(
    ("name", "count"), [("schemas", 100), ("patterns", 30), ("toolsets", 12), ("tagged", 6)]
)
def test_some_cases_of_each_kind_hold(name, count):
    numbers = [number for number in range(1000, 1400) if TURNS[number % len(TURNS)] == name][:count]
    outcomes = []
    for number in numbers:
        kind, subject, seed = case(1, number)
        outcomes.append(KINDS[kind].check(subject, random.Random(seed), Harness()))
    assert [finding for outcome in outcomes for finding in outcome.findings] == []
    assert sum(outcome.counts["compiled"] for outcome in outcomes) > len(numbers) / 4
    assert sum(outcome.counts["drawn"] for outcome in outcomes) > len(numbers)


def without(keyword: str, schema):
    """A schema without a keyword, subschemas included."""
    if isinstance(schema, list):
        return [without(keyword, part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: without(keyword, part) for name, part in schema.items() if name != keyword}


def unsound(schema, **options):
    return compile_schema(without("maxLength", schema), **options)


def test_an_unsound_compiler_is_found_out_and_its_schema_shrunk():
    schema = {
        "$schema": DIALECTS[2020],
        "type": "object",
        "properties": {
            "a": {"type": "string", "maxLength": 2, "description": "short"},
            "b": {"type": "integer"},
        },
        "required": ["a"],
    }
    subject = {"schema": schema, "objects": "schema", "vocabulary": "bytes"}

    def outcome(changed) -> Outcome:
        return KINDS["schemas"].check(changed, random.Random(7), Harness(compile_schema=unsound))

    found = outcome(subject).findings
    assert {finding.rule for finding in found} == {"admits an invalid text"}
    shrunk = driver._shrunk(found[0], outcome, "7")
    assert without("maxLength", shrunk.subject["schema"]) != shrunk.subject["schema"]
    assert len(json.dumps(shrunk.subject["schema"])) < 50
    assert len(shrunk.subject["text"]) < 12
    with pytest.raises(AssertionError):
        run_test(shrunk, unsound)
    run_test(shrunk, compile_schema)


def run_test(finding: Finding, compiler) -> None:
    """Run the test that a finding is written as."""
    names = {"compile_schema": compiler}
    exec(finding.as_test(), names)
    next(test for name, test in names.items() if name.startswith("test_"))()


def test_an_unsound_toolset_is_found_out():
    def unsound_toolset(tools, **options):
        changed = [Tool(tool.name, "", without("uniqueItems", tool.parameters)) for tool in tools]
        return compile_toolset(changed, **options)

    tags = {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 3, "uniqueItems": True}
    tool = {"type": "object", "properties": {"tags": {**tags, "minItems": 2}}, "required": ["tags"]}
    subject = {"tools": {"f": tool}, "syntax": "hermes", "choice": "required", "vocabulary": "pieces"}
    harness = Harness(compile_toolset=unsound_toolset)
    outcome = KINDS["toolsets"].check(subject, random.Random(3), harness)
    assert "admits invalid arguments" in {finding.rule for finding in outcome.findings}
    found = next(finding for finding in outcome.findings if "text" in finding.subject)
    assert KINDS["toolsets"].check(found.subject, random.Random(), harness).findings == [found]


def test_a_wrong_error_is_found():
    def broken(schema, **options):
        raise KeyError("type")

    subject = {"schema": True, "objects": "schema", "vocabulary": "bytes"}
    outcome = KINDS["schemas"].check(subject, random.Random(), Harness(compile_schema=broken))
    assert [finding.rule for finding in outcome.findings] == ["raises another error"]


def test_a_case_is_made_of_its_seed_and_number():
    assert [case(3, number) for number in range(40)] == [case(3, number) for number in range(40)]
    assert case(3, 0) != case(4, 0)


def test_schemas_use_every_draft_and_most_compile():
    rng = random.Random(0)
    schemas = [make_schema(rng) for _ in range(600)]
    assert {schema["$schema"] for schema in schemas} == set(DIALECTS.values())
    assert sum(map(is_schema, schemas)) > 580
    text = json.dumps(schemas)
    used = [
        "unevaluatedItems", "unevaluatedProperties", "dependencies", "dependentSchemas", "dependentRequired", "$dynamicRef", "$recursiveRef",
        "$anchor", "contains", "maxContains", "if", "not", "oneOf", "uniqueItems", "propertyNames", "exclusiveMinimum", "multipleOf", "format",
    ]  # fmt: skip
    assert [keyword for keyword in used if f'"{keyword}"' not in text] == []


def test_many_instances_are_valid_and_many_are_not():
    rng = random.Random(0)
    verdicts = []
    for _ in range(60):
        schema = make_schema(rng)
        if is_schema(schema):
            judge, maker = EveryJudge(schema, None), InstanceMaker(schema, rng)
            verdicts += [judge.faults(json.dumps(maker.instance()).encode()) == [] for _ in range(5)]
    assert 0.2 < sum(verdicts) / len(verdicts) < 0.8


def test_a_value_is_spelled_so_that_it_reads_the_same():
    rng = random.Random(0)
    value = {"é\n/": [1, -0.5, True, None, '"\\😀'], "": {}}
    texts = {spelled(value, rng) for _ in range(200)}
    assert len(texts) > 50
    plain = [text for text in texts if "01" not in text]
    assert all(json.loads(text) == value for text in plain)


@NEEDS_NODE
def test_ajv_judges_and_javascript_matches():
    ajv = Ajv(seconds=1)
    for draft in DIALECTS:
        schema = {"$schema": DIALECTS[draft], "items": {"maximum": 3}, "type": "array"}
        judge = EveryJudge(schema, ajv)
        assert judge.ajv_unasked == ""
        assert judge.faults(b"[1, 3]") == []
        assert [fault.partition(":")[0] for fault in judge.faults(b"[4]")][-1] == "ajv"
    assert EveryJudge({"multipleOf": 0.1}, ajv).ajv_unasked
    assert ajv.matches("^\\p{L}$", ["é", "1"]) == [True, False]
    assert ajv.matches("^\\-$", ["-"]) == [True]
    assert ajv.matches("(", ["-"]) is None
    assert ajv.matches("^(a+)+$", ["a" * 50 + "!"]) is None
    assert ajv.matches("a", ["a"]) == [True]
    ajv.stop()


def test_what_shows_nothing_any_more_is_not_shrunk_further():
    assert shrink({"a": [3, "xyz"], "b": 1}, lambda value: "y" in json.dumps(value)) in (
        "y",
        ["y"],
        {"a": ["y"]},
    )
    assert list(smaller(None)) == []


@pytest.mark.timeout(120)
def test_cases_run_in_workers_and_are_counted(tmp_path: Path):
    tally = fuzz(Settings(0.02, 1, 1, tmp_path, first=1000), lambda line: None)
    assert tally.num_cases >= 1
    assert tally.found.total() == 0
    assert json.loads((tmp_path / "tally-1.json").read_text())["cases"] == tally.num_cases
