"""The documents of a toolset: schemas by URI that its tools may refer to, none of which is ever fetched.

A document is known by one URI, the one it is registered under, so that a reference means one thing: its own
`$id` may repeat that, and nothing inside of it may have another.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

import jsonschema_rs

from toolspecs.bundle import objects_in
from toolspecs.errors import Fault, InvalidTools, LimitExceeded
from toolspecs.json_value import TYPE_NAMES, Flaw, pointer
from toolspecs.limits import Limits
from toolspecs.nearest import shorten
from toolspecs.references import absolute
from toolspecs.schema_check import check_document

_BUILT_IN = "json-schema.org"
_URI = jsonschema_rs.Draft202012Validator({"type": "string", "format": "uri"}, validate_formats=True)


def check_documents(documents: Any, *, limits: Limits, base: str = "/documents") -> None:
    """Refuse what are no schemas by URI; `base` is the JSON pointer of their object.

    Raises:
        InvalidTools: with every fault of every document.
        LimitExceeded: there are more documents than `limits` allows.
    """
    if not isinstance(documents, dict):
        found = TYPE_NAMES.get(type(documents), type(documents).__name__)
        message = f"documents are an object of schemas by URI, not {found}"
        raise InvalidTools([Fault(None, base, "", message, 'write {"https://example.com/money": {…}}')])
    if len(documents) > limits.num_documents:
        raise LimitExceeded("num_documents", limits.num_documents, len(documents))
    faults = [
        Fault(None, pointer(base, (uri, *flaw.path)), flaw.keyword, flaw.message, flaw.suggestion)
        for uri, document in documents.items()
        for flaw in _flaws(uri, document, limits)
    ]
    if faults:
        raise InvalidTools(faults)


def _flaws(uri: str, document: Any, limits: Limits) -> Iterator[Flaw]:
    if flaw := _uri_flaw(uri):
        yield flaw
        return
    flaws = check_document(document, limits)
    yield from flaws
    if not flaws and isinstance(document, dict):
        yield from _identity_flaws(uri, document)


def _uri_flaw(uri: str) -> Flaw | None:
    shown = shorten(ascii(uri), 100)
    if not uri.isascii() or not _URI.is_valid(uri):
        message = f"{shown} is no absolute URI"
        return Flaw((), "", message, "register it under the URI that tools refer to, scheme included")
    if "#" in uri:
        return Flaw((), "", f"{shown} has a fragment", "a document's URI ends before the `#`")
    if urlsplit(uri).hostname == _BUILT_IN:
        message = f"{shown} is reserved: the schemas of the drafts are built in"
        return Flaw((), "", message, "register it under a URI of your own")
    normal = _normal(uri)
    if normal != uri:
        return Flaw((), "", f"{shown} is not in normal form", f"write {shorten(normal, 200)}")
    return None


def _normal(uri: str) -> str:
    """One spelling of a URI: scheme and host in lower case, no dots among the segments of its path."""
    parts = urlsplit(uri)
    lowered = parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower())
    if not lowered.netloc:
        return lowered.geturl()
    return urljoin(lowered.geturl(), lowered._replace(scheme="", netloc="").geturl())


def _identity_flaws(uri: str, document: dict[str, Any]) -> Iterator[Flaw]:
    keyword = "id" if "draft-04" in document.get("$schema", "") else "$id"
    own = document.get(keyword)
    if isinstance(own, str) and absolute(uri, own)[0] != uri:
        message = f"its {keyword} is {shorten(ascii(own), 100)}, but it is registered under another URI"
        yield Flaw((keyword,), keyword, message, f"register it under its {keyword}, or leave that out")
    for schema in objects_in(document):
        inner = schema.get("$id")
        if schema is not document and isinstance(inner, str) and inner[:1] != "#":
            message = f"it holds another document, {shorten(ascii(inner), 100)}"
            yield Flaw((), "$id", message, "register that under a URI of its own, or leave its $id out")
            return
