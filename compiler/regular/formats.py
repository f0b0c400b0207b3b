"""The formats of the specification as patterns: every text of a pattern is valid for every validator.

The inner pattern of a format is for where it must hold; texts on which validators disagree are left out. The
outer pattern is for where the format must not hold; it matches every text that some validator accepts.

Sources: RFC 3339 (date, time, date-time, duration), RFC 4291 (ipv6), RFC 6901 (json-pointer). Hosts and
mailboxes are in `compiler.regular.host_patterns`, URIs in `compiler.regular.uri_patterns`.
"""

from dataclasses import dataclass, replace

from compiler.regular import host_patterns as hosts
from compiler.regular import uri_patterns as uris
from toolspecs.schemas.drafts import SchemaDraft


@dataclass(frozen=True, slots=True)
class Format:
    """A text of the format matches `pattern`; `note` says what is left out.

    It also matches `lengths`, if that is given, and has at most `max_length` characters. Rules need many
    states for these two, so a guard checks them. `counted` replaces the format where no guard can, and
    wherever else rules must count the characters.
    """

    pattern: str
    note: str = ""
    lengths: str | None = None
    max_length: int | None = None
    counted: "Format | None" = None

    def where_counted(self, high: int | None) -> "Format":
        """The format to use where no guard counts, for texts of at most `high` characters."""
        is_bounded = high is not None or self.max_length is not None
        return self.counted if self.counted is not None and is_bounded else self


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
_HOURS, _MINUTES, _SECONDS = "[0-9]{1,6}H", "[0-9]{1,7}M", "[0-9]{1,7}S"
"""Together fewer than 2^32 seconds: Pydantic reads no more."""
_WHOLE_YEARS, _MONTHS, _WEEKS, _DAYS = "[0-9]{1,6}Y", "[0-9]{1,7}M", "[0-9]{1,8}W", "[0-9]{1,8}D"
"""With the hours fewer than 10^9 days, which is the longest `timedelta` of Python."""
_CLOCK = f"T(?:{_HOURS}(?:{_MINUTES}(?:{_SECONDS})?)?|{_MINUTES}(?:{_SECONDS})?|{_SECONDS})"
_CALENDAR = f"(?:{_WHOLE_YEARS}(?:{_MONTHS}(?:{_DAYS})?)?|{_MONTHS}(?:{_DAYS})?|{_DAYS})"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_POINTER = "(?:/(?:[^~/]|~[01])*)*"
_LITERAL = "[A-Za-z0-9 _,:;@/=<>!%&~'\"-]"
_ESCAPE = r"\\[dDwWsSnrt.*+?^$|()\[\]{}\\/]"
_SET = r"\[\^?(?:[A-Za-z0-9 _,:;@/=<>!%'\".*+?(){}$]|a-z|A-Z|0-9|\\[dDwWsSnrt.\\\[\]^-])+\]"
_COUNT = r"(?:(?:[*+?]|\{[0-9],?\})\??)?"
_PIECE = f"(?:{_LITERAL}|\\.|{_ESCAPE}|{_SET}){_COUNT}|[|^$]|\\\\b"
_INNER_GROUP = rf"\((?:\?:)?(?:{_PIECE})*\){_COUNT}"
_GROUP = rf"\((?:\?:)?(?:{_PIECE}|{_INNER_GROUP})*\){_COUNT}"
_ASCII = "ASCII only"
_YEARS = "no year 0000"
_BY_TIME = "capital T and Z, no leap second, at most six digits of a second"
_NAMES = "no dot at the end, no two hyphens in a row"
_MAILBOXES = "no quotes, domains with a dot and without two hyphens in a row"
_LETTERS = "only small letters, beyond ASCII those of Latin, Greek, Cyrillic, Chinese, Japanese and Korean"
_COUNTED = 63
"""How many characters of a name or mailbox rules count: as many as a label may have."""
_BARE = "something must stand between the scheme and ? or #"
_NO_IPV4 = "no IPv4 address in an IPv6 one"
_URIS = f"{_BARE}, {_NO_IPV4}"
_IRIS = "characters up to U+FFEF, no addresses in brackets"
_SHORT = "hosts of at most 42 characters, ports of at most five digits, no percent signs, fragments and users"
_SHORT_URI = Format(f"^(?:{uris.SHORT_URI})$", _SHORT)
_SHORT_REFERENCE = Format(f"^(?:{uris.SHORT_REFERENCE})$", _SHORT)


