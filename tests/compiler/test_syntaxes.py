"""The rows of the syntax table, held against xgrammar's own structural tags where it has the family."""

import itertools

import pytest
import xgrammar as xgr
from monolith import SAMPLES

from compiler.errors import CompilerError, UnknownSyntax
from compiler.syntaxes import SYNTAXES, syntax, syntax_of_template
from compiler.vocabulary import Vocabulary

FAMILIES = {
    "hermes": "qwen_3",
    "llama3": "llama",
    "deepseek_v3": "deepseek_r1",
    "deepseek_v3_1": "deepseek_v3_1",
}
PLAIN_NAMES = [name for name in SAMPLES if '"' not in name]


def _written(row, names):
    calls = [row.header(name) + SAMPLES[name] + row.end for name in names]
    return row.opening + row.separator.join(calls) + row.closing


def _tag_matcher(family: str, choice: str, *, parallel: bool) -> xgr.GrammarMatcher:
    tools = [{"type": "function", "function": {"name": name}} for name in PLAIN_NAMES]
    tag = xgr.get_model_structural_tag(family, tools, choice, "disabled", parallel_tool_calls=parallel)
    compiler = xgr.GrammarCompiler(Vocabulary.of_bytes().tokenizer_info, max_threads=1)
    return xgr.GrammarMatcher(compiler.compile_structural_tag(tag))


@pytest.mark.parametrize(("name", "family"), FAMILIES.items())
@pytest.mark.parametrize(("choice", "parallel"), [*itertools.product(("auto", "required"), (True, False))])
def test_what_we_write_is_in_the_language_of_the_familys_structural_tag(name, family, choice, parallel):
    row = syntax(name)
    prose = "Let me see <b. " if choice == "auto" else ""
    outputs = [prose + _written(row, [tool]) for tool in PLAIN_NAMES]
    if parallel:
        outputs += [prose + _written(row, pair) for pair in itertools.permutations(PLAIN_NAMES, 2)]
    compiled = _tag_matcher(family, choice, parallel=parallel)
    for output in outputs:
        matcher = compiled.fork()
        assert matcher.accept_string(output), output
        assert matcher.is_completed(), output


@pytest.mark.parametrize(("name", "family"), FAMILIES.items())
def test_the_familys_structural_tag_takes_no_other_header(name, family):
    row = syntax(name)
    matcher = _tag_matcher(family, "required", parallel=True)
    assert not matcher.accept_string(row.opening + row.header("pay")[:-1] + "?" + SAMPLES["pay"])


@pytest.mark.parametrize("row", SYNTAXES.values(), ids=lambda row: row.name)
def test_a_call_begins_with_the_trigger(row):
    assert (row.opening + row.begin).startswith(row.trigger)
    assert row.trigger


def test_names_are_escaped_as_json_strings_are():
    assert syntax("hermes").header('a"b\\ü') == '<tool_call>\n{"name": "a\\"b\\\\ü", "arguments": '


def test_an_unknown_syntax_names_those_there_are():
    with pytest.raises(
        UnknownSyntax, match=r"no call syntax 'harmony'; available: .*hermes.*mistral"
    ) as error:
        syntax("harmony")
    assert isinstance(error.value, CompilerError)
    assert "json" in error.value.available


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ('<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call>', "hermes"),
        ('{{- "[TOOL_CALLS] [" }}', "mistral"),
        ('<|start_header_id|>assistant {"name": f, "parameters": d}', "llama3"),
        ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\\n```json", "deepseek_v3"),  # noqa: RUF001 - their spelling
        ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>", "deepseek_v3_1"),  # noqa: RUF001 - their spelling
        ("<tool_call>\\n<function=f>\\n<parameter=p>", "json"),
        ("{% for message in messages %}", "json"),
        (None, "json"),
    ],
)
def test_the_syntax_is_read_off_the_chat_template(template, name):
    assert syntax_of_template(template).name == name
