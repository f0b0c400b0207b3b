"""What each client sent is answered as it was then, streamed and not, in the shape of its API's own types."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field

import pytest
from serving import client_of, served

from clients import matrix
from clients.client_table import CLIENTS, STEPS
from clients.environments import SCRIPTS
from clients.recording import load, made_ids
from clients.replaying import Clerk, check_shape
from gateway.app import create_app
from gateway.settings import Settings


@pytest.fixture
def app(tmp_path):
    return create_app(Settings(data_dir=str(tmp_path), compile_workers=0), runtime=Clerk())


@dataclass
class Replay:
    """Sends the requests of a recording, in which the ids of today's answers replace those of the recorded."""

    client: object
    ids: dict[str, str] = field(default_factory=dict)

    async def send(self, request, body):
        sent = json.dumps(body) if body else ""
        for recorded, made in self.ids.items():
            sent = sent.replace(recorded, made)
        answer = await self.client.request(
            request["method"], request["path"], content=sent, headers=request.get("headers")
        )
        # A stream tells the ids of different kinds in another order.
        self.ids |= zip(by_kind(request.get("ids", ())), by_kind(made_ids(answer.text)), strict=False)
        return answer


def by_kind(ids):
    return sorted(ids, key=lambda made: made.partition("_")[0])


@pytest.mark.parametrize("is_turned", [False, True], ids=["as sent", "streamed the other way"])
@pytest.mark.parametrize("recorded", CLIENTS, ids=lambda client: client.file_name)
async def test_what_a_client_sent_is_answered(app, recorded, is_turned):
    async with client_of(app) as client:
        replay = Replay(client)
        for request in load(recorded)["requests"]:
            body = request.get("body")
            if body and is_turned:
                body = {name: value for name, value in body.items() if name != "stream_options"}
                body["stream"] = not body.get("stream")
            answer = await replay.send(request, body)
            assert answer.status_code == request["status"], answer.text
            if body and answer.status_code == 200:
                assert answer.headers.get("x-callgate-ignored", "") == request.get("ignored", "")
                check_shape(request["path"].partition("?")[0], answer, is_streamed=bool(body.get("stream")))


def test_only_threads_were_refused():
    """Whoever mends the gateway for a client records that client again."""
    refused = [
        request["error"]
        for client in CLIENTS
        for request in load(client)["requests"]
        if request["status"] != 200
    ]
    assert [error for error in refused if "thread_unsupported_request" not in error] == []


def test_the_page_is_made_from_the_recordings_of_the_clients_in_the_table():
    for client in CLIENTS:
        recording = load(client)
        assert tuple(recording["packages"]) == client.packages
        assert tuple(step["step"] for step in recording["steps"]) == client.steps
    assert matrix.PAGE.read_text("utf-8") == matrix.page()


@pytest.mark.parametrize("script", ["with_openai.py", "with_openai_responses.py", "with_anthropic.py"])
def test_the_official_clients_run_the_whole_conversation(app, script):
    """The clients that are installed here; `make test-clients` runs all."""
    with served(app) as http:
        ran = subprocess.run(
            [sys.executable, "-B", str(SCRIPTS / script)],
            env={"PATH": os.environ["PATH"], "CALLGATE_URL": str(http.base_url)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    steps = [json.loads(line) for line in ran.stdout.splitlines() if line]
    assert [(step["step"], step["why"]) for step in steps] == [(step, "") for step in STEPS]
