"""Names of hosts (RFC 1123, RFC 5890) and mailboxes (RFC 5321, RFC 6531), as validators agree on them.

Each has two patterns. The first does not look at lengths, and so has few states. The second counts the
characters of every part.

Left out, since some validator rejects it:

- a dot at the end of a name, a domain of a mailbox without a dot, mailboxes in quotes;
- labels with two hyphens in a row: where these are the third and fourth character, as in `xn--9ca`,
  validators decode the label and check what it stands for;
- where labels go beyond ASCII, letters that do not stand for themselves whatever is beside them. Small ones
  of Latin, Greek and Cyrillic do, and those of Chinese, Japanese and Korean.

Validators count the 63 characters of a label, and the 253 of a name, after they have encoded it (RFC 3492).
Of n characters up to U+045F, a label becomes at most 61 characters for n = 15; of n up to U+D7A3, at most 60
for n = 11. A label and its dot become at most 61/12 times as long (`tests/compiler/test_formats.py` computes
it).
"""

_ALPHABETIC = (
    "\u00df-\u00f6\u00f8-\u00ff"
    "āăąćĉċčďđēĕėęěĝğġģĥħĩīĭįıĵķĸĺļľłńņňŋōŏőœŕŗřśŝşšţťŧũūŭůűųŵŷźżž"
    "\u0390\u03ac-\u03ce\u0430-\u045f"
)
_EAST_ASIAN = "\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fa5\uac00-\ud7a3"
_ANY_LETTER = r"\u00a1-\u167f\u1681-\u1fff\u2030-\u205e\u2070-\u2fff\u3001-\ud7ff"
"""Beyond ASCII, without blanks; for the part of a mailbox before the @."""

MAX_NAME = 253
MAX_IDN_NAME = 48
MAX_MAILBOX = 254
MAX_IDN_MAILBOX = MAX_IDN_NAME + len("a@")


def _name(letters: str = "A-Z", *, has_dot: bool = False) -> str:
    """A name; its labels may have these letters besides the small ASCII ones."""
    char = f"[a-z0-9{letters}]"
    label = f"{char}(?:-?{char})*"
    return rf"{label}(?:\.{label}){'+' if has_dot else '*'}"


def _mailbox(letters: str = "", letters_of_name: str = "A-Z") -> str:
    char = f"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{letters}-]"
    return rf"{char}(?:\.?{char})*@{_name(letters_of_name, has_dot=True)}"


NAME = _name()
MAILBOX = _mailbox()
IDN_NAME = _name(_ALPHABETIC + _EAST_ASIAN)
IDN_MAILBOX = _mailbox(_ANY_LETTER, _ALPHABETIC + _EAST_ASIAN)

NAME_LENGTHS = r"(?:[^.]{1,63}\.)*[^.]{1,63}"
MAILBOX_LENGTHS = f"[^@]{{1,64}}@{NAME_LENGTHS}"

_IDN_LABEL = (
    rf"(?:[a-z0-9-]{{1,63}}|[a-z0-9{_ALPHABETIC}-]{{1,15}}|[a-z0-9{_ALPHABETIC}{_EAST_ASIAN}-]{{1,11}})"
)
IDN_NAME_LENGTHS = rf"(?:{_IDN_LABEL}\.)*{_IDN_LABEL}"
IDN_MAILBOX_LENGTHS = rf"(?:[\x00-\x3f\x41-\x7f]+|[^@]{{1,21}})@{IDN_NAME_LENGTHS}"
"""The part before the @ has at most 64 bytes of UTF-8."""
