"""The random model is the same everywhere, and its outputs come to an end."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from sequences import finish, make_sequence

from compiler.prepared_vocabulary import prepare
from runtime.engine import Engine
from runtime.forward.model_runner import ModelRunner
from runtime.loading import load_model
from runtime.models.random_model import RandomModelSettings, build_random_model, ensure_random_model
from runtime.settings import EngineSettings

SMALL = RandomModelSettings(vocabulary_size=600, hidden_size=32, num_layers=1)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_building_it_twice_gives_the_same_bytes(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        build_random_model(tmp_path / name, SMALL)
        torch.rand(3)  # whatever else draws
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


def test_settings_name_the_directory(tmp_path):
    first = ensure_random_model(tmp_path, SMALL)
    stamp = (first / "config.json").stat().st_mtime_ns
    assert ensure_random_model(tmp_path, SMALL) == first
    assert (first / "config.json").stat().st_mtime_ns == stamp
    assert ensure_random_model(tmp_path, replace(SMALL, seed=1)) != first


def test_many_at_once_build_one(tmp_path):
    with ThreadPoolExecutor(4) as threads:
        found = {*threads.map(lambda _: ensure_random_model(tmp_path, SMALL), range(4))}
    assert found == {*tmp_path.iterdir()}
    assert len(found) == 1
    assert load_model(found.pop()).vocabulary.width > 600


def test_tokens_are_longer_than_bytes_and_text_survives(random_model):
    tokenizer = load_model(random_model).tokenizer
    text = '{"name": "calendar", "café": [1, 23, null]} <tool_call>\n'
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert len(ids) < len(text) / 2
    assert tokenizer.convert_tokens_to_ids("<tool_call>") in ids


@pytest.mark.parametrize("bias", [-100.0, 100.0])
def test_the_stop_bias_decides_how_long_outputs_are(tmp_path, bias):
    loaded = load_model(ensure_random_model(tmp_path, replace(SMALL, stop_bias=bias)))
    chosen = EngineSettings(num_pages=32, max_batch=4)
    engine = Engine(ModelRunner(loaded.model, chosen), prepare(loaded.prepared), chosen, context_length=256)
    sequence = make_sequence(loaded.tokenizer.encode("hello"), 30, temperature=1.0)
    finish(engine, sequence)
    assert sequence.num_output == (1 if bias > 0 else 30)
