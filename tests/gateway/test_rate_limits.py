"""Limits a minute of API keys: never exceeded in any minute, by however many gateways, and told in headers."""

import asyncio
import base64
import re
from datetime import timedelta

import pytest
from chat import URL, USER, body
from fake_runtime import STATS, call
from hypothesis import example, given, settings
from hypothesis import strategies as st
from keys import ADMIN, key_of
from moved_clock import Clock
from opened_store import opened
from redis_server import running_redis
from sample_tools import WEATHER

from gateway.access.rate_limits import LimitKind, RateLimits
from gateway.errors import RateLimited
from gateway.generation.allowance import PIXELS_PER_TOKEN
from runtime.errors import BudgetTooSmall, DeadlineExceeded, GrammarTooSlow
from runtime.events import PromptRendered, SelectionStats, TextDelta

CHAT = body(max_tokens=20)
SPENT = STATS.num_prompt_tokens + STATS.num_output_tokens


async def is_taken(limits, amount, limit):
    try:
        await limits.reserve("key/requests", LimitKind.REQUESTS, amount, limit)
    except RateLimited as error:
        return not (error.retry_after_s > 0 and error.remaining < amount)
    return True


@settings(max_examples=50)
@given(
    steps=st.lists(
        st.tuples(st.floats(0, 40), st.integers(1, 4), st.booleans(), st.floats(0, 5)), max_size=60
    ),
    limit=st.integers(4, 12),
)
@example(
    steps=[(11, 1, True, 2), (17, 1, False, 0), (24, 1, False, 0), (9, 1, False, 0), (9, 1, False, 0)],
    limit=4,
)
def test_no_minute_sees_more_than_the_limit(steps, limit):
    """Two gateways, whose clocks differ by up to a counter's length; the minute is shorter by as much."""

    async def played():
        clock, late, admitted = Clock(), Clock(), []
        async with opened("sqlite://:memory:") as store:
            gateways = [RateLimits(store, each.timestamp) for each in (clock, late)]
            for pause, amount, is_late, lag in steps:
                clock.pass_by(seconds=pause)
                late.now = max(late.now, clock.now - timedelta(seconds=lag))
                if await is_taken(gateways[is_late], amount, limit):
                    admitted.append((clock.elapsed_s(), amount))
        return admitted

    admitted = asyncio.run(played())
    length = 60 - max((lag for _, _, is_late, lag in steps if is_late), default=0)
    for start, _ in admitted:
        assert sum(amount for at, amount in admitted if start <= at < start + length) <= limit
    if steps:
        assert admitted, "the first is let in"


async def test_a_key_that_always_asks_gets_nearly_its_limit():
    clock, limit, num_taken = Clock(), 60, 0
    async with opened("sqlite://:memory:") as store:
        limits = RateLimits(store, clock.timestamp)
        for _ in range(1200):
            clock.pass_by(seconds=0.5)
            num_taken += await is_taken(limits, 1, limit)
    assert 0.9 * limit * 10 <= num_taken <= limit * 10 + limit


async def test_after_retry_after_there_is_room():
    clock = Clock()
    async with opened("sqlite://:memory:") as store:
        limits = RateLimits(store, clock.timestamp)
        for pause, amount in ((0, 3), (7, 2), (11, 5)):
            clock.pass_by(seconds=pause)
            await limits.reserve("k", LimitKind.TOKENS, amount, 10)
        for amount in (1, 4, 10):
            with pytest.raises(RateLimited) as raised:
                await limits.reserve("k", LimitKind.TOKENS, amount, 10)
            clock.pass_by(seconds=raised.value.retry_after_s)
            limits.settle(await limits.reserve("k", LimitKind.TOKENS, amount, 10), 0)
            await limits.close()
            clock.pass_by(seconds=-raised.value.retry_after_s)


@pytest.fixture
async def client(client_with):
    """A gateway whose keys may have limits."""
    async with client_with(api_key=ADMIN) as client:
        yield client


def told(answer, kind):
    return [answer.headers.get(f"x-ratelimit-{part}-{kind}") for part in ("limit", "remaining")]


