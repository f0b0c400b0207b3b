"""CUDA graphs, with a kernel and a recorder that run on any machine."""

import copy
import sys
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from paged_attention_cases import reference
from sequences import PROMPTS, make_sequence, written
from vocabularies import BYTES

from compiler.prepared_vocabulary import prepare
from runtime.engine import Engine
from runtime.errors import ModelLoadError
from runtime.forward import forward_pass
from runtime.forward.cuda_graphs import LONGEST_CHUNK, TableRows, sizes_up_to
from runtime.forward.device_operations import DeviceOperations, device_operations_of
from runtime.forward.model_runner import ModelRunner
from runtime.scheduling.batch import Batch, Chunk
from runtime.scheduling.page_pool import NULL_PAGE
from runtime.scheduling.sequence import Sequence
from runtime.settings import EngineSettings


class Recorder:
    """Records a computation, and how often it was run again."""

    def __init__(self):
        self.num_recorded = 0
        self.replayed = []

    def __call__(self, compute):
        number = self.num_recorded
        self.num_recorded += 1

        def replay():
            self.replayed.append(number)
            return compute()

        return replay


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def make_runner(byte_model):
    """A runner over the byte model; keyword arguments are settings."""

    def make(capture, free_bytes=None, **settings):
        chosen = EngineSettings(**{"page_size": 4, "num_pages": 256, "max_batch": 4} | settings)
        return ModelRunner(byte_model, chosen, DeviceOperations(reference, capture, free_bytes))

    return make


@pytest.fixture
def make_graphed_engine(make_engine):
    def make(capture, **settings):
        return make_engine(operations=DeviceOperations(reference, capture), **{"max_batch": 4} | settings)

    return make


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_graphs_write_what_the_reference_writes(make_engine, make_graphed_engine, recorder, temperature):
    def sequences():
        return [make_sequence(p, 20 + i, temperature=temperature, seed=i) for i, p in enumerate(PROMPTS)]

    expected = written(make_engine(), sequences())
    assert written(make_graphed_engine(recorder), sequences()) == expected
    assert set(recorder.replayed) >= {1, 2, 3}  # sequences end one by one: steps of 4, 2 and 1


def test_graphs_survive_preemption(make_engine, make_graphed_engine, recorder):
    expected = written(make_engine(), [make_sequence(p, 40) for p in PROMPTS])
    tight = make_graphed_engine(recorder, num_pages=26, max_batch_tokens=16)
    assert written(tight, [make_sequence(p, 40) for p in PROMPTS]) == expected
    assert tight.scheduler.num_preempted > 0
    assert recorder.replayed


def test_a_paged_kernel_without_graphs(make_engine, make_graphed_engine):
    expected = written(make_engine(), [make_sequence(p) for p in PROMPTS])
    assert written(make_graphed_engine(None), [make_sequence(p) for p in PROMPTS]) == expected


def test_compiled_layers_write_the_same(make_engine, byte_model, recorder, monkeypatch):
    """Traced as on a GPU, in one piece before attention and one after it; run by torch's own operators.

    They are traced once: torch gives up after some sizes for which it had to trace again.
    """
    counters = torch._dynamo.utils.counters
    monkeypatch.setitem(forward_pass.COMPILE_OPTIONS, "backend", "eager")
    monkeypatch.setattr(torch._dynamo.config, "error_on_recompile", True)
    counters.clear()
    settings = EngineSettings(page_size=4, num_pages=256, max_batch=64, compile_layers=True)
    expected = written(make_engine(), [make_sequence(p) for p in PROMPTS])
    runner = ModelRunner(copy.deepcopy(byte_model), settings, DeviceOperations(reference, recorder))
    engine = Engine(runner, prepare(BYTES), settings, context_length=512)
    assert written(engine, [make_sequence(p) for p in PROMPTS]) == expected
    assert counters["frames"]["ok"] > 0
    assert all("paged_attention" in reason for reason in counters["graph_break"])


def test_what_cannot_be_recorded_runs_without(make_engine, make_graphed_engine, caplog):
    def refuse(compute):
        raise RuntimeError("a module looks at values")

    engine = make_graphed_engine(refuse)
    assert engine.runner.graphs is None
    assert "a module looks at values" in caplog.text
    expected = written(make_engine(), [make_sequence(p) for p in PROMPTS])
    assert written(engine, [make_sequence(p) for p in PROMPTS]) == expected


def test_graphs_are_not_recorded_where_the_setting_says_so(make_runner, recorder):
    assert make_runner(recorder, cuda_graphs=False).graphs is None
    assert recorder.num_recorded == 0


def test_graphs_that_do_not_fit_into_memory_end_the_start(make_runner):
    def exhaust(compute):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(ModelLoadError, match="lower kv_bytes, or turn cuda_graphs off"):
        make_runner(exhaust)


def test_a_device_that_a_failed_recording_left_in_disorder_ends_the_start(make_runner, monkeypatch):
    def refuse(compute):
        monkeypatch.setattr(ModelRunner, "run", refuse_all)
        raise RuntimeError("a module looks at values")

    def refuse_all(self, batch):
        raise RuntimeError("the capture was invalidated")

    with pytest.raises(ModelLoadError, match="turn cuda_graphs off"):
        make_runner(refuse)


def test_without_a_size_the_cache_takes_what_the_largest_batch_leaves(make_runner, monkeypatch):
    computed = []
    run = ModelRunner.run
    monkeypatch.setattr(
        ModelRunner, "run", lambda self, batch: (computed.append(batch.num_tokens), run(self, batch))[1]
    )

    def free_bytes(compute_largest_batch):
        assert computed == []
        compute_largest_batch()
        assert computed == [64]
        return 100_000

    runner = make_runner(None, free_bytes, num_pages=None, max_batch_tokens=64)
    assert runner.cache.num_pages == 100_000 // runner.cache.bytes_per_page
    assert make_runner(None, free_bytes, num_pages=9, max_batch_tokens=64).cache.num_pages == 9


