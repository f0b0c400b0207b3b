"""Response formats other than schemas: every output is of the format, at random and within any budget."""

import itertools
import random
import re
from functools import cache

import pytest
import xgrammar as xgr
from random_decoding import Generation, RandomDecoder, allowed_ids
from vocabularies import BYTES, named_vocabulary

from compiler import ResponseFormat, UnsupportedSchema, compile_format
from compiler.prepared_vocabulary import prepare
from compiler.recogniser.parser_state import initial_state
from compiler.vocabulary import Vocabulary

PATTERNS = {
    r"\d{3}-\d{4}": ("555-1234", "555-12345"),
    r"yes|no": ("no", "nope"),
    r"^a$|b": ("a", "ab"),
    r"(?:foo|bar)*": ("", "foob"),
    r"[a-z ]{1,60}": ("a b c", "a" * 61),
    r"[^\n]{2,}": ("\u00e9\u20ac\U0001f600", "a"),
    r"(?=.*\d)[a-z\d]+": ("ab1", "ab"),
    r"([a-z]-?(?!--))+": ("a-b", "a--b"),
    r"[a-z]+(?<=\d)": None,
    r"\w+@[a-z0-9.]+\.[a-z]{2,3}": ("a_b@x.y.org", "a@b"),
    r"#?([0-9a-f]{6}|[0-9a-f]{3})": ("#fff", "#ffff"),
    r"(\s*\S+\s*)+": ("two\nlines\tand", " "),
}

JSON = r"""
root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= "" | " " | "\n" [ \t]{0,20}
"""
"""As llama.cpp ships it."""

GRAMMARS = {
    JSON: ('{"a": [1, {"b": null}]}', '{"a": [1}'),
    'root ::= root "+" t | t\nt ::= "x" | "(" root ")"': ("(x+x)+x", "x+"),
    'root ::= "SELECT " cols " FROM " [a-z_]+ ";"\ncols ::= "*" | col ("," col)*\ncol ::= [a-z] [a-z0-9]{0,5}': (
        "SELECT a1,b FROM t;",
        "SELECT *,a FROM t;",
    ),
    'root ::= ("ab" | "c"){2,4} "." | "\u00e9"{1,}': ("abcab.", "c."),
    'root ::= "a" root "b" | ""': ("aabb", "aab"),
    "root ::= [^a-z]* # to the end\n": ("A \u00e9\n", "Ab"),
    r'root ::= [0-9]+ [°] ([я]{2} | [😀]+ | "\\x41b" | [\\x41b])': ("21°яя", "21\u00b0я"),
    r'root ::= [\u00e9] "\x41" [\x42-\x44]': ("éAB", "éAb"),
}

CHOICES = [["yes", "no", "maybe"], ["a", "ab", "abc"], [""], ["größer", "groß", "<tool_call>", "\n"]]

FORMATS = [
    *(ResponseFormat("pattern", pattern) for pattern in PATTERNS if PATTERNS[pattern]),
    *(ResponseFormat("grammar", grammar) for grammar in GRAMMARS),
    *(ResponseFormat("choice", choices) for choices in CHOICES),
]


@pytest.fixture(scope="module")
def qwen() -> Vocabulary:
    return named_vocabulary("qwen3")


@cache
def compiled(number: int, vocabulary: Vocabulary):
    return compile_format(FORMATS[number], tokenizer=vocabulary)


def is_of(text: str, number: int) -> bool:
    """Checked without masks: by Python's re, or by the recogniser of the budget closer."""
    kind, content = FORMATS[number].kind, FORMATS[number].content
    if kind == "pattern":
        return re.fullmatch(content, text, re.ASCII) is not None
    if kind == "choice":
        return text in content
    reading = initial_state(compiled(number, BYTES).network).advance(text.encode())
    return reading is not None and reading.is_complete


@pytest.mark.parametrize(
    ("said", "is_accepted"),
    [({}, False), ({"additionalProperties": True}, True), ({"patternProperties": {"^b$": {}}}, True)],
)
def test_an_answer_is_complete_with_its_declared_keys(said, is_accepted):
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], **said}
    answers = compile_format(ResponseFormat("schema", schema))
    assert answers.accepts('{"a": "x"}')
    assert answers.accepts('{"a": "x", "b": 1}') == is_accepted


def test_an_object_that_declares_no_key_has_any():
    assert compile_format(ResponseFormat("schema", {"type": "object"})).accepts('{"a": {"b": 1}}')


@pytest.mark.parametrize(("source", "texts"), [*PATTERNS.items(), *GRAMMARS.items()])
def test_whole_texts_are_accepted(source, texts):
    kind = "grammar" if source in GRAMMARS else "pattern"
    if texts is None:  # a lookbehind that is not at an anchored end
        with pytest.raises(UnsupportedSchema, match="lookbehind"):
            compile_format(ResponseFormat(kind, source))
        return
    of, not_of = texts
    answer = compile_format(ResponseFormat(kind, source))
    assert answer.accepts(of)
    assert not answer.accepts(not_of)
    assert not answer.accepts(f"{of}\x00")


@pytest.mark.parametrize("number", range(len(FORMATS)))
def test_what_is_drawn_is_of_the_format(number, qwen):
    """No mask is empty, the matcher accepts what its mask allows, and outputs end only where they may."""
    for vocabulary, seed in itertools.product((BYTES, qwen), range(3)):
        text = RandomDecoder(vocabulary).decode(
            compiled(number, vocabulary).matcher(), random.Random(seed), max_tokens=25, bias=0.3
        )
        assert text is None or is_of(text.decode(), number), text  # None: it could go on for ever


