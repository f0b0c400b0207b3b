"""transformers by itself: `generate` in batches under xgrammar's masks, and its continuous batching, unmasked."""

import time
from pathlib import Path
from typing import Any, Self

import xgrammar as xgr
from output_reader import OutputReader
from side_by_side.answer import Answer, Run
from side_by_side.workload import Workload
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.generation import ContinuousBatchingConfig, GenerationConfig
from xgrammar.contrib.hf import LogitsProcessor

from compiler.syntaxes import find_syntax


class Transformers:
    """A loaded model and its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, folder: Path, *, dtype: str) -> Self:
        """From a directory in transformers' format."""
        return cls(
            AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval(),
            AutoTokenizer.from_pretrained(folder, padding_side="left"),
        )

    def grammar(self, workload: Workload) -> xgr.CompiledGrammar:
        """What `generate` is masked with: xgrammar's own structural tag for this way to spell calls."""
        vocabulary = xgr.TokenizerInfo.from_huggingface(
            self._tokenizer, vocab_size=self._model.config.vocab_size
        )
        tag = xgr.get_model_structural_tag(
            "qwen_3", list(workload.tools), "required", "disabled", parallel_tool_calls=False
        )
        return xgr.GrammarCompiler(vocabulary).compile_structural_tag(tag)

    def generate(
        self, workload: Workload, grammar: xgr.CompiledGrammar, *, concurrency: int, num_requests: int
    ) -> Run:
        """Batches as large as `concurrency`, one after the other; a batch lasts as long as its longest answer."""
        answers: list[Answer] = []
        start = time.perf_counter()
        for first in range(0, num_requests, concurrency):
            begun = time.perf_counter()
            numbers = range(first, min(first + concurrency, num_requests))
            inputs = self._tokenizer.apply_chat_template(
                [workload.request(number)["messages"] for number in numbers],
                **self._template_options(workload),
                padding=True,
                return_tensors="pt",
                return_dict=True,
            )
            output = self._model.generate(
                **inputs,
                logits_processor=[LogitsProcessor(grammar)],
                max_new_tokens=workload.max_tokens,
                do_sample=True,
                top_k=0,
            )
            seconds = time.perf_counter() - begun
            written = output[:, inputs["input_ids"].shape[1] :].tolist()
            answers += [self._answer(ids, workload, seconds) for ids in written]
        return Run(concurrency, time.perf_counter() - start, tuple(answers))

    def generate_continuously(self, workload: Workload, *, concurrency: int, num_requests: int) -> Run:
        """Continuous batching, which takes no mask per request: its tokens are counted, not its calls."""
        prompts = [
            self._tokenizer.apply_chat_template(
                workload.request(number)["messages"], **self._template_options(workload), return_dict=False
            )
            for number in range(num_requests)
        ]
        generation = GenerationConfig(
            max_new_tokens=workload.max_tokens,
            do_sample=True,
            top_k=0,
            eos_token_id=self._model.config.eos_token_id,
        )
        settings = ContinuousBatchingConfig(max_requests_per_batch=concurrency)
        start = time.perf_counter()
        outputs = self._model.generate_batch(
            prompts, generation_config=generation, continuous_batching_config=settings, warmup=False
        )
        seconds = time.perf_counter() - start
        answers = (Answer(seconds, len(output.generated_tokens), 0, 0) for output in outputs.values())
        return Run(concurrency, seconds, tuple(answers))

    def _template_options(self, workload: Workload) -> dict[str, Any]:
        return {"tools": list(workload.tools), "add_generation_prompt": True, "tokenize": True}

    def _answer(self, ids: list[int], workload: Workload, seconds: float) -> Answer:
        if (end := self._model.config.eos_token_id) in ids:
            ids = ids[: ids.index(end)]
        calls = _calls_in(self._tokenizer.decode(ids))
        return Answer(seconds, len(ids), len(calls), sum(map(workload.is_valid, calls)))


def _calls_in(text: str) -> list[dict[str, Any]]:
    """The calls of an answer in OpenAI's shape, broken ones included."""
    calls: list[dict[str, Any]] = []
    for kind, part in OutputReader(text, find_syntax("hermes")).read():
        if kind == "CallStart":
            calls.append({"function": {"name": part, "arguments": ""}})
        elif kind == "ArgumentsPart":
            calls[-1]["function"]["arguments"] = part
    return calls
