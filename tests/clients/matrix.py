"""`docs/clients.md`, made from the recordings."""

from collections.abc import Mapping
from typing import Any

from clients.client_table import CLIENTS, SNIPPET, STEPS, Client
from clients.environments import ROOT
from clients.recording import recorded

_STEPS = (*STEPS, SNIPPET)
PAGE = ROOT / "docs" / "clients.md"

_HEAD = """\
# Clients

<!-- Made by `make test-clients`; edit tests/clients/matrix.py instead. -->

This page lists the clients that we run against Callgate, and what each of them does there. `make test-clients` installs
each client in an environment of its own, runs its script against one gateway with the tiny model, and writes this page.
`make test` replays what the clients sent. The scripts are in `tests/clients/scripts`, and show how to connect each
client; [frameworks.md](frameworks.md) explains the settings that matter.

Every script holds the same conversation through the client's own means:

| column | what the client does |
|---|---|
| calls | asks, receives a call, runs the tool, sends the result back, and receives an answer |
| second turn | asks again in the same conversation, whose history the client keeps, and makes a second call |
| streamed | does both once more, streamed |
| structured | receives an answer or a call that it reads as an object of a declared type |
| snippet | runs the snippet of [frameworks.md](frameworks.md) as it stands there |

The tiny model is small. So a script judges whether calls, results and streams pass between client and gateway, not
whether an answer is clever. A dash means that the client has no way to do this, or no snippet of its own.
"""


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")


def page() -> str:
    """The page, of the recordings that there are."""
    rows = list(recorded(CLIENTS))
    notes = [f"- **{client.name}** ({client.language}): {client.note}" for client, _ in rows if client.note]
    failures = [
        f"- **{client.name}** ({client.language}), {step['step']}: {step['why'].splitlines()[0]}"
        for client, recording in rows
        for step in recording["steps"]
        if step["why"]
    ]
    sections = [_HEAD, "\n".join([*_table_head(), *(_row(client, found) for client, found in rows)]) + "\n"]
    if failures:
        sections.append("## What fails\n\n" + "\n".join(failures) + "\n")
    if notes:
        sections.append("## Notes\n\n" + "\n".join(notes) + "\n")
    return "\n".join(sections)


def _table_head() -> list[str]:
    columns = ["client", "version", "language", "API", "run on", *_STEPS]
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def _row(client: Client, recording: Mapping[str, Any]) -> str:
    told = {step["step"]: "fails" if step["why"] else "passes" for step in recording["steps"]}
    cells = [
        client.name,
        client.version,
        client.language,
        ", ".join(_apis(recording)),
        recording["date"],
        *(told.get(step, "-") for step in _STEPS),
    ]
    return f"| {' | '.join(cells)} |"


def _apis(recording: Mapping[str, Any]) -> list[str]:
    names = {
        "/v1/chat/completions": "Chat Completions",
        "/v1/responses": "Responses",
        "/v1/messages": "Messages",
    }
    paths = {request["path"].partition("?")[0] for request in recording["requests"]}
    return [name for path, name in names.items() if path in paths]
