"""msgspec's reasons for refusing a value, in words that a client or an operator would use.

>>> plain("Expected `int | null`, got `str`")
'it must be a whole number or null, not a text'
>>> plain("Expected `float` <= 2.0")
'it must be a number, at most 2.0'
>>> plain("Expected `array` of length >= 1")
'it must have at least 1 item'
>>> plain(f"Expected `str` matching regex {URL_PATTERN!r}")
'it must be a URL that begins with http:// or https://'
"""

import re
from collections.abc import Mapping

from toolspecs.toolset import TOOLSET_RULE

_KINDS: Mapping[str, str] = {
    "array": "a list",
    "bool": "true or false",
    "datetime": "a time such as 2030-12-31T23:59:59Z",
    "float": "a number",
    "int": "a whole number",
    "null": "null",
    "object": "an object",
    "str": "a text",
}
_FOUND: Mapping[str, str] = {**_KINDS, "NoneType": "null", "dict": "an object", "list": "a list"}
"""What was found: in the place of a tag, msgspec names the type of Python."""
URL_PATTERN = r"^https?://[^/\s]+"
TOOLSET_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}(?!\n)$"
TENANT_PATTERN = r"^[a-z0-9][a-z0-9-]{0,62}(?!\n)$"
SOURCE_URL_PATTERN = r"^https?://(?![^/?#]*@)[!-~]+(?!\n)$"
SOURCE_KIND_PATTERN = r"^[a-z][a-z0-9-]{0,31}(?!\n)$"
HEADER_NAME_PATTERN = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}(?!\n)$"
HEADER_VALUE_PATTERN = r"^[ -~]*(?!\n)$"
_OF_PATTERNS: Mapping[str, str] = {
    URL_PATTERN: "it must be a URL that begins with http:// or https://",
    TOOLSET_PATTERN: f"it must be the name of a toolset: {TOOLSET_RULE}",
    TENANT_PATTERN: "it must be 1 to 63 of a-z, 0-9 and '-', the first a letter or a digit",
    SOURCE_URL_PATTERN: "it must be a URL that begins with http:// or https://, without blanks and users",
    SOURCE_KIND_PATTERN: "it must be 1 to 32 of a-z, 0-9 and '-', the first a letter",
    HEADER_NAME_PATTERN: "it must be the name of a header",
    HEADER_VALUE_PATTERN: "it must be printable ASCII text",
}
"""What the patterns of fields admit. The lookaheads are there because `$` also matches before a newline."""
_BOUNDS: Mapping[str, str] = {"<=": "at most", ">=": "at least", "<": "below", ">": "above"}
_PARTS: Mapping[str, str] = {"array": "item", "object": "member", "str": "character"}
"""What the length of a value counts."""

_EXPECTED = re.compile(
    r"Expected `(?P<kinds>[a-z]+(?: \| [a-z]+)*)`"
    r"(?:, got `(?P<found>[A-Za-z]+)`"
    r"| (?P<bound>[<>]=?) (?P<limit>\S+)"
    r"| of length (?P<length>[<>]=?) (?P<size>[0-9]+)"
    r"| matching regex (?P<pattern>.+))?"
)
_OF_TIMES: Mapping[str, str] = {
    "Expected `datetime` with a timezone component": "it must tell its zone, as 2030-12-31T23:59:59Z",
    "Invalid RFC3339 encoded datetime": "it must be a time such as 2030-12-31T23:59:59Z",
}
_SAID = {
    **_OF_TIMES,
    **{f"Expected `str` matching regex {pattern!r}": said for pattern, said in _OF_PATTERNS.items()},
}
_MISSING = re.compile(r"Object missing required field `([^`]+)`")


def plain(reason: str, *, is_typed: bool = True) -> str:
    """The reason in plain words; unchanged if it is about neither a type nor a bound.

    With `is_typed` False, the value is a text that stands for another type, as on a command line.
    """
    if reason in _SAID:
        return _SAID[reason]
    match = _EXPECTED.fullmatch(reason)
    if match is None or not {*match["kinds"].split(" | ")} <= {*_KINDS}:
        return reason
    kinds = match["kinds"].split(" | ")
    if match["length"]:
        part = _PARTS[next(kind for kind in kinds if kind in _PARTS)]
        return f"it must have {_BOUNDS[match['length']]} {match['size']} {part}{'s' * (match['size'] != '1')}"
    *some, last = (_KINDS[kind] for kind in kinds if is_typed or kind != "null")
    expectation = f"it must be {', '.join(some)} or {last}" if some else f"it must be {last}"
    if match["found"] and is_typed:
        return f"{expectation}, not {_FOUND.get(match['found'], match['found'])}"
    if match["bound"]:
        return f"{expectation}, {_BOUNDS[match['bound']]} {match['limit']}"
    return f"{expectation} that matches {match['pattern']}" if match["pattern"] else expectation


def missing_field(reason: str) -> str | None:
    """The name of the required field that is missing; None if the reason is another."""
    match = _MISSING.fullmatch(reason)
    return match[1] if match else None
