"""Worlds: a gateway over two engines of one tiny model with random weights, in one call syntax.

The engine `tight` has few pages and small batches, so that sequences are preempted. `alone` has room, shares
no prefix, and answers one request at a time: what it writes with a seed, `tight` must write too.
`request_fuzz.engine_worlds` has the worlds with external engines.
"""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, pre_tokenizers

from compiler.syntaxes import SYNTAXES, THINK, find_syntax
from gateway.app import create_app
from gateway.settings import Settings
from runtime.embedded import EmbeddedRuntime
from runtime.loading import LoadedModel, load_model
from runtime.model_router import ModelRouter, RoutedModel
from runtime.models.random_model import RandomModelSettings, build_weights, train_tokenizer
from runtime.selection import DRAFT, Selection
from runtime.settings import EngineSettings

_TEMPLATE = r"""
{%- for tool in tools or [] %}{{- tool.function.name + '\n' }}{%- endfor %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' }}
    {%- if message.content is string %}{{- message.content }}{%- else %}
        {%- for part in message.content %}{{- '[image]' if part.type == 'image' else part.text }}{%- endfor %}
    {%- endif %}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>\n' + call.function.name + call.function.arguments | tojson + '</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined %}
    {%- if enable_thinking %}{{- '<think>\n' }}{%- else %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}
"""
"""A short one, so that most of a small context is left to the answer."""
_MARKER = re.compile(r"<[^<>\n ]+>|\[[A-Z_]+\]|</?\uff5cDSML\uff5c[^<>\n\"]*")
_WORDS = (
    *("the", "of", "to", "it", "is", "on", "red", "one", "place", "day", "pay", "2024-01-02", "0.5", "true"),
)
SECRET = b"0123456789abcdef"
CLOSING = ('"', '"}', '"]', "]", "}", "}}", ", ", '", "', "\n")


def syntax_names() -> list[str]:
    """All rows, and those that can think first."""
    return [*SYNTAXES, *(name + THINK for name, row in SYNTAXES.items() if not row.messages)]


def _texts() -> list[str]:
    """The fixed texts of all rows."""
    texts = []
    for row in SYNTAXES.values():
        texts += [row.opening + row.header("f"), row.end + (row.separator or ""), row.closing, row.trigger]
        texts += [frame.begin + "a" + frame.end for frame in row.messages] + [row.message_separator]
        texts += [row.after_number or ""]
        if row.tags:
            texts += [
                row.tags.begin + "a" + row.tags.after_key,
                row.tags.end,
                row.tags.after_string_key or "",
            ]
    return [text for text in texts if text]


def _lines(rng: random.Random) -> Any:
    fixed = _texts()
    for _ in range(1500):
        words = [rng.choice(_WORDS) for _ in range(rng.randint(2, 8))]
        yield " ".join(words) + ". "
        yield json.dumps({words[0]: words[1], words[-1]: [rng.randrange(999), words[0]]})
        yield rng.choice(fixed) + '{"a": "b"}' + rng.choice(fixed)


@cache
def tiny_model(folder: Path, *, has_markers: bool) -> LoadedModel:
    """The model; with markers, whatever a call syntax writes in brackets is a token of its own."""
    target = folder / f"tiny-{has_markers}"
    tokenizer = train_tokenizer(
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        _lines(random.Random(0)),
        640,
        chat_template=_TEMPLATE,
        context_length=2048,
    )
    markers = {"<think>", "</think>"}
    if has_markers:
        markers |= {marker for text in _texts() for marker in _MARKER.findall(text)}
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in sorted(markers)])
    settings = RandomModelSettings(
        hidden_size=16, num_layers=1, num_heads=2, context_length=2048, call_bias=6, stop_bias=6
    )
    model = build_weights(tokenizer, settings)
    vocabulary = tokenizer.get_vocab()
    for marker in markers:
        model.lm_head.bias.data[vocabulary[marker]] = 5.0
    for text in CLOSING:
        for token_id in tokenizer.encode(text)[:1]:
            model.lm_head.bias.data[token_id] = 4.5
    target.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)
    return load_model(target, device="cpu", dtype="float64")


