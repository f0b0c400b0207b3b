"""Recordings: what each client did and sent, in one JSON file each, without what differs from run to run."""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clients.client_table import Client
from clients.environments import ROOT
from clients.recorder import Exchange

FOLDER = Path(__file__).parent / "recorded"
MAX_TEXT = 300
"""Longest text kept of a prompt; the rest of it changes no shape."""

_MADE_ID = re.compile(r"\b(call|chatcmpl|fc|msg|resp|rs|toolu)_[0-9a-zA-Z_-]{16,}")
_MACHINE = (
    (re.compile(re.escape(str(ROOT))), "/callgate"),
    (re.compile(r"(OS Version: )[^\\]+"), r"\1Linux"),
    (re.compile(r"(device_id\W+)[0-9a-f]{64}"), r"\g<1>0"),
)
"""What clients tell of the machine that they run on."""
_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


def save(client: Client, steps: list[dict[str, Any]], exchanges: list[Exchange]) -> None:
    """Write the recording of a client."""
    text = "\n".join(
        [
            "{",
            f'"packages": {json.dumps(client.packages)},',
            f'"date": "{datetime.now(UTC):%Y-%m-%d}",',
            f'"steps": {_lines(map(_trimmed, steps))},',
            f'"requests": {_lines(map(_request, exchanges))}',
            "}",
        ]
    )
    FOLDER.mkdir(exist_ok=True)
    path_of(client).write_text(_stable(text) + "\n", "utf-8")


def load(client: Client) -> dict[str, Any]:
    """The recording of a client."""
    recording: dict[str, Any] = json.loads(path_of(client).read_text("utf-8"))
    return recording


def path_of(client: Client) -> Path:
    """Where its recording is."""
    return FOLDER / f"{client.file_name}.json"


def made_ids(answer: str) -> list[str]:
    """The ids of a response and of its items, by which later requests may refer to them, in their order."""
    return list(dict.fromkeys(match[0] for match in _MADE_ID.finditer(answer)))


def _request(exchange: Exchange) -> dict[str, Any]:
    answer = exchange.answer.decode()
    noted = {
        "method": exchange.method,
        "path": exchange.path,
        "headers": exchange.headers,
        "body": _trimmed(exchange.body),
        "status": exchange.status,
        "ignored": exchange.ignored,
        "ids": made_ids(answer),
        "error": answer[:MAX_TEXT] if exchange.status >= 400 else "",
    }
    return {name: value for name, value in noted.items() if value}


def _lines(values: Iterable[Any]) -> str:
    """A JSON array of one line for each value."""
    return "[\n" + ",\n".join(json.dumps(value, ensure_ascii=False) for value in values) + "\n]"


def _trimmed(value: Any) -> Any:
    match value:
        case dict():
            return {key: _trimmed(inner) for key, inner in value.items()}
        case list():
            return [_trimmed(inner) for inner in value]
        case str() if len(value) > MAX_TEXT and not value.startswith("{"):
            return value[:MAX_TEXT] + " …"
        case _:
            return value


def _stable(text: str) -> str:
    """A text with the random ids in it numbered, and nothing of this machine."""
    numbers: dict[str, int] = {}

    def numbered(match: re.Match[str]) -> str:
        return f"{match[1]}_{numbers.setdefault(match[0], len(numbers) + 1):024}"

    for told, instead in _MACHINE:
        text = told.sub(instead, text)
    return _UUID.sub("00000000-0000-4000-8000-000000000000", _MADE_ID.sub(numbered, text))


def recorded(clients: tuple[Client, ...]) -> Iterator[tuple[Client, dict[str, Any]]]:
    """The clients that have a recording, with it."""
    return ((client, load(client)) for client in clients if path_of(client).exists())
