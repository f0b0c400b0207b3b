"""The characters of JSON strings: their escapes, and the spelling in which guards compare them.

The *canonical spelling* of a character is what `json.dumps(..., ensure_ascii=False)` writes for it.
"""

import json
import re
from functools import cache
from itertools import product

ESCAPE = re.compile(rb"\\(?:[^u]|u(?:[dD][89abAB]..\\u....|(?![dD][89abAB])....))", re.DOTALL)
"""A complete escape of one character, a surrogate pair included."""
CANONICAL_CHARACTER = re.compile(rb"\\u....|\\.|[\x00-\x21\x23-\x7f]|[\xc0-\xff][\x80-\xbf]+", re.DOTALL)
_SHORT_ESCAPES = {json.loads(f'"\\{char}"'): b"\\" + char.encode() for char in '"\\/bfnrt'}
_LAST_CHARACTER = re.compile(rb"(?:[\xc0-\xdf].|[\xe0-\xef]..|[\xf0-\xff]...)\Z", re.DOTALL)
_CONTINUATION = bytes(range(0x80, 0xC0))


def canonical_spelling(escape: bytes) -> bytes:
    """The canonical spelling of an escaped character."""
    char = json.loads(b'"' + escape + b'"')
    return json.dumps(char, ensure_ascii=False)[1:-1].encode()


@cache
def escapes_of(canonical: bytes) -> tuple[bytes, ...]:
    """Every escape of a character, which is given in its canonical spelling."""
    char = json.loads(b'"' + canonical + b'"')
    units = char.encode("utf-16-be").hex()
    escaped = b"".join(b"\\u" + units[at : at + 4].encode() for at in range(0, len(units), 4))
    cases = ((bytes([byte]), bytes([byte]).upper()) for byte in escaped)
    spelled = {b"".join(choice).replace(b"\\U", b"\\u") for choice in product(*cases)}
    short = _SHORT_ESCAPES.get(char)
    return (*sorted(spelled), *(() if short is None else (short,)))


def num_characters_begun(text: bytes, escape: bytes) -> int:
    """How many more characters of a string the rest of an element begins; `escape` has begun one already."""
    if escape:
        whole = ESCAPE.match(escape + text)
        assert whole is not None, "the rest of an element completes the escape"
        text = text[whole.end() - len(escape) :]
    text, count = text.lstrip(_CONTINUATION), 0
    while (character := CANONICAL_CHARACTER.match(text)) is not None:
        count, text = count + 1, text[character.end() :]
    return count


def ends_character(text: bytes) -> bool:
    """Whether some UTF-8 alone shows that its last character is complete."""
    return text[-1] < 0x80 or _LAST_CHARACTER.search(text) is not None
