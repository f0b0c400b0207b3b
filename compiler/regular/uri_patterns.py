"""URIs (RFC 3986), IRIs (RFC 3987) and their templates (RFC 6570) as patterns on which validators agree.

Left out, since some validator rejects it:

- URIs with nothing between the scheme and `?`, `#` or the end, such as `mailto:` (ajv);
- the version of an address in capitals, as in `[V1.a]` (rfc3987);
- in IRIs, characters beyond U+FFFF, and IP addresses in brackets (rfc3987-syntax);
- in templates, operators that RFC 6570 reserves for later, names that begin with an escape, prefixes of four
  digits (uri-template), dots in names (ajv).

IPv6 addresses that end in an IPv4 address are left out too: with them a URI would have twice as many states.
"""

from dataclasses import dataclass

HEX_GROUP = "[0-9A-Fa-f]{1,4}"
IPV6 = "|".join(
    [
        f"(?:{HEX_GROUP}:){{7}}{HEX_GROUP}",
        f"(?:{HEX_GROUP}:){{1,7}}:",
        *(f"(?:{HEX_GROUP}:){{1,{7 - n}}}(?::{HEX_GROUP}){{1,{n}}}" for n in range(1, 7)),
        f":(?::{HEX_GROUP}){{1,7}}",
        "::",
    ]
)
BEYOND_ASCII = r"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
_PRIVATE = r"\ue000-\uf8ff"
_PLAIN = r"A-Za-z0-9._~!$&'()*+,;=\-"
_PERCENT = "%[0-9A-Fa-f]{2}"
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]*:"
_ADDRESS = rf"\[(?:{IPV6}|v[0-9A-Fa-f]+\.[{_PLAIN}:]+)\]"


@dataclass(frozen=True)
class UriSyntax:
    """The syntax of absolute and of relative references.

    `letters` are those beyond ASCII, and `of_queries` further ones in queries; `address` is a host in
    brackets.
    """

    letters: str = ""
    of_queries: str = ""
    address: str = _ADDRESS
    can_be_bare: bool = False
    """Whether a scheme alone is an absolute reference."""

    def _char(self, others: str = "") -> str:
        """A character that may stand for itself, or is escaped."""
        return f"(?:[{_PLAIN}{self.letters}{others}]|{_PERCENT})"

    @property
    def _end(self) -> str:
        query, fragment = self._char(f":@/?{self.of_queries}"), self._char(":@/?")
        return rf"(?:\?{query}*)?(?:#{fragment}*)?"

    @property
    def _hierarchy(self) -> str:
        """An authority and a path, or an absolute path."""
        host = f"(?:{self.address}|{self._char()}*)" if self.address else f"{self._char()}*"
        part = self._char(":@")
        path = f"(?:/{part}*)*"
        return f"//(?:{self._char(':')}*@)?{host}(?::[0-9]*)?{path}|/(?:{part}+{path})?"

    @property
    def absolute(self) -> str:
        """A URI or IRI."""
        return self._with_scheme(can_be_bare=self.can_be_bare) + self._end

    @property
    def reference(self) -> str:
        """A URI or IRI, or a relative reference."""
        relative = f"(?:{self._hierarchy}|{self._path('@')})?"
        return f"(?:{self._with_scheme(can_be_bare=True)}|{relative}){self._end}"

    def _with_scheme(self, *, can_be_bare: bool) -> str:
        return f"{_SCHEME}(?:{self._hierarchy}|{self._path(':@')}){'?' if can_be_bare else ''}"

    def _path(self, of_first: str) -> str:
        """A path that does not begin with a slash; its first part may have the characters `of_first`."""
        return f"{self._char(of_first)}+(?:/{self._char(':@')}*)*"


URI = UriSyntax()
IRI = UriSyntax(BEYOND_ASCII, _PRIVATE, address="", can_be_bare=True)

_SHORT_HOST = "[A-Za-z0-9](?:[A-Za-z0-9.-]{0,40}[A-Za-z0-9])?(?::[0-9]{1,5})?"
_SHORT_END = f"[{_PLAIN}:@/?]*"
SHORT_URI = (
    "[A-Za-z][A-Za-z0-9+.-]{0,9}:"
    f"(?://{_SHORT_HOST}(?:[/?]{_SHORT_END})?|///{_SHORT_END}|[{_PLAIN}@]{_SHORT_END})"
)
"""URIs with few states before a long suffix, so that rules can count their characters."""
SHORT_REFERENCE = (
    f"(?:{SHORT_URI}|(?://{_SHORT_HOST})?(?:/(?:[{_PLAIN}@]{_SHORT_END})?|\\?{_SHORT_END})"
    f"|[{_PLAIN}@]{{1,20}}(?:[/?]{_SHORT_END})?)"
)

_NAME = f"[A-Za-z0-9_](?:[A-Za-z0-9_]|{_PERCENT})*"
_VARIABLE = rf"{_NAME}(?::[1-9][0-9]{{0,2}}|\*)?"
TEMPLATE = (
    rf"(?:[A-Za-z0-9._~:/?#\[\]@!$&()*+,;=\-{BEYOND_ASCII}{_PRIVATE}]|{_PERCENT}"
    rf"|\{{[+#./;?&,]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
)
