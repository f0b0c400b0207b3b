"""Grammars for Lark: what is written is read by Lark's own parsers, and what cannot be enforced is refused."""

import json
import random
import re
from itertools import product

import pytest
from lark import Lark
from lark.exceptions import LarkError, UnexpectedInput
from random_decoding import Generation
from whole_outputs import parse_calls

from compiler import compile_toolset
from compiler.errors import UnsupportedToolset
from compiler.lark.terminals import _alike
from compiler.prepared_vocabulary import prepare
from compiler.syntaxes import find_syntax
from compiler.vocabulary import Vocabulary
from toolspecs.tool import CustomInput, custom_tool

BYTES = prepare(Vocabulary.of_bytes())

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
TOP = r"""
SP: " "
start: "SELECT" SP "TOP" SP NUMBER SP columns SP "FROM" SP IDENTIFIER SP "WHERE" SP amount SP "AND" SP date SP order ";"
columns: column ("," SP column)*
column: IDENTIFIER
amount: "total_amount" SP ">" SP NUMBER
date: "order_date" SP ">" SP DATE
order: "ORDER" SP "BY" SP "order_date" SP "DESC"
IDENTIFIER: /[A-Za-z_][A-Za-z0-9_]*/
NUMBER: /[0-9]+/
DATE: /'[0-9]{4}-[0-9]{2}-[0-9]{2}'/
"""
"""From OpenAI's examples, in which blanks are terminals: keywords and names follow them at different places."""
CONDITION = "total_amount > 500 AND order_date > '2025-01-01' ORDER BY order_date DESC;"
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


def linked(definition, syntax="hermes"):
    tool = custom_tool("t", "", CustomInput("lark", definition))
    return compile_toolset([tool], tokenizer=BYTES, syntax=syntax, parallel=False)


def inputs(grammar, syntax, seed, number):
    """The inputs of random outputs, which the budget closer ends."""
    rng = random.Random(seed)
    for i in range(number):
        text = Generation(grammar, 150 + i, rng).text
        _, calls = parse_calls(text, find_syntax(syntax), grammar.parameter_types)
        ((name, arguments),) = calls
        assert name == "t"
        yield json.loads(arguments)["input"]


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize("name", GRAMMARS)
def test_lark_reads_what_masks_let_through(name, syntax):
    parsers = [
        Lark(GRAMMARS[name], parser=parser) for parser in ("earley", *(() if name in NOT_LALR else ("lalr",)))
    ]
    written = set(inputs(linked(GRAMMARS[name], syntax), syntax, name, 30))
    assert len(written) > 1
    for text in written:
        for parser in parsers:
            parser.parse(text)


def accepts(grammar, text):
    matcher = grammar.matcher()
    return all(matcher.accept(byte) for byte in written_as(text).encode()) and matcher.is_completed()


def written_as(text):
    return f'<tool_call>\n{{"name": "t", "arguments": {json.dumps({"input": text}, ensure_ascii=False)}}}\n</tool_call>'


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
        # OpenAI's example, which Lark itself refuses, since an alternative is spelled twice.
        ('start: t ("+" t)* -> add | t\nt: /[0-9]+/', ["1", "1+2"], ["1+", "+"]),
    ],
)
def test_texts_are_those_of_the_grammar(definition, valid, invalid):
    grammar = linked(definition)
    assert [text for text in valid if not accepts(grammar, text)] == []
    assert [text for text in invalid if accepts(grammar, text)] == []


def patch(*lines):
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


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
    assert [text for text in good if not accepts(grammar, text)] == []
    assert [text for text in bad if accepts(grammar, text)] == []
    parsers = [Lark(PATCH.replace("/(.*)/", "[/(.+)/]"), parser=parser) for parser in ("earley", "lalr")]
    for text in {*good, *inputs(grammar, "hermes", 1, 30)}:
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
    written = {text for made in (grammar, meant) for text in inputs(made, "hermes", 1, 20)}
    for text in (*random.Random(1).sample(texts, 200), *written):
        assert accepts(grammar, text) == accepts(meant, text)
        if accepts(grammar, text):
            parser.parse(text)


