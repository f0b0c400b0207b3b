"""A model's folder is data: no code in it is run, also where somebody at a terminal would say yes."""

import json
import shutil

import pytest

from runtime.errors import ModelLoadError
from runtime.loading import load_model
from runtime.models import TINY_MODEL_FOLDER

CODE = """
from pathlib import Path
Path({ran!r}).touch()
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
class Own(PretrainedConfig):
    model_type = "own"
class OwnModel(PreTrainedModel):
    config_class = Own
class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The tiny model with code beside it, at a terminal where every question is answered with yes."""
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    copied = shutil.copytree(TINY_MODEL_FOLDER, tmp_path / "model")
    (copied / "own.py").write_text(CODE.format(ran=str(tmp_path / "ran")))
    return copied


def change(path, **fields):
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_code_of_a_model_is_not_run(folder, tmp_path):
    own = {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.OwnModel"}
    change(folder / "config.json", model_type="own", auto_map=own)
    with pytest.raises(ModelLoadError, match="code of its own, which is never run"):
        load_model(folder, device="cpu")
    assert not (tmp_path / "ran").exists()


def test_code_of_a_tokenizer_is_not_run(folder, tmp_path):
    change(
        folder / "tokenizer_config.json",
        tokenizer_class="OwnTokenizer",
        auto_map={"AutoTokenizer": ["own.OwnTokenizer", "own.OwnTokenizer"]},
    )
    load_model(folder, device="cpu")  # with the tokenizer that transformers has for this type of model
    assert not (tmp_path / "ran").exists()