async def test_requests_are_counted_told_and_refused(client):
    own = await key_of(client, requests_per_minute=2)
    first = await client.post(URL, json=CHAT, headers=own)
    assert (first.status_code, told(first, "requests")) == (200, ["2", "1"])
    assert first.headers["x-ratelimit-reset-requests"].endswith("s")
    assert told(first, "tokens") == [None, None]
    second = await client.get("/v1/models", headers=own)
    assert told(second, "requests") == ["2", "0"]
    refused = await client.post(URL, json=CHAT, headers=own)
    assert (refused.status_code, told(refused, "requests")) == (429, ["2", "0"])
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert "reserves" not in refused.json()["error"]["message"]
    assert 1 <= int(refused.headers["retry-after"]) <= 65
    refused = await client.post("/v1/messages", json=CHAT, headers=own)
    assert refused.json()["error"]["type"] == "rate_limit_error"
    refused = await client.get("/v1/toolsets", headers=own)
    assert refused.json()["type"] == "urn:callgate:rate-limit-exceeded"
    assert (await client.get("/healthz", headers=own)).status_code == 200
    assert told(await client.get("/v1/models", headers={"X-API-Key": ADMIN}), "requests") == [None, None]


async def remaining(client, own):
    """Tokens that are left, told by an answer that costs one; it waits until what came before is settled."""
    await asyncio.sleep(0)
    answer = await client.post(URL, json=body(max_tokens=1), headers=own)
    return int(answer.headers["x-ratelimit-remaining-tokens"])


async def test_tokens_are_reserved_and_settled_by_what_was_answered(client):
    own = await key_of(client, tokens_per_minute=1000)
    asked = body(max_tokens=400)
    first = await client.post(URL, json=asked, headers=own)
    assert told(first, "tokens") == ["1000", "600"]
    assert await remaining(client, own) == 1000 - SPENT - 1
    streamed = await client.post(URL, json={**asked, "stream": True}, headers=own)
    assert told(streamed, "tokens") == ["1000", str(1000 - 2 * SPENT - 400)]
    assert await remaining(client, own) == 1000 - 3 * SPENT - 1


