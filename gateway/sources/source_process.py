"""Sources that a gateway reads for its clients: each import in a process of its own.

A source's answers are hostile input, and so is its URL. The process has bounded processor time and memory,
ends with its import, and knows nothing of the gateway except what this import needs. It reads a `SourceOrder`
and writes tools as JSON in MCP shape. The gateway then treats them as if the client had sent them.

The compile workers cannot do this: they have no network.
"""

import asyncio
import json
import math
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from gateway.errors import ExtraMissing, TooManyImports
from gateway.sources.outbound import (
    CERTIFICATE_VARIABLES,
    AddressRules,
    CheckedHosts,
    SourceAccess,
    SourceCredentials,
    read_networks,
)
from gateway.sources.source_readers import SourceKind, from_document, import_source
from toolspecs.confined_files import drop_files, still_open
from toolspecs.errors import Fault, LimitExceeded, ToolspecsError, TooManyValues, UnreadableSource
from toolspecs.imports.imported import Imported
from toolspecs.imports.openapi import OperationFilter
from toolspecs.json_scan import ContentLimits, scan
from toolspecs.resolved_types import resolved
from toolspecs.shapes import Shape, write_tool

MAX_IMPORTS = 4
"""The most sources that a gateway reads at once; half of them for one client."""
PROCESSOR_S = 20
MEMORY_BYTES = 768 * 2**20
"""Private memory of the process: the largest document takes some 500 MB as Python's objects."""
NICENESS = 5
"""How much lower the priority of the process is: it leaves the processor to what decodes and answers."""
WALL_S = 75.0
"""Somewhat more than a source may take to answer."""

_FILES = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"),
    *("/etc/services", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates"),
    *("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo", "/run/systemd/resolve"),
    *("/dev/null", "/dev/urandom"),
)
"""What the system's libraries read to look up hosts and to check certificates."""

# As in the zygote: this interpreter, without the user's own start-up files.
_ENTRY = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from gateway.sources.source_process import read_order
read_order()
"""


class SourceOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What to read: a source at `url`, or else an OpenAPI `document`.

    `SourceProcesses` fills in the fields from `credentials` on.
    """

    kind: SourceKind
    url: str | None = None
    document: str | None = None
    headers: Mapping[str, str] = {}
    tags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    credentials: SourceCredentials = SourceCredentials()
    networks: str = ""
    certificates: tuple[str, ...] = ()
    processor_s: int = PROCESSOR_S

    @property
    def selection(self) -> OperationFilter:
        """Which operations of an OpenAPI document to import."""
        return OperationFilter(self.tags, self.paths, self.operations)

    def read(self) -> Imported:
        """Read it; raises UnreadableSource, LimitExceeded, ExtraMissing."""
        if self.url is None:
            return from_document(self.document or "", self.selection)
        hosts = CheckedHosts(AddressRules(read_networks(self.networks)))
        headers = self.credentials.headers(self.headers)
        return import_source(
            self.kind, self.url, headers, credentials=self.credentials, selection=self.selection, hosts=hosts
        )


class ReadSource(msgspec.Struct, frozen=True):
    """What was found: tools in MCP shape, and the faults of those that could not be read."""

    kind: str
    location: str
    tools: list[dict[str, Any]]
    faults: list[tuple[str | int | None, str, str, str, str]] = []

    @classmethod
    def of(cls, imported: Imported) -> "ReadSource":
        """What the process writes of the tools that it imported."""
        tools = [write_tool(tool, Shape.MCP) for tool in imported.tools]
        faults = [(f.tool, f.pointer, f.keyword, f.message, f.suggestion) for f in imported.faults]
        return cls(imported.kind, imported.location, tools, faults)

    def found_faults(self) -> tuple[Fault, ...]:
        """The faults; their pointers are into the source."""
        return tuple(Fault(*fault) for fault in self.faults)


class _Answer(msgspec.Struct):
    """What the process writes; exactly one field is set."""

    source: ReadSource | None = None
    unreadable: tuple[str, str] | None = None
    limit: tuple[str, int, int | None] | None = None
    extra: tuple[str, str] | None = None

    def result(self, url: str) -> ReadSource:
        if self.unreadable:
            raise UnreadableSource(*self.unreadable)
        if self.limit:
            raise LimitExceeded(*self.limit)
        if self.extra:
            raise ExtraMissing(*self.extra)
        if self.source is None:
            raise UnreadableSource(url, "nothing was read")
        return self.source


