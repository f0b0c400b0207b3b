"""Stand-ins of external engines that write by chance, and the same again for the same prompt and seed.

So answers can be compared: streamed or not, alone or beside others, at one engine or at another. Each stand-in
also notes what no engine of its kind takes.
"""

import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from completions_server import LikelyToken, StandIn, is_canary, joined
from generate_server import SglangStandIn
from pluginless_servers import LlamaStandIn, StockStandIn

from compiler.matcher import Bitmask, allocate_bitmask
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.recipe import OwnGrammar
from runtime.engines.grammar_loader import GrammarLoader
from runtime.engines.masked_output import MaskedOutput
from runtime.engines.request_mark import RequestMark

NUM_PLACES = 16
"""After so many tokens, what the model prefers comes again."""
MASKED_LOGPROB = -9999.0
"""How vLLM tells a log probability of minus infinity."""


@dataclass
class Seeded:
    """What the stand-ins share; `together`: the most tokens of one event.

    The model prefers certain tokens at each place, and samples by the seed and the prompt of a request.
    """

    together: int = 1
    wrongs: list[str] = field(default_factory=list)
    """What was wrong with the requests."""

    @cached_property
    def preferences(self) -> np.ndarray:
        """The logits of each place: float64 [NUM_PLACES, width]."""
        return np.random.default_rng(0).normal(size=(NUM_PLACES, self.text.vocabulary.width))

    def tokens(self, body: dict[str, Any]) -> Iterator[Any]:
        """The tokens of an answer, some together."""
        self.check(body)
        seed = body.get("seed")
        body["rng"] = np.random.default_rng(None if seed is None else [seed, *body["prompt"]])
        body["num_sampled"] = 0
        return self.noted(joined(super().tokens(body), self.together))

    def noted(self, tokens: Iterator[Any]) -> Iterator[Any]:
        """The same tokens; an error of the stand-in is noted, too."""
        try:
            yield from tokens
        except Exception:
            self.wrongs.append(traceback.format_exc()[-1500:])
            raise

    def fault(self, body: dict[str, Any], place: int) -> Any:
        """What comes instead of a token; canaries have none, as they would wait for it longer than a round."""
        return None if is_canary(body) else super().fault(body, place)

    def noise(self, body: dict[str, Any]) -> np.ndarray:
        """What the model prefers at this place; chance comes after the mask here."""
        place = len(body["prompt"]) + body["num_sampled"]
        return self.preferences[place % NUM_PLACES].copy()

    def masked(self, logits: np.ndarray, body: dict[str, Any], matcher: Any) -> np.ndarray:
        """The logits under a mask; at first, nothing may end an answer that is to be longer."""
        logits = super().masked(logits, body, matcher)
        if body["num_sampled"] < body.get("min_tokens", 0):
            logits[[*self.text.vocabulary.stop_ids, *body["stop_token_ids"]]] = -np.inf
        return logits

    def sample(self, body: dict[str, Any], matcher: Any = None) -> LikelyToken:
        """A token by its probability under the mask."""
        unmasked = self.logits(body)
        masked = self.masked(unmasked.copy(), body, matcher)
        assert masked.max() > -np.inf, "the mask allows nothing"
        token = LikelyToken((masked + body["temperature"] * body["rng"].gumbel(size=len(masked))).argmax())
        body["num_sampled"] += 1
        if (num_top := self.num_top(body)) is not None:
            told = unmasked if self.tells_unmasked else masked
            token.logprob, token.top = log_probabilities(told, token, num_top)
        return token

    tells_unmasked = False

    def num_top(self, body: dict[str, Any]) -> int | None:
        """How many alternatives are asked for; None if no log probabilities are."""
        return body.get("logprobs")

    def check(self, body: dict[str, Any]) -> None:
        """Note what engines refuse."""
        num_tokens = body.get("max_tokens", body.get("n_predict"))
        if num_tokens < 1 or len(body["prompt"]) + num_tokens > self.context_length:
            self.wrongs.append(f"{num_tokens} tokens were asked for after {len(body['prompt'])}")
        if not all(0 <= token_id < self.text.vocabulary.width for token_id in body["prompt"]):
            self.wrongs.append("the prompt has unknown tokens")
        if not 0 <= body.get("seed", 0) < 2**63:
            self.wrongs.append(f"the seed is {body['seed']}")
        shown = self.text.tokenizer.decode(body["prompt"])
        if (images := self.images(body)) and shown.count("[image]") != len(images):
            self.wrongs.append(f"{len(images)} images for {shown!r}")

    def images(self, body: dict[str, Any]) -> list[Any]:
        """The images of a request."""
        return body.get("generate", {}).get("content_parts", [])


