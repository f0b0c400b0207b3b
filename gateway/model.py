"""From the settings to a running model, and to what compiles grammars beside it."""

import asyncio
from pathlib import Path

from compiler.isolation.compile_job import CompilePool
from compiler.isolation.limits import CompileLimits
from compiler.isolation.pools import ThreadPool, WorkerPool
from gateway.errors import SettingsError
from gateway.settings import DEMO_MODEL, RANDOM_MODEL, Settings
from runtime.models import DEMO_MODEL_FOLDER
from runtime.protocol import Runtime


def load(settings: Settings, compile_pool: CompilePool) -> Runtime:
    """`start_runtime` while `compile_pool` starts, too, which is closed if there is no model to be had."""
    compile_pool.launch()
    try:
        return start_runtime(settings)
    except BaseException:
        asyncio.run(compile_pool.close())
        raise


def open_compile_pool(settings: Settings) -> CompilePool:
    """Who compiles: processes, or threads of this one."""
    limits = CompileLimits(
        seconds=settings.compile_seconds,
        memory_bytes=settings.compile_bytes,
        request_seconds=settings.compile_request_seconds,
    )
    if settings.compile_workers:
        return WorkerPool(settings.compile_workers, limits)
    return ThreadPool(limits=limits)


def start_runtime(settings: Settings) -> Runtime:
    """Load the model and start its engine; blocks for seconds.

    Raises:
        ModelLoadError: it cannot be loaded; path and reason.
        SettingsError, UnusableDevice, UnknownSyntax: a setting does not fit.
    """
    # Here, as torch and transformers take seconds to import, which `callgate tools` need not wait for.
    import transformers.utils.logging  # noqa: PLC0415

    from runtime.embedded import EmbeddedRuntime  # noqa: PLC0415
    from runtime.loading import pick_device  # noqa: PLC0415
    from runtime.settings import EngineSettings  # noqa: PLC0415

    transformers.utils.logging.disable_progress_bar()  # whoever serves shows progress in its own way

    try:
        engine = EngineSettings(
            device=pick_device(settings.device),
            dtype=settings.dtype,
            kv_bytes=settings.kv_bytes,
            context_length=settings.context_length,
            default_max_tokens=settings.default_max_tokens,
            max_sequences=settings.max_batch,
            max_batch_tokens=max(512, settings.max_batch),
            max_waiting=settings.max_waiting,
            num_threads=settings.num_threads,
            jump_forward=settings.jump_forward,
        )
    except ValueError as error:
        raise SettingsError("engine", "the settings", str(error)) from error
    name = settings.model_name or Path(settings.model).name
    return EmbeddedRuntime.load(model_source(settings), engine, model_id=name, syntax=settings.syntax)


def model_source(settings: Settings) -> str | Path:
    """The folder or hub id of the model to serve; the random one is built if it is not there."""
    if settings.model == DEMO_MODEL:
        return DEMO_MODEL_FOLDER
    if settings.model == RANDOM_MODEL:
        from runtime.models.random_model import ensure_random_model  # noqa: PLC0415 - imports torch, see above

        return ensure_random_model(Path(settings.data_dir, "models"))
    return settings.model
