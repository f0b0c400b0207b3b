"""Drafts: written without a mask, and told by a matcher from what leaves the grammar."""

import toy_model
from hypothesis import given
from hypothesis import strategies as st
from random_decoding import allowed_ids
from selected import distribution
from sequences import finish, make_sequence

from runtime.decoding.token_writer import Output
from runtime.draft import Draft

TOKENS = toy_model.VOCABULARY.tokens
OUTPUTS = st.lists(st.sampled_from([*b'"abx', toy_model.STOP]), max_size=7)


def followed(ids=()):
    draft = Draft()
    matcher = draft.follow(toy_model.GRAMMAR.matcher(), TOKENS)
    assert all(matcher.accept(token_id) for token_id in ids)
    return draft, matcher


def next_ids(matcher):
    return allowed_ids(matcher, toy_model.VOCABULARY).tolist()


@given(OUTPUTS)
def test_a_draft_is_valid_if_and_only_if_the_grammar_accepts_it(ids):
    draft, _ = followed(ids)
    plain = toy_model.GRAMMAR.matcher()
    num_good = next((at for at, i in enumerate(ids) if not plain.accept(i)), len(ids))
    assert (draft.ids, draft.num_good, draft.is_broken) == (tuple(ids), num_good, num_good < len(ids))
    whole = [toy_model.ids_of(text) for text in toy_model.TEXTS]
    assert draft.is_valid is any(ids in (with_end, with_end[:-1]) for with_end in whole)


@given(OUTPUTS, st.data())
def test_tokens_can_be_undone(ids, data):
    num_undone = data.draw(st.integers(0, len(ids)))
    draft, matcher = followed(ids)
    twin = matcher.fork()
    matcher.rollback(num_undone)
    again, other = followed(ids[: len(ids) - num_undone])
    assert (draft.ids, draft.num_good, draft.is_valid) == (again.ids, again.num_good, again.is_valid)
    assert next_ids(matcher) == next_ids(other)
    assert (matcher.forced_text(), matcher.parts() == other.parts()) == (other.forced_text(), True)
    assert twin.ids == ids


def test_what_all_outputs_begin_with_is_given_and_then_everything_is_allowed():
    _, matcher = followed()
    assert (matcher.forced_text(), next_ids(matcher)) == (b'"', [ord('"')])
    matcher.accept(ord('"'))
    assert (matcher.forced_text(), next_ids(matcher)) == (b"", list(range(len(TOKENS))))
    matcher.accept(ord("a"))
    matcher.accept(ord("a"))
    assert toy_model.GRAMMAR.matcher().forced_text()
    assert (matcher.forced_text(), next_ids(matcher)) == (b"", list(range(len(TOKENS))))


def test_valid_drafts_have_the_models_distribution():
    """The engine draws as in `runtime.embedded`: without a closer, and without weights."""
    engine = toy_model.toy_engine(max_batch=64, max_waiting=1000, max_sequences_per_client=1000)
    drafts = {}
    for seed in range(1000):
        draft, matcher = followed()
        drafts[make_sequence("prompt", 8, temperature=1.0, seed=seed, matcher=matcher)] = draft
    finish(engine, *drafts)
    valid = [Output(sequence) for sequence, draft in drafts.items() if draft.is_valid]
    shared = toy_model.next_probabilities([])[ord('"')]
    expected = sum(toy_model.probability(text) for text in toy_model.TEXTS) / shared
    assert abs(len(valid) / len(drafts) - expected) < 0.04
    conditional = toy_model.conditional()
    assert toy_model.distance(toy_model.masked(), conditional) > 0.3
    assert toy_model.distance(distribution(valid), conditional) < 0.12
