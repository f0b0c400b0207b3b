"""What may be written: no control characters but blanks, and nothing that is no character."""

from compiler.errors import UnsupportedSchema
from compiler.regular import charset
from compiler.regular.charset import Ranges

CONTROLS: Ranges = ((0x00, 0x08), (0x0B, 0x0C), (0x0E, 0x1F))
"""Never written: among them are the characters that stand for marker tokens."""
WRITABLE = charset.complement(CONTROLS)


def check_writable(text: str, pointer: str) -> None:
    """Refuse a text that holds what is never written; raises UnsupportedSchema."""
    for char in text:
        if not charset.contains(WRITABLE, ord(char)):
            kind = "a lone surrogate" if 0xD800 <= ord(char) <= 0xDFFF else "a control character"
            raise UnsupportedSchema(pointer, "", f"it holds {kind}, U+{ord(char):04X}", "Leave it out.")
