"""The routes that call models or count tokens, in every wire format."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from litestar import MediaType, Response, delete, get, post
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import Meta

from gateway.errors import InvalidField
from gateway.generation.allowance import allowance_of
from gateway.generation.continuation import Continuation
from gateway.generation.generation import Generation
from gateway.generation.model_names import split_model
from gateway.generation.response_entries import StoredResponse
from gateway.http.conversion import convert
from gateway.http.error_shapes import MESSAGES
from gateway.http.leaving_clients import unless_gone
from gateway.http.problems import note_names, wire_name
from gateway.http.request_bodies import ReadingTurn
from gateway.routes.request_context import RequestContext, WiredContext
from gateway.routes.transport import AnswerWriter, ignored_header, read_wire_request, stream
from gateway.wire.anthropic import MessageWriter
from gateway.wire.anthropic import read_request as read_messages_request
from gateway.wire.openai import (
    ChatRequest,
    ChatWriter,
    TextCompletionWriter,
    read_completions_request,
)
from gateway.wire.openai import read_request as read_chat_request
from gateway.wire.responses import ResponseWriter
from gateway.wire.responses import read_request as read_responses_request
from gateway.wire.turn_fields import ModelName, TurnHeaders, WireRequest
from runtime.text.detokenizer import TokenBytes
from toolspecs.json_value import JSON
from toolspecs.nearest import MAX_NAME, shorten


class DetokenizeBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `/detokenize`."""

    model: ModelName
    tokens: list[Annotated[int, Meta(ge=0)]]


def read_tokenize_request(body: Any, headers: TurnHeaders, *, is_strict: bool) -> ChatRequest:
    """The body of `/tokenize`: that of a completion, or of a chat."""
    if isinstance(body, dict) and not {"messages", "prompt"} & body.keys():
        raise InvalidField("prompt", "it is required, or else messages")
    is_chat = isinstance(body, dict) and "messages" in body
    read = read_chat_request if is_chat else read_completions_request
    return read(body, headers, is_strict=is_strict)


async def _answer(
    context: RequestContext, wire_request: WireRequest, writer_of: Callable[[Generation], AnswerWriter]
) -> Response[Any]:
    """Answer a turn, whole or as server-sent events; a header names the ignored fields."""
    request = context.request
    note_names(request.scope, wire_request.names)
    turn = replace(wire_request.turn, client_id=context.principal.client_id)
    starting = context.services.completions.start(
        turn, allowance_of(request.scope), context.holding, arrived=context.arrived
    )
    generation = await unless_gone(request, starting, discard=Generation.aclose)
    without_effect = (wire_name(request.scope, name) for name in generation.prepared.ignored)
    headers = ignored_header((*wire_request.ignored, *without_effect))
    writer = writer_of(generation)
    if turn.is_streamed:
        return stream(generation, writer, headers, request.scope)
    try:
        return Response(await unless_gone(request, writer.answer()), headers=headers)
    finally:
        await generation.aclose()  # if nothing has been read of it


async def _prompt_ids(context: RequestContext, wire_request: WireRequest) -> list[int]:
    """The token ids of the prompt of a request."""
    note_names(context.request.scope, wire_request.names)
    turn = replace(wire_request.turn, client_id=context.principal.client_id)
    finding = context.services.completions.prompt_ids(turn, context.holding, arrived=context.arrived)
    return await unless_gone(context.request, finding)


@post("/v1/chat/completions", status_code=200)
async def chat_completions(context: WiredContext) -> Response[Any]:
    """The assistant's next turn, whole or as server-sent events."""
    wire_request = await read_wire_request(context, read_chat_request)
    writer_of = partial(ChatWriter, includes_usage=wire_request.includes_usage)
    return await _answer(context, wire_request, writer_of)


@post("/v1/responses", status_code=200)
async def create_response(context: WiredContext) -> Response[Any]:
    """The assistant's next turn, whole or as server-sent events."""
    stored, owner = context.services.responses, context.principal.owner
    continuation = Continuation(stored, owner)
    wire_request = await read_wire_request(context, read_responses_request, continuation=continuation)
    save = partial(stored.save, owner, items=wire_request.items) if wire_request.is_stored else None
    writer_of = partial(ResponseWriter, echoed=wire_request.echoed, save=save)
    return await _answer(context, wire_request, writer_of)


@post("/v1/responses/input_tokens", status_code=200)
async def count_response_tokens(context: WiredContext) -> Response[Any]:
    """How many tokens the prompt of a response has, with the conversation that it continues."""
    continuation = Continuation(context.services.responses, context.principal.owner)
    wire_request = await read_wire_request(context, read_responses_request, continuation=continuation)
    ids = await _prompt_ids(context, wire_request)
    counted = {"object": "response.input_tokens", "input_tokens": len(ids)}
    return Response(counted, headers=ignored_header(wire_request.ignored))


@get("/v1/responses/{response_id:str}", media_type=MediaType.JSON)
async def get_response(
    response_id: FromPath[str], context: WiredContext, *, stream: FromQuery[bool] = False
) -> bytes:
    """A stored response, whole: `stream` can only be false."""
    if stream:
        raise InvalidField("stream", "a stored response is not sent as events; leave it out")
    loading = partial(context.services.responses.load_json, context.principal.owner, response_id)
    return await context.in_turn(loading)


