"""Schemas made to harm, by name: `from hostile import REFUSED, BOUNDED, laborious`."""


def of(**properties):
    return {"type": "object", "properties": properties}


def string(**keywords):
    return of(p={"type": "string", **keywords})


def laborious(salt: int = 0):
    """Thousands of patterns, each harmless: a lot of work for any compiler, little memory; salted ones differ."""
    names = [f"p{i}" for i in range(2_000)]
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
"""What cannot be upheld within any bounds."""

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
"""What may also be upheld, as long as it costs no more than any schema may."""
