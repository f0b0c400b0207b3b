"""External engines: no client takes them, or the threads beside them, from the others."""

import asyncio
import json
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from completions_server import StandIn
from remote_engines import SETTINGS, events_of, load_text, remote_over, until

from compiler.recipe import GrammarRecipe
from compiler.recogniser.exchanged_items import with_exchanged_item
from compiler.schema import compile_schema
from runtime.engines import verified_output
from runtime.engines.client import (
    EngineAddress,
)
from runtime.engines.completion_request import conversation_head
from runtime.engines.delivery import ChoiceDelivery, deliver_verified
from runtime.engines.published_grammars import PublishedGrammars
from runtime.engines.replica import MAX_FAILURES, Replica, WatchSettings
from runtime.engines.verified_output import Verification, VerifiedOutput
from runtime.engines.vllm_client import VllmClient
from runtime.errors import (
    EngineBroke,
    EngineUnreachable,
    GrammarTooSlow,
    RequestRefused,
    TooManySequences,
)
from runtime.event_queue import EventQueue
from runtime.events import PromptRendered
from runtime.protocol import Circuit
from runtime.request import GenerationRequest
from runtime.text import prompts
from runtime.text.detokenizer import TokenBytes
from runtime.written_token import SampledToken


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return load_text(tmp_path_factory.mktemp("models"))


def working_replica():
    replica = Replica(VllmClient(EngineAddress("http://engine")), WatchSettings())
    replica.circuit, replica.reason = Circuit.CLOSED, ""
    return replica


async def fail(replica, client_id, error=EngineBroke):
    with pytest.raises(EngineBroke):
        async with replica.request(client_id):
            raise error("engine", "broke off")


async def test_one_clients_failing_requests_take_an_engine_from_nobody():
    """Its grammars may be too slow for the engine; the canary finds out whether the engine is broken."""
    replica = working_replica()
    for _ in range(5 * MAX_FAILURES):
        await fail(replica, "attacker")
    assert replica.circuit is Circuit.CLOSED
    assert replica._is_due.is_set()


async def test_failures_of_several_clients_in_a_row_open_the_circuit():
    replica = working_replica()
    for client_id in ("a", "b", "a"):
        assert replica.circuit is Circuit.CLOSED
        await fail(replica, client_id)
    assert replica.circuit is Circuit.OPEN


async def test_an_engine_that_cannot_be_reached_gets_no_more_requests():
    replica = working_replica()
    await fail(replica, "a", EngineUnreachable)
    assert replica.circuit is Circuit.OPEN


async def test_an_engine_under_suspicion_is_checked_soon_and_keeps_the_age_of_its_last_canary(monkeypatch):
    """Without the age, alerts on it would be blind just then."""
    replica = Replica(VllmClient(EngineAddress("http://engine")), WatchSettings(probe_s=0))
    num_checks = 0

    async def passes(model_name, check):
        nonlocal num_checks
        num_checks += 1
        replica._passed_at, replica._is_suspected = time.monotonic(), False
        replica.circuit = Circuit.CLOSED

    async def is_healthy():
        return True

    monkeypatch.setattr(replica, "_try", passes)
    monkeypatch.setattr(replica.client, "is_healthy", is_healthy)
    assert replica.state("m").canary_age_s is None
    await replica._check(None, None)
    await replica._check(None, None)
    assert num_checks == 1
    replica.refused_token(is_expected=False)
    assert replica.state("m").canary_age_s is not None
    await replica._check(None, None)
    assert num_checks == 2


