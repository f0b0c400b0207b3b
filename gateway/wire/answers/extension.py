"""What Callgate adds to the answers of all model routes: the object `callgate`."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType, defstruct
from msgspec.structs import fields

from runtime.events import ClosedBy
from runtime.inspection import Part, Written
from runtime.selection import SelectionStrategy


class NamedRevision(Struct):
    """A toolset and its revision."""

    name: str
    revision: int


class BrokenDraft(Struct):
    """Where a draft left the grammar: after `tokens` valid tokens, near the place in the other fields."""

    tokens: int
    part: Part
    tool: str | None
    pointer: str | None


class SelectedAnswer(Struct):
    """How the answer `index` was selected from several, and how many tokens were computed for all of them.

    Counts are null for an external engine, which does not report them. `broken` are drafts that were not
    taken.
    """

    index: int
    strategy: SelectionStrategy
    answers: int
    accepted: bool
    log_weight: float | None
    computed_tokens: int | None
    broken: list[BrokenDraft]


class TokenCandidate(Struct):
    """One of the model's most probable tokens, with its probability before the mask."""

    id: int
    text: str
    probability: float
    removed: bool


class TokenPlace(Struct):
    """Where a token stands: `pointer` is into a call's arguments, `schema` into the tool's parameters."""

    part: Part
    call: int | None
    tool: str | None
    pointer: str | None
    writes: Written | None
    schema: str | None


class InspectedToken(Struct):
    """How a token of the answer `index` came about; a stop token has an empty text.

    Where the model was not asked, there are no candidates, and `mass_removed` is null.
    """

    index: int
    id: int
    text: str
    cause: Literal["free", "forced", "rescued", "closed"]
    mass_removed: float | None
    candidates: list[TokenCandidate]
    place: TokenPlace


class SearchedTool(Struct):
    """A tool that the prompt shows; its score says how well it fits the request (1 is best)."""

    name: str
    score: float
    reason: Literal["found", "always", "called", "chosen"]


class ToolsFound(Struct):
    """How many tools were searched, by what, and which ones the prompt shows."""

    searched: int
    by: Literal["words", "words and meaning"]
    shown: list[SearchedTool]


class Extension(Struct):
    """What Callgate adds: which toolset and grammar answered, and what the mask did."""

    toolset: str | None
    revision: int | None
    toolsets: list[NamedRevision]
    grammar_digest: str | None
    grammar_source: Literal["memory", "store", "compiled"] | None
    grammar_wait_ms: float | None
    closed_by: ClosedBy | None
    forced_tokens: int
    rescued_tokens: int | None
    dropped_messages: int
    tool_search: ToolsFound | None
    selections: list[SelectedAnswer]
    tokens: list[InspectedToken] | UnsetType = UNSET


StreamExtension = defstruct(
    "StreamExtension",
    [(field.name, field.type | UnsetType, UNSET) for field in fields(Extension)],
    namespace={"__doc__": "What Callgate adds to an event: inspected tokens, or at the end all the others."},
    module=__name__,
)
