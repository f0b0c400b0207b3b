"""Tagged values: whether the text of a tagged parameter stands for a string, or is JSON of another type.

In most syntaxes a tag says no more than its key, so a reader decides by the types that the schema admits
there. Three places depend on this decision, and this module makes it for all of them:

- The lowering writes no string that reads as JSON of another type (`json_patterns`).
- The guard follows what is an array or object, and skips what is a string (`begins_container`).
- The reader of an output makes a JSON string of what is one (`begins_container`, `may_be_scalar`, `is_json`).

Under the types `("array", "null", "string")`:

| text, blanks around it aside | it is read as |
|---|---|
| begins with `[` | an array |
| is `null` | null |
| `{"k": 1}`, `12`, `nullable`, empty | a string |

The types are those that the lowering found for a parameter, over all alternatives of the arguments. They may
be too many, never too few.
"""

import re

STRING = "string"
JSON_BLANKS = "\t\n\r "
_SCALARS = {"null": "null", "boolean": "true|false", "number": r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"}
_OPENINGS = {"array": "[", "object": "{"}
_WORDS = {"null": ("null",), "boolean": ("true", "false")}
_BEGUN_NUMBER = re.compile(r"[-+.0-9eE]*")


def possible_types(types: tuple[str, ...], *, is_string: bool) -> tuple[str, ...]:
    """The types that a value can still have once its tag says whether it is a string."""
    return tuple(name for name in types if (name == STRING) is is_string)


def json_patterns(types: tuple[str, ...]) -> list[str]:
    r"""Regular expressions: a text that matches none of them does not read as JSON of any type but string.

    >>> json_patterns(("array", "null", "string"))
    ['^[\\t\\n\\r ]*(?:null)[\\t\\n\\r ]*$', '^[\\t\\n\\r ]*(?:\\[)']
    """
    blanks = r"[\t\n\r ]*"
    scalars = [text for name, text in _SCALARS.items() if name in types]
    openings = [re.escape(char) for name, char in _OPENINGS.items() if name in types]
    patterns = [f"^{blanks}(?:{'|'.join(scalars)}){blanks}$"] if scalars else []
    return patterns + ([f"^{blanks}(?:{'|'.join(openings)})"] if openings else [])


def admits_containers(types: tuple[str, ...]) -> bool:
    """Whether any text is read as an array or object."""
    return not _OPENINGS.keys().isdisjoint(types)


def begins_container(types: tuple[str, ...], char: str) -> bool:
    """Whether a text whose first character after blanks is `char` is read as an array or object.

    This agrees with `json_patterns`: one of the openings matches then.
    """
    return any(_OPENINGS.get(name) == char for name in types)


def may_be_scalar(types: tuple[str, ...], begun: str) -> bool:
    """Whether a text that begins with `begun` may still become JSON of a number or a word."""
    begun = begun.strip(JSON_BLANKS)
    words = (word for name in types for word in _WORDS.get(name, ()))
    is_number = "number" in types and _BEGUN_NUMBER.fullmatch(begun) is not None
    return is_number or any(word.startswith(begun) for word in words)


def is_json(types: tuple[str, ...], text: str) -> bool:
    """Whether a whole text is read as JSON, and not as a string."""
    return STRING not in types or any(re.search(pattern, text) for pattern in json_patterns(types))
