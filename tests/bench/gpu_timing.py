"""What bench_gpu.py times: one model with random weights, and one engine over it."""

import gc
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path

import jsonschema_rs
import torch
from gpu_workloads import Workload, measure
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    ContinuousBatchingConfig,
    GenerationConfig,
    LlamaConfig,
    PretrainedConfig,
)

from compiler.compiled_format import CompiledFormat
from compiler.prepared_vocabulary import prepare
from compiler.schema import compile_schema
from compiler.vocabulary import Vocabulary
from runtime.engine import Engine
from runtime.forward.model_runner import ModelRunner
from runtime.request import Sampling
from runtime.scheduling.sequence import Sequence, SequenceStatus
from runtime.settings import EngineSettings

ITEM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 24},
        "count": {"type": "integer"},
        "unit": {"enum": ["piece", "box", "pallet", "kg", "litre"]},
        "tags": {"type": "array", "items": {"enum": ["new", "sale", "last", "fragile"]}, "maxItems": 3},
    },
    "required": ["name", "count", "unit", "tags"],
    "additionalProperties": False,
}
SCHEMA = {"type": "array", "items": ITEM, "minItems": 16}
"""No valid output is shorter than what is timed."""

MAX_TOKENS = 4096


@dataclass(frozen=True)
class Scale:
    """A model's shape in the modules of an architecture, and how much of it is timed."""

    config: PretrainedConfig
    dtype: torch.dtype
    batches: tuple[int, ...]
    num_steps: int
    num_prompt: int
    num_rounds: int
    num_outputs: int
    beside: int
    compiled_batches: tuple[int, ...]
    copied_bytes: int


