"""Bodies that are costly to decode, or hold too much."""

import gc
import json

import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from gateway.errors import MalformedBody, UnreadableBody
from gateway.http.json_body import read_json
from toolspecs.errors import TooDeep, TooManyValues
from toolspecs.json_scan import ContentLimits, scan

CHAT, TOOLSET = "/v1/chat/completions", "/v1/toolsets/x"
MANY = 300_000

FLOODS = {
    "arrays": b"[" + b"[]," * MANY + b"0]",
    "objects": b"[" + b"{}," * MANY + b"0]",
    "members": b"{" + b'"a":0,' * MANY + b'"b":0}',
    "numbers": b"[" + b"0," * MANY + b"0]",
    "strings": b"[" + b'"",' * MANY + b"0]",
    "arrays after strings with escapes": b'["\\\\","\\"[","\\\\\\"",' + b"[]," * MANY + b"0]",
    "an array that does not end": b"[[]," * MANY,
    "floats that are slow to read": b"[" + b"1.12345678901234567890e-300," * 10_000 + b"0]",
    "nested arrays": b"[" * 600 + b"]" * 600,
    "nested objects": b'{"a":' * 600 + b"0" + b"}" * 600,
    "nested arrays that do not end": b"[" * 1_000_000,
    "UTF-16": ("[" + "[]," * MANY + "0]").encode("utf-16-le"),
    "UTF-16 that looks like one string": ("\u225b" + "[]," * MANY + "\u225d").encode("utf-16-le"),
}


@pytest.mark.parametrize("raw", FLOODS.values(), ids=FLOODS)
@pytest.mark.parametrize("keeps_surrogates", [False, True])
def test_what_is_costly_to_decode_is_not_decoded(raw, keeps_surrogates):
    gc.disable()  # so that it counts the containers that were made and are still there
    try:
        before, *_ = gc.get_count()
        with pytest.raises(MalformedBody) as error:
            read_json(raw, keeps_surrogates=keeps_surrogates)
        after, *_ = gc.get_count()
    finally:
        gc.enable()
    assert after < before + 10_000
    assert isinstance(error.value, UnreadableBody) or raw == FLOODS["UTF-16 that looks like one string"]


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/v1/messages", TOOLSET, f"{TOOLSET}/check"])
async def test_a_flood_is_refused_by_every_route(client, path):
    method = "PUT" if path == TOOLSET else "POST"
    for name in ("arrays", "nested arrays"):
        refused = await client.request(method, path, content=FLOODS[name])
        assert refused.status_code in {400, 422}
        assert "the body cannot be read" in refused.text


def num_values(value) -> int:
    """As `scan` counts: one, the values inside, and one for an array or object that has none."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if inside is None:
        return 1
    return 1 + (sum(map(num_values, inside)) or 1)


def depth_of(value) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(depth_of, inside), default=0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.text('\\"[]{},:'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('\\"[]{},:a', max_size=4), inner),
)


@settings_of_hypothesis(max_examples=60)
@given(JSON, st.booleans())
def test_the_scan_counts_what_a_decoder_makes(value, is_ascii):
    text = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    counted, depth = num_values(value), depth_of(value)
    assert scan(text, ContentLimits(num_values=max(counted, 1), depth=depth)).num_values <= counted
    made = sum(1 for _ in every_value(value))
    assert scan(text, ContentLimits()).num_values >= made
    if depth:
        with pytest.raises(TooDeep):
            scan(text, ContentLimits(depth=depth - 1))
    if made > 1:
        with pytest.raises(TooManyValues):
            scan(text, ContentLimits(num_values=made - 1))


def every_value(value):
    yield value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from every_value(inner)


@pytest.mark.parametrize(
    "number",
    ["5e-324", "-1.234567890123456e-300", "1.7976931348623157E+308", "1.2345678901234567E308", "9" * 25],
)
def test_numbers_that_take_long_to_decode_are_few(number):
    """A decoder takes 12 µs for each 5e-324: 1.7 MB of them would stop the event loop for 4 s."""
    for many, few in (("[", "0]"), ('{"a": ' + number + ', "b": [', "0]}")):
        read_json((many + f"{number}," * 3_900 + few).encode())
        with pytest.raises(UnreadableBody, match="4000 numbers of 21 digits or a large exponent"):
            read_json((many + f"{number}," * 4_100 + few).encode())


def test_usual_numbers_are_not_counted_as_long():
    numbers = [
        "1e5",
        "-2.5e-10",
        "1E+22",
        "0.1234567890123",
        "12345678901234567",
        "true",
        "[]",
        '"e000 5e-324"',
    ]
    read_json(f"[{','.join(numbers * 5_000)}]".encode())


@pytest.mark.parametrize("kind", ["list", "object"])
@pytest.mark.parametrize("depth", [201, 700, 9_000])
async def test_calls_whose_arguments_are_deep_are_a_mistake_of_the_client(client, kind, depth):
    arguments = "[" * depth + "]" * depth if kind == "list" else '{"a":' * depth + "0" + "}" * depth
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    items = [{"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}]
    chat = await client.post(CHAT, json={"model": "tiny", "messages": messages})
    response = await client.post("/v1/responses", json={"model": "tiny", "input": items})
    for answer in (chat, response):
        assert answer.status_code == 400
        assert "nested more than 200 deep" in answer.json()["error"]["message"]


async def test_arguments_that_hold_much_are_refused(client):
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": "[" + "[]," * 50_000 + "0]"},
    }
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    answer = await client.post(CHAT, json={"model": "tiny", "messages": messages})
    assert answer.status_code == 400
    assert "more than 20000 values" in answer.json()["error"]["message"]


async def test_a_body_of_too_many_values_is_told_by_which_setting(client_with):
    async with client_with(max_body_values=2_000) as client:
        for url in (CHAT, "/v1/toolsets/a/check"):
            refused = await client.post(url, json={"tools": [0] * 2_000})
            assert refused.status_code in {400, 422}
            assert "more than 2000 values, which is the limit of the setting max_body_values" in refused.text


async def test_each_kind_of_route_has_its_own_limit(client_with):
    tool = {"name": "ping", "description": "x" * 5_000, "inputSchema": {"type": "object"}}
    message = {"model": "tiny", "messages": [{"role": "user", "content": "x" * 5_000}]}

    async with client_with(max_body_bytes=2_000, max_toolset_bytes=9_000) as client:
        refused = await client.post(CHAT, json=message)
        assert (refused.status_code, "2000 bytes" in refused.text) == (413, True)
        assert "the setting max_body_bytes" in refused.text
        assert (await client.put(TOOLSET, json={"tools": [tool]})).status_code == 201
        refused = await client.put(TOOLSET, json={"tools": [tool, tool]})
        assert (refused.status_code, "9000 bytes" in refused.text) == (413, True)
        assert "the setting max_toolset_bytes" in refused.text
