"""Callgate inside vLLM: what its entry point of the group `vllm.general_plugins` registers.

vLLM calls `register` in each of its processes. Grammars are compiled in the engine's process alone, whose
manager of structured outputs begins there. vLLM has no registry of backends, so methods are replaced on its
classes:

| method | instead |
|---|---|
| `StructuredOutputManager.__init__` | then prepares the vocabulary, before the engine is ready |
| `XgrammarBackend.compile_grammar` | links the grammar of a request mark; any other grammar goes on to vLLM |
| `StructuredOutputManager.grammar_bitmask` | fills the rows of all marked requests in one batch |

Their signatures are checked first. A vLLM that is not known is refused: its engine does not start.
"""

import inspect
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any

from runtime.engines.masked_output import BatchFill
from runtime.engines.settings import PluginSettings
from runtime.engines.vllm.engine_grammars import EngineGrammars, fill_batch

KNOWN_VERSIONS = ("0.32",)
"""Versions of vLLM, without the last number, whose sources were read and whose server was tried."""

_MAX_THREADS = 8
_CPUS_A_THREAD = 4
"""A step waits for the slowest thread; on a busy machine, threads cost more than they save."""

_log = logging.getLogger("vllm.callgate")  # so that vLLM writes it


class UnknownEngine(RuntimeError):
    """This vLLM is not one that the plugin knows; the message names both versions."""


@dataclass(frozen=True, slots=True)
class _Hook:
    """A method that is replaced, and the parameters that it must have."""

    module: str
    owner: str
    method: str
    parameters: tuple[str, ...]


INIT = _Hook("vllm.v1.structured_output", "StructuredOutputManager", "__init__", ("self", "vllm_config"))
COMPILE = _Hook(
    "vllm.v1.structured_output.backend_xgrammar",
    "XgrammarBackend",
    "compile_grammar",
    ("self", "request_type", "grammar_spec", "stop_token_ids"),
)
FILL = _Hook(
    "vllm.v1.structured_output",
    "StructuredOutputManager",
    "grammar_bitmask",
    ("self", "requests", "structured_output_request_ids", "scheduled_spec_decode_tokens"),
)
# Called or read by the plugin, or implemented by what it returns.
READ = (
    _Hook("vllm.v1.structured_output", "StructuredOutputManager", "_fill_bitmasks", ("self", "batch")),
    _Hook(
        "vllm.v1.structured_output",
        "StructuredOutputManager",
        "_get_constraint_bounds",
        ("self", "request", "spec_tokens", "spec_tokens_committed"),
    ),
    *(
        _Hook("vllm.v1.structured_output.backend_types", "StructuredOutputGrammar", method, parameters)
        for method, parameters in (
            ("accept_tokens", ("self", "request_id", "tokens")),
            ("validate_tokens", ("self", "tokens")),
            ("rollback", ("self", "num_tokens")),
            ("fill_bitmask", ("self", "bitmask", "batch_index")),
            ("is_terminated", ("self",)),
            ("reset", ("self",)),
        )
    ),
)


def register() -> None:
    """Put Callgate's grammars into this process's vLLM; nothing happens where no setting is set.

    Raises:
        PluginSettingsError: some of the settings are set, and others are missing or bad.
        UnknownEngine: this vLLM is not known, or a method that is replaced has other parameters.
    """
    settings = PluginSettings.from_environment()
    if settings is None:
        _log.info("callgate is installed, but none of its settings is set: its marks are not read here")
        return
    install(settings, import_module("vllm"))


def install(settings: PluginSettings, vllm: ModuleType) -> None:
    """Replace the methods, once in a process; raises UnknownEngine."""
    check_version(str(vllm.__version__))
    for hook in (INIT, COMPILE, FILL, *READ):
        _check(hook, vllm.__version__)
    if getattr(_owner(COMPILE), "callgate_grammars", None) is not None:
        return
    grammars = EngineGrammars(settings)
    _owner(COMPILE).callgate_grammars = grammars
    _replace(INIT, lambda original: _priming(original, grammars))
    _replace(COMPILE, lambda original: _compiling(original, grammars))
    _replace(FILL, _filling)


def check_version(version: str) -> None:
    """Refuse a vLLM that nobody tried the plugin with; raises UnknownEngine."""
    if ".".join(version.split(".")[:2]) not in KNOWN_VERSIONS:
        known = " and ".join(f"{known}.x" for known in KNOWN_VERSIONS)
        raise UnknownEngine(
            f"this is vLLM {version}, and this version of callgate knows vLLM {known}: install one of these,"
            " or a callgate that knows this one. To start this engine without callgate, unset CALLGATE_STORE"
            " and CALLGATE_SECRET."
        )


def _check(hook: _Hook, version: str) -> None:
    found = getattr(_owner(hook), hook.method, None)
    parameters = tuple(inspect.signature(found).parameters) if found is not None else None
    if parameters != hook.parameters:
        what = f"{hook.owner}.{hook.method}"
        raise UnknownEngine(
            f"vLLM {version} has another {what} than callgate expects: {parameters}, not {hook.parameters}"
        )


def _owner(hook: _Hook) -> Any:
    return getattr(import_module(hook.module), hook.owner)


def _replace(hook: _Hook, make: Callable[[Any], Any]) -> None:
    original = getattr(_owner(hook), hook.method)
    setattr(_owner(hook), hook.method, wraps(original)(make(original)))


def _priming(original: Any, grammars: EngineGrammars) -> Any:
    def __init__(self: Any, vllm_config: Any) -> None:  # noqa: N807 - it takes the place of one
        original(self, vllm_config)
        if not vllm_config.model_config.skip_tokenizer_init:
            grammars.prime(self.tokenizer, vllm_config)

    return __init__


def _compiling(original: Any, grammars: EngineGrammars) -> Any:
    def compile_grammar(
        self: Any, request_type: Any, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> Any:
        own = grammars.compile(request_type.name, grammar_spec, stop_token_ids)
        return own or original(self, request_type, grammar_spec, stop_token_ids=stop_token_ids)

    return compile_grammar


def _filling(original: Any) -> Any:
    batch = BatchFill(max(1, min(len(os.sched_getaffinity(0)) // _CPUS_A_THREAD, _MAX_THREADS)))

    def grammar_bitmask(
        self: Any, requests: Any, structured_output_request_ids: Any, scheduled_spec_decode_tokens: Any
    ) -> Any:
        if scheduled_spec_decode_tokens or not structured_output_request_ids:
            return original(self, requests, structured_output_request_ids, scheduled_spec_decode_tokens)
        return fill_batch(batch, self, requests, structured_output_request_ids)

    return grammar_bitmask
