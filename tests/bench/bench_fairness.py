"""How long a client waits beside an attacker: a trivial tool, and an answer of ten tokens.

PYTHONPATH=.:tests:tests/gateway python tests/bench/bench_fairness.py [--rounds 10]

The gateway serves the tiny model on one thread, with default settings otherwise. The attacker has a key of its own. It keeps
twelve hopeless schemas under way, or twelve streams of sixteen endless answers, or both, or twelve large bodies, which
are refused once they have been read. The client does one
thing at a time, five times alone and five times beside the attacker; each tool is a new one. A round has a gateway of
its own, and gives the ratio of both medians, so that what else the machine does counts for both.
"""

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import httpx
from gateway_process import started
from hostile import laborious

CLIENT, ATTACKER = "sk-client-0000", "sk-attacker-0000"
NUM_ATTACKING = 12
REPEATS = 5
SETTLING_S = 4.0
LARGE_BODY = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": ""}] * 80_000})


class Measured(Protocol):
    """Asks the gateway for something with a number of its own; returns the seconds that it took."""

    __name__: str

    def __call__(self, client: httpx.Client, number: int, /) -> float: ...


Act = Callable[[httpx.Client, int], None]
"""What an attacker does again and again, each time with another number."""


@contextmanager
def gateway() -> Iterator[str]:
    """A gateway in a process of its own; yields its address."""
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder, "keys")
        keys.write_text(f"{CLIENT}\n{ATTACKER}\n")
        options = ("--model", "tiny", "--num-threads", "1", "--data-dir", folder, "--api-key-file", str(keys))
        with started(*options) as running:
            yield running.url


def client_of(address: str, key: str) -> httpx.Client:
    return httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=300)


def register(client: httpx.Client, number: int) -> float:
    """The seconds until a tool that nobody has seen is registered."""
    parameters = {"type": "object", "properties": {f"p{number}": {"type": "string"}}}
    tool = {"name": "trivial", "inputSchema": parameters}
    start = time.perf_counter()
    answer = client.put("/v1/toolsets/mine", json={"tools": [tool]})
    assert answer.status_code in {200, 201}, answer.text
    return time.perf_counter() - start


def ten_tokens(client: httpx.Client, number: int) -> float:
    """The seconds until ten tokens are written."""
    body = {"model": "tiny", "messages": [{"role": "user", "content": f"Tell me of {number}."}]}
    start = time.perf_counter()
    answer = client.post("/v1/chat/completions", json={**body, "max_tokens": 10, "temperature": 0})
    assert answer.status_code == 200, answer.text
    return time.perf_counter() - start


def hopeless(client: httpx.Client, salt: int) -> None:
    tools = [{"name": "bad", "inputSchema": laborious(salt)}]
    client.put(f"/v1/toolsets/bad{salt % NUM_ATTACKING}", content=json.dumps({"tools": tools}))


def endless(client: httpx.Client, salt: int) -> None:
    """Sixteen answers of about 900 tokens, read as they come."""
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": f"Attack {salt}."}],
        "response_format": {"type": "regex", "pattern": "([0-9][a-z]){450,500}"},
        "max_tokens": 1600,
        "n": 16,
        "stream": True,
    }
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code in {200, 429}, answer.read()
        for _ in answer.iter_bytes():
            pass


def large(client: httpx.Client, salt: int) -> None:
    """80,000 messages, which are too many for the model; reading them takes a third of a second."""
    answer = client.post("/v1/chat/completions", content=LARGE_BODY)
    assert answer.status_code in {400, 429}, answer.text


@contextmanager
def attack(address: str, acts: tuple[Act, ...]) -> Iterator[None]:
    """Keep each of `acts` under way, as often at once as the attacker can, until the gateway is gone."""
    stopped = threading.Event()
    salts, lock = iter(range(10**9)), threading.Lock()

    def go_on(act: Act) -> None:
        with client_of(address, ATTACKER) as client:
            while not stopped.is_set():
                with lock:
                    salt = next(salts)
                try:
                    act(client, salt)
                except (httpx.HTTPError, AssertionError):
                    if stopped.is_set():  # the gateway is ending
                        return
                    raise

    for act in acts:
        for _ in range(NUM_ATTACKING):
            threading.Thread(target=go_on, args=(act,), daemon=True).start()
    time.sleep(SETTLING_S)
    yield
    stopped.set()


def measure(client: httpx.Client, measured: Measured, numbers: Iterator[int]) -> float:
    return statistics.median(measured(client, next(numbers)) for _ in range(REPEATS))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--beside", nargs="*", help="only these attacks")
    options = parser.parse_args()
    attacks: dict[str, tuple[Act, ...]] = {
        "hopeless schemas": (hopeless,),
        "streams of 16": (endless,),
        "both": (hopeless, endless),
        "large bodies": (large,),
    }
    numbers = iter(range(10**6))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {options.rounds} rounds; in seconds")
    for name, acts in attacks.items():
        if options.beside and name not in options.beside:
            continue
        found: dict[Measured, list[tuple[float, float]]] = {register: [], ten_tokens: []}
        for _ in range(options.rounds):
            with gateway() as address, client_of(address, CLIENT) as client:
                time.sleep(8)  # until the compiler is primed
                for measured in found:
                    measure(client, measured, numbers)
                quiet = {measured: measure(client, measured, numbers) for measured in found}
                with attack(address, acts):
                    beside = {measured: measure(client, measured, numbers) for measured in found}
            for measured, pairs in found.items():
                pairs.append((quiet[measured], beside[measured]))
        for measured, pairs in found.items():
            alone, attacked = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratios = sorted(after / before for before, after in pairs)
            print(
                f"{measured.__name__:10} beside {name:18} {alone:6.3f} {attacked:6.3f}"
                f"  {statistics.median(ratios):4.1f} times quiet, {ratios[-1]:4.1f} at most",
                flush=True,
            )


if __name__ == "__main__":
    main()
