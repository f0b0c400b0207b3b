"""What hostile schemas cost a gateway: Qwen 3's vocabulary, every schema of `hostile.py` by REST.

PYTHONPATH=.:tests:tests/gateway python tests/bench/bench_hostile.py
"""

import json
import os
import tempfile
import time
from pathlib import Path

import httpx
from corpus import corpus
from fake_runtime import FakeRuntime
from hostile import BOUNDED, REFUSED, of
from serving import served
from transformers import AutoTokenizer

from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from gateway.app import create_app
from gateway.settings import Settings
from runtime.protocol import ModelCard
from toolspecs.json_value import JSON


def resident_mib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20


def put(client: httpx.Client, name: str, parameters: JSON) -> tuple[int, float]:
    tool = {"type": "function", "function": {"name": "t", "parameters": parameters}}
    start = time.perf_counter()
    answer = client.put(f"/v1/toolsets/{name}", content=json.dumps({"tools": [tool]}), timeout=120)
    return answer.status_code, time.perf_counter() - start


def main() -> None:
    vocabulary = Vocabulary.from_tokenizer(AutoTokenizer.from_pretrained(corpus("tokenizers", "qwen3")))
    runtime = FakeRuntime(card=ModelCard("tiny", prepare(vocabulary), "hermes", context_length=4096))
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=folder)
        with served(create_app(settings, runtime=runtime)) as client:
            _, seconds = put(client, "good", of(a={"type": "string"}))
            print(f"first tool after {seconds:.1f} s; {resident_mib()} MiB resident")
            for name, parameters in {**REFUSED, **BOUNDED}.items():
                status, seconds = put(client, "hostile", parameters)
                print(f"{name:32} {status} after {seconds:4.2f} s; {resident_mib()} MiB resident")
                client.delete("/v1/toolsets/hostile")


if __name__ == "__main__":
    main()
