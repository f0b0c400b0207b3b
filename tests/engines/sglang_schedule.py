"""SGLang's own grammar code with the plugin in it, without an engine around it: run in a process of its own.

    python sglang_schedule.py MARK OTHER_MARK

SGLang's: finding the plugin, its hooks, `GrammarManager`, its backend of xgrammar, the masks of a batch and how
they are applied. Stood in for: the scheduler and its requests, the settings, the model, whose logits are random,
and the device, which is the CPU. It prints JSON: what was written, and what failed and why.
"""

import json
import sys
from types import SimpleNamespace

import torch
from engine_models import model_config, prepared, tokenizer
from sglang.srt.constrained import base_grammar_backend, grammar_manager
from sglang.srt.plugins import load_plugins
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
from sglang.srt.sampling.sampling_params import SamplingParams

OWN = 'root ::= "{" [a-c]+ "}"'
NUM_TOKENS = 80


class Request(SimpleNamespace):
    """As much of a `Req` as is used."""

    def __init__(self, ebnf: str | None) -> None:
        parameters = SamplingParams(ebnf=ebnf)
        super().__init__(
            rid="r",
            sampling_params=parameters,
            origin_input_ids=[1],
            require_reasoning=False,
            grammar=None,
            grammar_key=None,
            grammar_wait_ct=0,
            aborted_for="",
            output_ids=[],
        )

    def finished(self) -> bool:
        return bool(self.aborted_for)

    def set_finish_with_abort(self, reason: str) -> None:
        self.aborted_for = reason


def set_up() -> None:
    """The settings that SGLang reads of its context, which knows them in an engine only."""
    exec_ = SimpleNamespace(kernel=SimpleNamespace(grammar_backend="xgrammar"))
    serving = SimpleNamespace(
        skip_tokenizer_init=False,
        enable_strict_thinking=False,
        reasoning_parser=None,
        constrained_json_disable_any_whitespace=False,
        constrained_json_max_whitespace_cnt=None,
    )
    base_grammar_backend.get_exec = lambda: exec_
    base_grammar_backend.get_serving = grammar_manager.get_serving = lambda: serving
    grammar_manager.get_parallel = lambda: SimpleNamespace(pp_rank=0, pp_size=1)


def scheduler() -> SimpleNamespace:
    vocabulary = prepared().vocabulary
    model = SimpleNamespace(
        vocab_size=vocabulary.width,
        hf_eos_token_id=set(vocabulary.stop_ids),
        think_end_ids=None,
        hf_config=model_config(),
        hf_generation_config=None,
    )
    alone = SimpleNamespace(world_size=1, first_rank=0, is_first_rank=True)
    return SimpleNamespace(
        server_args=None,
        tokenizer=tokenizer(),
        model_config=model,
        dp_tp_cpu_group=None,
        dp_tp_group=alone,
        pp_group=None,
    )


def ready(manager: grammar_manager.GrammarManager, requests: list[Request]) -> None:
    waiting = [request for request in requests if manager.process_req_with_grammar(request)]
    while waiting:
        done = manager.get_ready_grammar_requests()
        waiting = [request for request in waiting if not any(request is one for one in done)]


def masked(requests: list[Request], logits: torch.Tensor) -> torch.Tensor:
    batch = SimpleNamespace(
        grammars=[request.grammar for request in requests],
        temperatures=[1.0] * len(requests),
        vocab_size=logits.shape[1],
        device="cpu",
    )
    SamplingBatchInfo.update_regex_vocab_mask(batch)
    batch.grammar_mask.apply(logits)
    return batch.grammar_mask.vocab_mask


def main(marks: list[str]) -> dict:
    load_plugins()
    generator = torch.Generator().manual_seed(1)
    forged = marks[0].replace("#callgate:1:", "#callgate:1:00", 1)
    set_up()
    manager = grammar_manager.GrammarManager(scheduler())
    requests = [Request(mark) for mark in marks] + [Request(OWN), Request(None), Request(forged)]
    ready(manager, requests)
    failed = requests.pop()
    assert isinstance(failed.grammar, base_grammar_backend.InvalidGrammarObject)
    running = list(requests)
    masks = []
    for _ in range(NUM_TOKENS):
        logits = torch.randn(len(running), prepared().vocabulary.width, generator=generator)
        bits = masked(running, logits)
        masks.append([bits[row].tolist() for row, one in enumerate(running) if one in requests[:2]])
        for request, row in zip(list(running), logits, strict=True):
            token = int(row.argmax())
            if request.grammar is not None:
                request.grammar.accept_token(token)
            request.output_ids.append(token)
            if request.grammar is not None and request.grammar.is_terminated():
                running.remove(request)
        if len(running) == 1:
            break
    return {
        "backend": type(manager.grammar_backend).__name__,
        "outputs": [request.output_ids for request in requests],
        "masks": masks,
        "failed": failed.aborted_for,
        "cached": [key[1] for key in manager.grammar_backend.cache],
    }


if __name__ == "__main__":
    print("result", json.dumps(main(sys.argv[1:])))
