"""Reads the sources of an import.

A document may refer only to files below its own folder, or to URLs of its own origin. Otherwise a stranger's
document could make the user's machine read any file, or call any address in the user's network.

`hosts` is given if a gateway reads for its clients. Without it, a user reads on their own machine, with their
own rights.
"""

import asyncio
import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import httpx

from gateway.errors import ExtraMissing
from gateway.sources.outbound import CheckedHosts, CheckedTransport, GuardedRequests, SourceCredentials
from toolspecs.errors import UnreadableSource
from toolspecs.imports.documents import Retrieve
from toolspecs.imports.imported import Imported, import_listing
from toolspecs.imports.openapi import EVERYTHING, OperationFilter, import_openapi, unreachable

MAX_BYTES = 32 * 1024 * 1024
TIMEOUT_S = 60.0

SourceKind = Literal["mcp", "openapi"]
"""The kinds of sources that have a URL."""


def import_source(
    kind: SourceKind,
    place: str,
    headers: Mapping[str, str],
    *,
    credentials: SourceCredentials | None = None,
    selection: OperationFilter = EVERYTHING,
    hosts: CheckedHosts | None = None,
) -> Imported:
    """The tools of a source at a URL, or of an OpenAPI document in a file; raises what reading it raises."""
    match kind:
        case "mcp":
            return from_mcp(place, headers, credentials, hosts)
        case "openapi":
            return from_openapi(place, headers, selection, hosts)


def from_openapi(
    source: str, headers: Mapping[str, str], selection: OperationFilter, hosts: CheckedHosts | None = None
) -> Imported:
    """The tools of an OpenAPI document at a path or URL; `headers` are sent with every request for a URL.

    Raises:
        UnreadableSource: it cannot be read, or is not such a document.
    """
    if is_url(source):
        transport = CheckedTransport(GuardedRequests(hosts, MAX_BYTES)) if hosts else None
        with httpx.Client(headers=headers, timeout=TIMEOUT_S, transport=transport) as client:
            text = _fetch(client, source)
            imported = import_openapi(source, text, _same_origin(client, source), selection)
            return replace(imported, url=source)
    path = Path(source).resolve()
    return import_openapi(path.as_uri(), _read(path), _same_folder(path.parent), selection)


def from_document(text: str, selection: OperationFilter) -> Imported:
    """The tools of an OpenAPI text that refers to no other documents; raises UnreadableSource."""
    return import_openapi("document:", text, unreachable, selection)


def is_url(source: str) -> bool:
    """Whether a source is read over HTTP."""
    return source.startswith(("http://", "https://"))


def from_python(targets: Sequence[str]) -> Imported:
    """The tools of functions and pydantic models, each written `module:name`; the modules are imported.

    Raises:
        UnreadableSource: there is no such module or name, or importing it failed.
        ExtraMissing: the extra that reads signatures and docstrings is not installed.
    """
    try:
        from toolspecs.imports.functions import import_functions  # noqa: PLC0415 - needs an extra
    except ImportError as error:
        raise ExtraMissing("importing Python functions", "functions") from error
    sys.path.insert(0, str(Path.cwd()))
    title = targets[0].partition(":")[0]
    return import_functions(title, {target.partition(":")[2]: _object(target) for target in targets})


def _object(target: str) -> Any:
    module, colon, name = target.partition(":")
    if not module or not colon or not name:
        raise UnreadableSource(target, "a function is written as module:name")
    try:
        return reduce(getattr, name.split("."), importlib.import_module(module))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise UnreadableSource(target, reason) from error


def from_mcp(
    url: str,
    headers: Mapping[str, str],
    credentials: SourceCredentials | None = None,
    hosts: CheckedHosts | None = None,
) -> Imported:
    """The tools that an MCP server lists over streamable HTTP; `headers` are sent with every request.

    Raises:
        UnreadableSource: there is no server, or it does not list its tools.
        ExtraMissing: the MCP SDK is not installed.
        LimitExceeded: there are more tools than a toolset may have.
    """
    try:
        from gateway.sources.mcp_source import read_listing  # noqa: PLC0415 - needs an extra
    except ImportError as error:
        raise ExtraMissing("importing from an MCP server", "mcp") from error
    title, tools, faults = asyncio.run(read_listing(url, headers, credentials, hosts, MAX_BYTES))
    imported = import_listing(title, tools)
    refused = {fault.tool for fault in faults}
    kept = tuple(tool for tool in imported.tools if tool.name not in refused)
    # A broken tool without a name is listed as an empty object, whose own faults say nothing about it.
    unnamed = {label for label in refused if isinstance(label, int)}
    others = (fault for fault in imported.faults if fault.tool not in unnamed)
    return replace(imported, url=url, tools=kept, faults=(*others, *faults))


def _same_origin(client: httpx.Client, source: str) -> Retrieve:
    def retrieve(uri: str) -> str:
        if urlsplit(uri)[:2] != urlsplit(source)[:2]:
            raise UnreadableSource(uri, "it is not fetched, since it is of another origin than the document")
        return _fetch(client, uri)

    return retrieve


def _same_folder(folder: Path) -> Retrieve:
    def retrieve(uri: str) -> str:
        parts = urlsplit(uri)
        path = Path(unquote(parts.path)).resolve()
        if parts.scheme != "file" or not path.is_relative_to(folder):
            raise UnreadableSource(uri, f"it is not read, since it is not a file below {folder}")
        return _read(path)

    return retrieve


def _fetch(client: httpx.Client, url: str) -> str:
    """The text at a URL. Redirects are not followed, because the headers would be sent elsewhere."""
    try:
        with client.stream("GET", url) as response:
            if response.is_redirect:
                target = response.headers.get("location", "nowhere")
                raise UnreadableSource(url, f"it redirects to {target}; import from there if you trust it")
            if not response.is_success:
                raise UnreadableSource(url, f"HTTP {response.status_code} {response.reason_phrase}")
            content = bytearray()
            for part in response.iter_bytes():
                content += part
                if len(content) > MAX_BYTES:
                    raise UnreadableSource(url, f"it is larger than {MAX_BYTES} bytes")
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise UnreadableSource(url, str(error) or type(error).__name__) from error
    return _decode(bytes(content), url)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UnreadableSource(str(path), str(reason)) from error
    if len(content) > MAX_BYTES:
        raise UnreadableSource(str(path), f"it is larger than {MAX_BYTES} bytes")
    return _decode(content, str(path))


def _decode(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableSource(source, f"it is not UTF-8: {error.reason} at byte {error.start}") from error
