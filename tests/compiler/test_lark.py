"""Grammars for Lark: what is written is read by Lark's own parsers, and by llguidance's."""

import random
from itertools import product

import pytest
from custom_inputs import accepts, check_texts, inputs, linked
from lark import Lark
from lark.exceptions import UnexpectedInput
from soundness.engines import ByteTokenizer

from compiler.errors import UnsupportedToolset

ARITHMETIC = r"""
start: sum
sum: product (SP ADD SP product)*
product: INT (SP MUL SP INT)*
SP: " "
ADD: "+"
MUL: "*"
%import common.INT
"""
SQL = r"""
start: "SELECT"i names "FROM"i NAME ["WHERE"i condition ("AND"i condition)*] ";"
names: NAME ("," NAME)* | "*"
condition: NAME OPERATOR (NUMBER | ESCAPED_STRING)
OPERATOR: "=" | "<" | "<=" | "<>"
NAME: /[a-z_][a-z0-9_]*/
%import common (NUMBER, ESCAPED_STRING, WS)
%ignore WS
"""
JSON = r"""
start: value
?value: object | array | ESCAPED_STRING | SIGNED_NUMBER | "true" | "false" | "null"
array: "[" [value ("," value)*] "]"
object: "{" [pair ("," pair)*] "}"
pair: ESCAPED_STRING ":" value
%import common.ESCAPED_STRING
%import common.SIGNED_NUMBER
%import common.WS
%ignore WS
"""
PROGRAM = r"""
start: statement+
statement: "let" NAME "=" term ";" | "if" "(" term ")" block | NAME "(" [_list{term}] ")" ";"
block: "{" statement* "}"
term: (NAME | NUMBER | TEXT) (("+" | "-" | "->") (NAME | NUMBER))~0..2
_list{item}: item ("," item)*
NAME: /[a-z]\w*/
NUMBER: /\d+(\.\d+)?/
TEXT: /'(?:[^'\\\n]|\\.)*'/
COMMENT: /#[^\n]*/
%ignore /[ \t\n]+/
%ignore COMMENT
"""
TOUCHING = r"""
start: (WORD | NUMBER | SIGN)+
WORD: /[a-z]+/
NUMBER: /[0-9]+/
SIGN: "<" | "<=" | "=" | "=="
"""
ESCAPED = r"""
start: (TEXT NEWLINE)+
TEXT: /["\\\/é😀\t]+/
%import common.NEWLINE
"""
PATCH = r"""
start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""
"""The grammar of `apply_patch`, the custom tool of Codex."""
GRAMMARS = {
    "arithmetic": ARITHMETIC,
    "sql": SQL,
    "json": JSON,
    "program": PROGRAM,
    "touching": TOUCHING,
    "escaped": ESCAPED,
}
NOT_LALR = {"arithmetic"}
"""Grammars whose rules this kind of parser cannot tell apart by the next terminal."""
SYNTAXES = ("hermes", "qwen3_coder")


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize("name", GRAMMARS)
def test_lark_reads_what_masks_let_through(name, syntax):
    parsers = [
        Lark(GRAMMARS[name], parser=parser) for parser in ("earley", *(() if name in NOT_LALR else ("lalr",)))
    ]
    written = set(inputs(linked(GRAMMARS[name], syntax), name, 15))
    assert len(written) > 1
    for text in written:
        for parser in parsers:
            parser.parse(text)


@pytest.mark.parametrize(
    ("definition", "valid", "invalid"),
    [
        (ARITHMETIC, ["1", "1 + 2 * 3", "10 * 2 + 1"], ["", "1+2", "1 + ", "1 + 2 "]),
        (
            SQL,
            ["SELECT a FROM b;", 'select a,b from c where d<=1.5 and e = "x\\"\n";'.replace("\n", "")],
            ["SELECT afrom b;", "SELECT a FROM b", "SELECT a FROM b WHERE c < = 1;", "SELECT a a FROM b;"],
        ),
        (JSON, ["[1, 2]", '{"a": [true, null]}', '"\\"é"'], ["[1,]", "[1 2]", "truefalse"]),
        ('start: /[a-c]+/ | A\nA: "x"~2..3', ["abc", "xx", "xxx"], ["x", "xxxx", "abx"]),
        ('start: "id" /[a-z]+/', ["idabc"], ["id", "id1"]),
        ('start: NAME "in" NAME\nNAME: /[a-z]+/\n%ignore " "', ["a in b", "a inb"], ["ainb", "a in", "a b"]),
        ('start: ("a" | "\\n")+', ["a\n", "\na\n\n", "aa"], ["", "b", "a\r"]),
        ("start: (LINE NL)+\nLINE: /[a-z]+/\nNL: /\\n/", ["ab\n", "a\nb\n"], ["ab", "a\n\n", "\n"]),
        (
            'start: A\nB: /(\\+|-)/\nA: B "1" | /[|]|x/ | /y\\|/ "z"',
            ["+1", "-1", "|", "x", "y|z"],
            ["+", "1"],
        ),
        ('start: /a|b/ "c" A\nA: /d|e/~2', ["acdd", "bced"], ["a", "adc"]),
        ('start: A\nA: /[ab]/ "1"\n%declare UNUSED', ["a1", "b1"], ["1", "a"]),
        # OpenAI's example, which Lark itself refuses, since an alternative is spelled twice.
        ('start: t ("+" t)* -> add | t\nt: /[0-9]+/', ["1", "1+2"], ["1+", "+"]),
    ],
)
def test_texts_are_those_of_the_grammar(definition, valid, invalid):
    grammar = linked(definition)
    check_texts(grammar, valid, invalid)


def patch(*lines):
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def test_what_is_in_brackets_may_stand_twice_in_a_row():
    """Lark refuses it, for rules that it makes of it and calls defined twice."""
    grammar = linked('start: [A] [A] item{A}\nitem{x}: "<" [x] [x] [x] ">"\nA: "x"')
    for text in ("<>", "x<>", "xx<xxx>"):
        assert accepts(grammar, text)
    assert not accepts(grammar, "xxx<>")


def test_a_terminal_that_admits_the_empty_text_is_optional():
    """So OpenAI reads it; Lark refuses it."""
    grammar = linked(PATCH)
    good = [
        patch("*** Update File: a.py", "@@ def f():", "-x", "+y", " ") + "\n",
        patch("*** Add File: a", "+x", "+", "+*** End Patch", "*** Delete File: b"),
        patch("*** Update File: a.py", "*** Move to: b.py", "@@", "-", "+y", "*** End of File"),
    ]
    bad = [
        patch(),
        patch("*** Add File: a"),
        patch("*** Add File: ", "+x"),
        patch("*** Update File: a.py", "@@ ", "-x"),
        patch("*** Update File: a.py", "x"),
        patch("*** Update File: a.py", "-x")[:-1],
        patch("*** Update File: a.py", "-x") + "\n\n",
    ]
    check_texts(grammar, good, bad)
    parsers = [Lark(PATCH.replace("/(.*)/", "[/(.+)/]"), parser=parser) for parser in ("earley", "lalr")]
    for text in {*good, *inputs(grammar, 1, 30)}:
        for parser in parsers:
            parser.parse(text)
    for text in bad:
        for parser in parsers:
            with pytest.raises(UnexpectedInput):
                parser.parse(text)


@pytest.mark.parametrize(
    ("definition", "rewritten"),
    [
        ("start: A\nA: /a*/", 'start: ["a"+]'),
        ('start: A B "."\nA: B "x"\nB: ("b" | "c")*', 'start: /[bc]*x/ [/[bc]+/] "."'),
        ('start: (A ",")+\nA: /(?:[0-9]{2}){0,3}/', 'start: ([/([0-9]{2}){1,3}/] ",")+'),
        ('start: "x" A B ";"\nA: /a?/\nB: /(b*)/', 'start: "x" ["a"] [/b+/] ";"'),
        ('start: "a" "b"\n%ignore /[ ]*/', 'start: "a" "b"\n%ignore /[ ]+/'),
    ],
)
def test_what_admits_the_empty_text_is_read_without_it(definition, rewritten):
    grammar, meant = linked(definition), linked(rewritten)
    texts = ["".join(chars) for length in range(6) for chars in product("abx0 ,.;", repeat=length)]
    parser = Lark(rewritten, parser="earley")
    written = {text for made in (grammar, meant) for text in inputs(made, 1, 20)}
    for text in (*random.Random(1).sample(texts, 200), *written):
        assert accepts(grammar, text) == accepts(meant, text)
        if accepts(grammar, text):
            parser.parse(text)


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ('start: YEAR "-" MONTH "-" DAY\nYEAR: /\\d{4}/\nMONTH: /\\d{2}/\nDAY: /\\d\\d/', "2026-11-27"),
        ('start: MAJOR "." MINOR\nMAJOR: /[0-9]+/\nMINOR: /0|[1-9][0-9]*/', "1.20"),
        ('start: ID "," NAME "," AGE\nID: /[0-9]+/\nNAME: /[^,\\n]+/\nAGE: /[0-9]{1,3}/', "1,a,20"),
        ('start: USER "," CODE "," PIN\nUSER: /[a-z]+/\nCODE: /[A-Z0-9]{4}/\nPIN: /[0-9]{4}/', "a,0B12,0123"),
        ('start: "(" NAME "," WIDTH "," LABEL ")"\nNAME: /[a-z]+/\nWIDTH: /[0-9]+/\nLABEL: /[a-z0-9]+/', "(a,12,34)"),
        ('start: HEX ";" | INT "."\nHEX: /[0-9a-f]+/\nINT: /[0-9]+/', "12;"),
    ],
)  # fmt: skip
def test_patterns_of_the_same_texts_may_follow_the_same_terminal(definition, text):
    assert accepts(linked(definition), text)
    for parser in ("earley", "lalr"):
        Lark(definition, parser=parser).parse(text)


def test_no_file_is_opened_for_an_import(monkeypatch):
    linked(ARITHMETIC)

    def refuse(*_args, **_options):
        raise AssertionError("a file was opened")

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("pkgutil.get_data", refuse)
    for path in ("common.INT", ".common.INT", "..x.INT", "lark.RULE"):
        try:
            linked(f"%import {path} -> A\nstart: A")
        except UnsupportedToolset:
            assert path != "common.INT"


@pytest.mark.parametrize("name", sorted(GRAMMARS.keys() - {"program"}))
def test_texts_are_read_as_openai_reads_them(name):
    """OpenAI's documents name the library, which has no templates; ours are the texts that it admits too."""
    llguidance = pytest.importorskip("llguidance")
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(ByteTokenizer()))
    written = set(inputs(linked(GRAMMARS[name]), name, 25))
    assert len(written) > 10
    for text in written:
        matcher = llguidance.LLMatcher(tokenizer, f"%llguidance {{}}\n{GRAMMARS[name]}")
        assert matcher.try_consume_tokens(list(text.encode())) == len(text.encode())
        assert matcher.is_accepting()


