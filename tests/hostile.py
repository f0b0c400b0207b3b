"""Schemas and formats made to harm, by name: `from hostile import REFUSED, BOUNDED, FORMATS, laborious`."""


def of(**properties):
    return {"type": "object", "properties": properties}


def string(**keywords):
    return of(p={"type": "string", **keywords})


def laborious(salt: int = 0, number: int = 2_000):
    """Thousands of patterns, each harmless: a lot of work for any compiler, little memory; salted ones differ."""
    names = [f"p{i}" for i in range(number)]
    patterns = {name: {"type": "string", "pattern": f"^[a-z]{{1,40}}{name}x{salt}$"} for name in names}
    return {"type": "object", "properties": patterns, "required": names}


def greedy():
    """Gigabytes of combinations."""

    def one(name, kind):
        return {"required": [name], "properties": {name: {"type": kind}}}

    pairs = [{"anyOf": [one(f"a{i}", "integer"), one(f"b{i}", "string")]} for i in range(30)]
    return {"type": "object", "allOf": pairs}


def cycle():
    return {**of(p={"$ref": "#/$defs/a"}), "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}


def endless():
    link = {"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}}, "required": ["n"]}
    return {**of(p={"$ref": "#/$defs/a"}), "required": ["p"], "$defs": {"a": link}}


def either(*names):
    return {"oneOf": [{"required": [name]} for name in names]}


def overlapping(number):
    return of(p={"oneOf": [{"properties": {f"k{i}": {}}, "required": [f"k{i}"]} for i in range(number)]})


REFUSED = {
    "too much work": laborious(),
    "too much memory": greedy(),
    "more enum values than any list": of(p={"enum": [f"v{i}" for i in range(1_000_000)]}),
    "lone surrogate": string(pattern="\ud800"),
    "escaped lone surrogate": string(pattern="^\\ud800$"),
    "a reference cycle": cycle(),
    "endless nodes": endless(),
    "a reference to a URL": of(p={"$ref": "http://127.0.0.1:9/schema.json"}),
}
"""What cannot be enforced within any bounds."""


def document(number=0):
    return f"http://example.com/{number}"


def linked(number, schema):
    """Documents that each say `schema` of the next; the last one of a string."""
    chain = {document(i): schema({"$ref": document(i + 1)}) for i in range(number)}
    return {**chain, document(number): {"type": "string"}}


DOCUMENTS = {
    "a cycle": {document(): {"$ref": document(1)}, document(1): {"anyOf": [{"$ref": document()}, {}]}},
    "a million definitions": {document(): {"$defs": {f"d{i}": {} for i in range(1_000_000)}}},
    "a chain": linked(250, lambda inner: {"type": "object", "properties": {"n": inner}, "required": ["n"]}),
    "too many": linked(300, lambda inner: {"items": inner}),
    "too much work": {document(): laborious()},
    "too much memory": {document(): greedy()},
    "a URL": {document(): {"$ref": "http://127.0.0.1:9/schema.json"}},
    "lone surrogate": {document(): {"pattern": "\ud800"}},
    "a drafts' schema": {"http://json-schema.org/draft-07/schema": {}, document(): {}},
}
"""Documents that a tool refers to by `document()`, refused."""

BOUNDED_DOCUMENTS = {
    "doubling": linked(60, lambda inner: {"anyOf": [{"items": inner}, {"properties": {"p": inner}}]}),
    "thousands of definitions": {
        document(): {
            "anyOf": [{"$ref": f"#/$defs/d{i}"} for i in range(3_000)],
            "$defs": {f"d{i}": {"const": i} for i in range(3_000)},
        }
    },
}
"""What may also be enforced."""

BOUNDED = {
    "exponential oneOf": {"type": "object", "allOf": [either(f"a{i}", f"b{i}") for i in range(25)]},
    "overlapping oneOf": overlapping(400),
    "nested quantifiers": string(pattern="^((((a{1,50}){1,50}){1,50}){1,50}){1,50}$"),
    "exponential automaton": string(pattern="^(a|b)*a(a|b){60}$"),
    "multiplied counts": string(pattern="^[ab]{900}[cd]{900}[ef]{900}$"),
    "a billion items": of(p={"type": "array", "minItems": 10**9, "items": {"type": "integer"}}),
    "the longest string": string(maxLength=10**9),
    "NUL in a pattern": string(pattern="a\0b\\x00"),
    "many optional properties": of(**{f"p{i}": {"type": "integer"} for i in range(5_000)}),
    "thousands of enum values": of(p={"enum": [f"v{i}" for i in range(9_000)]}),
    "nested stars": string(pattern="^(([a-z]*)*)*x(a+)+$"),
}
"""What may also be enforced, as long as it costs no more than any schema may."""


def _chain(levels, leaf):
    """Rules of two of the next rule each."""
    rules = [f"a{i} ::= a{i + 1} a{i + 1}" for i in range(levels)]
    return "\n".join(["root ::= a0", *rules, f"a{levels} ::= {leaf}"])


FORMATS = {
    "a pattern with a backreference": {"type": "regex", "pattern": r"(a)\1"},
    "a pattern that closes what it did not open": {"type": "regex", "pattern": "a)(b"},
    "a pattern that nothing matches": {"type": "regex", "pattern": "a\\bb"},
    "a pattern of a control character": {"type": "regex", "pattern": "a\x00"},
    "a pattern that counts too far": {"type": "regex", "pattern": "(?:a{1000000000}){1000000000}"},
    "a pattern with nested counts": {"type": "regex", "pattern": "(((a?){999}){999}){999}"},
    "a pattern with an exponential automaton": {"type": "regex", "pattern": "(a|b)*a(a|b){300}"},
    "a pattern nested too deeply": {"type": "regex", "pattern": "(" * 4_000 + "a" + ")" * 4_000},
    "a choice of a control character": {"type": "choice", "choices": ["fine", "\x01\x0e"]},
    "no grammar": {"type": "grammar", "grammar": ""},
    "a grammar that is not one": {"type": "grammar", "grammar": "start: 'a' | /b+/"},
    "a grammar of another root": {"type": "grammar", "grammar": 'start ::= "a"'},
    "an undefined rule": {"type": "grammar", "grammar": "root ::= a"},
    "a rule defined twice": {"type": "grammar", "grammar": 'root ::= "a"\nroot ::= "b"'},
    "a root that produces nothing": {"type": "grammar", "grammar": "root ::= a\na ::= root"},
    "a rule that produces nothing": {"type": "grammar", "grammar": 'root ::= "a" | b\nb ::= "b" b'},
    "a grammar with a NUL": {"type": "grammar", "grammar": 'root ::= "a\x00b"'},
    "a grammar with an escaped NUL": {"type": "grammar", "grammar": 'root ::= "a\\x00b"'},
    "a grammar of a lone surrogate": {"type": "grammar", "grammar": 'root ::= "\\ud800"'},
    "a class of control characters": {"type": "grammar", "grammar": "root ::= [\\x00-\\x07]"},
    "a grammar that counts too far": {"type": "grammar", "grammar": 'root ::= ("a" "b"){0,1000000000}'},
    "a grammar with nested counts": {"type": "grammar", "grammar": 'root ::= (("a"{999}){999}){999}'},
    "a grammar with long ambiguous counts": {
        "type": "grammar",
        "grammar": "root ::= " + '("ab" | "c"){1,999} ' * 200,
    },
    "a grammar of one huge text": {"type": "grammar", "grammar": _chain(60, '"x"')},
    "a grammar of endless ambiguity": {"type": "grammar", "grammar": 'root ::= root root | "a" | ""'},
    "a grammar that repeats the empty text": {"type": "grammar", "grammar": 'root ::= ("a"?)*'},
    "a grammar of many parts that may be empty": {
        "type": "grammar",
        "grammar": _chain(10, '"x"?'),
    },
    "a grammar of many loops in a row": {"type": "grammar", "grammar": "root ::= " + '"x"* ' * 16},
    "a grammar nested too deeply": {"type": "grammar", "grammar": "root ::= " + "(" * 60_000 + '"a"'},
    "a grammar with a macro": {"type": "grammar", "grammar": "root ::= Token(3)"},
    "a grammar with a lookahead": {"type": "grammar", "grammar": 'root ::= ("a") (= "b")'},
}
"""Values of `response_format`, refused."""
