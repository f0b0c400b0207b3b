"""Selected answers of the random model, which hardly ever writes anything valid by itself."""

import re
from dataclasses import replace

import pytest
import toy_model
from embedded import SETTINGS, all_events_of, assert_valid, events_of, linked, request, settled
from whole_outputs import calls_of

from runtime.errors import DeadlineExceeded, RequestRefused
from runtime.events import Finished, FinishReason
from runtime.request import Sampling
from runtime.selection import DRAFT, Selection

ACCEPT = Selection("accept", 3)
PARTICLES = Selection("particles", 3)


def strategies(*selections):
    return pytest.mark.parametrize("selection", selections, ids=lambda selection: selection.strategy)


@pytest.mark.parametrize("jump_forward", [True, False])
@strategies(ACCEPT, PARTICLES)
async def test_answers_are_valid_and_never_cut_off(make_runtime, jump_forward, selection):
    runtime = make_runtime(replace(SETTINGS, jump_forward=jump_forward))
    constraint = await linked(runtime, "required")
    options = {"constraint": constraint, "selection": selection}
    asked = [request(f"r{seed}", seed=seed, max_tokens=(40, 400)[seed % 2], **options) for seed in range(8)]
    answers = await all_events_of(runtime, asked)
    for events in answers:
        assert_valid(calls_of(events))
        finished = events[-1]
        assert finished.reason is (FinishReason.LENGTH if finished.closed_by else FinishReason.TOOL_CALLS)
        assert finished.stats.selection.num_draws <= ACCEPT.size
        assert finished.stats.log_weight < 0
        assert finished.stats.num_output_tokens <= 400
    assert any(events[-1].stats.selection.num_draws > 1 for events in answers)


@strategies(ACCEPT, PARTICLES, DRAFT)
async def test_every_choice_is_selected_by_itself_and_seeded(runtime, selection):
    """Alone or in company."""
    constraint = await linked(runtime, "required")
    asked = request(constraint=constraint, selection=selection, num_choices=3, max_tokens=60, seed=5)
    alone = await events_of(runtime, asked)
    together = await all_events_of(runtime, [replace(asked, request_id=name) for name in "ab"])
    calls = [[calls_of(events, choice) for choice in range(3)] for events in (alone, *together)]
    assert calls[0] == calls[1] == calls[2]
    assert calls[0][0] != calls[0][1] != calls[0][2]
    ends = [event.choice for event in alone if isinstance(event, Finished)]
    assert sorted(ends) == [0, 1, 2]


async def test_at_temperature_0_particles_find_the_same_with_every_seed(runtime):
    asked = {"constraint": await linked(runtime, "required"), "max_tokens": 60, "temperature": 0.0}
    selection = Selection("particles", 4)
    first, again = [
        await events_of(runtime, request(f"r{seed}", seed=seed, selection=selection, **asked))
        for seed in (1, 2)
    ]
    assert calls_of(first) == calls_of(again)
    assert_valid(calls_of(first))
    assert 1 < first[-1].stats.selection.num_draws <= 4
    plain = await events_of(runtime, request(selection=Selection(), **asked))
    assert plain[-1].stats.selection is None


async def test_nothing_comes_before_it_is_selected(runtime):
    constraint = await linked(runtime, "required")
    asked = request(constraint=constraint, selection=ACCEPT, max_tokens=60, is_streamed=True)
    is_working = [runtime._thread.engine.has_work async for _ in runtime.generate(asked)]
    assert not any(is_working[1:])


@strategies(ACCEPT, DRAFT)
async def test_the_default_is_for_answers_that_are_not_streamed(make_runtime, selection):
    runtime = make_runtime(replace(SETTINGS, selection=selection))
    constraint = await linked(runtime, "required")

    async def found(**options):
        events = await events_of(runtime, request(constraint=constraint, max_tokens=60, **options))
        return events[-1].stats.selection

    assert (await found()).strategy == selection.strategy
    assert (await found(temperature=0.0)).strategy == selection.strategy
    assert await found(is_streamed=True) is None
    assert await found(stop=("x",)) is None
    assert await found(selection=replace(selection, size=1)) is None


async def test_a_stop_string_beside_it_is_refused(runtime):
    constraint = await linked(runtime, "auto")
    asked = request(constraint=constraint, selection=ACCEPT, stop=("x",))
    with pytest.raises(RequestRefused, match=re.escape("callgate.accept")) as refusal:
        await events_of(runtime, asked)
    assert refusal.value.parameter == "stop"


@strategies(Selection("accept", 16), DRAFT)
async def test_a_deadline_holds_for_all_draws_together(runtime, selection):
    constraint = await linked(runtime, "required")
    asked = request(constraint=constraint, selection=selection, timeout_s=1e-6)
    with pytest.raises(DeadlineExceeded):
        await events_of(runtime, asked)
    await settled(runtime)


@strategies(Selection("accept", 16), DRAFT)
async def test_an_abort_ends_all_draws(runtime, selection):
    constraint = await linked(runtime, "required")
    generating = runtime.generate(request(constraint=constraint, selection=selection))
    await anext(generating)
    await generating.aclose()
    await settled(runtime)
    later = await events_of(runtime, request("later", constraint=constraint, max_tokens=60))
    assert_valid(calls_of(later))


async def test_more_particles_than_may_wait_are_refused(make_runtime):
    runtime = make_runtime(replace(SETTINGS, max_waiting=20))
    constraint = await linked(runtime, "required")
    asked = request(constraint=constraint, selection=Selection("particles", 8), num_choices=3)
    with pytest.raises(RequestRefused, match="at most 6"):
        await events_of(runtime, asked)


@pytest.mark.parametrize(
    ("changed", "applies"),
    [
        ({}, True),
        ({"num_logprobs": 2}, False),
        ({"is_inspected": True}, False),
        ({"is_streamed": True}, False),
        ({"stop": ("x",)}, False),
        ({"sampling": Sampling(temperature=0)}, True),
        ({"sampling": Sampling(temperature=0, presence_penalty=1)}, True),
        ({"sampling": Sampling(repetition_penalty=1.05)}, True),
        ({"sampling": Sampling(top_p=0.9, top_k=20)}, True),
    ],
)
def test_where_the_default_applies(changed, applies):
    asked = replace(request(constraint=toy_model.GRAMMAR), selection=None, **changed)
    assert (asked.selection_or(ACCEPT, 8) is ACCEPT) is applies
    if not asked.sampling.is_greedy:
        assert asked.selection_or(PARTICLES, 8) == (PARTICLES if applies else Selection())
        assert asked.selection_or(Selection("particles", 16), 8) == Selection()


def test_particles_of_a_setting_accept_at_temperature_0():
    """They would search for the most likely output, which of long texts is often a short one."""
    asked = request(constraint=toy_model.GRAMMAR, temperature=0.0)
    assert asked.selection_or(PARTICLES, 8) == ACCEPT
    assert replace(asked, selection=PARTICLES).selection_or(ACCEPT, 8) == PARTICLES
