"""The mark of a request: what an engine's plugin reads above the grammar, and what it refuses."""

import pytest
import xgrammar as xgr

from compiler.recipe import FormatKey, GrammarRecipe
from runtime.engines.request_mark import (
    MAX_LINE_BYTES,
    PLUGIN_MISSING,
    InvalidRequestMark,
    RequestMark,
    read_request_mark,
    spell_request_mark,
)
from toolspecs.tool import ChoiceMode, ToolChoice

SECRET = b"sixteen bytes or more"
RECIPE = GrammarRecipe(
    "d" * 64,
    "hermes",
    (("pay", "a" * 64), ("search", "b" * 64)),
    ToolChoice(ChoiceMode.AUTO, ("pay", "search")),
    is_parallel=False,
    answer=FormatKey("schema", "c" * 64),
)
NAMES = ["line\nbreak", "carriage\rreturn", '"quoted"', "#callgate:1:0:0", "\u2028", "\0", "ä" * 500]


def spelled(recipe=RECIPE, *, is_thinking=False, secret=SECRET):
    return spell_request_mark(RequestMark(recipe, is_thinking), secret)


@pytest.mark.parametrize("is_thinking", [True, False])
def test_a_mark_is_read_as_it_was_written(is_thinking):
    assert read_request_mark(spelled(is_thinking=is_thinking), SECRET) == RequestMark(RECIPE, is_thinking)


def test_a_mark_says_what_is_written_already():
    text = spell_request_mark(RequestMark(RECIPE, written_ids=(5, 0, 151_643)), SECRET)
    assert read_request_mark(text, SECRET) == RequestMark(RECIPE, written_ids=(5, 0, 151_643))


def test_a_mark_says_what_is_left_out():
    text = spell_request_mark(RequestMark(RECIPE, left_out_ids=(7, 151_657)), SECRET)
    assert read_request_mark(text, SECRET) == RequestMark(RECIPE, left_out_ids=(7, 151_657))


@pytest.mark.parametrize("name", NAMES)
def test_any_name_stays_in_the_comment(name):
    recipe = GrammarRecipe("d", "hermes", ((name, "a"),), ToolChoice())
    text = spelled(recipe)
    assert text.isascii()
    assert text.count("\n") == 2
    assert read_request_mark(text, SECRET).recipe == recipe


def test_an_engine_without_the_plugin_can_write_that_it_is_missing_only(byte_compiler):
    matcher = xgr.GrammarMatcher(byte_compiler.compile_grammar(spelled()))
    assert matcher.find_jump_forward_string() == PLUGIN_MISSING
    assert matcher.accept_string(PLUGIN_MISSING)
    assert matcher.is_completed()


@pytest.fixture
def byte_compiler():
    tokens = [bytes([byte]) for byte in range(256)]
    info = xgr.TokenizerInfo([*tokens, b""], xgr.VocabType.RAW, stop_token_ids=[256])
    return xgr.GrammarCompiler(info, max_threads=1)


@pytest.mark.parametrize("text", ["", 'root ::= "a"', "# a comment\nroot ::= [a-z]", " #callgate:1:0:0"])
def test_other_grammars_have_no_mark(text):
    assert read_request_mark(text, SECRET) is None


TEXT = spelled()
DAMAGED = {
    "cut short": (TEXT[:40], "damaged"),
    "only its beginning": ("#callgate:", "damaged"),
    "another secret": (spelled(secret=b"another secret, as long"), "CALLGATE_SECRET"),
    "one character changed": (
        TEXT[:-40].replace(TEXT[90], "x" if TEXT[90] != "x" else "y", 1) + TEXT[-40:],
        "altered",
    ),
    "another grammar below": (TEXT.replace(PLUGIN_MISSING, "anything"), "below"),
    "a grammar more": (TEXT + 'more ::= "a"\n', "below"),
    "another version": (TEXT.replace(":1:", ":2:", 1), "version '2'"),
    "signature that is no ASCII": (TEXT.replace(TEXT[12:14], "ßß", 1), "signature"),
    "too long": ("#callgate:1:0:" + "a" * MAX_LINE_BYTES + "\n", "damaged"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_mark_is_refused(case):
    text, reason = DAMAGED[case]
    with pytest.raises(InvalidRequestMark, match=reason):
        read_request_mark(text, SECRET)


def test_a_toolset_that_is_too_large_is_refused_by_whoever_writes_the_mark():
    tools = tuple((f"tool_{i:x}", f"{i * 0x9E3779B97F4A7C15 % 2**64:064x}") for i in range(400_000))
    with pytest.raises(InvalidRequestMark, match="offer fewer tools"):
        spelled(GrammarRecipe("d", "hermes", tools, ToolChoice()))


def test_a_mark_of_many_tools_is_small():
    tools = tuple((f"some_server_tool_{i}", f"{pow(3, i, 2**256 - 189):064x}") for i in range(473))
    assert len(spelled(GrammarRecipe("d" * 64, "hermes", tools, ToolChoice()))) < 32_000