def pending(runner, lengths, first_page=1):
    """A batch of sequences with keys and values for all but the pending ids of each."""
    sequences, whole = [], []
    for number, (before, count) in enumerate(lengths):
        sequence = Sequence(f"{number}", [(7 * i + number) % 250 for i in range(before + count)], 1)
        num_pages = -(-(before + count) // 4)
        sequence.page_table = list(range(first_page, first_page + num_pages))
        first_page += num_pages
        sequences.append(sequence)
        whole.append(Chunk(sequence, 0, before + count))
    graphs, runner.graphs = runner.graphs, None
    expected = runner.run(Batch(tuple(whole)))
    runner.graphs = graphs
    return Batch(tuple(Chunk(s, b, n) for s, (b, n) in zip(sequences, lengths, strict=True))), expected


@pytest.mark.parametrize(
    "lengths",
    [[(5, 1)], [(5, 1), (30, 1), (0, 1)], [(9, 1), (8, 3)], [(0, 2), (20, 5), (3, 1)]],
    ids=["one", "padded", "forced tokens", "more forced tokens"],
)
def test_a_few_tokens_at_once_are_rows_over_the_same_pages(make_runner, recorder, lengths):
    runner = make_runner(recorder)
    batch, expected = pending(runner, lengths)
    assert torch.allclose(runner.run(batch), expected, atol=1e-5)
    assert len(recorder.replayed) == 1


def test_padding_writes_nothing_but_the_scratch_page(make_runner, recorder):
    runner = make_runner(recorder)
    batch, _ = pending(runner, [(5, 1), (8, 1), (2, 1)])
    used = {page for chunk in batch.chunks for page in chunk.sequence.page_table}
    before = {index: (keys.clone(), values.clone()) for index, (keys, values) in runner.cache.layers.items()}
    runner.run(batch)
    others = [page for page in range(runner.cache.num_pages) if page not in used]
    for index, pair in runner.cache.layers.items():
        for states, old in zip(pair, before[index], strict=True):
            assert torch.equal(states[others], old[others])
            assert not states[NULL_PAGE].any()
            assert states[runner.cache.scratch_page].any()


def test_an_older_sequence_in_a_row_is_forgotten(make_runner, recorder):
    runner = make_runner(recorder)
    for first_page in (1, 40, 80):
        batch, expected = pending(runner, [(30, 1), (20, 1)], first_page)
        assert torch.allclose(runner.run(batch), expected, atol=1e-5)


def test_large_batches_are_not_for_graphs(make_runner, recorder):
    runner = make_runner(recorder, max_batch=16, context_length=40)
    assert runner.graphs.sizes == (1, 2, 4, 8, 16, 32)
    assert recorder.num_recorded == 6
    for lengths in ([(0, LONGEST_CHUNK + 1)], [(4, 1)] * 33, [(41, 1)]):
        assert not runner.graphs.takes(pending(runner, lengths)[0])
    assert runner.graphs.takes(pending(runner, [(0, LONGEST_CHUNK), (39, 1)])[0])


@given(st.integers(1, 300))
def test_sizes_waste_less_than_half(max_rows):
    sizes = sizes_up_to(max_rows)
    assert sizes[0] == 1
    assert sizes[-1] == max_rows
    assert all(a < b <= 2 * a for a, b in pairwise(sizes))


@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=4), max_size=12))
def test_table_rows_hold_the_tables_of_the_batch(steps):
    """Each step grows some of six tables, or starts them anew, and runs these."""
    rows, tables, device, page = TableRows(4), [[] for _ in range(6)], {}, 0
    for step in steps:
        for number, growth in step:
            if growth == 3:
                tables[number] = []
            tables[number] += range(page, page := page + growth)
        batch = [tables[number] for number in {number for number, _ in step}]
        placed, changes = rows.assign(batch)
        device |= {(row, index): page for row, index, page in changes}
        assert len(set(placed)) == len(batch)
        for row, table in zip(placed, batch, strict=True):
            assert [device[row, index] for index in range(len(table))] == table


def test_unchanged_tables_are_not_copied_again():
    rows, one, two = TableRows(2), [5, 6], [7]
    assert rows.assign([one, two]) == ([0, 1], [(0, 0, 5), (0, 1, 6), (1, 0, 7)])
    two.append(8)
    assert rows.assign([two]) == ([1], [(1, 1, 8)])
    assert rows.assign([two, [5, 6]]) == ([1, 0], [(0, 0, 5), (0, 1, 6)])


def test_warming_up_leaves_no_trace(make_runner, recorder):
    runner = make_runner(recorder, num_pages=9, max_batch_tokens=64)
    sizes = []
    run = runner.run
    runner.run = lambda batch: (sizes.append(batch.num_tokens), run(batch))[1]
    runner._warm_up(EngineSettings(max_batch_tokens=64, max_batch=4))
    # One sequence as long as there are pages for, and up to four that decode.
    assert sizes == [2, 4, 8, 16, 32, 32, 1, 2, 4]
    assert not any(states[:9].any() for pair in runner.cache.layers.values() for states in pair)


def test_without_triton_a_gpu_gathers(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "runtime.forward.paged_triton_kernel", None)
    assert device_operations_of(torch.device("cuda")) is None
    assert "gathers pages" in caplog.text


def test_a_cpu_has_no_operations_of_its_own():
    assert device_operations_of(torch.device("cpu")) is None