SPECIAL = {"max_position_embeddings": 8192, "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
SCALES = {
    "llama-3.1-8b": Scale(
        LlamaConfig(
            hidden_size=4096,
            intermediate_size=14336,
            num_hidden_layers=32,
            num_attention_heads=32,
            num_key_value_heads=8,
            vocab_size=128256,
            **SPECIAL,
        ),
        torch.bfloat16,
        (1, 16, 64, 128),
        num_steps=100,
        num_prompt=64,
        num_rounds=4,
        num_outputs=128,
        beside=64,
        compiled_batches=(1, 64),
        copied_bytes=4 * 2**30,
    ),
    "tiny": Scale(
        LlamaConfig(
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=4096,
            **SPECIAL,
        ),
        torch.float32,
        (1, 4),
        num_steps=6,
        num_prompt=20,
        num_rounds=1,
        num_outputs=8,
        beside=4,
        compiled_batches=(1,),
        copied_bytes=2**24,
    ),
}


class Bench:
    """One model and one engine over it."""

    def __init__(self, scale: Scale, device: torch.device, vocabulary: Vocabulary) -> None:
        self.scale, self.device = scale, device
        torch.manual_seed(0)
        with device:
            self.model = AutoModelForCausalLM.from_config(scale.config, dtype=scale.dtype).eval()
        self.weight_bytes = sum(p.nbytes for p in self.model.parameters())
        if not scale.config.tie_word_embeddings:  # else they are read as the weights of the logits
            self.weight_bytes -= self.model.get_input_embeddings().weight.nbytes
        self.vocabulary = vocabulary
        self.engine = self._engine()
        self.schema = compile_schema(SCHEMA, tokenizer=vocabulary)

    def compile_layers(self) -> float:
        """Replace the engine by one of compiled layers; seconds it takes to start, graphs included."""
        self.release()
        start = time.perf_counter()
        self.engine = self._engine(compile_layers=True)
        return time.perf_counter() - start

    def release(self) -> None:
        """Give back the cache and the graphs of the engine, and take the model's layers as they were."""
        del self.engine
        for module in self.model.modules():
            module._compiled_call_impl = None
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _engine(self, *, compile_layers: bool = False) -> Engine:
        scale = self.scale
        largest = max(scale.batches)
        length = scale.num_prompt + 2 * scale.num_steps + 32
        is_gpu = self.device.type == "cuda"  # then the cache is as large as it is in a gateway
        settings = EngineSettings(
            num_pages=None if is_gpu else 1 + max(largest * -(-length // 16), MAX_TOKENS // 16),
            max_batch=largest,
            max_batch_tokens=2048,
            compile_layers=compile_layers,
        )
        return Engine(
            ModelRunner(self.model, settings), prepare(self.vocabulary), settings, context_length=8192
        )

    def graph_sizes(self) -> tuple[int, ...] | None:
        """The batches that CUDA graphs compute; None without graphs."""
        runner = self.engine.runner
        assert isinstance(runner, ModelRunner)
        return tuple(runner.graphs.sizes) if runner.graphs else None

    def sequences(self, count: int, *, schema: CompiledFormat | None, max_tokens: int) -> list[Sequence]:
        """Different prompts; with a schema, masked as a request would be, with a closer."""
        noise = torch.Generator().manual_seed(count)
        prompts = torch.randint(
            1, self.scale.config.vocab_size - 1, (count, self.scale.num_prompt), generator=noise
        )
        return [
            Sequence(
                f"{number}",
                prompt,
                max_tokens,
                Sampling(),
                seed=number,
                matcher=schema.matcher() if schema else None,
                closer=schema.closer() if schema else None,
            )
            for number, prompt in enumerate(prompts.tolist())
        ]

    def masked_and_unmasked(self, batch: int) -> dict[str, float]:
        """Milliseconds per decode step, by turns; the medians, their ratio and how far rounds differ."""
        times: dict[bool, list[float]] = {False: [], True: []}
        rounds: dict[bool, list[float]] = {False: [], True: []}
        fills: list[float] = []
        tokens = 0
        schemas = {False: None, True: self.schema}
        for schema in schemas.values():
            self._time_steps(self.sequences(batch, schema=schema, max_tokens=MAX_TOKENS), 3)  # warm up
        for turn in range(self.scale.num_rounds):
            for masked in (False, True) if turn % 2 == 0 else (True, False):
                sequences = self.sequences(batch, schema=schemas[masked], max_tokens=MAX_TOKENS)
                measured = self._time_steps(sequences, self.scale.num_steps)
                times[masked] += measured
                rounds[masked].append(statistics.median(measured))
                if masked:
                    fills += [s.counters.fill_us_sum for s in sequences]
                    tokens += sum(s.num_output for s in sequences)
        ratios = [m / u for m, u in zip(rounds[True], rounds[False], strict=True)]
        unmasked, masked_ms = (1e3 * statistics.median(times[masked]) for masked in (False, True))
        return {
            "unmasked_ms": unmasked,
            "masked_ms": masked_ms,
            "ratio": masked_ms / unmasked,
            "ratio_least": min(ratios),
            "ratio_most": max(ratios),
            "masked_mean_ms": 1e3 * statistics.mean(times[True]),
            "unmasked_mean_ms": 1e3 * statistics.mean(times[False]),
            "masked_tokens_per_step": tokens / batch / self.scale.num_rounds / (self.scale.num_steps + 1),
            "fill_us_per_mask": sum(fills) / max(1, tokens),
        }

    def valid_outputs(self) -> dict[str, int]:
        """How many whole outputs of the random weights are valid at temperature 1: only masks keep them so."""
        compiled = compile_schema(ITEM, tokenizer=self.vocabulary)
        is_valid = jsonschema_rs.validator_for(ITEM).is_valid
        sequences = self.sequences(self.scale.num_outputs, schema=compiled, max_tokens=256)
        self._run(sequences)
        texts = [b"".join(self.vocabulary.tokens[i] for i in s.output_ids) for s in sequences]
        return {"valid": sum(is_valid(json.loads(text)) for text in texts), "of": len(texts)}

    def throughput(self, count: int) -> float:
        """Unmasked tokens a second for `count` requests at once, prompts included, after a warm-up."""
        self._run(self.sequences(count, schema=None, max_tokens=2))
        sequences = self.sequences(count, schema=None, max_tokens=2 * self.scale.num_steps)
        start = time.perf_counter()
        self._run(sequences)
        return sum(s.num_output for s in sequences) / (time.perf_counter() - start)

    def throughput_of_transformers(self, count: int) -> float:
        """The same by transformers' own continuous batching, after a warm-up; its cache replaces ours."""
        max_tokens = 2 * self.scale.num_steps
        prompts = [s.prompt_ids for s in self.sequences(count, schema=None, max_tokens=max_tokens)]
        self.release()
        self.model.set_attn_implementation("sdpa")
        config = GenerationConfig(
            max_new_tokens=max_tokens, do_sample=True, temperature=1.0, eos_token_id=-1, pad_token_id=0
        )
        # On a GPU it sizes itself; elsewhere it would take what memory there is.
        sizes = (
            None
            if self.device.type == "cuda"
            else ContinuousBatchingConfig(num_blocks=32, max_batch_tokens=256)
        )
        self.model.generate_batch(prompts[:2], config, continuous_batching_config=sizes)
        start = time.perf_counter()
        outputs = self.model.generate_batch(prompts, config, continuous_batching_config=sizes)
        num_tokens = sum(len(output.generated_tokens) for output in outputs.values())
        elapsed = time.perf_counter() - start
        if num_tokens < count * max_tokens:
            raise RuntimeError(f"only {num_tokens} of {count * max_tokens} tokens were generated")
        return num_tokens / elapsed

    def under(self, workload: Workload) -> dict[str, float]:
        """A workload on the engine, as large as its cache allows without preempting anything."""
        scale, pool = self.scale, self.engine.pool
        num_output = 2 * scale.num_steps
        room = pool.num_usable * pool.page_size // scale.beside - num_output
        return measure(
            self.engine,
            workload,
            count=scale.beside,
            num_output=num_output,
            num_ids=scale.config.vocab_size - 1,
            most=min(room, self.engine.context_length - num_output),
        )

    def kernels(self) -> dict[str, float]:
        """Microseconds of the device by kernel, in one step at batch 1."""
        (sequence,) = self.sequences(1, schema=self.schema, max_tokens=MAX_TOKENS)
        self._time_steps([sequence], 3, stop=False)
        with torch.profiler.profile() as profile:
            for _ in range(10):
                self.engine.step()
        self.engine.stop(sequence)
        events = [e for e in profile.key_averages() if e.self_device_time_total > 0]
        events.sort(key=lambda e: -e.self_device_time_total)
        return {e.key[:80]: e.self_device_time_total / 10 for e in events[:25]}

    def _run(self, sequences: list[Sequence]) -> None:
        """Run all to their ends; if that fails, none stays behind to disturb what is measured next."""
        added = []
        try:
            for sequence in sequences:
                self.engine.add(sequence)
                added.append(sequence)
            while self.engine.has_work:
                self.engine.step()
        except Exception:
            for sequence in added:
                self.engine.stop(sequence)
            raise

    def _time_steps(self, sequences: list[Sequence], num_steps: int, *, stop: bool = True) -> list[float]:
        """Seconds of each decode step of a whole batch. A step ends when the drawn ids have arrived."""
        for sequence in sequences:
            self.engine.add(sequence)
        while any(sequence.num_output == 0 for sequence in sequences):
            self.engine.step()
        times = []
        for _ in range(num_steps):
            start = time.perf_counter()
            self.engine.step()
            times.append(time.perf_counter() - start)
        ended = [s for s in sequences if s.status is SequenceStatus.FINISHED]
        for sequence in sequences if stop else ():
            self.engine.stop(sequence)
        if 10 * len(ended) > len(sequences):
            raise RuntimeError(f"{len(ended)} of {len(sequences)} sequences ended while they were timed")
        return times


def copy_rate(device: torch.device, num_bytes: int) -> float:
    """Bytes a second that a large copy reads and writes."""
    source = torch.randint(-128, 127, (num_bytes,), dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    times = []
    for _ in range(10):
        _wait(device)
        start = time.perf_counter()
        target.copy_(source)
        _wait(device)
        times.append(time.perf_counter() - start)
    return 2 * num_bytes / statistics.median(times)


def vocabulary_for(width: int, folder: Path) -> Vocabulary:
    """The first tokens of a real tokenizer, or made-up ones; the last id is the stop token."""
    if folder.is_dir():
        tokens = list(Vocabulary.from_tokenizer(AutoTokenizer.from_pretrained(folder)).tokens)
    else:
        tokens = list(dict.fromkeys(islice(_spellings(), 2 * width)))
    return Vocabulary.from_tokens([*tokens[: width - 1], b""], stop_ids=(width - 1,), width=width)


def _spellings() -> Iterator[bytes]:
    """Bytes, numbers, punctuation and words, with and without a blank before them."""
    yield from (bytes([i]) for i in range(256))
    yield from (b"%d" % i for i in range(1000))
    marks = [b'"', b"{", b"}", b"[", b"]", b":", b",", b" "]
    for length in (2, 3):
        yield from map(b"".join, product(marks, repeat=length))
    letters = [bytes([i]) for i in b"etaoinshrdlucmfwypvbgkjqxz"]
    for length in (2, 3, 4):
        for word in map(b"".join, product(letters, repeat=length)):
            yield word
            yield b" " + word


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
