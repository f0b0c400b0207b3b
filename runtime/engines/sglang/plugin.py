"""Callgate inside SGLang: the entry point of the group `sglang.srt.plugins`.

SGLang calls `register` in each of its processes. Grammars are made in its schedulers, whose `GrammarManager`
is hooked by SGLang's own `HookRegistry`:

| hook | what |
|---|---|
| after `GrammarManager.__init__` | reads the vocabulary, and puts `SglangBackend` around SGLang's own |
| before `GrammarManager.get_ready_grammar_requests` | has all ranks give up what failed on this one |

A backend registered by `register_grammar_backend` would replace xgrammar for the engine's other clients too,
without SGLang's handling of thoughts. Wrapped around the engine's own backend, ours changes nothing for them.

SGLang only logs a plugin's exceptions and would start without the plugin. So an unknown version of SGLang is
ended here.
"""

import logging
from importlib import import_module
from typing import Any

from runtime.engines.engine_grammars import EngineGrammars
from runtime.engines.engine_hooks import EngineHook, KnownEngine, UnknownEngine
from runtime.engines.settings import PluginSettings, PluginSettingsError
from runtime.engines.sglang.sglang_backend import SglangBackend
from runtime.models.model_config import model_vocabulary

SGLANG = KnownEngine("SGLang", ("0.5.23",))
"""The version that was tried; see docs/engines.md."""

_CONSTRAINED = "sglang.srt.constrained"
_MANAGER = f"{_CONSTRAINED}.grammar_manager"
_BASE = f"{_CONSTRAINED}.base_grammar_backend"
_XGRAMMAR = f"{_CONSTRAINED}.xgrammar_backend"

_log = logging.getLogger("sglang.callgate")  # so that SGLang writes it

INIT = EngineHook(_MANAGER, "GrammarManager", "__init__", ("self", "scheduler"))
READY = EngineHook(_MANAGER, "GrammarManager", "get_ready_grammar_requests", ("self",))
# Called or read by the plugin, or implemented by what it returns.
READ = (
    *(
        EngineHook(_BASE, "BaseGrammarBackend", method, parameters)
        for method, parameters in (
            ("get_request_grammar_key", ("self", "key", "input_ids", "thinking_budget")),
            ("get_cached_or_future_value", ("self", "key", "require_reasoning")),
            ("set_cache", ("self", "key", "value")),
        )
    ),
    *(
        EngineHook(_BASE, "BaseGrammarObject", method, parameters)
        for method, parameters in (
            ("accept_token", ("self", "token")),
            ("rollback", ("self", "k")),
            ("is_terminated", ("self",)),
            ("fill_vocab_mask", ("self", "vocab_mask", "idx")),
            ("fill_vocab_mask_batched", ("entries", "vocab_mask")),
            ("maybe_init_reasoning", ("self", "reasoning")),
            ("copy", ("self",)),
        )
    ),
    *(
        EngineHook(_XGRAMMAR, "XGrammarGrammar", method, parameters)
        for method, parameters in (
            ("allocate_vocab_mask", ("self", "vocab_size", "batch_size", "device")),
            ("move_vocab_mask", ("vocab_mask", "device")),
            ("apply_vocab_mask", ("self", "logits", "vocab_mask")),
        )
    ),
)


def register() -> None:
    """Put Callgate's grammars into this process's SGLang; does nothing if no setting is set.

    Raises:
        SystemExit: settings are missing or bad, or this version of SGLang is unknown.
    """
    try:
        settings = PluginSettings.from_environment()
        if settings is None:
            _log.info("callgate is installed, but reads no marks here: CALLGATE_SECRET is not set")
            return
        install(settings, import_module("sglang.version").__version__)
    except (PluginSettingsError, UnknownEngine) as error:
        raise SystemExit(f"callgate: {error}") from error


def install(settings: PluginSettings, version: str) -> None:
    """Register the hooks; raises UnknownEngine.

    The methods are checked later, in the scheduler, which has imported them; SGLang is only starting here.
    """
    SGLANG.check(version)
    grammars = EngineGrammars(settings, _log)

    def begin(_: None, manager: Any, scheduler: Any) -> None:
        for hook in (INIT, READY, *READ):
            SGLANG.check_hook(hook, version)
        put_around(manager, scheduler, grammars)

    hooks: Any = import_module("sglang.srt.plugins.hook_registry")
    manager = f"{_MANAGER}.{INIT.owner}"
    hooks.HookRegistry.register(f"{manager}.{INIT.method}", begin, hooks.HookType.AFTER)
    hooks.HookRegistry.register(f"{manager}.{READY.method}", _give_up_failed, hooks.HookType.BEFORE)


def put_around(manager: Any, scheduler: Any, grammars: EngineGrammars) -> None:
    """Give a grammar manager the backend that reads marks; takes seconds.

    Raises:
        UnknownEngine: the engine is configured in a way that the plugin does not know.
    """
    own = manager.grammar_backend
    if own is None:
        _log.warning("callgate: this engine has no grammar backend, so it answers no request with a mark")
        return
    xgrammar = import_module(_XGRAMMAR)
    inner = getattr(own, "grammar_backend", own)  # of one that leaves thoughts unmasked
    if not isinstance(inner, xgrammar.XGrammarGrammarBackend):
        raise UnknownEngine(
            "callgate needs SGLang's backend xgrammar; start it with --grammar-backend xgrammar"
        )
    if manager.pp_size > 1:
        raise UnknownEngine(
            "callgate does not know how to agree on failed grammars with pipeline parallelism; start SGLang"
            " with --pp-size 1"
        )
    model = scheduler.model_config
    vocabulary = model_vocabulary(scheduler.tokenizer, model.hf_config, model.hf_generation_config)
    grammars.prime(vocabulary, model.vocab_size)
    manager.grammar_backend = SglangBackend(
        own, xgrammar.XGrammarGrammar, grammars, is_alone=manager.grammar_sync_size == 1
    )


def _give_up_failed(manager: Any) -> None:
    backend = manager.grammar_backend
    if isinstance(backend, SglangBackend):
        backend.give_up_failed(manager.grammar_queue, manager.SGLANG_GRAMMAR_MAX_POLL_ITERATIONS)
