"""What a gateway in front of an engine costs: its processor time for each token, and for each request.

PYTHONPATH=.:tests:tests/gateway:tests/engines:tests/bench python tests/bench/bench_gateway_tokens.py [--at-once 8]

The engine is a stand-in for vLLM with Qwen 3's vocabulary. It replays the same answers token by token, one event for
each, all running answers in the same step of `--step-ms`. The gateway is a process of its own; its processor time is
that of all its threads, without its compile workers. Each client asks again as soon as its answer has ended. Answers
are a call with a long text, guarded by `maxLength` and `uniqueItems`, or text; they are streamed or whole. A short
call shows what a request costs. The rounds of all kinds take turns.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from completions_server import SECRET, StandIn, serving
from corpus import corpus
from gateway_process import Gateway, processor_s, started
from serving import wait_for
from side_by_side.model import shape
from transformers import AutoTokenizer

from runtime.engines.grammar_loader import GrammarLoader
from runtime.engines.request_mark import read_request_mark
from runtime.models.chatml import CHATML
from runtime.text.detokenizer import TokenBytes
from runtime.text.tokenizer import LoadedTokenizer, load_tokenizer
from toolspecs.stores import open_store

PARAGRAPH = (
    "The gateway reads the engine's answer token by token, replays each through its own matcher, and passes on"
    " what the grammar allows. A number such as 3.25, an address like https://example.org/a?b=1, a list of"
    " names (Ada, Grace, Linus) and a line break\nare all parts of a text, and so is “a quotation”. "
)
LONG = {
    "title": "What a token costs",
    "tags": ["gateway", "engine", "token", "processor time"],
    "sections": [{"heading": f"Part {number}", "text": PARAGRAPH} for number in range(1, 4)],
    "is_draft": False,
}
SECTION = {
    "type": "object",
    "properties": {"heading": {"type": "string", "maxLength": 40}, "text": {"type": "string"}},
    "required": ["heading", "text"],
}
PUBLISH = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 80},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "sections": {"type": "array", "items": SECTION, "maxItems": 10},
        "is_draft": {"type": "boolean"},
    },
    "required": ["title", "tags", "sections", "is_draft"],
}
LIKE = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
TOOLS = [
    {"name": "publish", "description": "Publish a page.", "parameters": PUBLISH},
    {"name": "like", "description": "Like a page.", "parameters": LIKE},
]


@dataclass(frozen=True)
class Kind:
    """A kind of answer: what the engine writes, and how clients ask for it."""

    name: str
    text: str
    choice: str
    is_streamed: bool

    def body(self) -> dict[str, Any]:
        """The request; the engine finds the text by its message."""
        return {
            "model": "bench",
            "messages": [{"role": "user", "content": self.text[:40]}],
            "toolset": "bench",
            "tool_choice": self.choice,
            "parallel_tool_calls": False,
            "max_tokens": 2000,
            "stream": self.is_streamed,
        }


def call(name: str, arguments: dict[str, Any]) -> str:
    """A call as Hermes writes it."""
    written = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{written}\n</tool_call>"


KINDS = (
    Kind("call, streamed", call("publish", LONG), "required", is_streamed=True),
    Kind("call, whole", call("publish", LONG), "required", is_streamed=False),
    Kind("text, streamed", PARAGRAPH * 5, "auto", is_streamed=True),
    Kind("text, whole", PARAGRAPH * 5, "auto", is_streamed=False),
    Kind("short call, streamed", call("like", {"id": 7}), "required", is_streamed=True),
)


class Replaying(StandIn):
    """An engine that writes the text of a kind, after what the gateway has written of it."""

    step_s = 0.02

    def tokens(self, body: dict[str, Any]) -> Iterator[tuple[list[int], str | None]]:
        """The tokens of a replayed text; those of canaries are masked as the base class does."""
        if len(set(body["prompt"])) == 1:
            canary: Iterator[tuple[list[int], str | None]] = super().tokens(body)
            return canary
        spelled = TokenBytes(self.text.vocabulary)
        prompt = spelled.of(body["prompt"]).decode()
        text = next(kind.text for kind in KINDS if f"user\n{kind.text[:40]}" in prompt)
        grammar = body["structured_outputs"]["grammar"]
        mark = read_request_mark(grammar, self.secret)
        assert mark is not None, "every request but a canary has the gateway's mark"
        written = spelled.of(mark.written_ids).decode()
        assert text.startswith(written), f"{written!r} is not how the answer begins"
        ids = self.text.tokenizer(text[len(written) :], add_special_tokens=False)["input_ids"]
        stop_id = self.text.tokenizer.convert_tokens_to_ids("<|im_end|>")
        return iter([([i], None) for i in ids] + [([stop_id], "stop")])

    async def paced(self, tokens: Any, leaving: Any, send: Any) -> Any:
        """All answers go on at the same times, as those of one batch do."""
        loop = asyncio.get_running_loop()
        async for step in super().paced(tokens, leaving, send):
            if len(step[0]) == 1:
                await asyncio.sleep(self.step_s - loop.time() % self.step_s)
            yield step


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--step-ms", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    options = parser.parse_args()
    kinds = [kind for kind in KINDS if options.only in kind.name]
    with tempfile.TemporaryDirectory() as folder, gateway_and_engine(Path(folder)) as (gateway, engine):
        engine.step_s = options.step_ms / 1000
        costs: dict[str, list[tuple[float, float]]] = {kind.name: [] for kind in kinds}
        for kind in kinds:
            asyncio.run(ask(gateway.url, kind, 2, 1))  # compiles and warms up
        for _ in range(options.rounds):
            for kind in kinds:
                num_answers = 2 if len(kind.text) > 200 else 20
                before = processor_s(gateway.pid)
                num_tokens = asyncio.run(ask(gateway.url, kind, options.at_once, num_answers))
                spent_ms = (processor_s(gateway.pid) - before) * 1000
                num_requests = options.at_once * num_answers
                costs[kind.name].append((spent_ms / num_tokens, spent_ms / num_requests))
    print(f"{options.at_once} clients, a token every {options.step_ms:g} ms, load {os.getloadavg()[0]:.1f}")
    print("| answer | ms of processor a token: median (rounds) | ms a request: median |")
    print("|---|--:|--:|")
    for name, found in costs.items():
        tokens, requests = zip(*found, strict=True)
        print(
            f"| {name} | {statistics.median(tokens):.3f} ({min(tokens):.3f} to {max(tokens):.3f}) |"
            f" {statistics.median(requests):.1f} |"
        )


async def ask(url: str, kind: Kind, at_once: int, num_answers: int) -> int:
    """Clients that each get so many answers, one after the other; returns the tokens of all."""
    body = kind.body() | ({"stream_options": {"include_usage": True}} if kind.is_streamed else {})
    async with httpx.AsyncClient(timeout=120) as client:

        async def answers() -> int:
            num_tokens = 0
            for _ in range(num_answers):
                answer = await client.post(f"{url}/v1/chat/completions", json=body)
                assert answer.is_success, answer.text
                num_tokens += check(kind, answer.text)
            return num_tokens

        return sum(await asyncio.gather(*(answers() for _ in range(at_once))))


def check(kind: Kind, answer: str) -> int:
    """The number of tokens of an answer; it must be the text that the engine wrote."""
    if kind.is_streamed:
        chunks = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith("data: {")]
        usage = chunks[-1]["usage"]
        deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    else:
        whole = json.loads(answer)
        usage, deltas = whole["usage"], [whole["choices"][0]["message"]]
    calls = [part["function"] for delta in deltas for part in delta.get("tool_calls") or ()]
    if kind.choice == "auto":
        assert "".join(delta.get("content") or "" for delta in deltas) == kind.text
    else:
        arguments = "".join(part["arguments"] for part in calls)
        assert f'"arguments": {arguments}}}\n' in kind.text
    return int(usage["completion_tokens"])


@contextmanager
def gateway_and_engine(folder: Path) -> Iterator[tuple[Gateway, Replaying]]:
    """A gateway that serves the model `bench` by an engine, with the toolset `bench`."""
    text = model_files(folder / "model")
    url = f"sqlite://{folder}/callgate.db"
    loader = GrammarLoader(lambda: open_store(url), SECRET, text.prepared, cache_bytes=2**28)
    engine = Replaying(text, grammar_of=loader.grammar)
    with serving(engine) as engine_url:
        remote = ("--engine", "vllm", "--engine-url", engine_url, "--store", url)
        model = ("--model", str(folder / "model"), "--model-name", "bench")
        options = (*model, *remote, "--data-dir", str(folder))
        with started(*options, CALLGATE_SECRET=SECRET.decode()) as gateway:
            tools = httpx.put(f"{gateway.url}/v1/toolsets/bench", json={"tools": TOOLS}, timeout=60)
            tools.raise_for_status()
            wait_for(lambda: httpx.get(f"{gateway.url}/readyz").is_success)
            yield gateway, engine
    loader.close()


def model_files(folder: Path) -> LoadedTokenizer:
    """The files of a model with Qwen 3's vocabulary, without weights."""
    tokenizer = AutoTokenizer.from_pretrained(corpus("tokenizers", "qwen3"))
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(folder)
    shape(eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>")).save_pretrained(folder)
    return load_tokenizer(folder)


if __name__ == "__main__":
    main()
