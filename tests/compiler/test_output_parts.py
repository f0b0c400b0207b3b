"""What a matcher tells apart in an output is what a reader finds who has nothing but the whole text."""

import random
import re

import pytest
from linked import AUTO, NONE, REQUIRED, linked, written
from monolith import TOOLS
from output_reader import read_parts
from random_decoding import Generation, allowed_ids
from vocabularies import BYTES, ids_of, with_tokens

from compiler.linker.linker import link_format
from compiler.output_parts import ArgumentsPart, CallEnd, CallStart, TextPart, ThoughtPart
from compiler.prepared_vocabulary import prepare
from compiler.response_format import ResponseFormat, compile_format
from compiler.syntaxes import SYNTAXES, find_syntax

NAMES = (*SYNTAXES, "hermes+think", "qwen3_coder+think", "json+think")
CHOICES = {"auto": AUTO, "required": REQUIRED, "none": NONE}
CHUNKS = ('{"', '"}', '"}}', "}\n", "}}\n</", '", "', '": ', "\n\n", "\n<", "</", ">\n", "e>", "<t", "er>")


def markers_of(syntax):
    """Texts that the vocabularies of a family have as marker tokens: what stands between `<` and `>`, or `[` and `]`."""
    thought = (syntax.thought.begin, syntax.thought.end) if syntax.thought else ()
    fixed = [
        syntax.begin,
        syntax.after_name,
        syntax.after_number or "",
        syntax.end,
        syntax.opening,
        syntax.closing,
    ]
    fixed += [text for frame in syntax.messages for text in (frame.begin, frame.end)]
    found = (text for each in fixed for text in re.findall(r"<[^<>=]*>|\[[A-Z_]+\]", each))
    return (*thought, *dict.fromkeys(text for text in found if not (syntax.tags and "function" in text)))


def vocabulary_of(syntax, *, has_markers):
    """Single bytes and tokens that straddle what a syntax writes; markers or none but those of thoughts."""
    markers = markers_of(syntax) if has_markers else markers_of(syntax)[: 2 if syntax.thought else 0]
    return with_tokens(*CHUNKS, markers=markers)


def merged(parts):
    """Equal neighbours as one, texts decoded, so that only what was said is left, not how it was cut."""
    found = []
    for part in parts:
        text = getattr(part, "text", None)
        if text is None or not found or type(found[-1][0]) is not type(part):
            found.append([part, text])
        else:
            found[-1][1] += text
    return [(type(part).__name__, getattr(part, "name", text)) for part, text in found if text != b""]


def decoded(parts):
    return [
        (kind, text.decode(errors="replace") if isinstance(text, bytes) else text) for kind, text in parts
    ]


def told_apart(grammar, token_ids):
    """The parts of a whole output, as the matcher emits them."""
    matcher = grammar.matcher()
    parts = []
    for token_id in token_ids:
        assert matcher.accept(token_id)
        parts += matcher.parts()
    return [*parts, *matcher.pending_parts()]


def as_json(parts, grammar):
    """Tagged parameters turned into JSON, as the text's reader does."""
    from runtime.text.parameters import ParameterReader

    if grammar.syntax.tags is None:
        return parts
    found, reader = [], None
    for kind, text in parts:
        if kind == "CallStart":
            reader = ParameterReader(grammar.syntax, grammar.units[text].types)
        found.append((kind, reader.feed(text) if kind == "ArgumentsPart" else text))
    return found


@pytest.mark.parametrize("has_markers", [False, True], ids=["bytes", "markers"])
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", NAMES)
def test_random_outputs_are_told_apart_as_their_text_is(name, choice, has_markers):
    syntax = find_syntax(name)
    vocabulary = vocabulary_of(syntax, has_markers=has_markers)
    grammar = linked(CHOICES[choice], vocabulary=vocabulary, syntax=syntax, names=tuple(TOOLS)[:6])
    for seed in range(4):
        rng = random.Random(seed)
        lead = syntax.trigger if choice == "auto" and seed % 2 else ""
        output = Generation(grammar, 150 + 80 * seed, rng, lead)
        parts = decoded(merged(told_apart(grammar, output.ids)))
        types_of = lambda name: grammar.units[name].types  # noqa: E731
        assert as_json(parts, grammar) == read_parts(grammar, output.text, types_of)


@pytest.mark.parametrize("name", ["hermes", "json", "hermes+think", "harmony", "mistral"])
@pytest.mark.parametrize("seed", range(4))
def test_a_rolled_back_token_is_not_told(name, seed):
    syntax, rng = find_syntax(name), random.Random(seed)
    grammar = linked(AUTO, vocabulary=vocabulary_of(syntax, has_markers=True), syntax=syntax)
    matcher, parts = grammar.matcher(), []
    for _ in range(120):
        allowed = [i for i in allowed_ids(matcher, grammar.vocabulary) if i != 256]
        if not allowed:
            break
        pending = matcher.pending_parts()
        assert matcher.accept(int(rng.choice(allowed)))
        matcher.rollback(1)
        assert matcher.pending_parts() == pending
        assert matcher.parts() == (parts[-1] if parts else ())
        assert matcher.accept(int(rng.choice(allowed)))
        parts.append(matcher.parts())