async def test_only_the_time_that_a_request_waits_for_its_engine_counts_as_a_stall():
    """Not waiting for our own verifying threads: else tenants with slow grammars would take engines from all."""
    replica = Replica(VllmClient(EngineAddress("http://engine")), WatchSettings(stall_s=0.2))
    async with replica.request() as stall_clock:
        for _ in range(3):
            with stall_clock.stopped():
                await asyncio.sleep(0.3)
    assert (replica.num_served, replica.num_failed) == (1, 0)

    async def engine_says_nothing(stall_clock):
        for _ in range(1000):
            with stall_clock.stopped():
                await asyncio.sleep(0)
            await asyncio.sleep(0.02)

    async def engine_dies(stall_clock):
        with stall_clock.stopped():
            replica.mark_dead("is dead")
            stall_clock.restart()
        await asyncio.sleep(30)

    async def waiting_for(wait):
        async with replica.request() as stall_clock:
            await wait(stall_clock)

    for wait in (engine_says_nothing, engine_dies):
        with pytest.raises(EngineBroke, match="stopped answering"):
            await waiting_for(wait)
    assert replica.num_failed == 2


async def test_a_full_client_waits_a_moment_and_is_refused_before_its_prompt_is_rendered(text, monkeypatch):
    """As with the embedded engine: refused at once, it could ask again at once."""
    monkeypatch.setattr(prompts, "FULL_PAUSE_S", 0)
    asked, rendered = [], []

    def num_sequences(client_id):
        asked.append(client_id)
        return 3

    async with remote_over(text, settings=replace(SETTINGS, max_sequences_per_client=4)) as remote:
        monkeypatch.setattr(remote.runtime._prompts, "_num_sequences", num_sequences)
        monkeypatch.setattr(remote.runtime._prompts, "_token_ids_of", rendered.append)
        with pytest.raises(TooManySequences, match="this client has 4 answers"):
            async for _ in remote.runtime.generate(remote.request(client_id="full", num_choices=2)):
                pass
    assert asked == ["full", "full"]
    assert not rendered


async def test_outputs_are_made_and_their_budgets_checked_in_threads_that_clients_share_fairly(
    text, monkeypatch
):
    async with remote_over(text, StandIn(text)) as remote:
        found = await remote.grammar()
        makers = set()
        for name in ("matcher", "closer"):
            make = getattr(found.grammar, name)

            def noted(*arguments, name=name, make=make, **options):
                if sys._getframe(2).f_globals["__name__"] != StandIn.__module__:  # it masks, too
                    makers.add((name, threading.current_thread()))
                return make(*arguments, **options)

            monkeypatch.setattr(type(found.grammar), name, lambda _self, *a, noted=noted, **o: noted(*a, **o))
        async for _ in remote.runtime.generate(remote.request(found)):
            pass
        ours = {(name, thread.name.rpartition("_")[0]) for name, thread in makers}
        assert ours == {("matcher", "callgate-template"), ("closer", "callgate-template")}


async def test_slow_outputs_of_one_client_leave_threads_to_others(text, monkeypatch):
    held, waiting = threading.Event(), []

    def take(self, tokens):
        waiting.append(self)
        held.wait(20)
        return original(self, tokens)

    original = verified_output.VerifiedOutput.take
    async with remote_over(text, StandIn(text)) as remote:
        found = await remote.grammar()
        monkeypatch.setattr(
            verified_output.VerifiedOutput,
            "is_slow",
            property(lambda _: True, lambda *_: None),
            raising=False,
        )
        monkeypatch.setattr(verified_output.VerifiedOutput, "take", take)
        requests = [remote.request(found, client_id="attacker", num_choices=4)]
        tasks = [asyncio.create_task(events_of(remote, request)) for request in requests]
        await until(lambda: len(waiting) == 2)
        tasks.append(asyncio.create_task(events_of(remote, remote.request(found, client_id="victim"))))
        await until(lambda: len(waiting) == 3)
        held.set()
        await asyncio.gather(*tasks)


async def test_of_tokens_that_come_together_one_slow_one_is_verified_on_the_event_loop():
    class Output:
        is_slow, needs_search, taken = False, False, []

        def take(self, tokens, *, may_search=True):
            assert may_search is (threading.current_thread() is not threading.main_thread())
            self.taken.append((len(tokens), threading.current_thread() is threading.main_thread()))
            self.is_slow = len(self.taken) == 2
            return []

    tokens = [SampledToken(token_id) for token_id in range(8)]
    with ThreadPoolExecutor(1) as threads:
        await deliver_verified(Output(), tokens, ChoiceDelivery(EventQueue(1)), threads.submit)
    assert Output.taken == [(1, True), (1, True), (6, False)]