@dataclass(kw_only=True)
class World:
    """A running gateway; it serves the models `tight` and `alone`, which must give the same answers."""

    app: Any
    told: str
    """What was drawn."""
    syntax: Any
    has_markers: bool
    context_length: int
    default_max_tokens: int
    selection: Selection
    vocabulary: Any
    refused: frozenset[str] = frozenset()
    """The fields that engines of this kind refuse."""
    takes_images: bool = False
    is_faulty: bool = False
    """Whether the engine `tight` breaks off, so that answers may be errors, and differ."""
    may_be_full: bool = False
    """Whether some requests of a batch may be too many."""
    closers: frozenset[str | None] = frozenset({"budget"})
    """What may close an answer before its budget is used up; None: an answer that is complete may end where
    the model wrote a token that would have begun more than the budget has room for."""
    least_tokens: int = 1
    """Of an answer."""
    tells_each_logprob: bool = True
    """Also those of the first tokens of a character of several."""
    honours_seeds: bool = True

    async def settle(self) -> None:
        """Wait until nothing runs; then nothing may be remembered of a request."""
        raise NotImplementedError

    def counts(self) -> dict[str, int]:
        """What happened in the engines."""
        raise NotImplementedError


def gateway_settings(folder: Path) -> Settings:
    """The settings of the gateways of all worlds."""
    return Settings(
        data_dir=str(folder),
        secret=SECRET.decode(),
        compile_workers=0,
        console=False,
        trusted_proxies="127.0.0.1",
        response_seconds=60,
    )


@dataclass(kw_only=True)
class EmbeddedWorld(World):
    """A gateway with embedded engines."""

    tight: EmbeddedRuntime
    alone: EmbeddedRuntime

    def counts(self) -> dict[str, int]:
        """How many sequences were preempted."""
        return {"preempted": self.tight._thread.engine.scheduler.num_preempted}

    async def settle(self) -> None:
        """Wait until nothing runs; then no page may be in use, and nothing may be remembered of a request."""
        for runtime in (self.tight, self.alone):
            thread = runtime._thread
            for _ in range(1000):
                health = await runtime.health()
                [load] = health.loads
                if not (load.num_running or load.num_waiting or thread._jobs or thread._by_sequence):
                    break
                await asyncio.sleep(0.01)
            assert health.is_ready, health.reason
            assert load.num_running + load.num_waiting == 0, f"{load} still runs"
            assert not thread._jobs, "a job is remembered"
            assert not thread._by_sequence, "a sequence is remembered"
            pool = thread.engine.pool
            assert pool.num_free == pool.num_usable, f"{pool.num_usable - pool.num_free} pages are in use"
            thread.engine.check_integrity()


@asynccontextmanager
async def embedded_world(
    rng: random.Random, folder: Path, *, syntax: str | None = None
) -> AsyncIterator[World]:
    """A gateway with embedded engines, drawn at random."""
    has_markers = rng.random() < 0.5
    name = syntax or rng.choice(syntax_names())
    loaded = replace(tiny_model(folder, has_markers=has_markers), syntax=name)
    page_size = rng.choice((4, 8, 16))
    context = rng.choice((160, 256, 400))
    selection = rng.choice(
        (Selection(), Selection(), Selection("accept", 4), Selection("particles", 3), DRAFT)
    )
    max_batch = rng.choice((3, 6, 12))
    settings = EngineSettings(
        page_size=page_size,
        num_pages=2 + int(context * rng.choice((1.0, 1.5, 3)) / page_size),
        max_batch_tokens=rng.choice((max_batch + 5, 64, 512)),
        max_batch=max_batch,
        max_waiting=256,
        context_length=context,
        default_max_tokens=rng.choice((40, 90)),
        num_threads=1,
        dtype="float64",
        shares_prefixes=rng.random() < 0.3,
        selection=selection,
        jump_forward=rng.random() < 0.8,
    )
    tight = EmbeddedRuntime(replace(loaded, model_id="tight"), settings)
    length = tight._thread.engine.context_length
    roomy = replace(
        settings, page_size=16, num_pages=1000, max_batch_tokens=512, max_batch=64, context_length=length
    )
    alone = EmbeddedRuntime(replace(loaded, model_id="alone"), roomy)
    alone._thread.engine.pool.match = lambda digests: []  # type: ignore[method-assign] # no prefix is found
    router = ModelRouter([RoutedModel("tight", tight), RoutedModel("alone", alone)])
    app = create_app(gateway_settings(folder), runtime=router)
    async with app.lifespan():
        yield EmbeddedWorld(
            app=app,
            told=f"{name}{' markers' if has_markers else ''} {settings}",
            syntax=find_syntax(name),
            has_markers=has_markers,
            context_length=length,
            default_max_tokens=settings.default_max_tokens,
            selection=selection,
            vocabulary=loaded.vocabulary,
            tight=tight,
            alone=alone,
        )
