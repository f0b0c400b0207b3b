"""Tagged parameters in, the JSON of the arguments out, however the text is cut."""

import json

import pytest

from compiler.syntaxes import SYNTAXES
from runtime.text.parameters import ParameterReader

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
