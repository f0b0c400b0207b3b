"""Small requests that ask for much: what they refer to, how often they are tried again, what they stop at."""

import asyncio
import json
import random
import threading
import time
from dataclasses import astuple
from difflib import SequenceMatcher
from itertools import product

import httpx
import msgspec
import pytest
from fake_runtime import call
from reading_turns import TURN
from remote_engines import until

from gateway.app import create_app
from gateway.errors import InvalidField, SettingsError, UnknownResponse
from gateway.generation import stored_responses
from gateway.generation.continuation import Continuation
from gateway.generation.generation_request import without_oldest
from gateway.generation.response_entries import pack, unpack_output
from gateway.generation.stored_responses import StoredResponses
from gateway.http.conversion import convert
from gateway.http.request_bodies import BodyLimit, RequestBodies
from gateway.setting_sources import load
from gateway.toolsets import registry
from gateway.wire.openai import read_request
from gateway.wire.turn_fields import MAX_STOP_LENGTH
from runtime.errors import PromptTooLong
from runtime.request import Message
from toolspecs.errors import InvalidTools, UnknownTool
from toolspecs.json_scan import ContentLimits
from toolspecs.json_value import Limits
from toolspecs.nearest import MAX_COUNTED, NUM_COMPARED, near_matches
from toolspecs.revisions.submission import UncheckedToolset, read_toolset
from toolspecs.revisions.toolset_contents import compress
from toolspecs.schemas.bundle import MAX_URI, Bundler, absolute
from toolspecs.schemas.schema_check import check_documents
from toolspecs.search import tool_index
from toolspecs.search.tool_index import ReadTexts, ToolIndex
from toolspecs.stores import open_store
from toolspecs.tool import Tool, ToolSearch
from toolspecs.tool_parser import read_tool, read_tools, submitted_name

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
ID = "resp_" + "0" * 32


def responses(**options):
    return StoredResponses(open_store("sqlite://:memory:"), lifetime_s=60, **options)


async def test_a_stored_conversation_holds_no_more_than_a_body_may():
    stored = responses(contents=ContentLimits(num_values=1_000))
    many = [{"role": "user", "content": "Hi", "cache_control": [[]] * 1_000}]
    assert not await stored.save("a", {"id": ID, "output": []}, many)
    assert await stored.save("a", {"id": ID, "output": []}, [{"role": "user", "content": "Hi"}])
    assert (await stored.load("a", ID, TURN)).items == [{"role": "user", "content": "Hi"}]


async def test_what_an_earlier_version_stored_without_limits_is_not_decoded():
    stored = responses()
    entry = {"response": {"id": ID, "output": []}, "items": [[]] * 300_000}
    await stored._store.set(f"response:a:{ID}", compress(json.dumps(entry).encode()), 60)
    with pytest.raises(UnknownResponse):
        await stored.load("a", ID, TURN)


async def test_clients_take_turns_where_many_entries_are_fetched_and_decoded(monkeypatch):
    """A request of 10 kB may refer to 100 entries of 4 MB, and a client may send hundreds of such requests."""
    stored, held, decoded, fetched = responses(), threading.Event(), [], []

    def unpacked(content, limits):
        entry = original(content, limits)
        decoded.append(entry.items)
        held.wait(20)
        return entry

    async def get(key):
        fetched.append(key)
        return await original_get(key)

    original, original_get = stored_responses.unpack, stored._store.get
    monkeypatch.setattr(stored_responses, "unpack", unpacked)
    for owner in ("attacker", "victim"):
        assert await stored.save(owner, {"id": ID, "output": []}, [{"role": owner}])
    monkeypatch.setattr(stored._store, "get", get)
    limit = BodyLimit(1, "max_body_bytes")
    bodies = RequestBodies(
        limit=limit, toolset_limit=limit, max_large=2, contents=ContentLimits(), has_others=lambda _: True
    )

    async def load(owner):
        async with bodies.turn(owner, "stored") as turn:
            return await stored.load(owner, ID, turn)

    loads = [asyncio.create_task(load("attacker")) for _ in range(50)]
    await until(lambda: len(decoded) == 1)
    loads.append(asyncio.create_task(load("victim")))
    await until(lambda: len(decoded) == 2)
    assert decoded == [[{"role": "attacker"}], [{"role": "victim"}]]
    assert len(fetched) == 2  # the others' entries are not in memory yet
    held.set()
    await asyncio.gather(*loads)
    bodies.close()


def test_of_a_response_that_an_item_refers_to_only_the_output_is_decoded():
    output = [{"type": "message", "id": "msg_1"}]
    packed = pack({"id": ID, "tools": [{}], "output": output}, [{"a": [1]}], ContentLimits())
    assert unpack_output(packed, ContentLimits()) == output


