"""`Runtime`: the protocol between the gateway and whatever engine serves a model."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from compiler.cache.grammar_cache import GrammarCache
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.vocabulary import Vocabulary
from runtime.events import Event, PromptRendered
from runtime.request import OPENAI_SAMPLING, GenerationRequest, Sampling
from toolspecs.tool import ShownTools


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A served model. Grammars are compiled for its vocabulary and call syntax."""

    model_id: str
    prepared: PreparedVocabulary
    syntax: str
    context_length: int
    """In tokens, prompt and output together."""
    template_variables: frozenset[str] = frozenset()
    """The options that its chat template knows."""
    aliases: tuple[str, ...] = ()
    """Other names under which clients may ask for it; `*` stands for any text."""
    prompt_tools: ShownTools = ShownTools.ALL
    """The tools that its prompts show, unless a request says which."""
    tool_search: int | None = None
    """The most tools that its prompts show, unless a request says how many."""
    sampling: Sampling = OPENAI_SAMPLING
    """How its tokens are sampled, in all that a request leaves unsaid."""
    applies_guards: bool = True
    """Whether its engine applies guards. Otherwise the gateway refuses tokens that a guard forbids."""
    selects: bool = True
    """Whether its engine selects answers itself. Otherwise `accept` has no effect at temperature 0."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of its tokenizer."""
        return self.prepared.vocabulary


class Circuit(StrEnum):
    """Whether a replica takes requests: `closed`, yes; `open`, no; `trial`, it is just being tried."""

    CLOSED = "closed"
    OPEN = "open"
    TRIAL = "trial"


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """The state of a replica; `reason` is why it takes no requests, empty if it does.

    Details, such as an engine's own words, come after the first colon of a reason.
    """

    model_id: str
    name: str
    circuit: Circuit
    reason: str
    version: str
    num_running: int
    num_served: int
    num_failed: int
    num_refused_tokens: int
    canary_age_s: float | None
    is_untried: bool = False
    """Whether its first check has not ended yet."""
    num_expected_refusals: int = 0
    """The refused tokens that were expected, because the engine applies no guards."""

    @property
    def public_reason(self) -> str:
        """The reason without details, which anybody may read: it contains no address."""
        return self.reason.partition(":")[0]


def reasons_of(engines: Iterable[ReplicaState]) -> str:
    """Why engines take no requests, as `Health.reason`; empty if all take some."""
    return "; ".join(f"the engine {engine.name} {engine.reason}" for engine in engines if engine.reason)


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """The load of this process's engine for a model: its sequences, and the pages of its KV cache.

    The last three numbers count since the engine started: its steps, the sequences of all steps together,
    and the sequences that were preempted.
    """

    model_id: str
    num_running: int
    num_waiting: int
    num_pages: int
    num_free_pages: int
    num_steps: int
    num_stepped_sequences: int
    num_preempted: int
    is_ready: bool = True


@dataclass(frozen=True, slots=True)
class Health:
    """Whether requests can be served, and if not, the reason; `is_lost`: only a restart helps.

    `engines` are the external ones, and `loads` are those of the engines in this process.
    """

    is_ready: bool
    reason: str = ""
    is_lost: bool = False
    engines: tuple[ReplicaState, ...] = ()
    loads: tuple[EngineLoad, ...] = ()


class Runtime(Protocol):
    """Serves models. Its methods raise the errors of `runtime.errors`."""

    async def start(self, grammars: GrammarCache) -> None:
        """Begin to serve; called once, before all else. External engines read the store of `grammars`."""

    def generate(self, request: GenerationRequest) -> AsyncIterator[PromptRendered | Event]:
        """`PromptRendered`, then the events of all choices, interleaved; closing it early aborts it."""

    async def prompt_ids(self, request: GenerationRequest) -> list[int]:
        """The token ids of the prompt, with the tools shown; nothing is generated."""

    async def health(self) -> Health:
        """The current state."""

    async def models(self) -> tuple[ModelCard, ...]:
        """The models that are served."""

    async def close(self) -> None:
        """Stop the engine; running requests end with `GenerationFailed`."""
