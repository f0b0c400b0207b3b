"""Answers that external engines draft: exact draws of a distribution that is known, and what is told of them."""

import asyncio
import json
import random
from collections import Counter
from dataclasses import replace

import pytest
import toy_model
from completions_server import StandIn
from remote_engines import SETTINGS, answer_of, assert_valid, events_of, remote_over
from whole_outputs import calls_of, text_of

from compiler.response_format import ResponseFormat
from runtime.errors import DeadlineExceeded, RequestRefused
from runtime.events import Finished
from runtime.selection import DRAFT, Selection

NUM_DRAWS = 100


class ToyEngine(StandIn):
    """Samples as the toy model does, with the mask of a mark or without one."""

    prompt = None

    def __post_init__(self):
        """Draw from the same random numbers in each test."""
        super().__post_init__()
        self.random = random.Random(1)

    def sampled(self, body, matcher, num_before):
        """What the toy model writes after `prompt`; canaries, which have another, are not of it."""
        if not self.prompt or body["prompt"][: len(self.prompt)] != self.prompt:
            yield from super().sampled(body, matcher, num_before)
            return
        written = list(body["prompt"][len(self.prompt) :])
        vocabulary = self.text.vocabulary
        for number in range(1, body["max_tokens"] + 1):
            output = b"".join(vocabulary.tokens[i] for i in written)
            likely = {self.id_of(i): p for i, p in toy_model.next_probabilities(output).items()}
            if matcher is not None:
                likely = {i: p for i, p in likely.items() if matcher.fork().accept(i)}
            (token_id,) = self.random.choices(list(likely), list(likely.values()))
            assert matcher is None or matcher.accept(token_id)
            written.append(token_id)
            is_end, is_last = token_id in vocabulary.stop_ids, number == body["max_tokens"]
            yield [token_id], "stop" if is_end else "length" if is_last else None
            if is_end:
                return

    def id_of(self, byte):
        """The token of a byte of the toy model, or of its end."""
        if byte == toy_model.STOP:
            return self.text.vocabulary.stop_ids[0]
        return self.text.vocabulary.tokens.index(bytes([byte]))


async def toy_answers(text, selection, num_draws=NUM_DRAWS):
    """What a toy engine answers, again and again: texts in quotes, with how each was selected."""
    engine = ToyEngine(text)
    async with remote_over(text, engine, settings=replace(SETTINGS, jump_forward=False)) as remote:
        answer = ResponseFormat("schema", {"enum": list(toy_model.TEXTS)})
        lookup = await remote.grammars.find_format(answer, prepared=text.prepared)
        asked = [
            remote.request(lookup, selection=selection, max_tokens=12, prompt="hello there", messages=())
            for _ in range(num_draws)
        ]
        engine.prompt = await remote.runtime.prompt_ids(asked[0])
        engine.bodies.clear()
        gate = asyncio.Semaphore(16)

        async def answered(request):
            async with gate:
                return await events_of(remote, request)

        answers = await asyncio.gather(*map(answered, asked))
    told = [json.loads(text_of(events)) for events in answers]
    return told, [events[-1].stats.selection for events in answers], engine


def distribution(texts):
    counts = Counter(texts)
    return {text: counts[text] / len(texts) for text in toy_model.TEXTS}


async def test_accepted_answers_have_the_models_distribution(text):
    conditional = toy_model.conditional()
    assert toy_model.distance(toy_model.masked(), conditional) > 0.25
    texts, selections, engine = await toy_answers(text, Selection("accept", 10))
    accepted = [t for t, selection in zip(texts, selections, strict=True) if selection.is_exact]
    valid = sum(map(toy_model.probability, toy_model.TEXTS))
    # Of ten attempts, nine are drafts; this is four standard deviations below the mean.
    assert len(accepted) > NUM_DRAWS * (1 - (1 - valid) ** 9 - 0.2)
    assert toy_model.distance(distribution(accepted), conditional) < 0.2  # 0.06 on average
    unmasked = [body for body in engine.requests if not engine.grammar_in(body)]
    assert len(unmasked) == sum(s.num_draws - (not s.is_exact) for s in selections)
    for selection in selections:
        assert selection.strategy == "accept"
        assert len(selection.broken) == selection.num_draws - 1
        assert selection.num_computed_tokens is None


async def test_drafts_are_given_up_where_they_leave_the_grammar(text):
    _, selections, _ = await toy_answers(text, Selection("accept", 4), 40)
    broken = [draft for selection in selections for draft in selection.broken]
    assert broken
    assert {draft.num_good for draft in broken} <= {0, 1, 2, 3, 4}


async def test_a_draft_is_shown_to_the_engine_that_writes_anew(text):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar()
        stand_in.bodies.clear()
        request = remote.request(lookup, selection=DRAFT, num_choices=2, temperature=0.0)
        events = await events_of(remote, request)
        assert_valid(events, request)
        assert calls_of(events, 0)
        assert calls_of(events, 1)
        num_prompt = len(await remote.runtime.prompt_ids(request))
        masked = [body for body in stand_in.requests if stand_in.grammar_in(body)]
        assert len(masked) == 2 == len(stand_in.requests) - len(masked)
        assert all(len(body["prompt"]) > num_prompt + 20 for body in masked)
        ends = [event for event in events if isinstance(event, Finished)]
        assert {end.stats.num_prompt_tokens for end in ends} == {num_prompt}


async def test_a_draft_that_is_valid_is_the_answer(text):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        stand_in.writes = {0: text.vocabulary.tokens.index(b"a"), 1: "stop"}
        request = remote.request(await remote.grammar("auto"), selection=DRAFT, max_tokens=20)
        _, end = await answer_of(remote, request)
        assert (end.stats.selection.is_exact, end.stats.selection.num_draws) == (True, 1)


async def test_the_default_is_for_answers_that_are_not_streamed(text):
    settings = replace(SETTINGS, selection=Selection("accept", 2))
    async with remote_over(text, StandIn(text), settings=settings) as remote:
        lookup = await remote.grammar()
        told = [
            (await events_of(remote, remote.request(lookup, is_streamed=is_streamed)))[-1].stats.selection
            for is_streamed in (False, True)
        ]
    assert (told[0].strategy, told[1]) == ("accept", None)


async def test_a_deadline_holds_for_all_attempts_together(text):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar()
        stand_in.writes = {12: "stall"}
        with pytest.raises(DeadlineExceeded):
            await events_of(remote, remote.request(lookup, selection=DRAFT, timeout_s=0.3))


async def test_particles_are_refused_with_what_there_is_instead(text):
    async with remote_over(text, StandIn(text)) as remote:
        request = remote.request(await remote.grammar(), selection=Selection("particles", 2))
        with pytest.raises(RequestRefused, match="`accept` or `draft`"):
            await events_of(remote, request)


async def test_the_stand_in_for_the_toy_model_is_asked_after_its_prompt(text):
    """Without this, the distribution of another text would be compared."""
    texts, selections, engine = await toy_answers(text, Selection("accept", 1), 4)
    assert set(texts) <= set(toy_model.TEXTS)
    assert selections == [None] * 4
    assert all(body["prompt"] == engine.prompt for body in engine.requests)
