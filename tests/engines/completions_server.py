"""Stand-ins for engines: random logits under masks, on real sockets; that of a vLLM server can misbehave.

Each names its row of `ENGINE_KINDS` (`kind`), and finds in a request its grammar (`grammar_in`) and how many tokens it
asks for (`num_asked`).
"""

import asyncio
import json
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from random_decoding import flags
from serving import served

from compiler.matcher import allocate_bitmask
from runtime.engines.grammar_loader import GrammarUnavailable
from runtime.engines.request_mark import PLUGIN_MISSING, InvalidRequestMark, read_request_mark
from runtime.text.tokenizer import LoadedTokenizer

SECRET = b"0123456789abcdef"


def is_canary(body):
    """Whether a request is one of a canary: its prompt begins with one token eight times."""
    return len(set(body["prompt"][:8])) == 1


NUM_DRAFTED = 3
"""How many tokens an engine that speculates sends at once."""


class LongRequest(Exception):
    """The prompt and the tokens that are asked for are longer than the context; vLLM and SGLang refuse that."""


class LikelyToken(int):
    """A token id that knows its log probability, and the pairs of id and log probability that were highest."""

    logprob = -0.5
    top = ()

    @classmethod
    def of(cls, token_id):
        """The token id itself, if it knows; else one that knows little."""
        return token_id if isinstance(token_id, cls) else cls(token_id)


@dataclass
class EngineStandIn:
    """What stand-ins of all engines have; `text` is the tokenizer of the model that they serve.

    Without `masks_tokens` they write anything.
    """

    kind = "vllm"

    text: LoadedTokenizer
    masks_tokens: bool = True
    end_bias: float = 4.0
    bodies: list = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    aborts: bool = True
    token_s: float = 0.0
    context_length: int = 4096
    num_running: int = 0
    num_aborted: int = 0

    def __post_init__(self):
        """Find the tokens that bring an output to its end."""
        vocabulary = self.text.vocabulary
        ends = {b'"', b'",', b'"}', b"}", b"]", b"}}", b"\n"}
        spelled = [i for i, token in enumerate(vocabulary.tokens) if token in ends]
        self.end_ids = [*spelled, *vocabulary.stop_ids, *vocabulary.marker_ids]

    @property
    def requests(self):
        """The bodies of all requests but those of canaries."""
        return [body for body in self.bodies if not is_canary(body)]

    async def __call__(self, scope, receive, send):
        if scope["type"] != "lifespan":
            await self.respond(scope, receive, send)
            return
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def answer_with(self, tokens, body, receive, send):
        """Stream the tokens until they or the client are gone."""
        await send(head("text/event-stream"))
        self.num_running += 1
        leaving = asyncio.ensure_future(left(receive))
        try:
            await self.stream(body, tokens, leaving, send)
        finally:
            self.num_running -= 1
            leaving.cancel()

    async def paced(self, tokens, leaving, send):
        """The pairs of `tokens` in their time, until the client leaves; does what faults among them say."""
        for ids, finish_reason in tokens:
            if ids == "stall":
                await leaving
            await asyncio.sleep(self.token_s)
            if leaving.done():
                while not self.aborts:
                    await asyncio.sleep(0.01)
                self.num_aborted += 1
                return
            if ids == "die":
                raise ConnectionResetError("told to die")
            if isinstance(ids, bytes):
                await more(send, ids)
            else:
                yield ids, finish_reason

    def sample(self, body, matcher=None):
        """The next token, under the mask of a matcher."""
        return int(self.masked(self.logits(body), body, matcher).argmax())

    def logits(self, body):
        """Those of the next token before any mask."""
        logits = self.noise(body)
        logits[self.end_ids] += self.end_bias
        bias = body.get("logit_bias") or {}
        for token_id, value in bias.items() if isinstance(bias, dict) else bias:
            logits[int(token_id)] += value
        return logits

    def noise(self, body):
        """What differs from token to token: random logits, unless the temperature is 0."""
        return self.rng.gumbel(size=self.text.vocabulary.width) * (body["temperature"] > 0)

    def masked(self, logits, body, matcher):
        """The logits under the mask of a matcher, and under what else a request says."""
        if matcher is not None:
            row = allocate_bitmask(1, len(logits))
            matcher.fill_bitmask(row, 0)
            logits[~flags(row[0], len(logits))] = -np.inf
        return logits


