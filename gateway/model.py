"""From the settings to a running model."""

import asyncio
from pathlib import Path

from gateway.settings import DEMO_MODEL, Settings
from runtime.protocol import Runtime


async def load_runtime(settings: Settings) -> Runtime:
    """Load the model in a thread and start its engine; raises ModelLoadError."""
    return await asyncio.to_thread(_load, settings)


def served_name(settings: Settings) -> str:
    """The name that clients ask for the model by."""
    return settings.model_name or Path(settings.model).name


def _load(settings: Settings) -> Runtime:
    # Here, as torch and transformers take seconds to import, which `callgate tools` need not wait for.
    from runtime.embedded import EmbeddedRuntime  # noqa: PLC0415

    raise NotImplementedError((EmbeddedRuntime, DEMO_MODEL))
