"""Remote runtimes over stand-ins, what tests ask of them, and what is true of every answer."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import httpx
import jsonschema_rs
from completions_server import SECRET, StandIn, serving
from whole_outputs import calls_of

from compiler.cache.grammar_cache import GrammarCache
from runtime.engines.client import EngineAddress
from runtime.engines.completion_request import CompletionRequest
from runtime.engines.engine_kinds import ENGINE_KINDS
from runtime.engines.llama_client import LlamaClient
from runtime.engines.remote import RemoteRuntime, RemoteSettings
from runtime.engines.replica import WatchSettings
from runtime.engines.vllm_client import VllmClient
from runtime.events import Finished, PromptRendered, TextDelta
from runtime.models.random_model import RandomModelSettings, ensure_random_model
from runtime.request import GenerationRequest, Message, Sampling
from runtime.text.tokenizer import load_tokenizer
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

TOOLS = (
    Tool(
        "send_mail",
        "Send a message",
        {
            "type": "object",
            "properties": {
                "to": {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True},
                "subject": {"type": "string", "maxLength": 40},
                "urgent": {"type": "boolean"},
            },
            "required": ["to", "subject"],
        },
    ),
    Tool(
        "set_color",
        "Paint",
        {"type": "object", "properties": {"color": {"enum": ["red", "green"]}}, "required": ["color"]},
    ),
    Tool("now", "The time", {"type": "object"}),
)
GUARDED = Tool(
    "tag",
    "",
    {
        "type": "object",
        "properties": {
            "tags": {
                "type": "array",
                "items": {"enum": ["a", "b", "c", "d"]},
                "uniqueItems": True,
                "minItems": 4,
            },
            "note": {"type": "string", "maxLength": 12},
        },
        "required": ["tags", "note"],
    },
)
"""What it takes needs a guard: engines without our plugin do not keep it by themselves."""
REQUEST = CompletionRequest(model_id="remote", prompt_ids=[1], max_tokens=9, sampling=Sampling())
VALIDATORS = {tool.name: jsonschema_rs.validator_for(dict(tool.parameters)) for tool in (*TOOLS, GUARDED)}
WATCH = WatchSettings(probe_s=0.2, canary_s=300, first_retry_s=0.05, last_retry_s=0.2, stall_s=2)
SETTINGS = RemoteSettings(watch=WATCH)


class Linked:
    """Grammars by their recipes, as the plugin links them from the store."""

    def __init__(self, grammars):
        self.grammars = grammars
        self.by_digest = {}

    async def find_toolset(self, *arguments, **options):
        return self._noted(await self.grammars.find_toolset(*arguments, **options))

    async def find_format(self, *arguments, **options):
        return self._noted(await self.grammars.find_format(*arguments, **options))

    async def publish(self, keys, client_id):
        return await self.grammars.publish(keys, client_id)

    def entries_of(self, recipe):
        return self.grammars.entries_of(recipe)

    def _noted(self, lookup):
        self.by_digest[lookup.recipe.digest] = lookup.grammar
        return lookup

    def __call__(self, recipe):
        return self.by_digest[recipe.digest]


def load_text(folder):
    """The tokenizer of a small random model, by which stand-ins write."""
    model = ensure_random_model(folder, RandomModelSettings(hidden_size=64, num_layers=2))
    return load_tokenizer(model, model_id="remote")


def transport_of(*pieces, status=200, **headers):
    """The transport of a client whose engine answers everything with these pieces of bytes."""

    async def content():
        for piece in pieces:
            yield piece

    return httpx.MockTransport(lambda _: httpx.Response(status, content=content(), headers=headers))


def answering(*pieces, **headers):
    """A client of a vLLM that answers everything with these pieces of bytes."""
    return VllmClient(EngineAddress("http://engine"), transport=transport_of(*pieces, **headers))


def llama_answering(text, *sent):
    """A client of a llama-server that answers everything with these events."""
    pieces = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in sent]
    return LlamaClient(EngineAddress("http://engine"), text.prepared, transport=transport_of(*pieces))


async def tokens_of(client, request=REQUEST):
    """The token ids of what a client's engine writes."""
    async with client.completion(request) as chunks:
        return [token.token_id async for chunk in chunks for token in chunk.tokens]