@pytest.mark.parametrize(("keyword", "text"), [("set", "\u017fet"), ("kit", "\u212ait"), ("éit", "Éit")])
def test_what_lark_takes_for_a_keyword_in_another_case_is_not_written_as_something_else(keyword, text):
    """Python's `re` takes more for another case of a letter than its small and its capital form."""
    definition = (
        f'start: HEAD TAIL | KEYWORD ";"\nKEYWORD: "{keyword}"i\nHEAD: /[x{text[0]}]/\nTAIL: /[a-z]{{1,2}}/'
    )
    parser, grammar = Lark(definition, parser="lalr"), linked(definition)
    with pytest.raises(UnexpectedInput):
        parser.parse(text)
    assert not accepts(grammar, text)
    for other in (f"{keyword};", "xab", f"{text[0]}a"):
        parser.parse(other)
        assert accepts(grammar, other)


@pytest.mark.parametrize(
    ("definition", "valid", "invalid"),
    [
        ('start: "select"i ";" | NAME "."\nNAME: /[a-zA-Z]+/', ["SeLect;", "selec."], ["select.", "SELECT."]),
        ('start: KW ";" | NAME "."\nKW: "ab" | "cd"\nNAME: /[a-z]+/', ["ab;", "abc."], ["ab.", "cd."]),
        ('start: KW ";" | NAME "."\nKW: /ab/\nNAME: /[a-z]+/', ["ab;", "abc."], ["ab."]),
        (
            'start: "select"i NAME+ "from"i NAME ";"\nNAME: /[a-zA-Z_]+/\n%ignore " "',
            ["SELECT a fromm FROM t;"],
            ["SELECT a From FROM t;", "select from from t;"],
        ),
    ],
)
def test_keywords_are_reserved_however_they_are_spelled(definition, valid, invalid):
    grammar = linked(definition)
    assert [text for text in valid if not accepts(grammar, text)] == []
    assert [text for text in invalid if accepts(grammar, text)] == []
    for text in valid:
        Lark(definition, parser="earley").parse(text)


@pytest.mark.parametrize(
    ("definition", "valid", "invalid"),
    [
        (
            TOP,
            [f"SELECT TOP 5 id, order_date, total_amount FROM orders WHERE {CONDITION}"],
            [f"SELECT TOP 5 id, order_date, total_amount, FROM orders WHERE {CONDITION}"],
        ),
        (
            'start: "get" SP NAME ";" | "sort" SP "by" SP NAME\nSP: " "\nNAME: /[a-z]+/',
            ["get by;", "sort by by", "sort by get"],
            ["sort a by", "get by"],
        ),
        (
            'start: ("get" | "sort") SP NAME ";" | "sort" SP "by" SP NAME\nSP: " "\nNAME: /[a-z]+/',
            ["get by;", "sort a;", "sort by by"],
            ["sort by;"],
        ),
        (
            'start: (item SP)* "end"\nitem: NAME | "=" SP NAME\nSP: " "\nNAME: /[a-z]+/',
            ["a b end", "= end end", "= b c end"],
            ["end b end", "= b end end"],
        ),
        (
            'start: a "." | "x" b "!"\na: KEY? NAME\nb: KEY NAME?\nKEY: "k"\nNAME: /[a-z]+/\n%ignore "_"',
            ["k_k.", "a.", "x_k_k!", "xy."],
            ["k.", "x_b!", "x.", "x_k."],
        ),
    ],
)
def test_keywords_are_reserved_only_where_they_may_come(definition, valid, invalid):
    grammar = linked(definition)
    assert [text for text in valid if not accepts(grammar, text)] == []
    assert [text for text in invalid if accepts(grammar, text)] == []
    for parser in ("earley", "lalr"):
        for text in valid:
            Lark(definition, parser=parser).parse(text)


