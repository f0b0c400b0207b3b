"""Engines that do as they should pass the canary, whatever model they serve."""

from dataclasses import replace

import pytest
from completions_server import StandIn
from pluginless_servers import STAND_INS
from remote_engines import assert_valid, events_of, remote_over
from whole_outputs import calls_of


@pytest.mark.parametrize("syntax", ["harmony", "kimi+think", "json+think"])
@pytest.mark.parametrize(("kind", "stand_in"), [("vllm", StandIn), *STAND_INS.items()])
async def test_a_model_that_thinks_before_its_call_passes(text, syntax, kind, stand_in):
    """Its thought was of the canary's letter without end, so that its engine never took a request."""
    thinking = replace(text, syntax=syntax)

    async with remote_over(thinking, stand_in(thinking), kind=kind, wait=False) as remote:
        lookup = await remote.grammar()
        health = await remote.settled(lambda health: "not been checked" not in health.reason)
        assert health.is_ready, health.reason
        request = remote.request(lookup)
        events = await events_of(remote, request)
        assert_valid(events, request)
        assert calls_of(events)


@pytest.mark.parametrize("context_length", [150, 300, 4096])
async def test_an_engine_with_a_short_context_passes(text, context_length):
    """The canary asked for more tokens than its context has, which engines refuse."""
    async with remote_over(text, StandIn(text, context_length=context_length), wait=False) as remote:
        health = await remote.settled(lambda health: "not been checked" not in health.reason)
        assert health.is_ready, health.reason
