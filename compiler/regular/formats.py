"""The formats of the specification as patterns: for where a format must hold, and for where it must not.

Every text of a row's `pattern` is valid for every validator; texts on which validators disagree are left out.
Its `outer` pattern matches every text that some validator accepts.

Sources: RFC 3339 (date, time, date-time, duration), RFC 4291 (ipv6), RFC 6901 (json-pointer). Hosts and
mailboxes are in `compiler.regular.host_patterns`, URIs in `compiler.regular.uri_patterns`.
"""

from dataclasses import dataclass, replace

from compiler.regular import host_patterns as hosts
from compiler.regular import uri_patterns as uris
from toolspecs.schemas.drafts import SchemaDraft


@dataclass(frozen=True, slots=True)
class WrittenTexts:
    """The texts of a format that are written: they match `pattern`; `note` says what is left out.

    They also match `lengths`, if that is given, and have at most `max_length` characters. Rules need many
    states for these two, so a guard checks them.
    """

    pattern: str
    note: str = ""
    lengths: str | None = None
    max_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Format(WrittenTexts):
    """A format, which drafts define from `since` on.

    `outer` may have few states, because rules are made of it. `outer_listed` is asked about texts that a
    schema lists, which are left out where they may be of the format. It matches what some validator accepts,
    and little else: `7d` is no date, `user:read` no address. Without it, `outer` is asked.

    `counted` replaces the written texts where no guard can count, and wherever else rules must.
    """

    since: SchemaDraft
    outer: str
    outer_listed: str | None = None
    counted: WrittenTexts | None = None

    def where_counted(self, high: int | None) -> WrittenTexts:
        """What is written where no guard counts, of texts of at most `high` characters."""
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
_SHORT_URI = WrittenTexts(f"^(?:{uris.SHORT_URI})$", _SHORT)
_SHORT_REFERENCE = WrittenTexts(f"^(?:{uris.SHORT_REFERENCE})$", _SHORT)


def _at_most(pattern: str, note: str) -> WrittenTexts:
    return WrittenTexts(f"^{pattern}$", f"{note}; at most {_COUNTED} characters", max_length=_COUNTED)


_HOST = _at_most(hosts.NAME, _NAMES)
_MAIL = _at_most(hosts.MAILBOX, _MAILBOXES)

_OUTER_HOST = "^[^ /:@]*$"
_OUTER_REFERENCE = "^[^ <>{}|\\\\^`]*$"  # ajv takes a quotation mark, too
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