def test_where_places_are_too_many_keywords_are_reserved_after_the_same_terminal(monkeypatch):
    monkeypatch.setattr("compiler.lark.competitors.MAX_STEPS", 10)
    grammar = linked('start: "get" SP NAME ";" | "sort" SP "by" SP NAME\nSP: " "\nNAME: /[a-z]+/')
    assert [accepts(grammar, text) for text in ("get a;", "sort by a", "get by;")] == [True, True, False]
    monkeypatch.setattr("compiler.lark.competitors.MAX_MERGED_STEPS", 10)
    with pytest.raises(UnsupportedToolset, match="too many terminals may come next"):
        linked('start: "get" SP NAME ";" | "sort" SP "by" SP NAME\nSP: " "\nNAME: /[a-z]+/')


@pytest.mark.parametrize("seed", range(4))
def test_lark_reads_keywords_and_names_in_any_places(seed, caplog):
    """Grammars are made up, and read by Lark's LALR parser if it finds no conflict in them."""
    caplog.set_level("DEBUG", "lark")
    rng = random.Random(seed)
    atoms = ['"a"', '"b"', '"ab"', "NAME", "NAME", "NUM", "SP", "SP", '"="', '"=="', "r1", "r2"]
    num_read = 0
    for _ in range(60):
        rules = [
            " | ".join(
                " ".join(
                    rng.choice(atoms[: 12 if name == "start" else 10]) + rng.choice(["", "", "", "?", "*"])
                    for _ in range(rng.randint(1, 4))
                )
                for _ in range(rng.randint(1, 3))
            )
            for name in ("start", "r1", "r2")
        ]
        definition = 'start: {}\nr1: {}\nr2: {}\nSP: " "\nNAME: /[ab]+/\nNUM: /[0-9]+/\n'.format(*rules)
        try:
            caplog.clear()
            parser = Lark(definition, parser="lalr", debug=True)
            grammar = linked(definition)
        except (LarkError, UnsupportedToolset):
            continue
        if "conflict" in caplog.text:
            continue
        for text in set(inputs(grammar, "hermes", 1, 3)):
            parser.parse(text)
            num_read += 1
    assert num_read > 10


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


def test_all_that_python_takes_for_another_case_is_alike():
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    text = "".join(characters)
    for character in "aikszé\u0130\u0131ßµ\u03c3\u0390\ufb05\u0444":
        alike = set(re.findall(re.escape(character), text, re.IGNORECASE))
        assert alike <= _alike().get(character, {character})


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ("start: A\nA: /a*?b/", "line 2: terminal A has a lazy quantifier"),
        ("start: A\nA: /[0-9]+|[0-9]+[.][0-9]+/", "line 2: terminal A takes '0' of '0.0'"),
        ("start: A\nA: /[ab]{2,3}/+", "line 2: terminal A takes 'aaa' of 'aaaa'"),
        ("start: A\nA: /a(?=b)/", "line 2: terminal A depends on the text around it"),
        ("start: A\nA: /^a/", "line 2: terminal A depends on the text around it"),
        ("start: A\n\nA: /a*b*/", "line 3: terminal A admits the empty text"),
        ('start: "x"\n | /|a/', "line 2: '|a' takes '' of 'a'"),
        ("start: A\nA: /a*?/", "line 2: terminal A has a lazy quantifier"),
        ("start: /(b|ba)*/", "line 1: '(b|ba)+' takes 'b' of 'ba'"),
        ("start: A+\nA: /a*/", "rule 'start' has texts that may begin and end"),
        ("start: A\nA.2: /a/", "line 2: terminal A has a priority"),
        ("start: A\nA: /(a)\\1/", "line 2: terminal A has"),
        ("start: A\nA: /(?i:[a-z]+)/", "line 2: terminal A has the flag i"),
        ("start: A\n%declare A", "line 2: terminal A is declared but not defined"),
        ("start: A\n%import python.NAME -> A", "line 2: %import of 'python': only `%import common` is read"),
        ("%import .secrets.A\nstart: A", "line 1: %import of 'secrets'"),
        ('start: "a"\n     | /a/ // a\n     | a', "line 3: Rule 'a' used but not defined"),
        ('start: A\nA: "a"\nA: "b"', "line 3: Terminal 'A' defined more than once"),
        ("start: A\nA: B\nB: A", "line 2: Recursion in terminal 'A'"),
        ('start: A\nA: b\nb: "b"', "line 2: Rules aren't allowed inside terminals"),
        ('start: "a"\n%ignore WS', "line 2: Terminals {'WS'} were marked to ignore"),
        ('start: a{"x", "y"}\na{x}: x', "line 1: Wrong number of template arguments"),
        ('start: "a"\n%extend b: "b"', "line 2: Can't extend rule b"),
        ('start: "b"\n     | "a"~3..2', "line 2: Bad Range"),
        ('start: A\nA: ""', "line 2: Empty terminals are not allowed"),
        ('begin: "a"', "there is no rule 'start'"),
        ('start: "a" (', "at line 1 column"),
        ('start: e\ne: e "+" e | "1"', "line 2: rule 'e' has texts that may begin and end"),
        ('start: a\na: a "x"', "no text can be written"),
        ("start: A A\nA: /a+/", "no text can be written"),
        ("start: /a{1,5000}/", "counts beyond 1000"),
        ('start: a{"x"}\na{x}: a{a{x}}', "line 2: template 'a' uses itself"),
        ('start: a{"x"}\na{x}: b{x}\nb{x}: x a{x}', "line 2: template 'a' uses itself"),
        ("start: " + "(" * 3_000 + '"a"' + ")" * 3_000, "nested"),
        ('start: "a"~1000000', "its shortest text has more than 65536 bytes"),
        ("start: " + "a" * 60_000, "more than 50000 characters"),
    ],
    ids=str,
)
def test_what_cannot_be_upheld_is_refused(definition, said):
    with pytest.raises(UnsupportedToolset) as refused:
        linked(definition)
    [(_, error)] = refused.value.refusals
    assert error.pointer == "/definition"
    assert said in error.reason


