"""The log: text for people, or one JSON object a line for programs.

The lines of requests are those of `gateway/telemetry/access_log.py`, unless the setting `access_log` is off.
"""

import json
import logging
from datetime import UTC, datetime

from opentelemetry import trace

from gateway.settings import Settings
from gateway.telemetry.access_log import REQUEST_LOG

_IN_MESSAGE = {"method", "route"}
"""Fields of a request's line that its message has, too."""

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


class JSONLines(logging.Formatter):
    """Writes a record as a JSON object on one line, whatever its text holds."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger and message; then the ids of the trace, and the record's own fields."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        span = trace.get_current_span().get_span_context()
        if span.is_valid:
            line |= {"trace_id": f"{span.trace_id:032x}", "span_id": f"{span.span_id:016x}"}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """Writes a record as a line of text, with its fields behind the message; a traceback is indented below.

    Control characters, which clients and engines may have chosen, are escaped: they would move the cursor of
    a terminal, or look like lines of their own.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Level, logger and message; then the record's own fields."""
        fields = getattr(record, "fields", {}).items()
        message = f"{record.levelname} {record.name}: {record.getMessage()}"
        shown = (f"{name}={value}" for name, value in fields if name not in _IN_MESSAGE)
        lines = [" ".join([message, *shown])]
        if record.exc_info:
            lines += [f"    {line}" for line in self.formatException(record.exc_info).split("\n")]
        return "\n".join(line.translate(_ESCAPES) for line in lines)


def set_up_logging(settings: Settings) -> None:
    """Let the root logger write as the settings say."""
    written = logging.StreamHandler()
    written.setFormatter(JSONLines() if settings.log_format == "json" else TextLines())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[written])
    logging.getLogger(REQUEST_LOG).setLevel(logging.NOTSET if settings.access_log else logging.WARNING)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request to an engine