FORMATS = {
    "date": Format(
        f"^(?!0000){_DATE}$",
        _YEARS,
        since=SchemaDraft.DRAFT_7,
        outer="^[0-9]|-",
        # Longer years (Java); 20240101 and 2024-W01 (Python, before it asked for hyphens).
        outer_listed=rf"^\s*(?:{_ANY_DATE})",
    ),
    "time": Format(
        f"^{_TIME}$",
        _BY_TIME,
        since=SchemaDraft.DRAFT_7,
        outer="^[0-9]|:",
        # Without seconds or zone (Java, .NET, Go); 1:2:3 (Python's `FormatChecker()`); 24:00:00Z (ajv, fast).
        outer_listed=rf"^\s*{_ANY_TIME}",
    ),
    "date-time": Format(
        f"^(?!0000){_DATE}T{_TIME}$",
        f"{_YEARS}; {_BY_TIME}",
        since=SchemaDraft.DRAFT_4,
        outer="^[0-9]|-",
        # With any separator (ajv, .NET), and bare dates and times (gojsonschema).
        outer_listed=rf"^\s*(?:{_ANY_DATE}|{_ANY_TIME})",
    ),
    "duration": Format(
        f"^P(?:{_CALENDAR}(?:{_CLOCK})?|{_CLOCK}|{_WEEKS})$",
        "fewer than 10^9 days: at most six to eight digits a number, by its unit",
        since=SchemaDraft.DRAFT_2019_09,
        outer="^[-+]?[Pp]",
        # Signs, fractions, amounts that lack a unit (Java, Python); P2024-01-01T00:00:00 (isoduration).
        outer_listed=rf"^[-+]?[Pp](?:(?:[-+0-9.,Tt]|{_UNIT})*[0-9][.,]?{_UNIT}|[0-9-]+T[0-9:.,]+)\n?$",
    ),
    "email": Format(
        f"^{hosts.MAILBOX}$",
        _MAILBOXES,
        f"^{hosts.MAILBOX_LENGTHS}$",
        hosts.MAX_MAILBOX,
        since=SchemaDraft.DRAFT_4,
        outer="@",
        counted=_MAIL,
    ),
    "idn-email": Format(
        f"^{hosts.IDN_MAILBOX}$",
        f"{_MAILBOXES}; in these {_LETTERS}",
        f"^{hosts.IDN_MAILBOX_LENGTHS}$",
        hosts.MAX_IDN_MAILBOX,
        since=SchemaDraft.DRAFT_7,
        outer="@",
        counted=replace(_MAIL, note=f"{_ASCII}; {_MAIL.note}"),
    ),
    "hostname": Format(
        f"^{hosts.NAME}$",
        _NAMES,
        f"^{hosts.NAME_LENGTHS}$",
        hosts.MAX_NAME,
        since=SchemaDraft.DRAFT_4,
        outer=_OUTER_HOST,
        # Underscores, letters beyond ASCII (Guava, .NET), a line break at the end (Python).
        outer_listed=_ANY_HOST,
        counted=_HOST,
    ),
    "idn-hostname": Format(
        f"^{hosts.IDN_NAME}$",
        f"{_NAMES}; {_LETTERS}",
        f"^{hosts.IDN_NAME_LENGTHS}$",
        hosts.MAX_IDN_NAME,
        since=SchemaDraft.DRAFT_7,
        outer=_OUTER_HOST,
        outer_listed=_ANY_HOST,
        counted=replace(_HOST, note=f"{_ASCII}; {_HOST.note}"),
    ),
    "ipv4": Format(
        f"^{_OCTET}(?:\\.{_OCTET}){{3}}$",
        since=SchemaDraft.DRAFT_4,
        outer="^[0-9.]*$",
        # 1, 127.1 and 0x7f.1 (.NET).
        outer_listed=rf"^{_NUMBER}(?:\.{_NUMBER}){{0,3}}\n?$",
    ),
    "ipv6": Format(
        f"^(?:{uris.IPV6})$",
        "no embedded IPv4 address",
        since=SchemaDraft.DRAFT_4,
        outer=":",
        # In blanks or brackets, with a zone, a prefix or a port (ajv 6, .NET).
        outer_listed=rf"^[\s\[]*(?:{_GROUPS})(?:[%/\]]|\s*$)",
    ),
    "uuid": Format(
        "^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$",
        since=SchemaDraft.DRAFT_2019_09,
        outer="-",
        # In braces or without hyphens (.NET); groups of any length (Java); what Python's `int` reads.
        outer_listed=(
            rf"^\s*(?:[Uu][Rr][Nn]:[Uu][Uu][Ii][Dd]:|[{{(])?{_HEX}{{8}}(?:-?{_HEX}{{4}}){{3}}-?{_HEX}{{12}}[)}}]?\s*$"
            rf"|^\s*\{{0[Xx]|^{_HEX}+(?:-{_HEX}+){{4}}$|^{_PYTHON_HEX}{{8}}(?:-{_PYTHON_HEX}{{4}}){{3}}-{_PYTHON_HEX}*$"
        ),
    ),
    "uri": Format(
        f"^{uris.URI.absolute}$",
        _URIS,
        since=SchemaDraft.DRAFT_4,
        outer=":",
        # With anything behind the scheme, and paths of files (.NET); without a scheme (Java).
        outer_listed=_ANY_URI,
        counted=_SHORT_URI,
    ),
    "uri-reference": Format(
        f"^{uris.URI.reference}$",
        _NO_IPV4,
        since=SchemaDraft.DRAFT_6,
        outer=_OUTER_REFERENCE,
        # Everything without blanks (ajv, fast); a line break at the end (Python).
        outer_listed=_NO_BLANKS,
        counted=_SHORT_REFERENCE,
    ),
    "iri": Format(
        f"^{uris.IRI.absolute}$",
        _IRIS,
        since=SchemaDraft.DRAFT_7,
        outer=":",
        outer_listed=_ANY_URI,
        counted=replace(_SHORT_URI, note=f"{_ASCII}; {_SHORT}"),
    ),
    "iri-reference": Format(
        f"^{uris.IRI.reference}$",
        _IRIS,
        since=SchemaDraft.DRAFT_7,
        outer=_OUTER_REFERENCE,
        outer_listed=_NO_BLANKS,
        counted=replace(_SHORT_REFERENCE, note=f"{_ASCII}; {_SHORT}"),
    ),
    "uri-template": Format(
        f"^{uris.TEMPLATE}$",
        "no operators but + # . / ; ? & and a comma, no dots in names, prefixes of at most three digits",
        since=SchemaDraft.DRAFT_6,
        outer=r"^(?:[^{}]|\{[^}]*\})*$",
    ),
    "json-pointer": Format(f"^{_POINTER}$", since=SchemaDraft.DRAFT_6, outer="^(?:/|$)"),
    "relative-json-pointer": Format(
        f"^(?:0|[1-9]{{1,8}}0?)(?:#|{_POINTER})$",
        "a zero only at the end of the number",
        since=SchemaDraft.DRAFT_7,
        outer=r"^[0-9\u0080-\u{10ffff}]",
        # 0+1/a (newer drafts of it).
        outer_listed=r"^[0-9]+(?:[-+][0-9]+)?(?:[#/]|\n?$)",
    ),
    "regex": Format(
        f"^(?:{_PIECE}|{_GROUP})*$",
        f"{_ASCII}; groups at most two deep, no lookaround, no backreferences, counts of one digit",
        since=SchemaDraft.DRAFT_7,
        outer="^(?:[^*]|$)",
        # No engine has a pattern that begins with a repetition.
        outer_listed="^(?:[^*+?]|$)",
    ),
}
"""The formats by name. A comment at `outer_listed` names a validator that accepts what is odd."""

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


def is_known(name: str, draft: int) -> bool:
    """Whether the specification of the draft defines the format."""
    return name in FORMATS and FORMATS[name].since <= draft


def outer_pattern(name: str, draft: int) -> str:
    """The outer pattern of a format. In a draft that does not define the format, every text is valid for it.

    >>> outer_pattern("ipv4", draft=7), outer_pattern("uuid", draft=7)
    ('^[0-9.]*$', '')
    """
    return FORMATS[name].outer if is_known(name, draft) else ""


BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
"""With padding, and without unused bits set in the last character, which strict decoders reject."""
