"""A stand-in for SGLang: the names and signatures that the plugin meets, and the shortest bodies that do as SGLang.

`make test-engines` compares these signatures with those of the real package, and runs its own classes.
"""

import enum
import sys
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial, wraps
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from stand_in_vllm import allow_only, open_rows

VERSION = "0.5.23"


class HookType(enum.Enum):
    BEFORE = "before"
    AFTER = "after"


class HookRegistry:
    """Hooks by the dotted names of methods; `apply_hooks` puts them in place."""

    hooks: ClassVar = defaultdict(list)

    @classmethod
    def register(cls, target, hook, hook_type=HookType.AFTER, *, source=None):
        cls.hooks[target].append((hook_type, hook))

    @classmethod
    def apply_hooks(cls):
        for target, hooks in cls.hooks.items():
            module, owner, method = target.rsplit(".", 2)
            lookup = getattr(sys.modules[module], owner)
            for hook_type, hook in hooks:
                setattr(lookup, method, hooked(getattr(lookup, method), hook, hook_type))
        cls.hooks.clear()


def hooked(original, hook, hook_type):
    @wraps(original)
    def call(*args):
        if hook_type is HookType.BEFORE:
            hook(*args)
            return original(*args)
        result = original(*args)
        changed = hook(result, *args)
        return result if changed is None else changed

    return call


class GrammarRow(NamedTuple):
    row: int
    grammar: Any


class BaseGrammarObject:
    def __init__(self):
        self.finished = False
        self.grammar_stats = None
        self.current_token = None

    def maybe_init_reasoning(self, reasoning: bool): ...  # noqa: FBT001 - as SGLang has it

    def accept_token(self, token: int) -> None: ...

    def rollback(self, k: int): ...

    def is_terminated(self):
        return False

    def fill_vocab_mask(self, vocab_mask, idx: int) -> None: ...

    @staticmethod
    def fill_vocab_mask_batched(entries, vocab_mask) -> None:
        for entry in entries:
            entry.grammar.fill_vocab_mask(vocab_mask, entry.row)

    def copy(self):
        return self


class XGrammarGrammar(BaseGrammarObject):
    """What the stand-in makes of grammars without a mark: it allows the one token `ord(spec)`."""

    def __init__(self, spec: str) -> None:
        super().__init__()
        self.token = ord(spec)

    def accept_token(self, token):
        if token != self.token:
            raise ValueError(f"Tokens not accepted: {token}")

    def fill_vocab_mask(self, vocab_mask, idx):
        allow_only(self.token, vocab_mask, idx)

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device):
        return open_rows(batch_size, vocab_size)

    @staticmethod
    def move_vocab_mask(vocab_mask, device):
        return vocab_mask

    def apply_vocab_mask(self, logits, vocab_mask) -> None:
        allowed = np.unpackbits(vocab_mask.numpy().view(np.uint8), axis=1, bitorder="little")
        logits[allowed[:, : logits.shape[1]] == 0] = -np.inf


class InvalidGrammarObject(BaseGrammarObject):
    def __init__(self, error_message: str = "Unknown grammar error"):
        super().__init__()
        self.error_message = error_message


class BaseGrammarBackend:
    enable_strict_thinking = False

    def __init__(self):
        self.executor = ThreadPoolExecutor(2)
        self.cache = {}

    def get_request_grammar_key(self, key, *, input_ids, thinking_budget):
        return key

    def get_cached_or_future_value(self, key, require_reasoning: bool):  # noqa: FBT001 - as SGLang has it
        if key in self.cache:
            return self.cache[key].copy(), True
        return self.executor.submit(self.compile, key[1]), False

    def compile(self, spec):
        return XGrammarGrammar(spec)

    def set_cache(self, key, value):
        self.cache[key] = value

    def reset(self):
        self.cache.clear()


class XGrammarGrammarBackend(BaseGrammarBackend):
    pass


class ReasonerGrammarBackend(BaseGrammarBackend):
    """Around another one, where the engine has a parser of thoughts: its keys are not those of requests."""

    def __init__(self, grammar_backend):
        super().__init__()
        self.grammar_backend = grammar_backend

    def get_request_grammar_key(self, key, *, input_ids, thinking_budget):
        return (f"{key[0]}:open_answer", key[1])


