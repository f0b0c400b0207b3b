"""Drafts in front of the embedded engine: what is taken, what is written anew, and what is told of it."""

from dataclasses import replace

import pytest
from embedded import SETTINGS, all_events_of, assert_valid, events_of, linked, request
from whole_outputs import calls_of, text_of

from runtime.drafting import COMPLAINT
from runtime.errors import BudgetTooSmall
from runtime.events import CallStarted, FinishReason
from runtime.request import Message
from runtime.selection import DRAFT
from runtime.text.prompts import PromptRenderer


@pytest.fixture
def shown(monkeypatch):
    """The messages of every prompt."""
    found = []
    render = PromptRenderer._token_ids_of
    monkeypatch.setattr(
        PromptRenderer,
        "_token_ids_of",
        lambda self, asked: found.append(asked.messages) or render(self, asked),
    )
    return found


@pytest.mark.parametrize("jump_forward", [True, False])
async def test_what_is_broken_is_written_anew_with_the_draft_in_view(make_runtime, shown, jump_forward):
    """A random model hardly ever writes a valid call."""
    runtime = make_runtime(replace(SETTINGS, jump_forward=jump_forward))
    constraint = await linked(runtime, "required")
    for seed, max_tokens in enumerate((60, 400)):
        asked = request(constraint=constraint, seed=seed, selection=DRAFT, max_tokens=max_tokens)
        events = await events_of(runtime, asked)
        assert_valid(calls_of(events))
        end = events[-1]
        assert end.reason is (FinishReason.LENGTH if end.closed_by else FinishReason.TOOL_CALLS)
        assert end.stats.num_output_tokens <= max_tokens
        selection = end.stats.selection
        assert (selection.strategy, selection.num_draws, selection.is_exact) == ("draft", 2, False)
        assert selection.num_computed_tokens > end.stats.num_computed_tokens
        (broken,) = selection.broken
        assert broken.place.part in {"syntax", "arguments"}
        first, second = shown[-2:]
        assert first == (Message("user", "hello"),)
        assert second[:1] == first
        assert (second[1].role, second[2]) == ("assistant", Message("user", COMPLAINT))
        assert "<tool_call>" in second[1].content


async def test_the_cached_tokens_are_those_of_the_prompt_that_is_counted(runtime):
    """The second prompt also has the draft, which is cached when the same request comes again."""
    constraint = await linked(runtime, "required")
    asked = request(constraint=constraint, selection=DRAFT, max_tokens=200)
    for name in ("first", "again"):
        stats = (await events_of(runtime, replace(asked, request_id=name)))[-1].stats
        assert stats.selection.num_draws == 2
    assert 0 < stats.num_cached_tokens <= stats.num_prompt_tokens == len(await runtime.prompt_ids(asked))


async def test_a_valid_draft_is_the_answer(runtime):
    """Text is valid where no call is required, for as long as it has no markers."""
    constraint = await linked(runtime, "auto")
    options = {"constraint": constraint, "selection": DRAFT, "max_tokens": 12}
    answers = await all_events_of(runtime, [request(f"r{seed}", seed=seed, **options) for seed in range(8)])
    taken = [events for events in answers if events[-1].stats.selection.is_exact]
    assert 0 < len(taken) < 8
    for events in taken:
        selection = events[-1].stats.selection
        assert (selection.num_draws, selection.broken) == (1, ())
        assert events[-1].reason in {FinishReason.STOP, FinishReason.LENGTH}
        assert selection.num_computed_tokens == events[-1].stats.num_computed_tokens
    assert any(map(text_of, taken))


async def test_it_also_drafts_at_temperature_0(runtime):
    constraint = await linked(runtime, "required")
    events = await events_of(
        runtime, request(constraint=constraint, selection=DRAFT, temperature=0.0, max_tokens=60)
    )
    assert_valid(calls_of(events))
    assert events[-1].stats.selection.strategy == "draft"


async def test_a_stream_begins_when_the_draft_is_decided_and_then_flows(runtime):
    constraint = await linked(runtime, "required")
    asked = request(constraint=constraint, selection=DRAFT, max_tokens=200, is_streamed=True)
    engine = runtime._thread.engine
    assert [engine.has_work async for event in runtime.generate(asked) if isinstance(event, CallStarted)] == [
        True
    ]


async def test_a_prompt_without_room_for_the_draft_is_used_without(make_runtime, shown):
    runtime = make_runtime(replace(SETTINGS, context_length=700))
    constraint = await linked(runtime, "required")

    def saying(num_words):
        return request(constraint=constraint, selection=DRAFT, messages=(Message("user", "no " * num_words),))

    num_fixed, num_more = [len(await runtime.prompt_ids(saying(count))) for count in (0, 100)]
    asked = saying((700 - 40 - num_fixed) * 100 // (num_more - num_fixed))
    assert 650 < len(await runtime.prompt_ids(asked)) < 670
    assert_valid(calls_of(await events_of(runtime, asked)))
    assert (len(shown[-2]), shown[-1]) == (3, asked.messages)


async def test_a_prompt_that_is_no_conversation_is_used_again(runtime):
    constraint = await linked(runtime, "required")
    asked = request(constraint=constraint, selection=DRAFT, max_tokens=60, prompt="Pay! ", messages=())
    assert_valid(calls_of(await events_of(runtime, asked)))


async def test_a_budget_below_the_shortest_call_is_refused_before_anything_is_written(runtime):
    constraint = await linked(runtime, "required")
    with pytest.raises(BudgetTooSmall):
        await events_of(runtime, request(constraint=constraint, selection=DRAFT, max_tokens=2))
    assert runtime._thread.engine.num_steps == 0
