"""The fields that every API's requests have in common, and the turn that they become."""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from compiler.response_format import ResponseFormat
from gateway.errors import InvalidField
from gateway.generation.turn import Turn
from gateway.wire.field_reader import FieldReader
from gateway.wire.response_formats import RequestedFormatFields
from runtime.request import Sampling, read_top_k
from runtime.selection import DRAFT, MAX_SELECTION, Selection
from toolspecs.errors import InvalidName
from toolspecs.tool import KeyOrder, ShownTools, ToolSearch
from toolspecs.toolset import ToolsetReference

MAX_TOOLSETS = 64
"""Toolsets that one request may name; each is looked up."""

MAX_STOP_LENGTH = 2_000
"""Characters of all stop sequences of a request together; every token is compared with them."""

MAX_TEMPLATE_OPTIONS = 4_000
"""Bytes of JSON; the options that templates have are words and numbers."""

_SAMPLING_FIELDS = tuple(field.name for field in dataclasses.fields(Sampling))

ModelName = Annotated[str, Meta(min_length=1, max_length=1_000)]

SelectionSize = Annotated[int, Meta(ge=1, le=MAX_SELECTION)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """A request as every wire format reads it: the turn that is asked for, and the fields that were left out.

    `names` is what this request calls fields that code outside its wire format calls by other names.
    """

    turn: Turn
    ignored: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)


class CallgateFields(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`callgate`: options that no other server has.

    `key_order` applies to all tools and to a response format's schema.

    `accept` draws at most that many answers until one is accepted; `particles` draws that many together; at
    temperature 0, both search for the best answer. With `draft`, the model first writes without a mask. 1 or
    false is plain masking. `inspect` returns for every token how it came about, what the mask removed, and
    its place.
    """

    key_order: KeyOrder | None = None
    accept: SelectionSize | None = None
    particles: SelectionSize | None = None
    draft: bool | None = None
    inspect: bool | None = None


@dataclass(frozen=True, slots=True)
class TurnHeaders:
    """The headers that may say what fields of a body say: `X-Toolset` and `X-Request-Timeout`."""

    toolset: str | None = None
    timeout: str | None = None


NO_HEADERS = TurnHeaders()

SearchLimit = Annotated[int, Meta(ge=1, le=2048)]

ToolNames = Annotated[list[str], Meta(max_length=256)]


class ToolSearchFields(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`tool_search`: how many tools the prompt shows; `query` replaces the user's messages as search text."""

    limit: SearchLimit = 20
    always: ToolNames = []
    query: Annotated[str, Meta(max_length=8000)] | None = None


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`stream_options` that both of OpenAI's APIs have."""

    include_obfuscation: bool | None = None


def ignore_obfuscation(options: StreamOptions | None, reader: FieldReader) -> None:
    """Leave out `include_obfuscation`: random padding that hides the lengths of tokens on the network."""
    if options and options.include_obfuscation:
        reader.ignore("stream_options.include_obfuscation", "events have no padding")


class TurnFields(RequestedFormatFields, forbid_unknown_fields=True, kw_only=True):
    """The fields that are honoured in every API; absent and null mean the same."""

    model: ModelName
    toolset: str | list[str] | None = None
    prompt_tools: ShownTools | None = None
    tool_search: ToolSearchFields | bool | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    # As in vLLM, 0 and -1 stand for all tokens.
    top_k: Annotated[int, Meta(ge=-1)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Meta(ge=0.01, le=10)] | None = None
    min_tokens: Annotated[int, Meta(ge=0)] | None = None
    stop_token_ids: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=64)] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    timeout: Annotated[float, Meta(gt=0)] | None = None
    callgate: CallgateFields | None = None


def read_toolsets(field: str | list[str] | None, header: str | None) -> tuple[ToolsetReference, ...]:
    """The toolsets of the field `toolset` and the header `X-Toolset`, without repetitions.

    >>> [str(reference) for reference in read_toolsets("mail@2", "files, mail@2")]
    ['mail@2', 'files']

    Raises:
        InvalidField: a reference is malformed, or there are too many.
    """
    named = [field] if isinstance(field, str) else field or []
    refs: dict[ToolsetReference, None] = {}
    for source, texts in (("toolset", named), ("X-Toolset", header.split(",") if header else [])):
        if len(texts) > MAX_TOOLSETS:
            raise InvalidField(source, f"at most {MAX_TOOLSETS} are allowed, but this names {len(texts)}")
        for text in texts:
            try:
                refs[ToolsetReference.parse(text.strip())] = None
            except InvalidName as error:
                raise InvalidField(source, str(error)) from error
    return tuple(refs)