@delete("/v1/responses/{response_id:str}", status_code=200)
async def delete_response(response_id: FromPath[str], context: WiredContext) -> dict[str, Any]:
    """Remove a stored response."""
    await context.services.responses.delete(context.principal.owner, response_id)
    return {"id": response_id, "object": "response", "deleted": True}


@dataclass(frozen=True, slots=True)
class _ItemPage:
    """A page of the input of a stored response: its items, each with a type and an id of its own.

    Clients may leave both out of messages, and may send an item twice.
    """

    items: list[JSON]
    has_more: bool

    @classmethod
    def of(cls, stored: StoredResponse, *, after: str | None, limit: int, is_descending: bool) -> "_ItemPage":
        """At most `limit` items after the item with the id `after`; raises InvalidField if there is none."""
        ids = _item_ids(stored)
        if after is not None and after not in ids:
            raise InvalidField("after", f"{shorten(after, MAX_NAME)!r} is no item of this response")
        places = range(len(ids))
        order = places[::-1] if is_descending else places
        start = order.index(ids.index(after)) + 1 if after is not None else 0
        items = [
            {**stored.items[at], "type": stored.items[at].get("type") or "message", "id": ids[at]}
            for at in order[start : start + limit]
        ]
        return cls(items, has_more=start + limit < len(order))

    def encoded(self) -> bytes:
        """The answer with this page."""
        ends = {"first_id": self.items[0]["id"], "last_id": self.items[-1]["id"]} if self.items else {}
        return msgspec.json.encode({"object": "list", "data": self.items, "has_more": self.has_more, **ends})


def _item_ids(stored: StoredResponse) -> list[str]:
    """The ids of the items; where one is missing or repeated, the id is made from the place."""
    prefix = f"in_{stored.response['id'].removeprefix('resp_')}"
    ids: dict[str, None] = {}
    for at, item in enumerate(stored.items):
        match item.get("id"):
            case str(own_id) if own_id and own_id not in ids:
                ids[own_id] = None
            case _:
                ids[f"{prefix}{at:02x}"] = None
    return list(ids)


@get("/v1/responses/{response_id:str}/input_items", media_type=MediaType.JSON)
async def list_input_items(
    response_id: FromPath[str],
    context: WiredContext,
    *,
    order: FromQuery[Literal["asc", "desc"]] = "desc",
    after: FromQuery[str | None] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=100)] = 20,
) -> bytes:
    """A page of the input that a stored response answered, with what came before in its conversation."""

    async def load_page(turn: ReadingTurn) -> bytes:
        stored = await context.services.responses.load(context.principal.owner, response_id, turn)
        page_of = partial(_ItemPage.of, stored, after=after, limit=limit, is_descending=order == "desc")
        return await turn.run(lambda: page_of().encoded())

    return await context.in_turn(load_page)


@post(MESSAGES, status_code=200)
async def create_message(context: WiredContext) -> Response[Any]:
    """The assistant's next turn, whole or as server-sent events, as Anthropic's clients ask for it."""
    wire_request = await read_wire_request(context, read_messages_request)
    return await _answer(context, wire_request, MessageWriter)


@post(f"{MESSAGES}/count_tokens", status_code=200)
async def count_message_tokens(context: WiredContext) -> Response[Any]:
    """How many tokens the prompt of a message has."""
    wire_request = await read_wire_request(context, read_messages_request)
    ids = await _prompt_ids(context, wire_request)
    return Response({"input_tokens": len(ids)}, headers=ignored_header(wire_request.ignored))


@post("/v1/completions", status_code=200)
async def text_completions(context: WiredContext) -> Response[Any]:
    """The text that continues a prompt, whole or as server-sent events."""
    wire_request = await read_wire_request(context, read_completions_request)
    writer_of = partial(TextCompletionWriter, includes_usage=wire_request.includes_usage)
    return await _answer(context, wire_request, writer_of)


@post("/tokenize", status_code=200)
async def tokenize(context: WiredContext) -> Response[Any]:
    """The token ids of a prompt or of a conversation, as vLLM's users ask for them."""
    wire_request = await read_wire_request(context, read_tokenize_request)
    ids = await _prompt_ids(context, wire_request)
    model, _ = split_model(wire_request.turn.model, await context.services.runtime.models())
    answer = {"count": len(ids), "max_model_len": model.context_length, "tokens": ids}
    return Response(answer, headers=ignored_header(wire_request.ignored))


@post("/detokenize", status_code=200)
async def detokenize(context: WiredContext) -> dict[str, Any]:
    """The text of token ids."""
    body = convert(await context.read_body(), DetokenizeBody)
    model, _ = split_model(body.model, await context.services.runtime.models())
    if outside := next((i for i in body.tokens if i >= model.vocabulary.width), None):
        raise InvalidField("tokens", f"{outside} is not a token id; they are below {model.vocabulary.width}")
    if len(body.tokens) > model.context_length:
        raise InvalidField(
            "tokens", f"a prompt has at most {model.context_length} tokens, but these are {len(body.tokens)}"
        )
    token_bytes = TokenBytes(model.vocabulary)
    text = await asyncio.to_thread(lambda: token_bytes.of(body.tokens).decode(errors="replace"))
    return {"prompt": text}


GENERATION_ROUTES = (
    chat_completions,
    create_response,
    count_response_tokens,
    get_response,
    delete_response,
    list_input_items,
    create_message,
    count_message_tokens,
    text_completions,
    tokenize,
    detokenize,
)
