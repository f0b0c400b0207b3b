"""The format of the log: text for people, or one JSON object per line for programs.

The lines of requests are those of `gateway/telemetry/access_log.py`, unless the setting `access_log` is off.
"""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock

from opentelemetry import trace

from gateway.settings import Settings
from gateway.telemetry.access_log import REQUEST_LOG

MAX_REPEATS = 10
REPEATS_S = 10.0
_MAX_KINDS = 1000

_IN_MESSAGE = {"method", "route"}
"""Fields of a request's line that its message has too."""

_TRACEBACK = "Traceback (most recent call last):\n"

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


class JSONLines(logging.Formatter):
    """Writes a record as a JSON object on one line, whatever its text holds."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger and message; then the ids of the trace, and the record's own fields."""
        message, traceback = _message_of(record, self)
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
        }
        span = trace.get_current_span().get_span_context()
        if span.is_valid:
            line |= {"trace_id": f"{span.trace_id:032x}", "span_id": f"{span.span_id:016x}"}
        line |= getattr(record, "fields", {})
        if traceback:
            line["exception"] = traceback
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """Writes a record as a line of text, with its fields after the message; a traceback is indented below.

    Control characters are escaped. Clients and engines could otherwise move a terminal's cursor or forge
    lines.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Level, logger and message; then the record's own fields."""
        fields = getattr(record, "fields", {}).items()
        message, traceback = _message_of(record, self)
        pairs = (f"{name}={value}" for name, value in fields if name not in _IN_MESSAGE)
        lines = [" ".join([f"{record.levelname} {record.name}: {message}", *pairs])]
        lines += [f"    {line}" for line in traceback.split("\n")] if traceback else []
        return "\n".join(line.translate(_ESCAPES) for line in lines)


def _message_of(record: logging.LogRecord, formatter: logging.Formatter) -> tuple[str, str]:
    """The message of a record, and the traceback below it, empty if there is none.

    If the application's start or shutdown fails, Litestar formats a traceback itself and uvicorn logs it as
    the message. Text of clients and engines is always an argument of a message, so it cannot pass for a
    traceback.
    """
    message = record.getMessage() if record.args else record.getMessage().rstrip("\n")  # uvicorn ends some so
    if record.exc_info:
        return message, formatter.formatException(record.exc_info)
    if not record.args and message.startswith(_TRACEBACK):
        return message.rpartition("\n")[2], message
    return message, ""


@dataclass(slots=True)
class _Repeated:
    """The lines of one kind since `start`: how many were written, and how many left out."""

    start: float
    num_written: int = 0
    num_left_out: int = 0


class FewRepeats(logging.Filter):
    """A filter that passes at most `MAX_REPEATS` warnings or errors of one kind in `REPEATS_S` seconds.

    The first line after that says how many were left out. Lines are of one kind if they have the same logger
    and text, and arguments of the same types, such as requests that fail with the same class of error.
    Otherwise every request would write a line while no engine works. Lines with a traceback are our own bugs
    and are never left out.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[object, _Repeated] = {}
        self._lock = Lock()  # any thread may log

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written; the first one after a gap says how many were left out."""
        if record.levelno < logging.WARNING or record.exc_info:
            return True
        arguments = record.args if isinstance(record.args, tuple) else ()
        with self._lock:
            repeated, num_left_out = self._repeated((record.name, str(record.msg), *map(type, arguments)))
            is_written = repeated.num_written < MAX_REPEATS
            repeated.num_written += is_written
            repeated.num_left_out += not is_written
        if num_left_out:
            record.fields = {**getattr(record, "fields", {}), "num_left_out": num_left_out}
        return is_written

    def _repeated(self, kind: object) -> tuple[_Repeated, int]:
        """The lines of a kind, and the number left out in the period that has just ended, if one has."""
        kind_seen, now = self._kinds.get(kind), self._clock()
        if kind_seen is not None and now - kind_seen.start < REPEATS_S:
            return kind_seen, 0
        self._kinds.pop(kind, None)
        if len(self._kinds) >= _MAX_KINDS:
            del self._kinds[next(iter(self._kinds))]  # the oldest
        self._kinds[kind] = _Repeated(now)
        return self._kinds[kind], kind_seen.num_left_out if kind_seen else 0


def set_up_logging(settings: Settings) -> None:
    """Make the root logger write as the settings say."""
    written = logging.StreamHandler()
    written.addFilter(FewRepeats())
    written.setFormatter(JSONLines() if settings.log_format == "json" else TextLines())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[written])
    logging.getLogger(REQUEST_LOG).setLevel(logging.NOTSET if settings.access_log else logging.WARNING)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request to an engine
    logging.getLogger("mcp").setLevel(logging.WARNING)  # and this one every request to the MCP front
