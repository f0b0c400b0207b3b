"""An engine: random logits under the masks of our grammars, which it links from the store as vLLM's plugin does.

`POST /faults` with fields of `StandIn` changes how it behaves.
"""

import argparse
from dataclasses import dataclass

import uvicorn
from completions_server import StandIn, answer, body_of

from compiler.isolation.priming import prime
from runtime.engines.grammar_loader import GrammarLoader
from runtime.models import TINY_MODEL_FOLDER
from runtime.text.tokenizer import load_tokenizer
from toolspecs.stores import open_store


@dataclass
class FaultyEngine(StandIn):
    """A stand-in that is told over HTTP to misbehave, and keeps nothing of requests."""

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and scope["path"] == "/faults":
            for name, value in (await body_of(receive)).items():
                setattr(self, name, value)
            self.writes = {int(place): fault for place, fault in self.writes.items()}
            await answer(send, {})
            return
        await super().__call__(scope, receive, send)

    async def complete(self, body, receive, send):
        self.bodies.clear()
        self.headers.clear()
        await super().complete(body, receive, send)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--store")
    parser.add_argument("--secret")
    parser.add_argument("--token-seconds", type=float)
    options = parser.parse_args()
    secret = options.secret.encode()
    text = load_tokenizer(TINY_MODEL_FOLDER)
    assert text.prepared.index.last_word is not None
    prime(text.prepared)
    loader = GrammarLoader(
        lambda: open_store(options.store), secret, text.prepared, cache_bytes=2**28, time_limit_s=15
    )
    engine = FaultyEngine(
        text, grammar_of=loader.grammar, secret=secret, token_s=options.token_seconds, end_bias=5.0
    )
    uvicorn.run(
        engine, port=options.port, log_level="error", timeout_graceful_shutdown=3, timeout_keep_alive=60
    )
    loader.close()


if __name__ == "__main__":
    main()
