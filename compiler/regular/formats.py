"""The formats of the specification as patterns: every text of a pattern is valid for every validator.

The inner pattern of a format is for where it must hold; texts on which validators disagree are left out. The
outer pattern is for where the format must not hold; it matches every text that some validator accepts.

Sources: RFC 3339 (date, time, date-time, duration), RFC 5321 (email), RFC 1123 (hostname), RFC 4291 (ipv6),
RFC 3986 (uri), RFC 6901 (json-pointer), RFC 6570 (uri-template).
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Format:
    """A text of the format matches `pattern` and does not match `excluded`; `note` says what is left out.

    Texts have at most `max_length` characters. Where a schema bounds the length further, `bounded` replaces
    the format: its automaton has few states before a long suffix, so that characters can be counted.
    """

    pattern: str
    note: str = ""
    excluded: str | None = None
    max_length: int | None = None
    bounded: "Format | None" = None

    def within(self, high: int | None) -> "Format":
        """The format to use for texts of at most `high` characters."""
        is_bounded = high is not None and (self.max_length is None or high < self.max_length)
        return self.bounded if self.bounded is not None and is_bounded else self


_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    "(?:[0-9]{4}-(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|[0-9]{4}-(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|[0-9]{4}-02-(?:0[1-9]|1[0-9]|2[0-8])"
    f"|{_LEAP_YEAR}-02-29)"
)
_TIME = (
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_N = "[0-9]{1,9}"
_CLOCK = f"T(?:{_N}H(?:{_N}M(?:{_N}S)?)?|{_N}M(?:{_N}S)?|{_N}S)"
_CALENDAR = f"(?:{_N}Y(?:{_N}M(?:{_N}D)?)?|{_N}M(?:{_N}D)?|{_N}D)"
_LABEL = "[A-Za-z0-9](?:-?[A-Za-z0-9])*"
_TOP_LABEL = "[A-Za-z](?:-?[A-Za-z0-9])*"
_MAILBOX = "[A-Za-z0-9_+'-]"
_DOMAIN = f"(?:{_LABEL}\\.)+{_TOP_LABEL}"
_EMAIL = f"{_MAILBOX}(?:\\.?{_MAILBOX}){{0,31}}@{_DOMAIN}"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_H = "[0-9A-Fa-f]{1,4}"
_IPV6 = "|".join(
    [
        f"(?:{_H}:){{7}}{_H}",
        f"(?:{_H}:){{1,7}}:",
        *(f"(?:{_H}:){{1,{7 - n}}}(?::{_H}){{1,{n}}}" for n in range(1, 7)),
        f":(?::{_H}){{1,7}}",
        "::",
    ]
)
_PLAIN = "A-Za-z0-9._~!$&'()*+,;=\\-"
_PERCENT = "%[0-9A-Fa-f]{2}"
_PCHAR = f"(?:[{_PLAIN}:@]|{_PERCENT})"
_TAIL = f"(?:\\?(?:[{_PLAIN}:@/?]|{_PERCENT})*)?(?:#(?:[{_PLAIN}:@/?]|{_PERCENT})*)?"
_AUTHORITY = f"//(?:(?:[{_PLAIN}:]|{_PERCENT})+@)?[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{{1,4}})?"
_PATH = f"(?:/{_PCHAR}*)*"
_URI = f"[A-Za-z][A-Za-z0-9+.-]*:(?:{_AUTHORITY}{_PATH}|//(?:/{_PCHAR}*)+|/?{_PCHAR}+{_PATH}){_TAIL}"
_FIRST_SEGMENT = f"(?:[{_PLAIN}@]|{_PERCENT})+"
_RELATIVE = f"(?:{_AUTHORITY}{_PATH}|/(?:{_PCHAR}+{_PATH})?|{_FIRST_SEGMENT}{_PATH})?{_TAIL}"
_POINTER = "(?:/(?:[^~/]|~[01])*)*"
_LITERAL = "[A-Za-z0-9 _,:;@/=<>!%&~'\"-]"
_ESCAPE = r"\\[dDwWsSnrt.*+?^$|()\[\]{}\\/]"
_SET = r"\[\^?(?:[A-Za-z0-9 _,:;@/=<>!%'\".*+?(){}$]|a-z|A-Z|0-9|\\[dDwWsSnrt.\\\[\]^-])+\]"
_COUNT = r"(?:(?:[*+?]|\{[0-9],?\})\??)?"
_PIECE = f"(?:{_LITERAL}|\\.|{_ESCAPE}|{_SET}){_COUNT}|[|^$]|\\\\b"
_INNER_GROUP = rf"\((?:\?:)?(?:{_PIECE})*\){_COUNT}"
_GROUP = rf"\((?:\?:)?(?:{_PIECE}|{_INNER_GROUP})*\){_COUNT}"
_ASCII = "ASCII only"
_NAME_LENGTH = 63  # the longest label; since labels are not counted, a whole name may not be longer either
_TOP = "the last label begins with a letter"
_HOST = Format(
    f"^(?:{_LABEL}\\.)*{_TOP_LABEL}$",
    f"at most {_NAME_LENGTH} characters, {_TOP}",
    excluded=f".{{{_NAME_LENGTH + 1}}}",
    max_length=_NAME_LENGTH,
    bounded=Format(f"^(?:{_LABEL}\\.)*{_TOP_LABEL}$", _TOP),
)
_LETTERS = "mailboxes of letters, digits and _ + ' - beside dots"
_MAIL = Format(
    f"^{_EMAIL}$",
    f"{_LETTERS}, at most 32 of them, domains of at most 40 characters with a dot",
    excluded="^[^@]*@.{41}",
    max_length=63 + 1 + 40,
    bounded=Format(
        f"^{_MAILBOX}(?:\\.?{_MAILBOX})*@{_DOMAIN}$",
        f"{_LETTERS}, domains with a dot, at most {_NAME_LENGTH} characters",
        max_length=_NAME_LENGTH,
    ),
)
_SHORT_HOST = "[A-Za-z0-9](?:[A-Za-z0-9.-]{0,40}[A-Za-z0-9])?(?::[0-9]{1,4})?"
_SHORT_TAIL = f"[{_PLAIN}:@/?]*"
_SHORT_URI = (
    f"[A-Za-z][A-Za-z0-9+.-]{{0,9}}:"
    f"(?://{_SHORT_HOST}(?:[/?]{_SHORT_TAIL})?|///{_SHORT_TAIL}|[{_PLAIN}@]{_SHORT_TAIL})"
)
_SHORT_RELATIVE = f"(?://{_SHORT_HOST})?(?:/(?:[{_PLAIN}@]{_SHORT_TAIL})?|\\?{_SHORT_TAIL})|[{_PLAIN}@]{{1,20}}(?:[/?]{_SHORT_TAIL})?"
_URIS = "hosts by name, ports of at most four digits"
_SHORT_URIS = f"{_URIS}; beside a length bound no percent signs, no fragments, no users"

FORMATS = {
    "date": Format(f"^{_DATE}$", excluded="^0000"),
    "time": Format(f"^{_TIME}$", "no leap second, at most six digits of a second"),
    "date-time": Format(f"^{_DATE}T{_TIME}$", "no leap second, at most six digits of a second", "^0000"),
    "duration": Format(f"^P(?:{_CALENDAR}(?:{_CLOCK})?|{_CLOCK}|{_N}W)$", "at most nine digits a number"),
    "email": _MAIL,
    "hostname": _HOST,
    "ipv4": Format(f"^{_OCTET}(?:\\.{_OCTET}){{3}}$"),
    "ipv6": Format(f"^(?:{_IPV6})$", "no embedded IPv4 address"),
    "uuid": Format("^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"),
    "uri": Format(f"^{_URI}$", _URIS, bounded=Format(f"^(?:{_SHORT_URI})$", _SHORT_URIS)),
    "uri-reference": Format(
        f"^(?:{_URI}|{_RELATIVE})$",
        _URIS,
        bounded=Format(f"^(?:{_SHORT_URI}|{_SHORT_RELATIVE})$", _SHORT_URIS),
    ),
    "uri-template": Format(
        "^(?:[A-Za-z0-9._~:/?#@!$&()*+,;=-]|\\{[A-Za-z0-9_]+(?:,[A-Za-z0-9_]+)*\\})*$",
        "simple expressions only",
    ),
    "json-pointer": Format(f"^{_POINTER}$"),
    "relative-json-pointer": Format(
        f"^(?:0|[1-9]{{1,8}}0?)(?:#|{_POINTER})$", "a zero only at the end of the number"
    ),
    "regex": Format(
        f"^(?:{_PIECE}|{_GROUP})*$",
        f"{_ASCII}; groups at most two deep, no lookaround, no backreferences, counts of one digit",
    ),
}

for _of, _by in (
    ("email", "idn-email"),
    ("hostname", "idn-hostname"),
    ("uri", "iri"),
    ("uri-reference", "iri-reference"),
):
    FORMATS[_by] = replace(FORMATS[_of], note=f"{_ASCII}; {FORMATS[_of].note}")

_URI_CHARS = '[^ <>"{}|\\\\^`]'
OUTER = {
    "date": "^[0-9]|-",
    "time": "^[0-9]|:",
    "date-time": "^[0-9]|-",
    "duration": "^[-+]?[Pp]",
    "email": "@",
    "idn-email": "@",
    "hostname": "^[^ /:@]*$",
    "idn-hostname": "^[^ /:@]*$",
    "ipv4": "^[0-9.]*$",
    "ipv6": ":",
    "uuid": "-",
    "uri": ":",
    "iri": ":",
    "uri-reference": f"^{_URI_CHARS}*$",
    "iri-reference": f"^{_URI_CHARS}*$",
    "uri-template": r"^(?:[^{}]|\{[^}]*\})*$",
    "json-pointer": "^(?:/|$)",
    "relative-json-pointer": r"^[0-9\u0080-\u{10ffff}]",
    "regex": "^(?:[^*]|$)",
}
"""The outer patterns: they match every text that some validator accepts."""

_SINCE = {
    4: ("date-time", "email", "hostname", "ipv4", "ipv6", "uri"),
    6: ("uri-reference", "uri-template", "json-pointer"),
    7: (
        "date",
        "time",
        "regex",
        "relative-json-pointer",
        "iri",
        "iri-reference",
        "idn-email",
        "idn-hostname",
    ),
    19: ("duration", "uuid"),
}


def is_known(name: str, draft: int) -> bool:
    """Whether the specification of the draft defines the format."""
    return any(name in names for since, names in _SINCE.items() if since <= draft)


def outer_pattern(name: str, draft: int) -> str:
    """The outer pattern of a format. In a draft that does not define the format, every text is valid for it.

    >>> outer_pattern("ipv4", draft=7), outer_pattern("uuid", draft=7)
    ('^[0-9.]*$', '')
    """
    return OUTER[name] if is_known(name, draft) else ""


BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
"""With padding, and without unused bits set in the last character, which strict decoders reject."""