@dataclass
class StandIn(EngineStandIn):
    """A vLLM server; `grammar_of` links the grammar of a recipe.

    `writes` maps places in an output to what comes there instead of what the mask allows, for as long as
    `num_faults` lasts: a token id, `stop`, `length`, `die`, `garbage`, `stall`, `error`, or `empty`. If it
    `speculates`, it sends several tokens at once, and refuses what a vLLM that speculates refuses.
    """

    grammar_of: object = None
    has_plugin: bool = True
    secret: bytes = SECRET
    honours_max_tokens: bool = True
    echoes_prompt: bool = True
    is_healthy: bool = True
    is_paused: bool = False
    status: int = 200
    retry_after: str = ""
    writes: dict = field(default_factory=dict)
    num_faults: int = 10**9
    num_cached: int | None = None
    headers: list = field(default_factory=list)
    speculates: bool = False

    @property
    def num_together(self):
        """The most tokens of one event."""
        return NUM_DRAFTED if self.speculates else 1

    def grammar_in(self, body):
        return (body.get("structured_outputs") or {}).get("grammar")

    def num_asked(self, body):
        return body["max_tokens"]

    async def respond(self, scope, receive, send):
        while self.is_paused:
            await asyncio.sleep(0.01)
        path = scope["path"]
        if path == "/v1/completions":
            self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
            await self.complete(await body_of(receive), receive, send)
        elif path == "/inference/v1/generate":
            body = await body_of(receive)
            await self.complete(
                body["sampling_params"] | {"prompt": body["token_ids"], "generate": body}, receive, send
            )
        elif path == "/health":
            await answer(send, {}, 200 if self.is_healthy else 503)
        elif path == "/version":
            await answer(send, {"version": "0.32.0"})
        elif path == "/v1/models":
            model = {"id": "remote", "max_model_len": self.context_length}
            await answer(send, {"object": "list", "data": [model]})
        elif path == "/metrics":
            await answer(send, f'vllm:num_requests_running{{engine="0"}} {self.num_running}.0\n')
        else:
            await answer(send, {"error": {"message": "no such route"}}, 404)

    async def complete(self, body, receive, send):
        self.bodies.append(body)
        if self.status != 200:
            error = {"error": {"message": "told to fail", "code": self.status}}
            if self.status == 503:  # where a vLLM has no room for a request, it says so in the stream
                await refuse_in_stream(send, error)
            else:
                await answer(send, error, self.status, retry_after=self.retry_after)
            return
        if self.speculates and (body.get("logit_bias") or (body["min_p"] and body["temperature"])):
            message = "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
            await refuse_in_stream(send, {"error": {"message": message, "code": 400}})
            return
        try:
            tokens = await asyncio.to_thread(self.tokens, body)
        except (InvalidRequestMark, LongRequest) as error:
            await answer(send, {"error": {"message": str(error), "code": 400}}, 400)
            return
        except GrammarUnavailable as error:
            await answer(send, {"error": {"message": str(error), "code": 500}}, 500)
            return
        await self.answer_with(tokens, body, receive, send)

    async def stream(self, body, tokens, leaving, send):
        echoed = body["prompt"] if self.echoes_prompt else None
        finish_reason = None
        async for ids, finish_reason in self.paced(tokens, leaving, send):
            choice = {"index": 0, "text": "", "finish_reason": finish_reason, "token_ids": ids}
            if body.get("logprobs") is not None:
                choice["logprobs"] = self.logprobs(body, ids)
            echo = {"prompt_token_ids": echoed}
            beside = "generate" in body
            await event(send, {"choices": [choice if beside else choice | echo]} | (echo if beside else {}))
            echoed = None
        if finish_reason is not None:
            if body.get("stream_options", {}).get("include_usage"):
                details = {} if self.num_cached is None else {"cached_tokens": self.num_cached}
                usage = {"prompt_tokens": len(body["prompt"]), "prompt_tokens_details": details or None}
                await event(send, {"choices": [], "usage": usage})
            await more(send, b"data: [DONE]\n\n")
        await send({"type": "http.response.body", "body": b""})

    def logprobs(self, body, ids):
        """The log probabilities of tokens, as the route of a request tells them."""
        tokens = [LikelyToken.of(token_id) for token_id in ids]
        tops = [{one: one.logprob} | dict(one.top) for one in tokens]
        if "generate" in body:
            told = [[{"token_id": i, "logprob": p} for i, p in top.items()] for top in tops]
            return {
                "content": [
                    {"token_id": one, "logprob": one.logprob, "top_logprobs": top}
                    for one, top in zip(tokens, told, strict=True)
                ]
            }
        named = [{f"token_id:{int(i)}": p for i, p in top.items()} for top in tops]
        return {"token_logprobs": [one.logprob for one in tokens], "top_logprobs": named}

    def tokens(self, body):
        """Pairs of token ids and a finish reason; faults stand where `writes` says."""
        if len(body["prompt"]) + body["max_tokens"] > self.context_length:
            raise LongRequest(f"the model's maximum context length is {self.context_length} tokens")
        grammar = self.grammar_in(body)
        if grammar is not None and not self.has_plugin:
            return iter(
                [([i], None) for i in self.text.tokenizer(PLUGIN_MISSING)["input_ids"]] + [([], "stop")]
            )
        matcher, num_before = None, 0
        if grammar is not None:
            mark = read_request_mark(grammar, self.secret)
            matcher = self.matcher_of(mark)
            assert body["prompt"][len(body["prompt"]) - len(mark.written_ids) :] == list(mark.written_ids)
            num_before = len(mark.written_ids)
            body = body | {"left_out_ids": mark.left_out_ids}
        return joined(self.sampled(body, matcher, num_before), self.num_together)

    def masked(self, logits, body, matcher):
        logits = super().masked(logits, body, matcher)
        if allowed := body.get("allowed_token_ids"):
            logits[[i for i in range(len(logits)) if i not in set(allowed)]] = -np.inf
        for word in body.get("bad_words", ()):
            for spelled in (word.lstrip(), f" {word.lstrip()}"):
                ids = self.text.tokenizer(spelled, add_special_tokens=False)["input_ids"]
                if len(ids) == 1:
                    logits[ids] = -np.inf
        logits[list(body.get("left_out_ids", ()))] -= 100
        return logits

    def matcher_of(self, mark):
        """Follows the output of a mark, behind what is written already."""
        matcher = self.linked(mark).matcher(is_thinking=mark.is_thinking)
        assert all(map(matcher.accept, mark.written_ids))
        return matcher

    def linked(self, mark):
        """The grammar of a mark."""
        return self.grammar_of(mark.recipe)

    def fault(self, body, place):
        """What comes at a place of an output instead of what the mask allows; None if nothing does."""
        return self.writes.get(place)

    def sampled(self, body, matcher, num_before):
        stop_ids = {*self.text.vocabulary.stop_ids, *body.get("stop_token_ids", ())}
        for number in range(body["max_tokens"] if self.honours_max_tokens else 10**6):
            fault = self.fault(body, num_before + number)
            if fault is not None and self.num_faults > 0:
                self.num_faults -= 1
                match fault:
                    case int():
                        yield [fault], None
                        continue
                    case "stop" | "length":
                        yield [], fault
                        return
                    case "garbage":
                        yield b"data: {]\n\n", None
                        return
                    case "error":
                        yield b'data: {"error": {"message": "told to fail"}}\n\n', None
                        return
                    case "empty":
                        return
                    case _:
                        yield fault, None
                        return
            token_id = self.sample(body, matcher if self.masks_tokens else None)
            if matcher is not None and not matcher.accept(token_id):
                matcher = None  # an engine with no mask goes on with anything
            is_last = number + 1 == body["max_tokens"] and self.honours_max_tokens
            reason = "stop" if token_id in stop_ids else "length" if is_last else None
            yield [token_id], reason
            if token_id in stop_ids:
                return