class SourceProcesses:
    """Reads sources, a few at a time; `environment` has all variables of their processes."""

    def __init__(
        self,
        *,
        max_bytes: int,
        contents: ContentLimits,
        access: SourceAccess,
        environment: Mapping[str, str] = MappingProxyType({}),
        max_imports: int = MAX_IMPORTS,
        processor_s: int = PROCESSOR_S,
    ) -> None:
        self._max_bytes = max_bytes
        self._contents = contents
        self._access = access
        self._environment = dict(environment)
        self._max_imports = max_imports
        self._processor_s = processor_s
        self._running: Counter[str] = Counter()

    async def read(self, order: SourceOrder, client_id: str = "") -> ReadSource:
        """The tools of a source, for a client.

        Raises:
            UnreadableSource: the source may not or cannot be read, or it took too much time or memory.
            LimitExceeded: it has more tools than a toolset may have.
            ExtraMissing: the library for such sources is not installed.
            TooManyImports: too many sources are being read, for this client or in all.
        """
        name, environment = order.url or "the document", self._environment
        order = msgspec.structs.replace(
            order,
            credentials=self._access.credentials_for(order.url),
            networks=self._access.networks,
            certificates=tuple(environment[name] for name in CERTIFICATE_VARIABLES if name in environment),
            processor_s=self._processor_s,
        )
        with self._room_for(client_id):
            raw = await self._answer(order, name)
        try:
            await asyncio.to_thread(scan, raw, self._contents)
            answer = await asyncio.to_thread(msgspec.json.decode, raw, type=resolved(_Answer))
        except TooManyValues as error:
            raise UnreadableSource(name, f"of its tools, {error}; choose fewer operations") from error
        return answer.result(name)

    @contextmanager
    def _room_for(self, client_id: str) -> Iterator[None]:
        """Count an import while it runs; raises TooManyImports."""
        if self._running.total() >= self._max_imports or self._running[client_id] >= max(
            1, self._max_imports // 2
        ):
            raise TooManyImports
        self._running[client_id] += 1
        try:
            yield
        finally:
            self._running[client_id] -= 1
            self._running += Counter()  # forgets clients that read nothing

    async def _answer(self, order: SourceOrder, name: str) -> bytes:
        try:
            async with asyncio.timeout(WALL_S), _process(self._environment) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                with suppress(ConnectionError):  # it ended early; what it wrote says why
                    process.stdin.write(msgspec.json.encode(order))
                    await process.stdin.drain()
                    process.stdin.close()
                answer = await _read_all(process.stdout, self._max_bytes)
                if len(answer) > self._max_bytes:  # the process would wait until the rest is read
                    reason = f"its tools are larger than {self._max_bytes} bytes; choose fewer operations"
                    raise UnreadableSource(name, reason)
                await process.wait()
        except TimeoutError:
            raise UnreadableSource(name, f"it took longer than {WALL_S:g} s") from None
        if process.returncode or not answer:
            reason = "reading it takes too much time or memory; choose a smaller document"
            raise UnreadableSource(name, reason)
        return answer


async def _read_all(stream: asyncio.StreamReader, max_bytes: int) -> bytes:
    """Read to the end, or a little more than `max_bytes`."""
    received = bytearray()
    while len(received) <= max_bytes and (part := await stream.read(1 << 16)):
        received += part
    return bytes(received)


@asynccontextmanager
async def _process(environment: Mapping[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that reads one source; it is killed at the end of the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", _ENTRY, json.dumps(sys.path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=dict(environment),  # not the gateway's own, which holds secrets
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            assert process.stdout is not None
            await process.stdout.read()  # otherwise `wait` never ends if more was written than was read
            await process.wait()


def read_order() -> None:
    """The main function of the process: read an order, write an answer."""
    # What a library prints may not stand in the answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=SourceOrder)
    _bound(order.processor_s)
    confine(order.certificates)
    with answers:
        answers.write(msgspec.json.encode(_answer_to(order)))


def confine(certificates: Sequence[str] = ()) -> list[str]:
    """Give up all files except libraries and those for looking up hosts; returns what is still open."""
    readable = (*_FILES, *certificates, str(Path(__file__).parents[1]))
    return list(still_open("files", lambda: drop_files(readable)))


def _answer_to(order: SourceOrder) -> _Answer:
    try:
        return _Answer(source=ReadSource.of(order.read()))
    except UnreadableSource as error:
        return _Answer(unreadable=(error.source, error.reason))
    except LimitExceeded as error:
        return _Answer(limit=(error.limit, error.maximum, error.actual))
    except ExtraMissing as error:
        return _Answer(extra=(error.feature, error.extra))
    except ToolspecsError as error:
        return _Answer(unreadable=(order.url or "the document", str(error)))
    except (MemoryError, RecursionError) as error:
        reason = f"reading it takes too much memory ({type(error).__name__})"
        return _Answer(unreadable=(order.url or "the document", reason))


def _bound(processor_s: int) -> None:
    """Limit this process's time, and its memory where the system can; lower its priority."""
    with suppress(OSError):
        os.nice(NICENESS)
    signal.alarm(math.ceil(WALL_S) + 1)  # in case nobody is left to end it
    bounds: Sequence[tuple[int, int]] = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, processor_s),
        (resource.RLIMIT_DATA, MEMORY_BYTES),
    )
    for limit, most in bounds:
        with suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))