@pytest.mark.parametrize(
    ("definition", "way_out"),
    [
        ("start: /a.b/s", r"Write [\s\S] for a dot that takes line breaks."),
        ("start: /a b/x", "Leave out x, with the blanks and comments."),
        ("start: /[a-z]/im", "Write classes such as [aA]. Leave out m."),
        ("start: /a(/", r"Close it, or write \( for the parenthesis."),
        ('start: "a"\n | foo', "Define it."),
    ],
)
def test_a_refusal_tells_a_way_out(definition, way_out):
    with pytest.raises(UnsupportedToolset) as refused:
        linked(definition)
    [(_, error)] = refused.value.refusals
    assert error.suggestion == way_out


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
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Bytes()))
    written = set(inputs(linked(GRAMMARS[name]), "hermes", name, 60))
    assert len(written) > 10
    for text in written:
        matcher = llguidance.LLMatcher(tokenizer, f"%llguidance {{}}\n{GRAMMARS[name]}")
        assert matcher.try_consume_tokens(list(text.encode())) == len(text.encode())
        assert matcher.is_accepting()


class _Bytes:
    """A tokenizer of bytes, as the library wants it."""

    eos_token_id, bos_token_id = 256, None
    tokens = (*(bytes([byte]) for byte in range(256)), b"<end>")
    special_token_ids = (256,)

    def __call__(self, text):
        return list(text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize(
    "definition",
    ['start: s\ns: r "," | r |\nr: "a" s r | "1"', 'start: r "k" | r |\nr: /[a-z]/ start r | "1"'],
)
def test_a_closer_takes_its_own_completion_however_many_derivations_fit(definition):
    """Of very many, those that began first were followed, although the shortest completion needed another."""
    grammar = linked(definition)
    written = b'<tool_call>\n{"name": "t", "arguments": {"input": "'
    for _ in range(50):
        closer = grammar.closer()
        written += b"a"
        for byte in written:
            closer.accepted(byte)
        for byte in closer.completion_ids(closer.minimum()):
            closer.accepted(byte)
        assert closer.minimum() == 0