def _at_most(pattern: str, note: str) -> Format:
    return Format(f"^{pattern}$", f"{note}; at most {_COUNTED} characters", max_length=_COUNTED)


_HOST = _at_most(hosts.NAME, _NAMES)
_MAIL = _at_most(hosts.MAILBOX, _MAILBOXES)

FORMATS = {
    "date": Format(f"^(?!0000){_DATE}$", _YEARS),
    "time": Format(f"^{_TIME}$", _BY_TIME),
    "date-time": Format(f"^(?!0000){_DATE}T{_TIME}$", f"{_YEARS}; {_BY_TIME}"),
    "duration": Format(
        f"^P(?:{_CALENDAR}(?:{_CLOCK})?|{_CLOCK}|{_WEEKS})$",
        "fewer than 10^9 days: at most six to eight digits a number, by its unit",
    ),
    "email": Format(
        f"^{hosts.MAILBOX}$", _MAILBOXES, f"^{hosts.MAILBOX_LENGTHS}$", hosts.MAX_MAILBOX, counted=_MAIL
    ),
    "idn-email": Format(
        f"^{hosts.IDN_MAILBOX}$",
        f"{_MAILBOXES}; in these {_LETTERS}",
        f"^{hosts.IDN_MAILBOX_LENGTHS}$",
        hosts.MAX_IDN_MAILBOX,
        counted=replace(_MAIL, note=f"{_ASCII}; {_MAIL.note}"),
    ),
    "hostname": Format(f"^{hosts.NAME}$", _NAMES, f"^{hosts.NAME_LENGTHS}$", hosts.MAX_NAME, counted=_HOST),
    "idn-hostname": Format(
        f"^{hosts.IDN_NAME}$",
        f"{_NAMES}; {_LETTERS}",
        f"^{hosts.IDN_NAME_LENGTHS}$",
        hosts.MAX_IDN_NAME,
        counted=replace(_HOST, note=f"{_ASCII}; {_HOST.note}"),
    ),
    "ipv4": Format(f"^{_OCTET}(?:\\.{_OCTET}){{3}}$"),
    "ipv6": Format(f"^(?:{uris.IPV6})$", "no embedded IPv4 address"),
    "uuid": Format("^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"),
    "uri": Format(f"^{uris.URI.absolute}$", _URIS, counted=_SHORT_URI),
    "uri-reference": Format(f"^{uris.URI.reference}$", _NO_IPV4, counted=_SHORT_REFERENCE),
    "iri": Format(f"^{uris.IRI.absolute}$", _IRIS, counted=replace(_SHORT_URI, note=f"{_ASCII}; {_SHORT}")),
    "iri-reference": Format(
        f"^{uris.IRI.reference}$", _IRIS, counted=replace(_SHORT_REFERENCE, note=f"{_ASCII}; {_SHORT}")
    ),
    "uri-template": Format(
        f"^{uris.TEMPLATE}$",
        "no operators but + # . / ; ? & and a comma, no dots in names, prefixes of at most three digits",
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

COMPILED_AHEAD = (
    "date-time",
    "date",
    "time",
    "uuid",
    "uri",
    "uri-reference",
    "ipv4",
    "ipv6",
    "hostname",
    "email",
)
"""The formats that schemas have most often: their rules are compiled for a vocabulary before any schema."""

_URI_CHARS = "[^ <>{}|\\\\^`]"  # ajv takes a quotation mark, too
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
_HEX = "[0-9A-Fa-f]"
_DIGIT = "[*-9]"  # jsonschema-rs reads further characters as digits of dates and times
_BASIC_DATE = r"[0-9]{4}(?:[0-9]{4}|-?W[0-9]{2})(?:[T\s-]|$)"
_ANY_DATE = f"{_DIGIT}{{4,}}-{_DIGIT}{{1,2}}-{_DIGIT}{{1,2}}|{_BASIC_DATE}"
_ANY_TIME = f"{_DIGIT}{{1,2}}:(?:{_DIGIT}{{2}}|{_DIGIT}:)"
_ANY_URI = r"^\s*(?:[A-Za-z][A-Za-z0-9+.-]*:|[/\\])"
_ANY_HOST = r"^[A-Za-z0-9._\u0080-\u{10ffff}][A-Za-z0-9._\u0080-\u{10ffff}-]*\n?$"
_NO_BLANKS = r"^[^ \t\n\r\f\v]*\n?$"
_UNIT = "[DHMSWYdhmswy]"
_NUMBER = f"(?:0[Xx]{_HEX}+|[0-9]+)"
_GROUPS = rf"[0-9A-Fa-f:.]*::[0-9A-Fa-f:.]*|(?:{_HEX}*:){{6,}}[0-9A-Fa-f.]*"
_PYTHON_HEX = r"[0-9A-FXa-fx_+urnid:{}\x00-\x20\u0080-\u{10ffff}-]"
OUTER_LISTED = OUTER | {
    # Longer years (Java); 20240101 and 2024-W01 (Python, before it asked for hyphens).
    "date": rf"^\s*(?:{_ANY_DATE})",
    # Without seconds or zone (Java, .NET, Go); 1:2:3 (Python's `FormatChecker()`); 24:00:00Z (ajv, fast).
    "time": rf"^\s*{_ANY_TIME}",
    # With any separator (ajv, .NET), and bare dates and times (gojsonschema).
    "date-time": rf"^\s*(?:{_ANY_DATE}|{_ANY_TIME})",
    # Signs, fractions, amounts that lack a unit (Java, Python); P2024-01-01T00:00:00 (isoduration).
    "duration": rf"^[-+]?[Pp](?:(?:[-+0-9.,Tt]|{_UNIT})*[0-9][.,]?{_UNIT}|[0-9-]+T[0-9:.,]+)\n?$",
    # Underscores, letters beyond ASCII (Guava, .NET), a line break at the end (Python).
    "hostname": _ANY_HOST,
    "idn-hostname": _ANY_HOST,
    # 1, 127.1 and 0x7f.1 (.NET).
    "ipv4": rf"^{_NUMBER}(?:\.{_NUMBER}){{0,3}}\n?$",
    # In blanks or brackets, with a zone, a prefix or a port (ajv 6, .NET).
    "ipv6": rf"^[\s\[]*(?:{_GROUPS})(?:[%/\]]|\s*$)",
    # In braces or without hyphens (.NET); groups of any length (Java); what Python's `int` reads.
    "uuid": (
        rf"^\s*(?:[Uu][Rr][Nn]:[Uu][Uu][Ii][Dd]:|[{{(])?{_HEX}{{8}}(?:-?{_HEX}{{4}}){{3}}-?{_HEX}{{12}}[)}}]?\s*$"
        rf"|^\s*\{{0[Xx]|^{_HEX}+(?:-{_HEX}+){{4}}$|^{_PYTHON_HEX}{{8}}(?:-{_PYTHON_HEX}{{4}}){{3}}-{_PYTHON_HEX}*$"
    ),
    # With anything behind the scheme, and paths of files (.NET); without a scheme (Java).
    "uri": _ANY_URI,
    "iri": _ANY_URI,
    # Everything without blanks (ajv, fast); a line break at the end (Python).
    "uri-reference": _NO_BLANKS,
    "iri-reference": _NO_BLANKS,
    # 0+1/a (newer drafts of it).
    "relative-json-pointer": r"^[0-9]+(?:[-+][0-9]+)?(?:[#/]|\n?$)",
    # No engine has a pattern that begins with a repetition.
    "regex": "^(?:[^*+?]|$)",
}
"""Closer outer patterns for texts that a schema lists, which are left out where they may be of a format.

They match what some validator accepts, and little else: `7d` is no date, `user:read` no address. A comment
names a validator that accepts what is odd. They may have many states: no rules are made of them.
"""

_SINCE = {
    SchemaDraft.DRAFT_4: ("date-time", "email", "hostname", "ipv4", "ipv6", "uri"),
    SchemaDraft.DRAFT_6: ("uri-reference", "uri-template", "json-pointer"),
    SchemaDraft.DRAFT_7: (
        "date",
        "time",
        "regex",
        "relative-json-pointer",
        "iri",
        "iri-reference",
        "idn-email",
        "idn-hostname",
    ),
    SchemaDraft.DRAFT_2019_09: ("duration", "uuid"),
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