def test_dropping_old_turns_takes_time_in_proportion_to_their_number():
    def seconds(number):
        messages = tuple(Message("user", "x") for _ in range(number))
        error = PromptTooLong(number, number // 20, at_least=True)
        started = time.process_time()
        assert len(without_oldest(messages, error)) == number // 20
        return time.process_time() - started

    seconds(1_000)
    few, many = min(seconds(2_000) for _ in range(5)), min(seconds(40_000) for _ in range(3))
    assert many < 100 * few  # 400 times, were each exchange summed up anew


def test_each_try_drops_twice_as_many_exchanges():
    messages = tuple(Message("user", "x") for _ in range(1_000))
    num_tries, num_exchanges = 0, 1
    while len(messages) > 1:  # a prompt of which every try says that it is one token too long
        messages = without_oldest(messages, PromptTooLong(10_001, 10_000), num_exchanges)
        num_tries, num_exchanges = num_tries + 1, 2 * num_exchanges
    assert num_tries <= 10


def test_stop_sequences_are_bounded_together():
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
    read_request(body | {"stop": ["a" * (MAX_STOP_LENGTH // 2)] * 2})
    with pytest.raises(InvalidField, match="characters"):
        read_request(body | {"stop": ["a" * (MAX_STOP_LENGTH // 2)] * 3})


def test_long_names_are_compared_with_few():
    """Comparing takes time with the square of the length: 2.5 ms for two of 199 characters."""
    similar = ["ab" * 99 + chr(ord("a") + number % 26) for number in range(300)]
    assert len(near_matches("ab" * 99, similar)) == 1
    assert near_matches("send_mail", [f"send_mail_{number}" for number in range(2_000)])


def test_a_wrong_name_is_compared_with_few_of_many_that_are_alike(monkeypatch):
    """Else 150 bytes that name none of 2,048 tools would stop the event loop for 0.25 s."""
    counted, compared = [], []
    monkeypatch.setattr(SequenceMatcher, "quick_ratio", lambda self: counted.append(len(self.a)) or 0.9)
    monkeypatch.setattr(SequenceMatcher, "ratio", lambda self: compared.append(len(self.a)) or 0.9)
    rng = random.Random(1)
    known = ["".join(rng.choices("ab", k=36)) for _ in range(2_048)]
    UnknownTool("t", "ab" * 18, known)
    assert sum(counted) <= MAX_COUNTED
    assert len(compared) <= NUM_COMPARED


def test_of_tools_that_do_not_exist_a_few_are_looked_for(monkeypatch):
    """Else one toolset of 107 kB that names 256 of them would take half a minute."""
    looked_for = []
    monkeypatch.setattr(
        "toolspecs.revisions.submission.instead", lambda name, _: looked_for.append(name) or ""
    )
    search = ToolSearch(always=tuple(f"unknown{number}" for number in range(256)))
    submission = read_toolset(UncheckedToolset("t", [{"name": "a"}], tool_search=search), Limits())
    with pytest.raises(InvalidTools) as refused:
        submission.checked(())
    assert len(refused.value.faults) == 256
    assert len(looked_for) <= 4


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["x - at `$" + "[" * 90_000, " - at `$" * 11_000, "[" * 90_000])
def test_a_name_that_looks_like_a_path_is_read_in_linear_time(name):
    class Fields(msgspec.Struct, forbid_unknown_fields=True):
        a: int = 0

    with pytest.raises(InvalidField) as refused:
        convert({name: 1}, Fields)  # 45 s and more, were it quadratic: longer than this test may take
    assert len(refused.value.param) <= 300


@pytest.mark.parametrize(
    "path", ["items[9]", "items[²]", "items[" + "9" * 99 + "]", "items.a", "[0]", "items[0][1]"]
)
def test_a_name_that_looks_like_a_path_leads_nowhere(path):
    class Fields(msgspec.Struct, forbid_unknown_fields=True):
        items: list[int] = []

    with pytest.raises(InvalidField):
        convert({"items": [1], f"x - at `${'' if path.startswith('[') else '.'}{path}": 1}, Fields)


def test_of_many_unknown_fields_few_are_compared_with_known_ones(monkeypatch):
    compared = []

    def counted(name, *options):
        compared.append(name)
        return near_matches(name, *options)

    monkeypatch.setattr("toolspecs.tool_parser.near_matches", counted)
    with pytest.raises(InvalidTools):
        read_tool({"name": "a", **{f"unknown{number}": 0 for number in range(10_000)}}, limits=Limits())
    assert len(compared) <= Limits().num_faults_per_tool


@pytest.mark.timeout(20)
def test_joining_references_takes_time_in_proportion_to_their_number(monkeypatch):
    """To join each of 8,000 references with a base of 200 kB would take minutes."""
    joined = []

    def counted(base, reference):
        joined.append((base, reference))
        return absolute(base, reference)

    monkeypatch.setattr("toolspecs.schemas.bundle.absolute", counted)
    references = {f"p{number}": {"$ref": f"{number % 7}#/a/{number}"} for number in range(8_000)}
    long = {"$id": "https://a.example/" + "a/" * 100_000, "properties": references}
    bundler = Bundler({"https://a.example/0": {"a": {"0": True}}})
    assert bundler.bundle(long)[0] == {}
    short = {"$id": "https://a.example/", "properties": references}
    assert bundler.bundle(short)[0] == {"https://a.example/0": {"a": {"0": True}}}
    assert len(joined) < 50
    assert all(len(base) <= MAX_URI for base, _ in joined)


def test_after_very_many_faults_no_more_tools_are_read():
    """Each fault says what was probably meant: 100 kB of wrong types would stop the event loop for 0.1 s."""
    wrong = {"name": "a", "parameters": {"properties": {f"p{n}": {"type": "strin"} for n in range(20)}}}
    tools, faults = read_tools([wrong] * 500, limits=Limits())
    assert not tools
    assert Limits().num_faults <= len(faults) < Limits().num_faults + 20


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"allOf": [5] * 240_000}, "/parameters/allOf/0"),
        ({"properties": {f"p{n}": {"type": 5} for n in range(40_000)}}, "/parameters/properties/p0/type"),
        ({"type": [5] * 240_000}, "/parameters/type/0"),
        ({"patternProperties": {f"({n}": {} for n in range(80_000)}}, "/parameters/patternProperties"),
        ({"dependentRequired": {"a": [5] * 240_000}}, "/parameters/dependentRequired/a"),
        ({"items": [5] * 240_000, "$schema": DRAFT_7}, "/parameters/items/0"),
        ({"dependencies": {"a": [5] * 240_000}, "$schema": DRAFT_7}, "/parameters/dependencies/a"),
        ({"required": [*map(str, range(80_000)), "0"]}, "/parameters/required"),
    ],
)
def test_faults_of_a_schema_are_found_one_after_the_other(schema, pointer):
    """The validator lists all before it gives the first, and nothing else runs meanwhile: half a minute."""
    with pytest.raises(InvalidTools) as refused:
        read_tool({"name": "a", "parameters": schema}, limits=Limits())
    first = refused.value.faults[0]
    assert first.pointer.startswith(pointer)
    assert len(first.message) < 400
    assert len(refused.value.faults) <= Limits().num_faults_per_tool


async def test_one_tool_is_read_in_a_thread(settings, runtime, monkeypatch):
    """One of 240,000 values would take a second of the event loop."""
    read_in = []

    def noting(*arguments, **options):
        read_in.append(threading.current_thread())
        return read_tool(*arguments, **options)

    monkeypatch.setattr(registry, "read_tool", noting)
    app = create_app(settings, runtime=runtime)
    transport = httpx.ASGITransport(app)
    async with app.lifespan(), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        await client.put("/v1/toolsets/t", json={"tools": []})
        assert (await client.put("/v1/toolsets/t/tools/a", json={"name": "a"})).is_success
    assert read_in[0] is not threading.main_thread()


def test_of_fields_that_are_left_out_no_suggestion_is_made(monkeypatch):
    """To compare names for each of 2,000 custom tools would take 0.2 s on the event loop."""
    made = []
    monkeypatch.setattr("gateway.http.conversion.instead", lambda *_: made.append(1) or "")
    tools = [{"type": "custom", "name": f"a{number}", "added": 1} for number in range(50)]
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "tools": tools}
    assert read_request(body).ignored
    assert not made


async def test_a_call_that_is_nested_very_deep_is_answered(settings, runtime):
    """Messages has its arguments decoded, and Python's decoder gives up at 1,000 levels."""
    deep = '{"a":' * 5_000 + "1" + "}" * 5_000
    runtime.script = call("f", deep)
    app = create_app(settings, runtime=runtime)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    asked = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
    asked["tools"] = [{"name": "f", "input_schema": {"type": "object"}}]
    async with app.lifespan(), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.post("/v1/messages", json=asked)
    assert answer.status_code == 200
    assert deep in answer.text


async def test_an_id_of_a_reference_is_a_string():
    """Any other value would be written out on the event loop, several times."""
    with pytest.raises(InvalidField, match="must be a string"):
        await Continuation(responses(), "a").expand(
            {"input": [{"type": "item_reference", "id": [[]] * 100}]}, TURN
        )


def test_a_repetition_penalty_leaves_logits_numbers():
    with pytest.raises(InvalidField, match="repetition_penalty"):
        read_request(
            {"model": "m", "messages": [{"role": "user", "content": ""}], "repetition_penalty": 1e-9}
        )


@pytest.mark.timeout(60)
def test_an_index_of_long_tools_takes_about_a_second():
    """It is made in one of two threads that all searches share."""
    words = ["".join(letters) for letters in product("abcdefghijklmnopqrstuvwxyz", repeat=3)]
    tools = [
        Tool(f"t{number}", " ".join(words[number : number + 1000]), {"type": "object"})
        for number in range(2048)
    ]
    start = time.thread_time()
    index = ToolIndex(tools)
    assert time.thread_time() - start < 5
    assert index.scores({words[5]: 1.0})[4] > 0


def test_a_text_that_many_toolsets_are_searched_for_is_read_once(monkeypatch):
    """Else 128 toolsets would take 9 s of processor time to read six messages of a request of 42 KB."""
    read, words_of = [], tool_index._words
    monkeypatch.setattr(tool_index, "_words", lambda text: read.append(text) or words_of(text))
    indexes = [ToolIndex([Tool(f"send_{number}", "Sends mail.", {})]) for number in range(5)]
    texts, known = {"Send mail. Then wait.": 1.0}, ReadTexts()
    assert {index.scores(texts, known)[0] for index in indexes} == {indexes[0].scores(texts)[0]}
    read.clear()
    for index in indexes:
        index.scores(texts, known)
    assert read == []


def test_all_words_are_read_of_tools_as_people_write_them():
    text = " ".join(f"word{number}" for number in range(100)) + " zebra"
    index = ToolIndex([Tool(f"t{number}", text if number else "", {}) for number in range(500)])
    assert index.scores({"zebra": 1.0})[:2] == [0.0, 1.0]


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "a" * 50_000, "parameters": {"properties": {str(i): {"type": "x"} for i in range(20)}}},
        {"name": "a", "parameters": {"dependentRequired": {"a" * 50_000: [1] * 20}}},
    ],
)
def test_faults_do_not_repeat_long_names(tool):
    """Else a tool of 0.9 MB could be refused by an answer of 18 MB."""
    with pytest.raises(InvalidTools) as refused:
        read_tool(tool, limits=Limits())
    assert len(refused.value.faults) >= 2
    assert sum(len(str(value)) for fault in refused.value.faults for value in astuple(fault)) < 20_000
    with pytest.raises(InvalidTools) as refused:
        check_documents({"https://a.example/b": tool["parameters"]}, limits=Limits())
    assert sum(len(str(value)) for fault in refused.value.faults for value in astuple(fault)) < 20_000