async def test_thoughts_in_a_conversation_count_as_prompt(client):
    """Prompts show them, so tokens are reserved for them."""
    thought = {"role": "assistant", "content": "Hello.", "reasoning_content": "Hm. " * 100}
    asked = {**CHAT, "messages": [USER, thought, USER]}
    own = await key_of(client, tokens_per_minute=1000)
    answer = await client.post(URL, json=asked, headers=own)
    assert told(answer, "tokens") == ["1000", str(1000 - (400 + len("HiHello.Hi")) // 4 - 20)]


async def test_images_count_by_their_pixels(client):
    """Engines do not say how many tokens an image takes: without a guess, it would take none."""
    gif = base64.b64encode(b"GIF89a\x4b\0\x0a\0\0\0\0\x2c\0\0\0\0\x4b\0\x0a\0\0").decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{gif}"}}
    own = await key_of(client, tokens_per_minute=1000)
    asked = body(max_tokens=20, messages=[{"role": "user", "content": [image] * 300}])
    answer = await client.post(URL, json=asked, headers=own)
    assert told(answer, "tokens") == ["1000", str(1000 - 75 * 10 * 300 // PIXELS_PER_TOKEN - 20)]


async def test_drafts_that_are_not_taken_count_too(client, runtime):
    """A client that asks for drafts that all fail pays for them, however short the answer is."""
    drafted = SelectionStats("draft", 2, is_exact=False, num_computed_tokens=None, num_written_tokens=300)
    asked = body(max_tokens=200, tools=[WEATHER], callgate={"draft": True})
    own = await key_of(client, tokens_per_minute=1000)
    plain, runtime.script = runtime.script, call("get_weather", "{}", selection=drafted)
    answer = await client.post(URL, json=asked, headers=own)
    assert answer.status_code == 200, answer.text
    assert 500 < int(told(answer, "tokens")[1]) < 600
    runtime.script = plain
    assert await remaining(client, own) == 1000 - STATS.num_prompt_tokens - 300 - 1


async def test_what_is_refused_costs_no_tokens_and_what_breaks_off_what_was_reserved(client, runtime):
    own = await key_of(client, tokens_per_minute=1000)
    whole, runtime.script = runtime.script, [PromptRendered(11), BudgetTooSmall(400, 401)]
    asked = body(max_tokens=400)
    assert (await client.post(URL, json=asked, headers=own)).status_code == 400
    runtime.script = [TextDelta(0, "Hel"), RuntimeError("the engine broke")]
    assert (await client.post(URL, json=asked, headers=own)).status_code == 500
    runtime.script = [DeadlineExceeded()]
    asked["max_tokens"] = 300
    assert (await client.post(URL, json=asked, headers=own)).status_code == 504
    runtime.script = whole
    assert await remaining(client, own) == 1000 - 400 - 300 - 1


async def test_an_answer_that_breaks_off_costs_what_was_seen_of_it(client, runtime):
    """Without a budget 512 tokens are reserved; who leaves at the end of a longer answer pays for all of it."""
    own = await key_of(client, tokens_per_minute=1000)
    whole, runtime.script = runtime.script, [TextDelta(0, "a")] * 700 + [RuntimeError("the engine broke")]
    assert (await client.post(URL, json=CHAT, headers=own)).status_code == 500
    runtime.script = whole
    assert 250 < await remaining(client, own) < 300


@pytest.mark.parametrize(
    ("events", "status", "cost"),
    [
        ([RuntimeError("the engine broke")], 500, 600),
        ([TextDelta(0, "a"), RuntimeError("the engine broke")], 500, 601),
        ([GrammarTooSlow(0.5)], 400, 600),
    ],
)
async def test_a_prompt_that_was_read_is_paid_whatever_becomes_of_its_answer(
    client, runtime, events, status, cost
):
    """Before it is read it counts as a quarter of its characters, and from then on as its tokens."""
    own = await key_of(client, tokens_per_minute=1000)
    whole, runtime.script = runtime.script, [PromptRendered(600), *events]
    asked = body(max_tokens=1)
    assert (await client.post(URL, json=asked, headers=own)).status_code == status
    runtime.script = whole
    assert await remaining(client, own) == 1000 - cost - 1


async def test_too_many_tokens_are_refused_before_anything_is_computed(client, runtime):
    own = await key_of(client, tokens_per_minute=100)
    assert (await client.post(URL, json=CHAT, headers=own)).status_code == 200
    runtime.requests.clear()
    asked = body(max_tokens=99)
    refused = await client.post(URL, json=asked, headers=own)
    assert (refused.status_code, runtime.requests) == (429, [])
    message = refused.json()["error"]["message"]
    assert re.search(r"100 tokens a minute, and has \d+ left, and this request reserves 99;", message)
    assert message.endswith(", or lower max_tokens")


async def test_two_gateways_over_one_redis_uphold_one_limit(client_with, tmp_path):
    with running_redis(tmp_path) as server:
        shared = {"api_key": ADMIN, "store": server.url}
        async with client_with(**shared) as first, client_with(**shared) as second:
            own = await key_of(first, requests_per_minute=20)
            answers = await asyncio.gather(
                *(client.get("/v1/models", headers=own) for _ in range(30) for client in (first, second))
            )
            statuses = [answer.status_code for answer in answers]
            assert (statuses.count(200), statuses.count(429)) == (20, 40)
            server.kill()
            after = [(await client.get("/v1/models", headers=own)).status_code for client in (first, second)]
            assert after == [200, 200], "keys that were seen go on, each gateway within the limit"
            mine = [(await first.get("/v1/models", headers=own)).status_code for _ in range(20)]
            assert (mine.count(200), mine.count(429)) == (19, 1)
            unknown = {"Authorization": f"Bearer cg_{'0' * 16}_{'A' * 43}"}
            answer = await first.get("/v1/models", headers=unknown)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "keys_unavailable")
            assert answer.headers["retry-after"] == "1"
