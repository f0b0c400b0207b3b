"""A stand-in for an SGLang server: the other stand-in behind SGLang's routes, with SGLang's own shapes."""

import asyncio
from dataclasses import dataclass

from completions_server import LikelyToken, LongRequest, StandIn, answer, body_of, event, head, more

from runtime.engines.grammar_loader import GrammarUnavailable
from runtime.engines.request_mark import InvalidRequestMark

ABORTED_WITH = 198
NUM_RESERVED = 6
"""How many tokens of its context, or of its KV cache, SGLang leaves to no request."""


@dataclass
class SglangStandIn(StandIn):
    """`is_incremental`: its events do not repeat what came before. `num_cache_tokens` fit its KV cache."""

    kind = "sglang"

    is_incremental: bool = False
    num_cache_tokens: int = 20_000

    @property
    def num_usable(self):
        """How many tokens a prompt and its output may have together."""
        return min(self.context_length, self.num_cache_tokens) - NUM_RESERVED

    async def respond(self, scope, receive, send):
        path = scope["path"]
        if path == "/generate":
            body = await body_of(receive)
            sampling = body["sampling_params"]
            num_left = self.num_usable + 4 - len(body["input_ids"])  # the four that SGLang also fills
            max_tokens = min(sampling["max_new_tokens"], max(0, num_left))
            spoken = {"prompt": body["input_ids"], "max_tokens": max_tokens, "sglang": body}
            same = ("temperature", "logit_bias", "stop_token_ids")
            spoken |= {name: sampling[name] for name in same if name in sampling}
            spoken |= {"min_tokens": sampling["min_new_tokens"]}
            if "sampling_seed" in sampling:
                spoken["seed"] = sampling["sampling_seed"]
            if "ebnf" in sampling:
                spoken["structured_outputs"] = {"grammar": sampling["ebnf"]}
            await self.complete(spoken, receive, send)
        elif path == "/v1/loads":
            running = {"dp_rank": 0, "num_running_reqs": self.num_running, "num_waiting_reqs": 0}
            await answer(send, {"version": "0.5.23", "loads": [running]})
        elif path == "/server_info":
            await answer(send, {"max_req_input_len": self.num_usable})
        elif path in {"/v1/completions", "/metrics", "/version"}:
            await answer(send, {"detail": "Not Found"}, 404)
        else:
            await super().respond(scope, receive, send)

    async def complete(self, body, receive, send):
        """As the other one, but a request that cannot be served is aborted in its stream."""
        self.bodies.append(body)
        if self.status != 200:
            await send(head("text/event-stream"))
            about = {"type": "abort", "message": "told to fail", "status_code": self.status}
            await self.abort(about, send)
            return
        if len(body["prompt"]) >= self.num_usable:
            message = f"Input length ({len(body['prompt'])} tokens) exceeds the maximum allowed length"
            await send(head("text/event-stream"))
            await self.abort({"type": "abort", "message": message, "status_code": 400}, send)
            return
        try:
            tokens = await asyncio.to_thread(self.tokens, body)
        except LongRequest as error:
            await answer(send, {"error": {"message": str(error)}}, 400)
            return
        except (InvalidRequestMark, GrammarUnavailable) as error:
            await send(head("text/event-stream"))
            message = f"Failed to compile ebnf grammar: Grammar compilation failed: {error}"
            await self.abort({"type": "abort", "message": message, "status_code": 400}, send)
            return
        await self.answer_with(tokens, body, receive, send)

    async def abort(self, finish_reason, send):
        """SGLang gives back a token of no grammar with it."""
        about = {"finish_reason": finish_reason, "completion_tokens": 1, "cached_tokens": 0}
        await event(send, {"text": "\n", "output_ids": [ABORTED_WITH], "meta_info": about})
        await more(send, b"data: [DONE]\n\n")
        await send({"type": "http.response.body", "body": b""})

    async def stream(self, body, tokens, leaving, send):
        asked, written, shown, finish_reason = body["sglang"], [], 0, None
        async for ids, finish_reason in self.paced(tokens, leaving, send):
            written += ids
            sent = written[shown if self.is_incremental else 0 :]
            about = {
                "id": "1",
                "finish_reason": {"type": finish_reason, "matched": None} if finish_reason else None,
                "completion_tokens": len(written),
                "cached_tokens": self.num_cached or 0,
            }
            if asked.get("return_logprob"):
                tokens, num_top = list(map(LikelyToken.of, sent)), asked["top_logprobs_num"]
                about["output_token_logprobs"] = [(one.logprob, one, None) for one in tokens]
                about["output_token_logprobs_length"] = len(written)
                tops = [one.top or ((7, -0.5), (8, None)) for one in tokens]
                about["output_top_logprobs"] = [[(p, i, None) for i, p in top[:num_top]] for top in tops]
            is_echoed = self.echoes_prompt and asked.get("return_prompt_token_ids")
            echoed = {"prompt_token_ids": asked["input_ids"]} if is_echoed else {}
            await event(send, {"text": "", "output_ids": sent, "meta_info": about} | echoed)
            shown = len(written)
        if finish_reason is not None:
            await more(send, b"data: [DONE]\n\n")
        await send({"type": "http.response.body", "body": b""})