def test_a_name_of_megabytes_is_not_matched():
    """A pattern remembered each of its segments, in 228 MB."""
    for end in ("a", "!"):
        assert submitted_name({"name": "a/" * 1000 + end}) is None


@pytest.mark.parametrize("uri", ["http://[V1.a]/", "HTTP://[V1.a]/b", "x://[Vf.:]"])
def test_a_uri_that_only_one_of_two_readers_knows_is_refused(uri):
    """It answered 500: the validator knows such an address, and Python's reader of URLs raises.

    Python 3.14 reads it, and writes it in small letters.
    """
    with pytest.raises(InvalidTools, match=r"not an absolute URI|not in normal form"):
        check_documents({uri: {}}, limits=Limits())


def test_a_wrong_table_of_models_is_not_told_with_its_secrets(tmp_path):
    config = tmp_path / "callgate.toml"
    config.write_text('[[models]]\nmodel = 5\nengine_headers = { Authorization = "Bearer s3cret" }\n')
    with pytest.raises(SettingsError, match="models") as refused:
        load({}, environment={}, config=config)
    assert "s3cret" not in str(refused.value)


def test_options_of_the_template_are_short():
    """They are kept until the answer ends, decoded: 1.5 MB of them take 49 MB, for each of 128 answers."""
    asked = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    options = {"enable_thinking": False, "effort": "high"}
    assert read_request(asked | {"chat_template_kwargs": options}).turn.template_options == options
    with pytest.raises(InvalidField, match="at most 4000 are taken") as refused:
        read_request(asked | {"chat_template_kwargs": {"x": [[]] * 2_000}})
    assert refused.value.param == "chat_template_kwargs"