@pytest.mark.parametrize(
    "definition",
    ['start: s\ns: r "," | r |\nr: "a" s r | "1"', 'start: r "k" | r |\nr: /[a-z]/ start r | "1"'],
)
def test_a_closer_takes_its_own_completion_however_many_derivations_fit(definition):
    """The shortest completion may need one that began late."""
    grammar = linked(definition)
    written = b'<tool_call>\n{"name": "f", "arguments": {"input": "'
    for _ in range(50):
        closer = grammar.closer()
        written += b"a"
        for byte in written:
            closer.accepted(byte)
        for byte in closer.completion_ids(closer.minimum()):
            closer.accepted(byte)
        assert closer.minimum() == 0


@pytest.mark.parametrize("item", ["a", "A", 'a "+"'])
def test_a_sequence_may_be_long(item):
    """Its rules are not read one inside the other."""
    grammar = linked(f'start: {" ".join([item] * 1000)}\na: A\nA: "x"')
    text = item.replace(' "+"', "+").replace("a", "x").replace("A", "x") * 1000
    assert accepts(grammar, text)
    assert not accepts(grammar, text[:-1])


def test_rules_in_a_row_may_each_end_in_several_ways():
    """The ways are followed together: apart, three to the power of 14 would take half a minute."""
    grammar = linked(f"start: {'a ' * 60}\na: A | B | C\nA: /[0-9]+/\nB: /[a-z]+/\nC: /[;]/")
    assert accepts(grammar, "1a;" * 20)
    assert not accepts(grammar, "1a;" * 19 + "1a")
    assert not accepts(grammar, "12;" * 20)
