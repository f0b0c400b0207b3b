"""The tables of what engines read differently are true, and patterns are read or refused as they say."""

import json
import random
import re
import shutil
import subprocess
import sys
import warnings

import jsonschema_rs
import pytest
from read_constructs import READ

from compiler import UnsupportedSchema, compile_schema
from compiler.regular.engine_differences import REFUSED, RefusedConstruct
from compiler.regular.language import PatternCondition, language
from compiler.regular.nfa import MISPLACED_LOOKBEHIND
from compiler.regular.pattern_tree import PatternError

ROWS = [*REFUSED, *READ]
SINCE_PYTHON_3_14 = {r"a\z": "+", r"^\B": "+"}
"""What newer versions of Python say, which agree with the other engines there."""
ECMA_ASKER = """
const [flags, rows] = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(rows.map(([pattern, text]) => {
    try { return new RegExp(pattern, flags).test(text) ? "+" : "-" } catch { return "." }
})));
"""


def in_ecma(flags, rows):
    """What ECMA-262 says of pairs of a pattern and a text, asked of Node."""
    asked = json.dumps([flags, rows])
    answer = subprocess.run(
        ["node", "-e", ECMA_ASKER], input=asked, capture_output=True, text=True, check=True
    )
    return json.loads(answer.stdout)


def in_python(pattern, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "+" if re.search(pattern, text) else "-"
        except (re.error, OverflowError):
            return "."


def in_rust(pattern, text, options=None):
    try:
        validator = jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
    except jsonschema_rs.ValidationError:
        return "."
    return "+" if validator.is_valid(text) else "-"


def in_engines_at_hand(pattern, text):
    return [
        in_python(pattern, text),
        in_rust(pattern, text),
        in_rust(pattern, text, jsonschema_rs.RegexOptions()),
    ]


def readings(pattern, text):
    """Whether the text may be written where the pattern must match, and where it must not.

    A pattern that must match may have a lookbehind at its end. One that must not match may not have it, so
    nothing is written there.
    """
    found = [language([PatternCondition(pattern)]).accepts(text)]
    try:
        return [*found, language([PatternCondition(pattern, is_excluded=True)]).accepts(text)]
    except PatternError as error:
        if str(error) != MISPLACED_LOOKBEHIND:
            raise
        return [*found, False]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}: {row.pattern!r}")
def test_python_and_rust_answer_as_the_table_says(row):
    python, rust = row.answers[2], row.answers[3:]
    if sys.version_info >= (3, 14):
        python = SINCE_PYTHON_3_14.get(row.pattern, python)
    assert in_engines_at_hand(row.pattern, row.text) == [python, *rust]


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not at hand")
@pytest.mark.parametrize(("flags", "column"), [("u", 0), ("", 1)])
def test_ecma_answers_as_the_table_says(flags, column):
    found = in_ecma(flags, [(row.pattern, row.text) for row in ROWS])
    assert [row for row, answer in zip(ROWS, found, strict=True) if row.answers[column] != answer] == []


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row.name}: {row.pattern!r}")
def test_a_refused_construct_is_named_with_a_way_out(row: RefusedConstruct):
    for is_excluded in (False, True):
        with pytest.raises(PatternError, match=re.escape(f"has {row.name} (")) as refused:
            language([PatternCondition(row.pattern, is_excluded=is_excluded)])
        assert refused.value.suggestion == row.instead


def test_a_refusal_names_the_backreference_and_its_place():
    pattern = r"^\s*<([A-Za-z]+).+?(\/>|\/\1>)\s*$"
    with pytest.raises(UnsupportedSchema) as refused:
        compile_schema({"type": "object", "properties": {"icon": {"type": "string", "pattern": pattern}}})
    place = pattern.index(r"\1")
    assert f"/properties/icon/pattern: has a backreference (\\1) at position {place}," in str(refused.value)