class Remote:
    """A remote runtime and its stand-ins."""

    def __init__(self, runtime, stand_ins, grammars, text):
        self.runtime, self.stand_ins, self.grammars, self.text = runtime, stand_ins, grammars, text
        self.number = 0

    async def grammar(self, mode="required", *, tools=TOOLS, allowed=None, parallel=True):
        return await self.grammars.find_toolset(
            tools,
            prepared=self.text.prepared,
            syntax=self.text.syntax,
            tool_choice=ToolChoice(ChoiceMode(mode), allowed),
            is_parallel=parallel,
        )

    def request(self, lookup=None, *, temperature=1.0, seed=None, **options):
        self.number += 1
        options = {"messages": (Message("user", "hello"),), "max_tokens": 120} | options
        return GenerationRequest(
            f"r{self.number}",
            "remote",
            tools=TOOLS if lookup else (),
            constraint=lookup.grammar if lookup else None,
            recipe=lookup.recipe if lookup else None,
            sampling=Sampling(temperature=temperature, seed=seed),
            **options,
        )

    async def settled(self, condition):
        """Wait until the watch of the engines has found something out."""
        while not condition(health := await self.runtime.health()):
            await asyncio.sleep(0.01)
        return health

    async def ready(self):
        return await self.settled(lambda health: health.is_ready)

    async def all_ready(self):
        return await self.settled(lambda health: all(e.circuit == "closed" for e in health.engines))


async def until_text(events):
    """Read events until a text comes."""
    async for event in events:
        if isinstance(event, TextDelta):
            return


async def until(condition):
    """Wait until what other tasks and threads do makes a condition true."""
    while not condition():
        await asyncio.sleep(0.01)


@asynccontextmanager
async def remote_over(text, *stand_ins, settings=SETTINGS, wait=True):
    """A remote runtime over stand-ins of one kind; with `wait`, once one of them takes requests."""
    linked = Linked(GrammarCache(None, secret=SECRET))
    stand_ins = stand_ins or (StandIn(text),)
    async with AsyncExitStack() as stack:
        kind = ENGINE_KINDS[stand_ins[0].kind]
        clients = []
        for stand_in in stand_ins:
            stand_in.grammar_of = linked
            address = EngineAddress(stack.enter_context(serving(stand_in)))
            clients.append(kind.connect(address, text.prepared))
        runtime = RemoteRuntime(
            replace(text, model_id="remote"),
            clients,
            settings,
            secret=SECRET,
            write_grammar=kind.write_grammar,
        )
        stack.push_async_callback(linked.grammars.close)
        stack.push_async_callback(runtime.close)
        await runtime.start(linked)
        remote = Remote(runtime, stand_ins, linked, text)
        if wait:
            await remote.ready()
        yield remote


async def events_of(remote, request):
    first, *events = [event async for event in remote.runtime.generate(request)]
    assert isinstance(first, PromptRendered)
    return events


def forbidden(text):
    """A token that no place of a call allows: the byte 0."""
    return text.vocabulary.tokens.index(b"\0")


async def answer_of(remote, request):
    """The calls and the end of an answer, which is valid."""
    events = await events_of(remote, request)
    (end,) = assert_valid(events, request)
    return calls_of(events), end


def assert_valid(events, request):
    """Check the calls and the lengths of all choices; returns their ends."""
    finished = [event for event in events if isinstance(event, Finished)]
    assert len(finished) == request.num_choices
    for end in finished:
        assert end.stats.num_output_tokens <= request.max_tokens
        for name, arguments in calls_of(events, end.choice):
            VALIDATORS[name].validate(json.loads(arguments))
    return finished
