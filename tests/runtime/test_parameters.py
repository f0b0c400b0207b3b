"""Tagged parameters in, the JSON of the arguments out, however the text is cut."""

import json

import pytest

from compiler.syntaxes import SYNTAXES
from compiler.tagged_values import may_be_scalar
from runtime.text import parameters
from runtime.text.parameters import ParameterReader
from runtime.text.pending_text import PendingText

QWEN = SYNTAXES["qwen3_coder"]
DEEPSEEK = SYNTAXES["deepseek_v3_2"]


def read(text, types, *, syntax=QWEN, size=1000):
    reader = ParameterReader(syntax, types)
    settled = "".join(reader.feed(text[at : at + size]) for at in range(0, len(text), size))
    return (settled + reader.feed(""), reader.rest) if reader.is_over else settled


def parameter(value, key="k"):
    return f"<parameter={key}>\n{value}\n</parameter>\n"


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("types", "written", "value"),
    [
        (["string"], "null", "null"),
        (["string"], "", ""),
        (["string"], '"a"\\\n{', '"a"\\\n{'),
        (["string"], "\n</parameter \n", "\n</parameter \n"),
        (["number"], "-1.5e3", -1500.0),
        (["array"], '["</parameter>\\n", [1]]', ["</parameter>\n", [1]]),
        (["null", "string"], "null", None),
        (["null", "string"], " null\n", None),
        (["null", "string"], "nullable", "nullable"),
        (["null", "string"], "12", "12"),
        (["null", "string"], "[1]", "[1]"),
        (["null", "string"], "", ""),
        (["number", "string"], "12", 12),
        (["number", "string"], "12 apples", "12 apples"),
        (["number", "string"], "2025-01-31", "2025-01-31"),
        (["number", "string"], "1.", "1."),
        (["boolean", "string"], "true", True),
        (["boolean", "string"], "True", "True"),
        (["string", "array"], '["a"]', ["a"]),
        (["string", "array"], '{"a"}', '{"a"}'),
        (["string", "object"], '{"a": "]}"}', {"a": "]}"}),
        (["string", "object"], "  <p>", "  <p>"),
    ],
)
def test_a_value_is_read_as_its_type(types, written, value, size):
    text = parameter(written) + QWEN.end
    arguments, rest = read(text, {"k": tuple(types)}, size=size)
    assert json.loads(arguments) == {"k": value}
    assert QWEN.end.startswith(rest)


@pytest.mark.parametrize(
    ("begun", "unit", "rest", "value"),
    [
        ("", "\n", "x", "\n" * 20_000 + "x"),
        ("", " ", "12", 12),
        ("null", " ", "", None),
        ("", "7", "x", "7" * 20_000 + "x"),
    ],
)
def test_each_piece_of_a_value_is_looked_at_once(monkeypatch, begun, unit, rest, value):
    """Not again with each token, which for a hundred thousand blanks would take minutes."""
    looked_at = []

    def counted(own, end):
        looked_at.append(len(own.text))
        return find_before(own, end)

    def may_be(types, text):
        looked_at.append(len(text))
        return may_be_scalar(types, text)

    find_before = PendingText.find_before
    monkeypatch.setattr(PendingText, "find_before", counted)
    monkeypatch.setattr(parameters, "may_be_scalar", may_be)
    reader = ParameterReader(QWEN, {"k": ("null", "number", "string")})
    pieces = ["<parameter=k>\n", begun, *[unit] * 20_000, rest, "\n</parameter>\n", QWEN.end]
    assert json.loads("".join(map(reader.feed, pieces))) == {"k": value}
    assert sum(looked_at) < 30 * 20_000


@pytest.mark.parametrize(
    "written", ["1 2", " nul l", "12\n\n3", "\n\n", "true e", "1\n</parameter", "\n</p 1"]
)
@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_what_no_word_or_number_can_become_is_a_string(written, size):
    arguments, _ = read(
        parameter(written) + QWEN.end, {"k": ("null", "boolean", "number", "string")}, size=size
    )
    assert json.loads(arguments) == {"k": written}


def test_parameters_follow_one_another():
    types = {"a": ("string",), "b": ("number",)}
    assert read(parameter("x", "a") + parameter("1", "b") + "</", types) == ('{"a": "x", "b": 1}', "</")
    assert read("</function>", types) == ("{}", "</function>")


def test_a_tag_may_say_that_a_string_follows():
    types = {"a": ("number", "string")}
    begin, end = "<｜DSML｜parameter name=", "</｜DSML｜parameter>\n"  # noqa: RUF001 - their spelling
    text = f'{begin}"a" string="true">12{end}</｜DSML｜invoke>'  # noqa: RUF001 - their spelling
    assert read(text, types, syntax=DEEPSEEK, size=2)[0] == '{"a": "12"}'
    text = f'{begin}"a" string="false">12{end}</｜DSML｜invoke>'  # noqa: RUF001 - their spelling
    assert read(text, types, syntax=DEEPSEEK, size=2)[0] == '{"a": 12}'


def test_strings_stream_as_they_come():
    reader = ParameterReader(QWEN, {"k": ("null", "string")})
    assert reader.feed("<parameter=k>\nnul") == '{"k": '
    assert reader.feed("ls ") == '"nulls '
    assert reader.feed('"or"') == '\\"or\\"'
    assert reader.feed("\n</para") == ""
    assert reader.feed("\n") == "\\n</para"
