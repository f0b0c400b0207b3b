"""Inspected tokens: their causes, the candidates and the mass that the mask removed; and that none cost."""

from dataclasses import replace

import pytest
import torch
import toy_model
from embedded import SETTINGS, events_of, linked, request
from sequences import finish, make_sequence
from whole_outputs import calls_of

from runtime.errors import RequestRefused
from runtime.events import Finished, FinishReason, InspectedToken
from runtime.inspection import MAX_INSPECTED, NUM_CANDIDATES, Cause
from runtime.request import check_details
from runtime.selection import Selection
from runtime.written_token import SampledToken


def toy_sequence(seed, **options):
    options = {"temperature": 1.0, "is_inspected": True, "closer": toy_model.GRAMMAR.closer()} | options
    return make_sequence("prompt", 5, seed=seed, matcher=toy_model.GRAMMAR.matcher(), **options)


def tokens_of(sequence, **settings):
    """The tokens of a sequence of the toy model."""
    outputs = finish(toy_model.toy_engine(**settings), sequence)
    return [token.sampled for output in outputs for token in output.tokens]


@pytest.mark.parametrize("seed", range(8))
def test_candidates_are_the_models_own_and_the_masses_what_the_mask_left(seed):
    sequence = toy_sequence(seed)
    tokens = tokens_of(sequence, jumps=False)
    left = toy_model.allowed_masses(toy_model.text_of(token.token_id for token in tokens))
    for at, token in enumerate(tokens):
        expected = toy_model.next_probabilities(sequence.output_ids[:at])
        found = {c.token_id: c.probability for c in token.inspection.candidates}
        assert found == pytest.approx(expected, abs=1e-6)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        assert token.inspection.mass_removed == pytest.approx(1 - left[at], abs=1e-6)
        removed = sum(c.probability for c in token.inspection.candidates if c.is_removed)
        assert removed == pytest.approx(token.inspection.mass_removed, abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_a_token_is_rescued_exactly_where_the_mask_removed_the_most_probable_one(seed):
    sequence = toy_sequence(seed)
    tokens = tokens_of(sequence, jumps=False)
    rescued = [token.inspection.candidates[0].is_removed for token in tokens]
    assert [token.inspection.cause is Cause.RESCUED for token in tokens] == rescued
    assert sum(rescued) == sequence.stats.num_rescued_tokens


def test_a_token_is_forced_where_the_mask_leaves_it_alone_or_it_was_jumped_over():
    sampled = tokens_of(toy_sequence(1), jumps=False)
    assert sampled[0].inspection.cause is Cause.FORCED
    assert sampled[0].inspection.candidates[1].is_removed
    jumped = tokens_of(toy_sequence(1), jumps=True)
    assert [token.token_id for token in jumped] == [token.token_id for token in sampled[: len(jumped)]]
    assert jumped[0].inspection.cause is Cause.FORCED
    assert (jumped[0].inspection.candidates, jumped[0].inspection.mass_removed) == ((), None)


def test_candidates_are_those_of_the_temperature():
    (_, second, *_) = tokens_of(toy_sequence(3, temperature=2.0), jumps=False)
    expected = toy_model.next_probabilities(b'"', temperature=2.0)
    assert {c.token_id: c.probability for c in second.inspection.candidates} == pytest.approx(expected)


def test_of_many_tokens_the_most_probable_are_told():
    width, masks = toy_model.VOCABULARY.width, toy_model.toy_engine().masks
    logits = torch.randn(2, width, generator=torch.Generator().manual_seed(1))
    sequences = [toy_sequence(0), toy_sequence(0, is_inspected=False)]
    masked = masks.apply(logits.clone(), sequences)
    tokens = [SampledToken(ord('"')), SampledToken(ord('"'))]
    masks.inspect(masked, sequences, tokens)
    likely, own = logits[0].softmax(0).topk(NUM_CANDIDATES), logits[0].softmax(0)[ord('"')]
    *found, last = tokens[0].inspection.candidates
    assert [c.token_id for c in found] == likely.indices.tolist()
    assert [c.probability for c in found] == pytest.approx(likely.values.tolist())
    assert (last.token_id, last.is_removed) == (ord('"'), False)
    assert last.probability == pytest.approx(own.item())
    assert tokens[1].inspection is None


def inspected(events):
    return [event for event in events if isinstance(event, InspectedToken)]


def deltas(events):
    return [event for event in events if not isinstance(event, (InspectedToken, Finished))]


@pytest.mark.parametrize("choice", ["required", "auto"])
@pytest.mark.parametrize("seed", range(4))
async def test_an_inspected_answer_is_the_same_and_tells_every_token(make_runtime, choice, seed):
    runtime = make_runtime(SETTINGS)
    constraint = await linked(runtime, choice)
    asked = request("plain", constraint=constraint, seed=seed, max_tokens=80)
    plain = await events_of(runtime, asked)
    events = await events_of(runtime, replace(asked, request_id="inspected", is_inspected=True))
    assert deltas(events) == deltas(plain)
    assert not inspected(plain)
    stats = events[-1].stats
    tokens = inspected(events)
    assert len(tokens) == stats.num_output_tokens
    causes = [token.inspection.cause for token in tokens]
    asked_model = [token for token in tokens if token.inspection.mass_removed is not None]
    assert len(tokens) - len(asked_model) == stats.num_forced_tokens
    assert causes.count(Cause.RESCUED) == stats.num_rescued_tokens
    if asked_model:
        mean = sum(token.inspection.mass_removed for token in asked_model) / len(asked_model)
        assert mean == pytest.approx(stats.mass_removed, abs=1e-5)
    assert all(len(t.inspection.candidates) == len(t.candidate_texts) <= NUM_CANDIDATES + 1 for t in tokens)


async def test_what_the_closer_writes_is_closed(runtime):
    constraint = await linked(runtime, "required")
    closed = []
    for seed in range(12):
        asked = request(f"r{seed}", constraint=constraint, seed=seed, max_tokens=36, is_inspected=True)
        events = await events_of(runtime, asked)
        assert calls_of(events)
        causes = [token.inspection.cause for token in inspected(events)]
        assert (Cause.CLOSED in causes) is (events[-1].reason is FinishReason.LENGTH)
        if Cause.CLOSED in causes:
            assert set(causes[causes.index(Cause.CLOSED) :]) == {Cause.CLOSED}
            closed.append(seed)
    assert closed


@pytest.mark.parametrize("selection", [Selection("accept", 3), Selection("particles", 3)])
async def test_the_tokens_of_a_selected_answer_are_told(runtime, selection):
    constraint = await linked(runtime, "required")
    asked = request(constraint=constraint, selection=selection, max_tokens=60, is_inspected=True)
    events = await events_of(runtime, asked)
    assert len(inspected(events)) == events[-1].stats.num_output_tokens


async def test_text_without_a_grammar_is_told_too(runtime):
    events = await events_of(runtime, request(max_tokens=12, is_inspected=True))
    tokens = inspected(events)
    assert {token.place.part for token in tokens} <= {"text", "end"}
    assert all(token.inspection.candidates for token in tokens)
    mean = sum(token.inspection.mass_removed for token in tokens) / len(tokens)
    assert 0 <= mean < 1
    assert not events[-1].stats.num_rescued_tokens


def test_too_many_tokens_are_refused():
    asked = replace(request(), is_inspected=True, num_choices=4)
    check_details(asked, MAX_INSPECTED // 4)
    with pytest.raises(RequestRefused, match="lower max_tokens") as refusal:
        check_details(asked, MAX_INSPECTED // 4 + 1)
    assert refusal.value.parameter == "callgate.inspect"
