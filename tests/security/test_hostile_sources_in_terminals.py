"""What a source or a gateway writes reaches a terminal as text, and does not hold the command up."""

import difflib
import io
import json
import subprocess
import sys

import httpx
import pytest
import typer
from rich.console import Console
from source_server import web

from gateway.commands.gateway_client import checked_answer
from gateway.commands.import_cli import MAX_COMPARED, DifferenceReply, show_differences
from gateway.commands.terminal import json_text, say, table

HOSTILE = "[/][link=https://evil.example]get[/link]\x1b[2J\x9b31m\u202e"


@pytest.fixture
def console():
    return Console(width=400, force_terminal=True, color_system=None, file=io.StringIO())


def shown(console):
    return console.file.getvalue()


def test_lines_and_cells_are_text(console):
    say(console, HOSTILE)
    cells = table("name")
    cells.add_row(HOSTILE)
    console.print(cells)
    assert shown(console).count("[/][link=https://evil.example]get[/link]\\x1b[2J\\x9b31m\\u202e") == 2


def test_names_between_colons_stay_what_they_are(console):
    """Else a reviewer reads `:key:` as a picture, and the refusal of `module:x: …` loses what is wrong."""
    cells = table("name")
    cells.add_row(":key:")
    console.print(cells)
    say(console, "module:x: no such module")
    assert "module:x: no such module" in shown(console)
    assert ":key:" in shown(console)


def test_a_refusal_that_quotes_a_source_moves_no_cursor(capsys):
    fault = {
        "tool": "t",
        "pointer": f"/properties/{HOSTILE}",
        "keyword": "",
        "reason": "no",
        "suggestion": "",
    }
    request = httpx.Request("GET", "http://127.0.0.1")
    refused = httpx.Response(422, json={"detail": "", "errors": [fault]}, request=request)
    with pytest.raises(typer.Exit):
        checked_answer(refused, dict)
    told = capsys.readouterr().err
    assert "\\x1b[2J" in told
    assert "\x1b[2J" not in told


def test_what_a_library_logs_about_a_server_is_not_printed():
    """Python prints warnings that nobody handles: the SDK's have tracebacks, and a server's text as it is."""
    for content_type, body in (("text/x\x9b31m", b""), ("application/json", b"{")):
        with web({"/mcp": (200, {"Content-Type": content_type}, body)}) as (base, _):
            command = [sys.executable, "-m", "gateway", "tools", "import", "--mcp", f"{base}/mcp", "--print"]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 1
        assert ended.stderr.startswith(f"{base}/mcp: no MCP server lists its tools there")
        assert "Traceback" not in ended.stderr
        assert "\x9b" not in ended.stderr


def test_json_for_people_holds_nothing_that_cannot_be_seen():
    assert json_text({"a": "größer"}) == '{\n  "a": "größer"\n}'
    text = json_text({"a": HOSTILE})
    assert text.isascii()
    assert json.loads(text) == {"a": HOSTILE}


def test_two_long_tools_are_shown_whole_and_not_compared_for_hours(console, monkeypatch):
    """Comparing 4,000 such lines takes seconds of processor time; 40,000 would take hours."""

    def tool(step):
        kinds = [{"const": f"kind {(i * step) % 101}"} for i in range(500)]
        return {"name": "t", "inputSchema": {"anyOf": kinds}}

    served, offered = tool(7919), tool(104729)
    assert len(json.dumps(served, indent=1).split("\n")) ** 2 > MAX_COMPARED
    monkeypatch.delattr(difflib, "unified_diff")
    show_differences(console, [DifferenceReply("t", "mcp x", "changed", served, offered)])
    assert shown(console).count('"const"') == 1_000
