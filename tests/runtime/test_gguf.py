"""A GGUF file is a model like any other."""

import shutil
from dataclasses import replace

import gguf
import pytest
import torch
from embedded import SETTINGS
from gguf_file import write_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer

from runtime.embedded import EmbeddedRuntime
from runtime.errors import ModelLoadError
from runtime.events import Finished, TextDelta
from runtime.loading import hide_progress_bars, load_model
from runtime.models import (
    model_files,
)
from runtime.request import GenerationRequest, Sampling


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "Tiny-1.5.Q8_0.gguf"
    write_gguf(path)
    return path


def test_it_is_found_by_its_name_or_by_its_directory(file):
    by_name, by_directory = load_model(file), load_model(file.parent)
    assert by_name.model_id == by_directory.model_id == "Tiny-1.5.Q8_0"
    assert by_name.context_length == 2048
    assert by_name.vocabulary.tokens == by_directory.vocabulary.tokens


def test_weights_are_unpacked_in_the_type_asked_for(file):
    for dtype in ("float32", "bfloat16"):
        model = load_model(file, dtype=dtype).model
        assert {str(weight.dtype) for weight in model.parameters()} == {f"torch.{dtype}"}


def test_no_bar_is_drawn_while_they_are_unpacked(file, capfd):
    hide_progress_bars()
    load_model(file)
    assert capfd.readouterr() == ("", "")


def test_a_template_that_hides_tools_is_replaced_by_one_that_shows_them(file):
    loaded = load_model(file)
    assert loaded.syntax == "hermes"
    assert "tools" in loaded.tokenizer.chat_template


async def test_it_writes_what_transformers_generates(file):
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    # With packed weights, its kernels round differently, and random weights soon write something else.
    options = model_files.find_model(str(file)).weight_options
    reference = AutoModelForCausalLM.from_pretrained(file.parent, dtype="float32", **options)
    prompt = "<|im_start|>user\nhello there<|im_end|>\n"
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    vocabulary = load_model(file).vocabulary
    without_text = [
        i for i, token in enumerate(vocabulary.tokens) if not token and i not in vocabulary.stop_ids
    ]
    options = {"suppress_tokens": [*without_text, *vocabulary.markers.values()]}
    asked = torch.ones_like(ids)
    expected = reference.generate(ids, attention_mask=asked, do_sample=False, max_new_tokens=40, **options)

    runtime = EmbeddedRuntime.load(file, replace(SETTINGS, dtype="float32"), model_id="tiny")
    greedy = Sampling(temperature=0)
    request = GenerationRequest(
        "one", "tiny", (), prompt=tuple(ids[0].tolist()), sampling=greedy, max_tokens=40
    )
    events = [event async for event in runtime.generate(request)]
    await runtime.close()
    assert isinstance(events[-1], Finished)
    written = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert written == tokenizer.decode(expected[0, ids.shape[1] :], skip_special_tokens=True)


def test_what_cannot_be_read_is_refused(file, tmp_path, monkeypatch):
    with pytest.raises(ModelLoadError, match="there is no such file"):
        load_model(tmp_path / "none.gguf")
    for name in ("a.gguf", "b.gguf"):
        shutil.copy(file, tmp_path / name)
    with pytest.raises(ModelLoadError, match=r"several \.gguf files, name one of them: a\.gguf, b\.gguf"):
        load_model(tmp_path)
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + bytes(40))
    with pytest.raises(ModelLoadError, match=r"a\.gguf"):
        load_model(tmp_path / "a.gguf")
    monkeypatch.setattr(model_files, "find_spec", lambda name: None)
    with pytest.raises(ModelLoadError, match=r"pip install 'callgate\[gguf\]'"):
        load_model(file)


def test_a_file_is_read_once(file, monkeypatch):
    opened = []

    class Reader(gguf.GGUFReader):
        def __init__(self, path, *options):
            opened.append(path)
            super().__init__(path, *options)

    monkeypatch.setattr(gguf, "GGUFReader", Reader)
    for times in (1, 2):  # the second model does not get what was kept of the first
        load_model(file)
        assert len(opened) == times
        assert gguf.GGUFReader is Reader