async def test_no_long_search_for_a_completion_is_made_on_the_event_loop(monkeypatch):
    """Else the loop would search near the end of a budget for each token, 16 s in an answer."""
    pairs = {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"type": "string"}}
    compiled = compile_schema({"type": "array", "minItems": 20, "items": pairs})
    written = json.dumps([["x" * 10, "y", "z"]] * 20, separators=(",", ":")).encode()
    verification = Verification(compiled.prepared, TokenBytes(compiled.vocabulary))
    request = GenerationRequest("r", "m", (), constraint=compiled)
    output = VerifiedOutput(request, 0, [], len(written) + 60, verification, is_thinking=False)
    assert output.position.closer.fits(output.max_tokens)
    looked_for = defaultdict(list)

    def exchanged(state, cursor, planned):
        looked_for[threading.current_thread() is threading.main_thread()].append(len(planned.text))
        return with_exchanged_item(state, cursor, planned)

    monkeypatch.setattr("compiler.recogniser.recogniser.with_exchanged_item", exchanged)
    with ThreadPoolExecutor(1) as threads:
        for byte in written:
            await deliver_verified(
                output, [SampledToken(byte)], ChoiceDelivery(EventQueue(1)), threads.submit
            )
    assert bytes(output.ids) == written
    assert max(looked_for[False]) > 200
    assert max(looked_for[True], default=0) <= 64


async def test_the_messages_of_a_request_are_hashed_once_and_in_a_thread(text, monkeypatch):
    """They choose a replica, and may be megabytes, for each of 128 choices."""
    hashed_in = []
    monkeypatch.setattr(
        "runtime.engines.remote.conversation_head",
        lambda request: hashed_in.append(threading.current_thread()) or conversation_head(request),
    )
    async with remote_over(text, StandIn(text)) as remote:
        await events_of(remote, remote.request(num_choices=8, max_tokens=4))
    [thread] = hashed_in
    assert thread is not threading.main_thread()


async def test_a_part_of_grammars_is_looked_for_once_whatever_tools_a_request_allows():
    """Looking reads all of a part: else a request of 200 bytes that allows others of 2,000 tools would read 32 MB."""
    asked = []

    class Grammars:
        async def publish(self, keys, client_id):
            asked.append((keys, client_id))
            return True

    published = PublishedGrammars()
    published.start(Grammars())
    whole = GrammarRecipe("v", "hermes", (("f", "1"), ("g", "2")))
    for tools in (whole.tools, whole.tools[:1], whole.tools[1:], (*whole.tools, ("h", "3"))):
        await published.publish(replace(whole, tools=tools), "a")
    await published.publish(whole, "b", is_again=True)
    assert asked == [(["1", "2"], "a"), (["3"], "a"), (["1", "2"], "b")]


async def test_an_output_whose_grammar_takes_too_long_to_follow_ends_with_an_error(text, monkeypatch):
    monkeypatch.setattr(verified_output, "SLOW_S", 0.0)
    monkeypatch.setattr(verified_output, "MAX_SLOW_S", 0.0)
    async with remote_over(text, StandIn(text), settings=replace(SETTINGS, jump_forward=False)) as remote:
        found = await remote.grammar()
        with pytest.raises(GrammarTooSlow):
            await events_of(remote, remote.request(found))


@pytest.mark.parametrize(("num_logprobs", "is_taken"), [(20, False), (3, True)])
async def test_the_log_probabilities_of_one_answer_are_bounded(text, num_logprobs, is_taken):
    async with remote_over(text, StandIn(text)) as remote:
        request = remote.request(num_choices=16, max_tokens=3000, num_logprobs=num_logprobs, stop=("e", "a"))
        events = remote.runtime.generate(request)
        if is_taken:
            assert isinstance(await anext(events), PromptRendered)
        else:
            with pytest.raises(RequestRefused, match="have 1008000 log probabilities, but at most 500000"):
                await anext(events)
        await events.aclose()
