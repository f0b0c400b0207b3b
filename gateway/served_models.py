"""Starts the models in the settings, loaded here or run by external engines, behind one runtime."""

import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from compiler.prepared_vocabulary import PreparedVocabulary
from gateway.data_dir import read_secret
from gateway.errors import SettingsError
from gateway.generation.tool_vectors import Embedder
from gateway.model_settings import ModelSettings
from gateway.settings import Settings
from gateway.usable_cores import num_usable_cores
from runtime.engines.client import EngineAddress, EngineClient
from runtime.engines.engine_kinds import ENGINE_KINDS
from runtime.model_router import ModelRouter, RoutedModel
from runtime.models import NAMED_MODELS, find_source
from runtime.protocol import Runtime
from runtime.request import OPENAI_SAMPLING
from runtime.selection import DRAFT, Selection

DEFAULT_MAX_TOKENS = 2048
NAMED_MAX_TOKENS = 512
"""The default for models to try things with: they are small, and ramble."""
EMBEDDED_SELECTION = Selection("accept", 8)
"""It is right as often as drawing until valid, and costs less (docs/study.md). External engines cannot share
what answers have in common: a model that does not want to call would write eight whole answers."""

OnVocabulary = Callable[[PreparedVocabulary], None]
"""Called with the vocabulary of each model as soon as it is known, before its weights are read."""


def start_runtime(settings: Settings, on_vocabulary: OnVocabulary) -> Runtime:
    """Load the models, and start the engines of those that run in this process; blocks for seconds.

    Raises:
        ModelLoadError: a model cannot be loaded; with path and reason.
        SettingsError, UnusableDevice, UnknownSyntax: a setting does not fit the model or the machine.
    """
    models = settings.served_models
    names = [model_name(model) for model in models]
    if twice := next((name for name in names if names.count(name) > 1), None):
        reason = f"two models are named {twice!r}; give one another `model_name`"
        raise SettingsError("models", "the settings", reason)
    return ModelRouter(
        [
            RoutedModel(
                name,
                start_model(settings, model, on_vocabulary),
                aliases=model.aliases,
                prompt_tools=model.prompt_tools,
                tool_search=model.tool_search,
                sampling=OPENAI_SAMPLING if model.sampling_defaults == "openai" else None,
            )
            for name, model in zip(names, models, strict=True)
        ]
    )


def start_model(settings: Settings, model: ModelSettings, on_vocabulary: OnVocabulary) -> Runtime:
    """The runtime of one model; raises what `start_runtime` raises."""
    start = start_embedded if model.engine == "embedded" else connect_remote
    return start(settings, model, on_vocabulary)


def connect_remote(settings: Settings, model: ModelSettings, on_vocabulary: OnVocabulary) -> Runtime:
    """The runtime of a model that external engines run; only its tokenizer is loaded.

    Raises:
        ModelLoadError: the tokenizer cannot be loaded.
        SettingsError: the engine's key or certificates cannot be read.
    """
    from runtime.engines.remote import RemoteRuntime, RemoteSettings  # noqa: PLC0415 - as below
    from runtime.text.tokenizer import load_tokenizer  # noqa: PLC0415

    source = model.tokenizer or find_source(model.model, Path(settings.data_dir)).model
    loaded = load_tokenizer(source, model_id=model_name(model), syntax=model.syntax)
    on_vocabulary(loaded.prepared)
    if settings.context_length is not None:
        loaded = replace(loaded, context_length=min(loaded.context_length, settings.context_length))
    remote = RemoteSettings(
        model_name=model.engine_model,
        default_max_tokens=default_max_tokens(settings, model),
        max_sequences=settings.max_waiting + settings.max_batch,
        max_sequences_per_client=settings.max_sequences_per_key,
        jump_forward=settings.jump_forward,
        selection=default_selection(settings),
        sends_seeds=model.engine_seeds,
        shares_prefixes=model.engine_shared_prefixes,
        takes_images=model.engine_images,
        sends_units=model.engine_units == "inline",
    )
    return RemoteRuntime(
        loaded,
        open_clients(model, loaded.prepared),
        remote,
        secret=read_secret(settings),
        write_grammar=ENGINE_KINDS[model.engine].write_grammar,
    )


