"""Runs clients against a gateway with the tiny model: `python -m clients [NAME ...]`.

A name is the start of a recording's, such as `openai`. Each client's environment is deleted after its run,
unless the variable KEEP is set. Exits with 1 if a client could not be installed or a step failed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from serving import served

from clients import matrix, recording
from clients.client_table import CLIENTS, SNIPPET, STEPS, Client
from clients.environments import Environment
from clients.recorder import Recorder
from clients.snippets import PRINTED, snippets
from gateway.app import create_app
from gateway.connections import ServerConfig
from gateway.settings import Settings


def main() -> int:
    """Run the clients named, or all; 1 if one of them has an unexpected failure."""
    parser = argparse.ArgumentParser(prog="clients", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = tuple(parser.parse_args().names)
    chosen = [client for client in CLIENTS if not names or client.file_name.startswith(names)]
    if not chosen:
        parser.error(f"no client has such a name; there are {', '.join(c.file_name for c in CLIENTS)}")
    with gateway() as (url, recorder):
        failed = [client for client in chosen if not _passes(client, url, recorder)]
    matrix.write()
    print(f"{len(chosen) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


@contextmanager
def gateway() -> Iterator[tuple[str, Recorder]]:
    """A gateway with the tiny model on a free port of loopback, as `callgate serve` starts it."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=folder, model="tiny", model_name="demo")
        recorder = Recorder(create_app(settings))
        config = ServerConfig(recorder, settings, port=0, log_level="warning")
        with served(uvicorn.Server(config)) as client:
            yield str(client.base_url), recorder


def _passes(client: Client, url: str, recorder: Recorder) -> bool:
    print(f"{client.name} ({client.language}) {client.version}", flush=True)
    environment = Environment(client)
    recorder.start()
    try:
        environment.install()
        steps = _script_steps(environment, url)
        if client.snippet:
            steps.append(_snippet_step(environment, url))
    except (OSError, subprocess.SubprocessError) as error:  # nothing was learned: its recording stays
        print(f"  not installed: {getattr(error, 'stderr', '') or error}", file=sys.stderr)
        return False
    finally:
        if not os.environ.get("KEEP"):
            environment.remove()
    for step in steps:
        print(f"  {step['step']:12} {step['why'] or 'passed'}")
    recording.save(client, steps, recorder.exchanges)
    return all(not step["why"] for step in steps)


def _script_steps(environment: Environment, url: str) -> list[dict[str, Any]]:
    """What the client's script told of its steps."""
    outcome = environment.run(url)
    if outcome.error:
        print(outcome.error, file=sys.stderr)
    told = {step["step"]: step for step in outcome.steps}
    reason = outcome.reason or "the script did not reach this step"
    return [
        told.get(step, {"step": step, "why": reason})
        for step in STEPS
        if step not in environment.client.lacks
    ]


def _snippet_step(environment: Environment, url: str) -> dict[str, Any]:
    """Whether the client's snippet made the call that the page promises."""
    snippet = snippets()[environment.client.snippet]
    outcome = environment.run_text(snippet.for_gateway(url))
    if outcome.error:
        print(outcome.error, file=sys.stderr)
    is_told = PRINTED[snippet.language] in outcome.printed
    why = outcome.reason or ("" if is_told else f"it printed {outcome.printed[-200:]!r}")
    return {"step": SNIPPET, "why": why, "program": snippet.digest}


if __name__ == "__main__":
    sys.exit(main())