FORMAT = ResponseFormat(
    "schema", {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
)


@pytest.mark.parametrize("name", ["hermes+think", "harmony", "hermes"])
@pytest.mark.parametrize("with_tools", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_answers_in_a_format_are_text(name, with_tools, seed):
    syntax = find_syntax(name)
    vocabulary = vocabulary_of(syntax, has_markers=True)
    answer = compile_format(FORMAT, tokenizer=vocabulary)
    grammar = (
        linked(AUTO, vocabulary=vocabulary, syntax=syntax, answer=answer)
        if with_tools
        else link_format(answer, syntax, prepare(vocabulary))
    )
    output = Generation(grammar, 200, random.Random(seed))
    expected = [("TextPart", output.text)] if grammar is answer else read_parts(grammar, output.text)
    assert decoded(merged(told_apart(grammar, output.ids))) == expected


def emitted(grammar, text, **options):
    """What each byte of a text settles."""
    matcher = grammar.matcher(**options)
    steps = []
    for token_id in ids_of(text, grammar.vocabulary):
        assert matcher.accept(token_id)
        steps.append(matcher.parts())
    return steps, matcher


def test_text_that_may_become_a_call_is_held_back():
    steps, matcher = emitted(linked(AUTO), "a <tool")
    assert [part for step in steps for part in step] == [TextPart(b"a"), TextPart(b" ")]
    assert matcher.pending_parts() == (TextPart(b"<tool"),)
    assert matcher.accept(ord("?"))
    assert matcher.parts() == (TextPart(b"<tool?"),)
    assert matcher.accept(256)
    assert matcher.parts() == ()


def test_a_stop_token_settles_what_was_held_back():
    _, matcher = emitted(linked(AUTO), "<tool")
    assert matcher.accept(256)
    assert (matcher.parts(), matcher.pending_parts()) == ((TextPart(b"<tool"),), ())


def test_arguments_are_told_byte_by_byte_and_without_the_end_of_the_call():
    steps, matcher = emitted(linked(REQUIRED), written("pay", "p"))
    parts = [part for step in steps for part in step]
    assert parts[0] == CallStart("pay")
    assert all(len(part.text) == 1 for part in parts if isinstance(part, ArgumentsPart))
    assert [type(part) for part in parts if not isinstance(part, ArgumentsPart)] == [
        CallStart,
        CallEnd,
        CallStart,
        CallEnd,
    ]
    assert matcher.is_completed()


@pytest.mark.parametrize(
    ("text", "is_thinking", "expected"),
    [
        ("\n<think>A\n</think>\n\nHi", False, [("ThoughtPart", b"A\n"), ("TextPart", b"Hi")]),
        ("A</think>Hi", True, [("ThoughtPart", b"A"), ("TextPart", b"Hi")]),
        ("\n\nHi", False, [("TextPart", b"\n\nHi")]),
        ("\n", False, [("TextPart", b"\n")]),
        ("<think></think>\n", False, []),
    ],
)
def test_line_breaks_around_a_thought_belong_to_neither(text, is_thinking, expected):
    syntax = find_syntax("hermes+think")
    grammar = linked(AUTO, vocabulary=vocabulary_of(syntax, has_markers=True), syntax=syntax)
    steps, matcher = emitted(grammar, text, is_thinking=is_thinking)
    assert merged([*(part for step in steps for part in step), *matcher.pending_parts()]) == expected


def test_the_number_of_a_call_is_not_among_its_arguments():
    syntax = SYNTAXES["kimi"]
    grammar = linked(REQUIRED, syntax=syntax)
    steps, _ = emitted(grammar, written("pay", syntax=syntax))
    start, arguments, end = merged(part for step in steps for part in step)
    assert start == ("CallStart", "pay")
    assert arguments[1].startswith(b"{")
    assert end[0] == "CallEnd"


def test_tokens_of_thoughts_are_known():
    grammar = linked(AUTO, vocabulary=BYTES, syntax=SYNTAXES["harmony"])
    matcher = grammar.matcher()
    for token_id in ids_of("<|channel|>analysis<|message|>"):
        assert not matcher.is_in_thought()
        assert matcher.accept(token_id)
    assert matcher.is_in_thought()
    assert matcher.accept(ord("x"))
    assert matcher.parts() == (ThoughtPart(b"x"),)


@pytest.mark.parametrize(
    ("choice", "text", "is_free"),
    [
        (AUTO, "", True),
        (AUTO, "\n", True),
        (AUTO, "<think>", True),
        (AUTO, "<think>why</think>", True),
        (AUTO, "No, <tool", True),
        (AUTO, "No, <tool_call>", False),
        (NONE, "No", True),
        (REQUIRED, "", False),
        (REQUIRED, "<think>", True),
        (REQUIRED, "<think>why</think>", False),
    ],
)
def test_free_text_is_told_from_what_the_grammar_constrains(choice, text, is_free):
    """A search has no branches in free text."""
    syntax = find_syntax("hermes+think")
    grammar = linked(choice, vocabulary=vocabulary_of(syntax, has_markers=False), syntax=syntax)
    _, matcher = emitted(grammar, text)
    assert matcher.is_in_free_text() == is_free