@pytest.mark.parametrize("number", range(len(FORMATS)))
def test_a_text_is_complete_within_any_budget(number, qwen):
    for vocabulary in (BYTES, qwen):
        answer = compiled(number, vocabulary)
        minimum = answer.closer().minimum()
        assert not answer.closer().fits(minimum - 1)
        for extra in range(8):
            generation = Generation(answer, minimum + extra, random.Random(extra))
            assert len(generation.ids) <= minimum + extra
            assert is_of(generation.text, number), generation.text


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_masks_are_those_of_the_grammar_as_it_was_written(grammar, qwen):
    """Reading the rules and writing them again changes no mask, except for special tokens and control characters."""
    ours = compile_format(ResponseFormat("grammar", grammar), tokenizer=qwen)
    theirs = prepare(qwen).backend.compile(grammar)
    rng = random.Random(0)
    odd = _with_controls(qwen)
    for _ in range(2):
        assert_equal_masks(ours.matcher(), theirs, qwen, rng, odd)


@cache
def _with_controls(vocabulary: Vocabulary) -> set[int]:
    """The tokens with a control character, which is never written."""
    controls = {*range(0x20)} - {*b"\t\n\r"}
    return {i for i, token in enumerate(vocabulary.tokens) if controls & {*token}}


def assert_equal_masks(matcher, theirs, vocabulary, rng, odd):
    other = xgr.GrammarMatcher(theirs)
    for _ in range(15):
        ids = set(allowed_ids(matcher, vocabulary).tolist())
        other_ids = set(allowed_ids(_Filling(other), vocabulary).tolist())
        assert ids == other_ids - odd
        text_ids = sorted(ids - set(vocabulary.stop_ids))
        if not text_ids:
            return
        token_id = rng.choice(text_ids)
        assert matcher.accept(token_id)
        assert other.accept_token(token_id)


class _Filling:
    def __init__(self, matcher):
        self._matcher = matcher

    def fill_bitmask(self, bitmask, row):
        self._matcher.fill_next_token_bitmask(bitmask, row)


def test_a_choice_is_nothing_else():
    answer = compile_format(ResponseFormat("choice", ["a", "ab", "b c"]))
    texts = map("".join, itertools.product("abc ", repeat=3))
    assert [text for text in texts if answer.accepts(text)] == ["b c"]
    assert [text for text in ("", "a", "ab", "abc", "b") if answer.accepts(text)] == ["a", "ab"]


def test_no_marker_is_ever_part_of_a_text(qwen):
    answer = compile_format(ResponseFormat("pattern", r"[\s\S]*"), tokenizer=qwen)
    allowed = allowed_ids(answer.matcher(), qwen)
    assert len(allowed) > 150_000
    assert not qwen.marker_ids & set(allowed.tolist())


REFUSED = [
    ("pattern", r"(a)\1", "/pattern", "backreference"),
    ("pattern", "a)(b", "/pattern", "unmatched"),
    ("pattern", "a{2000}", "/pattern", "1000"),
    ("pattern", r"a\bb", "/pattern", "no text"),
    ("pattern", r"\x01{60}", "/pattern", "no text"),
    ("choice", [], "/choices", "empty"),
    ("choice", ["a", "\ud800"], "/choices/1", "surrogate"),
    ("grammar", 'root ::= "a" | x\nx ::= "b" x', "/grammar", "rule 'x'"),
    ("grammar", "root ::= y", "/grammar", '"y" is not defined'),
    ("grammar", 'root ::= e\ne ::= e "+" e | "1"', "/grammar", "rule 'e'"),
    ("grammar", "root ::= [a-z]{0,1001}", "/grammar", "1001"),
    ("grammar", r'root ::= "\x41b"', "/grammar", r"engines read \x41b differently"),
    ("grammar", r'root ::= "a" [\x41-\x5aa-z]', "/grammar", r"engines read \x5aa differently"),
    ("grammar", r'root ::= "\x1F600"', "/grammar", r"\u and four digits, or \U and eight"),
]


@pytest.mark.parametrize(("kind", "content", "pointer", "said"), REFUSED)
def test_what_cannot_be_upheld_is_refused(kind, content, pointer, said):
    with pytest.raises(UnsupportedSchema, match=re.escape(said)) as refused:
        compile_format(ResponseFormat(kind, content))
    assert refused.value.pointer == pointer


def test_loops_are_written_out_without_calls():
    """Otherwise xgrammar tries most of the vocabulary for every mask."""
    grammar = 'root ::= "\'" char* "\'"\nchar ::= plain | "\\\\" [\'\\\\]\nplain ::= [^\'\\\\]'
    answer = compile_format(ResponseFormat("grammar", grammar))
    assert {*answer.grammar.rules} == {"root_2", "root_1"}
    assert answer.accepts("'it\\'s'")
    assert not answer.accepts("'it's'")


def test_rules_that_lead_on_without_end_are_refused():
    rules = "".join(f'r{i} ::= "a"? r{i + 1}\n' for i in range(2000))
    with pytest.raises(UnsupportedSchema):
        compile_format(ResponseFormat("grammar", f'root ::= r0 "x"\n{rules}r2000 ::= "b"?\n'))