def open_clients(model: ModelSettings, prepared: PreparedVocabulary) -> list[EngineClient]:
    """A client for each engine of a model.

    Raises:
        SettingsError: the engine's key or certificates cannot be read.
    """
    try:
        key = Path(model.engine_key_file).read_text("utf-8").strip() if model.engine_key_file else None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError("engine_key_file", "", f"it cannot be read: {error}") from error
    try:
        addresses = [
            EngineAddress(url, key, model.engine_headers, model.engine_ca_bundle) for url in model.engine_url
        ]
        return [ENGINE_KINDS[model.engine].connect(address, prepared) for address in addresses]
    except (OSError, ssl.SSLError) as error:
        raise SettingsError("engine_ca_bundle", "", f"it cannot be read: {error}") from error


def load_embedder(settings: Settings) -> Embedder | None:
    """The model that embeds tools and requests for tool search; None if the settings name none.

    Raises:
        ModelLoadError: it cannot be loaded.
    """
    if settings.tool_embeddings is None:
        return None
    from runtime.loading import hide_progress_bars  # noqa: PLC0415 - as above
    from runtime.sentence_embedder import SentenceEmbedder  # noqa: PLC0415

    hide_progress_bars()
    return SentenceEmbedder.load(settings.tool_embeddings)


def default_selection(settings: Settings, usual: Selection | None = None) -> Selection:
    """How answers are selected if a request does not say, and as `usual` if the settings do not say either.

    Raises:
        SettingsError: the settings contradict.
    """
    selections = {
        "accept": Selection("accept", settings.accept or 1),
        "particles": Selection("particles", settings.particles),
        "draft": DRAFT if settings.draft else Selection(),
    }
    chosen = [name for name, selection in selections.items() if selection.size > 1]
    if len(chosen) > 1:
        first, second, *_ = chosen
        raise SettingsError(second, "", f"it cannot be set together with {first}; drop one of them")
    if chosen:
        return selections[chosen[0]]
    return usual if usual and settings.accept is None else Selection()


def model_name(model: ModelSettings) -> str:
    """The name under which a model is served."""
    return model.model_name or (model.model if model.model in NAMED_MODELS else Path(model.model).name)


def default_max_tokens(settings: Settings, model: ModelSettings) -> int:
    """The token budget of a request to a model that sets none."""
    usual = NAMED_MAX_TOKENS if model.model in NAMED_MODELS else DEFAULT_MAX_TOKENS
    return settings.default_max_tokens or usual


def start_embedded(settings: Settings, model: ModelSettings, on_vocabulary: OnVocabulary) -> Runtime:
    """Load a model and start its engine; blocks for seconds.

    Raises:
        ModelLoadError: the model cannot be loaded; with path and reason.
        SettingsError, UnusableDevice, UnknownSyntax: a setting does not fit the model or the machine.
    """
    # Imported here, because torch and transformers take seconds, and not every command loads a model.
    import torch  # noqa: PLC0415

    from runtime.device import pick_device  # noqa: PLC0415
    from runtime.embedded import EmbeddedRuntime  # noqa: PLC0415
    from runtime.loading import hide_progress_bars  # noqa: PLC0415
    from runtime.settings import EngineSettings  # noqa: PLC0415

    hide_progress_bars()  # the caller shows progress itself
    engine = EngineSettings(
        device=pick_device(settings.device),
        dtype=settings.dtype,
        kv_bytes=settings.kv_bytes,
        cuda_graphs=settings.cuda_graphs,
        context_length=settings.context_length,
        default_max_tokens=default_max_tokens(settings, model),
        max_batch=settings.max_batch,
        max_batch_tokens=max(512, settings.max_batch),
        max_waiting=settings.max_waiting,
        max_sequences_per_client=settings.max_sequences_per_key,
        num_threads=settings.num_threads or min(torch.get_num_threads(), num_usable_cores()),
        jump_forward=settings.jump_forward,
        selection=default_selection(settings, EMBEDDED_SELECTION),
        shares_prefixes=model.engine_shared_prefixes,
    )
    source = find_source(model.model, Path(settings.data_dir), model.adapter)
    return EmbeddedRuntime.load(
        source.model,
        engine,
        model_id=model_name(model),
        syntax=model.syntax,
        adapter=source.adapter,
        on_vocabulary=on_vocabulary,
    )
