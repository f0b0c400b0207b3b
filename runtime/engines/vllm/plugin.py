"""Callgate inside vLLM: the entry point of the group `vllm.general_plugins`.

vLLM calls `register` in each of its processes. Grammars are compiled only in the engine's process, where the
manager of structured outputs starts. vLLM has no registry of backends, so methods of its classes are
replaced:

| method | instead |
|---|---|
| `StructuredOutputManager.__init__` | then prepares the vocabulary, before the engine is ready |
| `XgrammarBackend.compile_grammar` | links the grammar of a request mark; any other grammar goes on to vLLM |
| `StructuredOutputManager.grammar_bitmask` | fills the rows of all marked requests in one batch |

Their signatures are checked first. An unknown version of vLLM is refused: its engine does not start.
"""

import logging
from importlib import import_module
from types import ModuleType
from typing import Any

from runtime.engines.engine_hooks import EngineHook, KnownEngine
from runtime.engines.masked_output import BatchFill
from runtime.engines.settings import PluginSettings
from runtime.engines.vllm.vllm_grammars import VllmGrammars, fill_batch

VLLM = KnownEngine("vLLM", ("0.32.*",))
"""Its sources were read, and its server was tried."""

_log = logging.getLogger("vllm.callgate")  # so that vLLM writes it

INIT = EngineHook("vllm.v1.structured_output", "StructuredOutputManager", "__init__", ("self", "vllm_config"))
COMPILE = EngineHook(
    "vllm.v1.structured_output.backend_xgrammar",
    "XgrammarBackend",
    "compile_grammar",
    ("self", "request_type", "grammar_spec", "stop_token_ids"),
)
FILL = EngineHook(
    "vllm.v1.structured_output",
    "StructuredOutputManager",
    "grammar_bitmask",
    ("self", "requests", "structured_output_request_ids", "scheduled_spec_decode_tokens"),
)
# Called or read by the plugin, or implemented by what it returns.
READ = (
    EngineHook("vllm.v1.structured_output", "StructuredOutputManager", "_fill_bitmasks", ("self", "batch")),
    EngineHook(
        "vllm.v1.structured_output",
        "StructuredOutputManager",
        "_get_constraint_bounds",
        ("self", "request", "spec_tokens", "spec_tokens_committed"),
    ),
    *(
        EngineHook("vllm.v1.structured_output.backend_types", "StructuredOutputGrammar", method, parameters)
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
    """Put Callgate's grammars into this process's vLLM; does nothing if no setting is set.

    Raises:
        PluginSettingsError: some settings are set, and others are missing or bad.
        UnknownEngine: this version is unknown, or a replaced method has other parameters.
    """
    settings = PluginSettings.from_environment()
    if settings is None:
        _log.info("callgate is installed, but reads no marks here: CALLGATE_SECRET is not set")
        return
    install(settings, import_module("vllm"))


def install(settings: PluginSettings, vllm: ModuleType) -> None:
    """Replace the methods, once per process; raises UnknownEngine."""
    version = str(vllm.__version__)
    VLLM.check(version)
    for hook in (INIT, COMPILE, FILL, *READ):
        VLLM.check_hook(hook, version)
    if getattr(COMPILE.owner_class(), "callgate_grammars", None) is not None:
        return
    grammars = VllmGrammars(settings)
    COMPILE.owner_class().callgate_grammars = grammars
    INIT.replace(lambda original: _priming(original, grammars))
    COMPILE.replace(lambda original: _compiling(original, grammars))
    FILL.replace(_filling)


def _priming(original: Any, grammars: VllmGrammars) -> Any:
    def __init__(self: Any, vllm_config: Any) -> None:  # noqa: N807 - it takes the place of one
        original(self, vllm_config)
        if not vllm_config.model_config.skip_tokenizer_init:
            grammars.prime(self.tokenizer, vllm_config)

    return __init__


def _compiling(original: Any, grammars: VllmGrammars) -> Any:
    def compile_grammar(
        self: Any, request_type: Any, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> Any:
        own = grammars.compile(request_type.name, grammar_spec, stop_token_ids)
        return own or original(self, request_type, grammar_spec, stop_token_ids=stop_token_ids)

    return compile_grammar


def _filling(original: Any) -> Any:
    batch = BatchFill.for_this_machine()

    def grammar_bitmask(
        self: Any, requests: Any, structured_output_request_ids: Any, scheduled_spec_decode_tokens: Any
    ) -> Any:
        if scheduled_spec_decode_tokens or not structured_output_request_ids:
            return original(self, requests, structured_output_request_ids, scheduled_spec_decode_tokens)
        return fill_batch(batch, self, requests, structured_output_request_ids)

    return grammar_bitmask
