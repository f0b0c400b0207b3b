"""The settings of models: which are served, what runs them, and how they generate."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from gateway.http.plain_reasons import URL_PATTERN
from runtime.models import DEMO_MODEL, spell_model
from runtime.selection import MAX_SELECTION
from toolspecs.tool import ShownTools

Count = Annotated[int, Meta(ge=1)]
EngineName = Literal["embedded", "vllm", "vllm_stock", "sglang", "llama_server"]
"""What runs a model: this process, or an engine of a row of `ENGINE_KINDS`, whose imports take seconds."""
SamplingDefaults = Literal["model", "openai"]
EngineURL = Annotated[str, Meta(pattern=URL_PATTERN)]


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model; a TOML file may have several, as tables `[[models]]` with these fields.

    Fields that `Settings` has too mean the same there. `aliases` are other names under which clients ask for
    the model, such as `gpt-4o`; `*` stands for any text. The gateway sends `engine_headers` to its engines,
    and, unless `engine_seeds` is false, the seeds of clients. With `engine_shared_prefixes`, clients share
    prefixes in the engine's cache, which they can notice by response times and by the count of cached tokens.
    With `engine_images`, the gateway sends the images of messages, because the model reads images. With
    `engine_units` inline, it sends compiled tools with each request, not through the store.
    """

    model: Annotated[str, Meta(min_length=1)]
    model_name: str | None = None
    aliases: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    syntax: str | None = None
    adapter: str | None = None
    engine: EngineName = "embedded"
    engine_url: tuple[EngineURL, ...] = ()
    engine_model: str | None = None
    engine_key_file: str | None = None
    engine_ca_bundle: str | None = None
    engine_headers: dict[str, str] = {}
    engine_seeds: bool = True
    engine_shared_prefixes: bool = False
    engine_images: bool = False
    engine_units: Literal["store", "inline"] = "store"
    tokenizer: str | None = None
    prompt_tools: ShownTools = ShownTools.ALL
    tool_search: Count | None = None
    sampling_defaults: SamplingDefaults = "model"

    @property
    def reads_store(self) -> bool:
        """Whether its engine reads grammars from the store."""
        return self.engine in USED_BY["engine_units"] and self.engine_units == "store"

    def unused_field(self) -> str | None:
        """The first field that is set, and not to "", although the model's engine does not use it."""
        default = ModelSettings(model=self.model)
        return next(
            (
                name
                for name, engines in USED_BY.items()
                if self.engine not in engines and getattr(self, name) not in (getattr(default, name), "")
            ),
            None,
        )


_EXTERNAL: tuple[EngineName, ...] = tuple(name for name in get_args(EngineName) if name != "embedded")

USED_BY: Mapping[str, tuple[EngineName, ...]] = {
    "adapter": ("embedded",),
    "engine_model": _EXTERNAL,
    "engine_key_file": _EXTERNAL,
    "engine_ca_bundle": _EXTERNAL,
    "engine_headers": _EXTERNAL,
    "engine_seeds": _EXTERNAL,
    "engine_images": ("vllm", "vllm_stock", "sglang"),
    "engine_units": ("vllm", "sglang"),
    "tokenizer": _EXTERNAL,
}
"""The engines that use a field of `ModelSettings`; all engines use the fields that are not named here."""


class GenerationSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The part of `Settings` that is about models and how they generate.

    The first fields are those of the only model; `models` replaces them where there are several.
    """

    model: Annotated[
        str,
        Meta(
            min_length=1,
            description="Model to serve: a directory, a GGUF file, a hub id, `tiny` (bundled), `smollm2`,"
            " `smollm2-base`, `random`, or `demo`: `smollm2` where it is installed, else `tiny`.",
        ),
    ] = DEMO_MODEL
    adapter: Annotated[
        str | None,
        Meta(description="Directory of a LoRA adapter in peft's format, merged into the model."),
    ] = None
    model_name: Annotated[
        str | None,
        Meta(description="Name under which the model is served; by default the last part of `model`."),
    ] = None
    syntax: Annotated[
        str | None,
        Meta(description="Syntax of tool calls (hermes, llama3, …); by default that of the chat template."),
    ] = None
    engine: Annotated[
        EngineName,
        Meta(
            description="What runs the model: embedded (this process), or a server at `engine_url`: vllm or"
            " sglang with Callgate's plugin, vllm_stock without it, or llama_server (llama.cpp's own)."
        ),
    ] = "embedded"
    engine_url: Annotated[
        tuple[EngineURL, ...],
        Meta(
            description="URL of the engine's server, such as http://host:8000. Several, separated by commas"
            " or by repeating the option, are replicas."
        ),
    ] = ()
    engine_model: Annotated[
        str | None,
        Meta(description="Name of the model at its engine; by default the only one that the engine serves."),
    ] = None
    engine_key_file: Annotated[
        str | None, Meta(description="File with the API key that is sent to the engine.")
    ] = None
    engine_ca_bundle: Annotated[
        str | None,
        Meta(description="File of CA certificates that the engine's certificate is checked against."),
    ] = None
    tokenizer: Annotated[
        str | None,
        Meta(description="Tokenizer and chat template for an external engine; by default those of `model`."),
    ] = None
    prompt_tools: Annotated[
        ShownTools,
        Meta(
            description="Tools whose definitions the prompt shows, unless the request says which: all,"
            " allowed (those that the tool choice allows), none."
        ),
    ] = ShownTools.ALL
    tool_search: Annotated[
        Count | None,
        Meta(
            description="Most tools that the prompt shows, unless the request or the toolset says how many:"
            " those that fit the conversation best. By default all are shown."
        ),
    ] = None
    sampling_defaults: Annotated[
        SamplingDefaults,
        Meta(
            description="Sampling where a request does not say: model, as the model's generation_config.json"
            " recommends (temperature, top_p, top_k, min_p, repetition_penalty); openai, temperature 1."
        ),
    ] = "model"
    tool_embeddings: Annotated[
        str | None,
        Meta(
            description="Model by which tool search also finds tools by their meaning: `minilm`, if its"
            " package is installed, or the directory of a sentence-embedding model. By default words alone"
            " decide."
        ),
    ] = None
    device: Annotated[str, Meta(description="Device the model runs on: auto, cpu, cuda, cuda:1, ….")] = "auto"
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16", "float64"],
        Meta(description="Type of the weights: auto, float32, bfloat16, float16, float64."),
    ] = "auto"
    max_batch: Annotated[int, Meta(ge=1, description="Sequences decoded together.")] = 16
    max_waiting: Annotated[int, Meta(ge=1, description="Requests queued before new ones get 429.")] = 256
    max_sequences_per_key: Annotated[
        int,
        Meta(
            ge=1,
            description="Sequences of one client (a tenant, an API key or, without keys, an address), running"
            " or queued, before it gets 429; a request has one for each of its `n` choices.",
        ),
    ] = 128
    kv_bytes: Annotated[
        Annotated[int, Meta(ge=1 << 20)] | None,
        Meta(
            description="Memory for the KV cache, in bytes; by default 512 MiB on a CPU, and on a GPU what"
            " the model and its largest batch leave, less a tenth of the GPU."
        ),
    ] = None
    cuda_graphs: Annotated[
        bool,
        Meta(
            description="Record decode steps as CUDA graphs on a GPU; off where a model cannot be recorded."
        ),
    ] = True
    context_length: Annotated[
        Annotated[int, Meta(ge=16)] | None,
        Meta(description="Longest prompt and answer together, in tokens; by default the model's."),
    ] = None
    default_max_tokens: Annotated[
        Count | None,
        Meta(
            description="Token budget of a request that sets none; by default 512 for `demo` and the other"
            " named models, which tend to ramble, and 2048 for all others."
        ),
    ] = None
    num_threads: Annotated[
        Count | None,
        Meta(description="Threads for a model on the CPU; by default the cores that it may use."),
    ] = None
    jump_forward: Annotated[
        bool,
        Meta(
            description="Write text that the grammar forces at once, instead of sampling it token by token."
        ),
    ] = True
    accept: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_SELECTION)] | None,
        Meta(
            description="Most answers that are drawn until one is accepted, so that answers are distributed"
            " as the model's own; at temperature 0, most that a search for the best one begins. Applies to"
            " answers that are not streamed, unless the request says how many; 1 is plain masking. By default"
            " 8 with the embedded engine and 1 with others, which cannot share what answers have in common.",
        ),
    ] = None
    particles: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_SELECTION,
            description="Answers that are drawn together for the same purpose as `accept`, instead of it."
            " At temperature 0, they are an `accept` of the same number.",
        ),
    ] = 1
    draft: Annotated[
        bool,
        Meta(
            description="Let the model write without a mask first, if the answer is not streamed and the"
            " request does not say; an invalid output is written again under the mask."
        ),
    ] = False
    request_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Longest time for an answer, in seconds; a request may ask for less."),
    ] = None
    max_choices: Annotated[int, Meta(ge=1, description="Largest `n` of one request.")] = 16

    models: tuple[ModelSettings, ...] = ()
    """Several models instead of `model` and the settings of its engine; only a TOML file can have them."""

    @property
    def served_models(self) -> tuple[ModelSettings, ...]:
        """The models to serve."""
        shared = (name for name in ModelSettings.__struct_fields__ if name in self.__struct_fields__)
        return self.models or (ModelSettings(**{name: getattr(self, name) for name in shared}),)

    @property
    def spelled_models(self) -> str:
        """The models to serve, for people to read."""
        return ", ".join(spell_model(model.model) for model in self.served_models)