class GrammarManager:
    SGLANG_GRAMMAR_MAX_POLL_ITERATIONS = 1000

    def __init__(self, scheduler):
        self.grammar_queue = []
        self.grammar_backend = scheduler.own_backend
        self.grammar_sync_size = scheduler.num_ranks
        self.pp_size = scheduler.pp_size

    def process_req_with_grammar(self, req) -> bool:
        key = self.grammar_backend.get_request_grammar_key(
            ("ebnf", req.spec), input_ids=req.origin_input_ids, thinking_budget=None
        )
        req.grammar, is_cached = self.grammar_backend.get_cached_or_future_value(key, req.require_reasoning)
        if not is_cached:
            req.grammar_key = key
            self.grammar_queue.append(req)
        return not is_cached

    def get_ready_grammar_requests(self):
        """Of one rank of several; what the others say is left out. It waits as SGLang does, for a moment."""
        wait([req.grammar for req in self.grammar_queue], timeout=0.005)
        done, waiting = [], []
        for req in self.grammar_queue:
            if req.grammar.done():
                self.take(req)
                done.append(req)
                continue
            req.grammar_wait_ct += 1
            if req.grammar_wait_ct >= self.SGLANG_GRAMMAR_MAX_POLL_ITERATIONS:
                req.grammar.cancel()
                self.grammar_backend.set_cache(req.grammar_key, InvalidGrammarObject("timed out"))
                req.aborted_for = "Grammar preprocessing timed out"
                done.append(req)
            else:
                waiting.append(req)
        self.grammar_queue = waiting
        return done

    def take(self, req):
        try:
            req.grammar = req.grammar.result()
        except Exception as error:  # noqa: BLE001 - as SGLang does
            req.grammar = InvalidGrammarObject(f"Grammar compilation failed: {error}")
            req.aborted_for = req.grammar.error_message
        self.grammar_backend.set_cache(req.grammar_key, req.grammar.copy())


@dataclass
class Req:
    """A request; `spec` is its `ebnf`."""

    spec: str
    origin_input_ids: tuple[int, ...] = (1,)
    require_reasoning: bool = False
    grammar: Any = None
    grammar_key: Any = None
    grammar_wait_ct: int = 0
    aborted_for: str = ""

    @property
    def is_waiting(self):
        return isinstance(self.grammar, Future)


@dataclass
class Scheduler:
    """As much of a scheduler as is read; `columns` is the width of the logits."""

    tokenizer: Any
    model_config: Any
    own_backend: Any = field(default_factory=XGrammarGrammarBackend)
    num_ranks: int = 1
    pp_size: int = 1


def scheduler(tokenizer, model_config, *, columns=None, **options):
    model = SimpleNamespace(
        hf_config=model_config, hf_generation_config=None, vocab_size=columns or model_config.vocab_size
    )
    return Scheduler(tokenizer, model, **options)


def masks(requests, columns):
    """The bitmask of a step: int32 [requests, words]. Rows of requests without a grammar allow everything."""
    grammars = [request.grammar for request in requests]
    first = next(grammar for grammar in grammars if grammar)
    bitmask = first.allocate_vocab_mask(vocab_size=columns, batch_size=len(requests), device="cpu")
    entries = [
        GrammarRow(row, grammar)
        for row, grammar in enumerate(grammars)
        if grammar and not grammar.finished and not grammar.is_terminated()
    ]
    first.fill_vocab_mask_batched(entries, bitmask)
    return first.move_vocab_mask(bitmask, "cpu").numpy()


def put_in_place(monkeypatch) -> SimpleNamespace:
    """Let `import sglang` find the stand-in, with classes of its own; returns these."""
    classes = [GrammarManager, HookRegistry, BaseGrammarBackend, BaseGrammarObject, XGrammarGrammar]
    own = {cls.__name__: type(cls.__name__, (cls,), {}) for cls in classes}
    own["HookRegistry"].hooks = defaultdict(list)
    constrained = "sglang.srt.constrained"
    contents = {
        "sglang": [],
        "sglang.version": [],
        "sglang.srt": [],
        "sglang.srt.plugins": [],
        "sglang.srt.plugins.hook_registry": ["HookRegistry"],
        constrained: [],
        f"{constrained}.grammar_manager": ["GrammarManager"],
        f"{constrained}.base_grammar_backend": ["BaseGrammarBackend", "BaseGrammarObject"],
        f"{constrained}.xgrammar_backend": ["XGrammarGrammar"],
    }
    for name, names in contents.items():
        module = ModuleType(name)
        vars(module).update({one: own[one] for one in names})
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["sglang.version"].__version__ = VERSION
    sys.modules["sglang.srt.plugins.hook_registry"].HookType = HookType
    sys.modules[f"{constrained}.xgrammar_backend"].XGrammarGrammarBackend = XGrammarGrammarBackend
    return SimpleNamespace(**own, start=partial(start, own))


def start(own, scheduler):
    """A grammar manager, with the hooks in place."""
    own["HookRegistry"].apply_hooks()
    return own["GrammarManager"](scheduler)