@dataclass
class MasksOfPlugin(Seeded):
    """An engine with the plugin: `loader` links the grammars of marks."""

    loader: GrammarLoader | None = None

    def matcher_of(self, mark: RequestMark) -> "PluginMatcher":
        """Follows an output as both plugins do."""
        return PluginMatcher(self.loader.grammar(mark.recipe, mark.parts), mark, self.text.prepared)


class PluginMatcher:
    """A masked output over logits that are wider than the vocabulary."""

    def __init__(self, grammar: OwnGrammar, mark: RequestMark, prepared: PreparedVocabulary) -> None:
        num_columns = prepared.vocabulary.width + 70
        self._output = MaskedOutput(grammar, mark, prepared, num_columns)
        self._wide = allocate_bitmask(1, num_columns)

    def accept(self, token_id: int) -> bool:
        """Advance by a token that was sampled."""
        assert self._output.accept([token_id]), "the plugin refuses a token of its own mask"
        return True

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """The mask of the next token."""
        self._output.fill(self._wide, 0)
        num_words = bitmask.shape[1]
        assert not self._wide[0, num_words:].any(), "columns beyond the vocabulary are allowed"
        bitmask[row] = self._wide[0, :num_words]


@dataclass
class SeededVllm(MasksOfPlugin, StandIn):
    """vLLM with the plugin."""


@dataclass
class SeededSglang(MasksOfPlugin, SglangStandIn):
    """SGLang with the plugin."""

    def num_top(self, body: dict[str, Any]) -> int | None:
        """How many alternatives are asked for; None if no log probabilities are."""
        asked = body["sglang"]
        return asked["top_logprobs_num"] if asked.get("return_logprob") else None

    def images(self, body: dict[str, Any]) -> list[Any]:
        """The images of a request."""
        return body["sglang"].get("image_data", [])


@dataclass
class SeededStock(Seeded, StockStandIn):
    """vLLM without the plugin."""


@dataclass
class SeededLlama(Seeded, LlamaStandIn):
    """A llama-server; it tells log probabilities from before its grammar. `writes` is that of `StandIn`."""

    writes: dict[int, Any] = field(default_factory=dict)
    num_faults: int = 0
    tells_unmasked = True

    def tokens(self, body: dict[str, Any]) -> Iterator[Any]:
        """The tokens of an answer, until one of `FAULTS` comes instead."""
        for place, (ids, ended_by) in enumerate(super().tokens(body)):
            fault = self.writes.get(place) if self.num_faults and not is_canary(body) else None
            self.num_faults -= fault is not None
            match fault:
                case None:
                    yield ids, ended_by
                case int():
                    yield [fault], None
                case "garbage":
                    yield b"data: {]\n\n", None
                case "error":
                    yield b'data: {"error": {"message": "told to fail"}}\n\n', None
                case "die" | "stall":
                    yield fault, None
                case _:
                    return

    def num_top(self, body: dict[str, Any]) -> int | None:
        """How many alternatives are asked for; None if no log probabilities are."""
        return body["n_probs"] or None

    def probability(self, token: LikelyToken, num_probs: int) -> dict[str, Any]:
        """The log probability of a token, and the highest ones."""
        tops = [{"id": other, "logprob": logprob} for other, logprob in token.top]
        return {"id": token, "logprob": token.logprob, "top_logprobs": tops}


def log_probabilities(
    logits: np.ndarray, token_id: int, num_top: int
) -> tuple[float, list[tuple[int, float]]]:
    """The log probability of a token, and the highest ones, in order."""
    values = np.maximum(logits - np.logaddexp.reduce(logits), MASKED_LOGPROB)
    top = np.argsort(-values, kind="stable")[:num_top]
    return float(values[token_id]), [(int(each), float(values[each])) for each in top]