def joined(tokens, most):
    """Pairs of token ids and how the answer ends, with up to so many tokens that came one by one."""
    held = []
    for ids, ended_by in tokens:
        if not isinstance(ids, list):  # a fault
            if held:
                yield held, None
            held = []
            yield ids, ended_by
            continue
        held += ids
        if ended_by is not None or len(held) >= most:
            yield held, ended_by
            held = []
    if held:
        yield held, None


@contextmanager
def serving(stand_in):
    """The URL under which it is served."""
    import uvicorn

    config = uvicorn.Config(stand_in, port=0, log_level="critical", timeout_graceful_shutdown=1)
    with served(uvicorn.Server(config)) as client:
        yield str(client.base_url)


async def body_of(receive):
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return json.loads(body)


async def left(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


def head(kind, status=200, retry_after=""):
    headers = [(b"content-type", kind.encode())]
    if retry_after:
        headers.append((b"retry-after", retry_after.encode()))
    return {"type": "http.response.start", "status": status, "headers": headers}


async def answer(send, content, status=200, *, retry_after=""):
    body = content if isinstance(content, str) else json.dumps(content)
    await send(head("application/json", status, retry_after))
    await send({"type": "http.response.body", "body": body.encode()})


async def refuse_in_stream(send, error):
    await send(head("text/event-stream"))
    await event(send, error)
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


async def event(send, content):
    await more(send, b"data: " + json.dumps(content).encode() + b"\n\n")


async def more(send, data):
    await send({"type": "http.response.body", "body": data, "more_body": True})
