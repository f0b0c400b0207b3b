"""How long a client waits beside an attacker: a trivial tool, and an answer of ten tokens.

PYTHONPATH=.:tests:tests/gateway python tests/bench/bench_fairness.py [--rounds 20]

The gateway serves the demo's model on one thread, with default settings otherwise. The attacker has a key of its own. It keeps
twelve hopeless schemas under way, or twelve streams of sixteen endless answers, or both. The client does one
thing at a time, first alone and then beside the attacker; each tool is a new one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from hostile import laborious

CLIENT, ATTACKER = "sk-client-0000", "sk-attacker-0000"
NUM_ATTACKING = 12


@contextmanager
def gateway():
    """A gateway in a process of its own; yields its address."""
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder, "keys")
        keys.write_text(f"{CLIENT}\n{ATTACKER}\n")
        program = "from gateway.cli import main; main()"
        options = [
            "serve",
            "--port",
            "0",
            "--num-threads",
            "1",
            "--data-dir",
            folder,
            "--api-key-file",
            str(keys),
        ]
        process = subprocess.Popen(
            [sys.executable, "-c", program, *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "http://" in line)
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield "http://" + line.split("http://")[1].split()[0]
        finally:
            process.terminate()
            process.wait()


def client_of(address, key):
    return httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=300)


def register(client, number):
    """The seconds until a tool that nobody has seen is registered."""
    parameters = {"type": "object", "properties": {f"p{number}": {"type": "string"}}}
    tool = {"name": "trivial", "inputSchema": parameters}
    start = time.perf_counter()
    answer = client.put("/v1/toolsets/mine", json={"tools": [tool]})
    assert answer.status_code in {200, 201}, answer.text
    return time.perf_counter() - start


def ten_tokens(client, number):
    """The seconds until ten tokens are written."""
    body = {"model": "demo", "messages": [{"role": "user", "content": f"Tell me of {number}."}]}
    start = time.perf_counter()
    answer = client.post("/v1/chat/completions", json={**body, "max_tokens": 10, "temperature": 0})
    assert answer.status_code == 200, answer.text
    return time.perf_counter() - start


def hopeless(client, salt):
    tools = [{"name": "bad", "inputSchema": laborious(salt)}]
    client.put(f"/v1/toolsets/bad{salt % NUM_ATTACKING}", content=json.dumps({"tools": tools}))


def endless(client, salt):
    """Sixteen answers of about 900 tokens, read as they come."""
    body = {
        "model": "demo",
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


@contextmanager
def attack(address, act, stopped):
    """Keep `act` under way, as often at once as the attacker can."""
    salts = iter(range(10**9))
    lock = threading.Lock()

    def go_on():
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

    threads = [threading.Thread(target=go_on, daemon=True) for _ in range(NUM_ATTACKING)]
    for thread in threads:
        thread.start()
    time.sleep(5)
    yield


def measure(client, act, numbers):
    seconds = sorted(act(client, number) for number in numbers)
    return statistics.median(seconds), seconds[-1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--beside", nargs="*", help="only these attacks")
    options = parser.parse_args()
    rounds = options.rounds
    attacks = {
        "nobody": (),
        "hopeless schemas": (hopeless,),
        "streams of 16": (endless,),
        "both": (hopeless, endless),
    }
    numbers = iter(range(10**6))
    quiet = {}
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; median and longest of {rounds}, in seconds"
    )
    for name, acts in attacks.items():
        if acts and options.beside and name not in options.beside:
            continue
        with gateway() as address, client_of(address, CLIENT) as client, ExitStack() as attacking:
            time.sleep(8)  # until the compiler is primed
            measure(client, register, [next(numbers) for _ in range(3)])
            measure(client, ten_tokens, [next(numbers) for _ in range(3)])
            stopped = threading.Event()
            for act in acts:
                attacking.enter_context(attack(address, act, stopped))
            for what in (register, ten_tokens):
                median, longest = measure(client, what, [next(numbers) for _ in range(rounds)])
                quiet.setdefault(what, median)
                ratio = f"{median / quiet[what]:.1f} times quiet"
                print(
                    f"{what.__name__:12} beside {name:18} {median:6.3f} {longest:6.3f}  {ratio}", flush=True
                )
            stopped.set()


if __name__ == "__main__":
    main()