def read_timeout(field: float | None, header: str | None) -> float | None:
    """The shorter of `timeout` and the header `X-Request-Timeout`, in seconds; raises InvalidField."""
    timeouts = [field] if field is not None else []
    if header is not None:
        try:
            timeouts.append(float(header))
        except ValueError:
            timeouts.append(math.nan)
    if not all(0 < timeout < math.inf for timeout in timeouts):
        raise InvalidField("X-Request-Timeout", f"{header!r} is not a number of seconds above 0")
    return min(timeouts, default=None)


def timeout_in(header: str | None) -> float | None:
    """The seconds in the header; None if there are none, or they are wrong, which `read_timeout` refuses."""
    try:
        return read_timeout(None, header)
    except InvalidField:
        return None


def read_sampling(fields: TurnFields) -> Mapping[str, Any]:
    """The fields of `Sampling` that the request sets: those that its API has, under the same names."""
    names = [name for name in _SAMPLING_FIELDS if name in fields.__struct_fields__]
    asked = {name: value for name in names if (value := getattr(fields, name)) is not None}
    return asked | {"top_k": read_top_k(fields.top_k)} if "top_k" in asked else asked


def read_tool_search(fields: TurnFields) -> ToolSearch | Literal[False] | None:
    """How tools are searched: False is not at all, None is as the toolset or the settings say."""
    match field := fields.tool_search:
        case ToolSearchFields():
            return ToolSearch(field.limit, tuple(dict.fromkeys(field.always)), field.query)
        case True:
            return ToolSearch()
        case _:
            return field


def read_selection(own: CallgateFields) -> Selection | None:
    """How the answer is selected from several; None is the engine's default. Raises InvalidField."""
    selections = [
        *([] if own.accept is None else [Selection("accept", own.accept)]),
        *([] if own.particles is None else [Selection("particles", own.particles)]),
        *([] if own.draft is None else [DRAFT if own.draft else Selection("draft")]),
    ]
    if len(selections) > 1:
        first, second, *_ = [selection.strategy for selection in selections]
        reason = f"an answer is selected in one way; leave it or `{first}` out"
        raise InvalidField(f"callgate.{second}", reason)
    return selections[0] if selections else None


def read_turn(fields: TurnFields, headers: TurnHeaders) -> Turn:
    """A turn with the fields that all APIs have in common; each API then adds its own fields.

    Raises:
        InvalidField: one of the fields or headers is malformed.
    """
    own = fields.callgate or CallgateFields()
    return Turn(
        model=fields.model,
        messages=(),
        toolsets=read_toolsets(fields.toolset, headers.toolset),
        prompt_tools=fields.prompt_tools,
        tool_search=read_tool_search(fields),
        is_parallel=fields.parallel_tool_calls is not False,
        key_order=own.key_order,
        selection=read_selection(own),
        is_streamed=bool(fields.stream),
        is_inspected=bool(own.inspect),
        sampling=read_sampling(fields),
        stop_token_ids=tuple(fields.stop_token_ids or ()),
        min_tokens=fields.min_tokens or 0,
        template_options=read_template_options(fields),
        timeout_s=read_timeout(fields.timeout, headers.timeout),
    )


def read_template_options(fields: TurnFields) -> dict[str, Any]:
    """What the chat template is told; raises InvalidField if it is long, as it is kept until the end."""
    options = fields.chat_template_kwargs or {}
    if (length := len(json.dumps(options))) > MAX_TEMPLATE_OPTIONS:
        reason = f"its JSON has {length} bytes, and at most {MAX_TEMPLATE_OPTIONS} are taken; leave some out"
        raise InvalidField("chat_template_kwargs", reason)
    return options


def read_stop(
    value: str | list[str] | None,
    response_format: ResponseFormat | None,
    reader: FieldReader,
    *,
    param: str = "stop",
    most: int = 16,
) -> tuple[str, ...]:
    """The stop sequences in the field `param`; none with a response format, whose answer must be complete.

    Raises:
        InvalidField: there are more than `most`, one is empty, or all together are too long.
    """
    stop = (value,) if isinstance(value, str) else tuple(value or ())
    if len(stop) > most:
        raise InvalidField(param, f"at most {most} sequences are supported")
    if "" in stop:
        raise InvalidField(param, "an empty sequence would end every answer at once")
    if sum(map(len, stop)) > MAX_STOP_LENGTH:
        raise InvalidField(param, f"all sequences together have at most {MAX_STOP_LENGTH} characters")
    if stop and response_format is not None:
        reader.ignore(param, "it could cut off an answer whose format is wanted whole")
        return ()
    return stop
