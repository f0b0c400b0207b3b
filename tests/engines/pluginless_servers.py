"""Stand-ins for servers without the plugin, vLLM's and llama.cpp's: xgrammar reads the grammars that they are sent."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xgrammar as xgr
from completions_server import EngineStandIn, StandIn, answer, body_of, event, joined
from gbnf_matcher import GbnfMatcher


class EnginesMatcher:
    """Follows an output in vLLM's way: by xgrammar, over the tokenizer as it is.

    Where xgrammar refuses a token that its mask allows, the request ends with an error, as vLLM's does.
    """

    def __init__(self, ebnf: str, compiler: xgr.GrammarCompiler) -> None:
        self._matcher = xgr.GrammarMatcher(compiler.compile_grammar(ebnf))

    def accept(self, token_id):
        assert self._matcher.accept_token(token_id), "xgrammar refuses a token of its mask"
        return True

    def fill_bitmask(self, bitmask, row):
        self._matcher.fill_next_token_bitmask(bitmask, row)


@dataclass
class StockStandIn(StandIn):
    """A vLLM that takes a grammar at its word."""

    kind = "vllm_stock"

    @cached_property
    def compiler(self):
        vocabulary = self.text.vocabulary
        info = xgr.TokenizerInfo.from_huggingface(
            self.text.tokenizer, vocab_size=vocabulary.width, stop_token_ids=list(vocabulary.stop_ids)
        )
        return xgr.GrammarCompiler(info)

    def tokens(self, body):
        grammar = self.grammar_in(body) if self.masks_tokens else None
        matcher = EnginesMatcher(grammar, self.compiler) if grammar else None
        return joined(self.sampled(body, matcher, 0), self.num_together)


_ONE_TOKEN = re.compile(r"root ::= <\[\d+\]>( \| <\[\d+\]>)*\n")


class OneToken:
    """Follows an output of one token, which is one of those that a grammar names."""

    def __init__(self, gbnf: str) -> None:
        self._ids = [int(each) for each in re.findall(r"\d+", gbnf)]
        self._is_written = False

    def accept(self, token_id):
        self._is_written = True

    def fill_bitmask(self, bitmask, row):
        bitmask[row] = 0
        for token_id in () if self._is_written else self._ids:
            bitmask[row, token_id >> 5] |= np.array(1 << (token_id & 31), np.uint32).view(np.int32)

    def is_completed(self):
        return self._is_written


def ends_inside_character(text):
    """Whether a text ends with the first bytes of a character, but not all of them."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


@dataclass
class LlamaStandIn(EngineStandIn):
    """A llama-server, which reads grammars as xgrammar does.

    It tells the tokens of a character that takes several once the character is whole, and only the last one.
    `wants` is the model's first choice wherever a log probability is told; None: what is written.
    """

    kind = "llama_server"

    wants: int | None = None

    def grammar_in(self, body):
        return body.get("grammar")

    def num_asked(self, body):
        return body["n_predict"]

    async def respond(self, scope, receive, send):
        match scope["path"]:
            case "/health":
                await answer(send, {"status": "ok"})
            case "/props":
                await answer(send, {"build_info": "b11549"})
            case "/v1/models":
                await answer(send, {"data": [{"id": "a.gguf", "meta": {"n_ctx": self.context_length}}]})
            case "/slots":
                await answer(send, {"error": {"message": "not shown"}}, 501)
            case "/completion":
                body = await body_of(receive)
                self.bodies.append(body)
                await self.answer_with(self.tokens(body), body, receive, send)

    def tokens(self, body):
        """Pairs of a token id and how the answer ends with it."""
        gbnf = self.grammar_in(body) if self.masks_tokens else None
        matcher = None
        if gbnf:
            matcher = OneToken(gbnf) if _ONE_TOKEN.fullmatch(gbnf) else GbnfMatcher(gbnf, self.text.prepared)
        for _ in range(body["n_predict"]):
            token_id = self.sample(body, matcher)
            is_last = token_id in self.text.vocabulary.stop_ids
            yield [token_id], "eos" if is_last else None
            if is_last:
                return
            if matcher is not None:
                matcher.accept(token_id)

    async def stream(self, body, tokens, leaving, send):
        vocabulary, reason, text = self.text.vocabulary, "limit", b""
        async for [token_id], ended_by in self.paced(tokens, leaving, send):
            reason = ended_by or reason
            text += vocabulary.tokens[token_id] if token_id not in vocabulary.marker_ids else b""
            if ends_inside_character(text) and ended_by is None:
                continue
            told = {"content": text.decode(errors="replace"), "tokens": [token_id], "stop": False}
            text = b""
            if num_probs := body["n_probs"]:
                told["completion_probabilities"] = [self.probability(token_id, num_probs)]
            await event(send, told)
        await event(
            send, {"content": "", "tokens": [], "stop": True, "stop_type": reason, "timings": {"cache_n": 3}}
        )
        await send({"type": "http.response.body", "body": b""})

    def probability(self, token_id, num_probs):
        """What is told of a token, from before the grammar."""
        first = token_id if self.wants is None else self.wants
        tops = [{"id": first, "logprob": -0.1}, {"id": 7, "logprob": -3.0}][:num_probs]
        return {"id": token_id, "logprob": -1.0, "top_logprobs": tops}

    def masked(self, logits, body, matcher):
        logits = super().masked(logits, body, matcher)
        if matcher is not None and matcher.is_completed():
            logits[list(self.text.vocabulary.stop_ids)] = 0
        return logits
