"""Rows that are filled in a batch are those that are filled one by one."""

import random

import numpy as np
import pytest
from engine_models import AUTO, look_up, prepared
from random_decoding import flags

from compiler.matcher import allocate_bitmask
from runtime.engines import masked_output
from runtime.engines.masked_output import BatchFill, MaskedOutput
from runtime.engines.request_mark import RequestMark

NUM_ROWS = 48


@pytest.fixture(scope="module")
def lookup(tmp_path_factory):
    return look_up(f"sqlite://{tmp_path_factory.mktemp('store')}/store.sqlite3", choice=AUTO, parallel=True)


def begun(lookup, seed, *, extra_columns=0, left_out_ids=()):
    """An output at a random place of a random text or call."""
    source, vocabulary = random.Random(seed), prepared().vocabulary
    output, written = (
        MaskedOutput(lookup.grammar, RequestMark(lookup.recipe), prepared(), vocabulary.width),
        [],
    )
    mask = allocate_bitmask(1, vocabulary.width)
    trigger = vocabulary.markers["<tool_call>"]
    for at in range(source.randrange(40)):
        output.fill(mask, 0)
        allowed = [
            i for i in np.flatnonzero(flags(mask[0], vocabulary.width)) if i not in vocabulary.stop_ids
        ]
        token = trigger if at == 0 and trigger in allowed else int(source.choice(allowed))
        assert output.accept([token])
        written.append(token)
    mark = RequestMark(lookup.recipe, written_ids=tuple(written), left_out_ids=left_out_ids)
    return MaskedOutput(lookup.grammar, mark, prepared(), vocabulary.width + extra_columns)


def filled_one_by_one(outputs, columns):
    rows = allocate_bitmask(len(outputs), columns)
    for row, output in enumerate(outputs):
        output.fill(rows, row)
    return rows


@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize("num_rows", [1, NUM_ROWS])
@pytest.mark.parametrize("extra_columns", [0, 100])
def test_a_batch_fills_the_same_rows(lookup, num_threads, num_rows, extra_columns):
    outputs = [begun(lookup, seed, extra_columns=extra_columns) for seed in range(num_rows)]
    columns = prepared().vocabulary.width + extra_columns
    bitmask = allocate_bitmask(2 * num_rows, columns)
    BatchFill(num_threads).fill([(output, 2 * row) for row, output in enumerate(outputs)], bitmask)
    assert (bitmask[::2] == filled_one_by_one(outputs, columns)).all()
    assert (bitmask[1::2] == -1).all()


def test_rows_of_every_kind_are_among_them(lookup):
    """Inside of matchers, under guards, and at the boundaries of calls."""
    bitmask = allocate_bitmask(1, prepared().vocabulary.width)
    kinds = {type(begun(lookup, seed).inner_matcher(bitmask)).__name__ for seed in range(NUM_ROWS)}
    assert kinds == {"GrammarMatcher", "NoneType"}


@pytest.mark.parametrize("extra_columns", [0, 100])
def test_what_a_mark_leaves_out_no_row_allows_unless_it_allows_nothing_else(lookup, extra_columns):
    """The first token that a row would allow; where it would allow few, all but the last."""
    columns = prepared().vocabulary.width + extra_columns
    num_alone = 0
    for seed in range(NUM_ROWS):
        whole = flags(
            filled_one_by_one([begun(lookup, seed, extra_columns=extra_columns)], columns)[0], columns
        )
        allowed = np.flatnonzero(whole).tolist()
        left_out = tuple(allowed[: max(1, len(allowed) - 1)] if len(allowed) < 100 else allowed[:1])
        narrowed = begun(lookup, seed, extra_columns=extra_columns, left_out_ids=left_out)
        rows = allocate_bitmask(2, columns)
        narrowed.fill(rows, 0)
        BatchFill(1).fill([(narrowed, 1)], rows)
        is_alone = len(allowed) == 1
        num_alone += is_alone
        expected = allowed if is_alone else [i for i in allowed if i not in left_out]
        for row in rows:
            assert np.flatnonzero(flags(row, columns)).tolist() == expected
    assert 0 < num_alone < NUM_ROWS


def test_a_batch_that_fails_is_filled_one_by_one(lookup, monkeypatch, caplog):
    outputs = [begun(lookup, seed) for seed in range(NUM_ROWS)]
    expected = filled_one_by_one(outputs, prepared().vocabulary.width)
    batch = BatchFill(2)

    class Fails:
        def batch_fill_next_token_bitmask(self, *_):
            raise RuntimeError("no memory")

    monkeypatch.setattr(batch, "_threads", Fails())
    monkeypatch.setattr(masked_output, "_MIN_ROWS_FOR_THREADS", 1)
    bitmask = allocate_bitmask(NUM_ROWS, prepared().vocabulary.width)
    batch.fill([(output, row) for row, output in enumerate(outputs)], bitmask)
    assert (bitmask == expected).all()
    assert "no memory" in caplog.text


def test_a_row_that_cannot_be_finished_allows_only_to_stop(lookup, monkeypatch):
    bitmask = allocate_bitmask(NUM_ROWS, prepared().vocabulary.width)
    outputs = [begun(lookup, seed) for seed in range(NUM_ROWS)]
    inner = next(output for output in outputs if output.inner_matcher(bitmask) is not None)

    def fail(*_):
        raise RuntimeError("lost")

    monkeypatch.setattr(inner.matcher, "complete_mask", fail)
    BatchFill(1).fill([(inner, 0)], bitmask)
    allowed = np.flatnonzero(flags(bitmask[0], prepared().vocabulary.width))
    assert allowed.tolist() == list(prepared().vocabulary.stop_ids)
    assert not inner.accept(list(prepared().vocabulary.stop_ids))


def test_an_output_whose_matcher_fails_ends_alone(lookup, monkeypatch):
    """An error would end the engine, with all outputs of all clients."""
    output = begun(lookup, 1)

    def fail(*_):
        raise RuntimeError("lost")

    monkeypatch.setattr(output.matcher, "accept", fail)
    assert not output.accept([1])
    assert output.accepted_prefix([1]) == []
    monkeypatch.undo()
    assert not output.accept(list(prepared().vocabulary.stop_ids))
