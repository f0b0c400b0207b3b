"""What clients and engines write stays inside its line of the log, and moves no terminal's cursor."""

import io
import json
import logging
import traceback

import pytest

from gateway.telemetry.log_lines import JSONLines, TextLines
from runtime.errors import EngineBroke, UnknownModel

EVIL = "x\r\n\x1b[2J\x1b]0;t\x07ERROR forged: all is lost\x9b1m\x00"
FORMATS = {"text": TextLines, "json": JSONLines}


@pytest.fixture(params=FORMATS)
def written(request):
    """What is logged at every level while the test runs, in one of the formats."""
    stream, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(FORMATS[request.param]())
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def check(text):
    assert text
    for line in text.splitlines():
        assert line.isprintable(), repr(line)
        assert not line.startswith("ERROR forged")


@pytest.mark.parametrize(
    "error", [EngineBroke("an engine", EVIL), UnknownModel(EVIL, ()), RuntimeError(EVIL)]
)
async def test_no_request_forges_a_line(client, runtime, written, error):
    """Whether a client's words or an engine's come up in an error, or those of a fault of ours."""
    runtime.script = [error]
    tool = {"type": "function", "function": {"name": EVIL, "parameters": {"type": "object", EVIL: EVIL}}}
    body = {"model": EVIL, "messages": [{"role": "user", "content": EVIL}]}
    for fields in ({}, {"tools": [tool]}, {"toolset": EVIL}, {EVIL: EVIL}, {"model": "tiny"}):
        await client.post("/v1/chat/completions", json={**body, **fields})
    await client.get("/v1/toolsets/x%0d%0a%1b[2JERROR%20forged")
    await client.get("/v1/models/%1b[2J%0aERROR%20forged", headers={"X-Request-ID": "\x1b[2J"})
    check(written.getvalue())


def test_a_message_and_its_traceback_are_escaped(written):
    try:
        {}[EVIL]
    except KeyError:
        logging.getLogger("a test").exception("of %s", EVIL, extra={"fields": {"model": EVIL}})
    check(written.getvalue())
    assert "all is lost" in written.getvalue()


def test_a_traceback_that_is_a_message_reads_as_one_and_that_of_a_client_does_not():
    """Litestar gives uvicorn the text of a traceback, as it does when a second Ctrl-C cuts the end short."""
    try:
        {}[EVIL]
    except KeyError:
        text = traceback.format_exc()
    records = [logging.makeLogRecord({"name": "a test", "levelname": "ERROR", "msg": text})]
    records.append(logging.makeLogRecord({"levelname": "ERROR", "msg": "of %s", "args": (text,)}))
    own, strange = [TextLines().format(record) for record in records]
    check(own)
    head, first, *_ = own.splitlines()
    assert head.startswith("ERROR a test: KeyError")
    assert first == "    Traceback (most recent call last):"
    assert len(strange.splitlines()) == 1
    assert json.loads(JSONLines().format(records[0]))["exception"] == text.rstrip("\n")


def test_json_is_a_line_for_each_record(written):
    logging.getLogger("a test").warning(EVIL)
    logging.getLogger("a test").warning("two")
    lines = written.getvalue().splitlines()
    assert len(lines) == 2
    if lines[0].startswith("{"):
        assert json.loads(lines[0])["message"] == EVIL