@pytest.mark.parametrize("row", READ, ids=lambda row: f"{row.name}: {row.pattern!r}")
def test_what_is_read_is_what_all_engines_say(row):
    assert readings(row.pattern, row.text) == [row.agreed == {"+"}, row.agreed == {"-"}]


@pytest.mark.parametrize(
    "row", [row for row in REFUSED if row.is_disputed], ids=lambda row: repr(row.pattern)
)
@pytest.mark.parametrize(
    "schema_with",
    [
        lambda row: {"enum": [row.text, "other"], "pattern": row.pattern},
        lambda row: {"properties": {row.text: {}}, "patternProperties": {row.pattern: {"type": "null"}}},
        lambda row: {"enum": [row.text, "other"], "pattern": f"(?<x>y)?(?<z>a{{9999}})?{row.pattern}"},
    ],
)
def test_a_disputed_pattern_is_refused_even_if_nothing_but_literals_meet_it(row, schema_with):
    with pytest.raises(UnsupportedSchema):
        compile_schema(schema_with(row))


@pytest.mark.parametrize(("pattern", "values"), [(r"^\B", ["", "-"]), (r"^(?!\B)", ["", "a"])])
def test_the_empty_text_is_listed_beside_no_inner_boundary(pattern, values):
    with pytest.raises(UnsupportedSchema, match="engines disagree on whether ''"):
        compile_schema({"enum": values, "pattern": pattern})


def test_the_empty_text_is_listed_beside_other_patterns():
    compiled = compile_schema({"enum": ["", "a"], "pattern": "^a?$"})
    assert compiled.accepts('""')


ATOMS = [
    *"ab1-]},#é \n", "\\d", "\\W", "\\s", "\\b", "\\B", ".", "^", "$", "[ab]", "[^a]", "[a&&b]", "[[a]", "[a~~b]", "[^\\w]", "{", "{a}",
    "{,2}", "{}", "{ 2}", "{2, 3}", "\\-", "\\/", "\\n", "\\x41", "\\u0041", "\\0", "\\01", "\\a", "\\Z", "\\<", "|", "()", "\\1", "[]", "(?i)",
]  # fmt: skip
COUNTS = ["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "++", "{,1}"]
GROUPS = ["(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?P<n>"]
TEXTS = [
    "", "a", "b", "aa", "ab", "a\n", "\n", "a\n\n", "-", "]", "}", "{", "{a}", "{,2}", "a{,2}", "{ 2}", " ", "#", "é", "aé", "1", "A", "\x01",
    "\u0661", "&", "~", "b]", "b\n", "ab\n",
]  # fmt: skip


def random_pattern(rng, depth=0):
    """A pattern of three pieces or fewer, groups in groups, lookaround at the start more often than elsewhere."""
    pieces = []
    for _ in range(rng.randint(1, 3)):
        is_group = depth < 2 and rng.random() < 0.2
        piece = f"{rng.choice(GROUPS)}{random_pattern(rng, depth + 1)})" if is_group else rng.choice(ATOMS)
        pieces.append(piece + (rng.choice(COUNTS) if rng.random() < 0.2 else ""))
    begins = (
        rng.choice(["", "", "^", f"^(?!{rng.choice(ATOMS)}{rng.choice(['', '$'])})"]) if not depth else ""
    )
    return f"{begins}{''.join(pieces)}{rng.choice(['', '', '$'])}"


@pytest.mark.parametrize("seed", range(4))
def test_no_engine_contradicts_how_a_random_pattern_is_read(seed):
    rng = random.Random(seed)
    num_read = 0
    for _ in range(500):
        pattern = random_pattern(rng)
        try:
            automata = [language([PatternCondition(pattern, is_excluded=x)]) for x in (False, True)]
        except ValueError:
            continue
        num_read += 1
        for text in TEXTS:
            matching, other = (automaton.accepts(text) for automaton in automata)
            answers = set(in_engines_at_hand(pattern, text))
            assert not (matching and "-" in answers), (pattern, text)
            assert not (other and "+" in answers), (pattern, text)
    assert num_read > 100
