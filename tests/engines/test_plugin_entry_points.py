"""How vLLM and SGLang find the plugin, and when it leaves them as they are."""

import tomllib
from pathlib import Path

import pytest
import stand_in_sglang
import stand_in_vllm
from engine_models import SECRET

from runtime.engines.sglang import plugin as sglang_plugin
from runtime.engines.vllm import plugin as vllm_plugin

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
ENGINES = {
    "vllm": (
        "vllm.general_plugins",
        vllm_plugin,
        stand_in_vllm,
        lambda placed: "compile_grammar" in vars(placed.backend),
    ),
    "sglang": (
        "sglang.srt.plugins",
        sglang_plugin,
        stand_in_sglang,
        lambda placed: bool(placed.HookRegistry.hooks),
    ),
}
VARIABLES = ("CALLGATE_STORE", "CALLGATE_SECRET", "CALLGATE_SECRET_FILE")


@pytest.mark.parametrize("engine", ENGINES)
def test_the_package_names_the_entry_point_that_registers_the_plugin(engine):
    group, plugin, _, _ = ENGINES[engine]
    points = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]["entry-points"][group]
    assert points == {"callgate": f"{plugin.register.__module__}:register"}


@pytest.mark.parametrize("is_set_up", [True, False])
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_gets_the_plugin_only_with_settings(engine, is_set_up, monkeypatch, store_url):
    _, plugin, stand_in, has_plugin = ENGINES[engine]
    placed = stand_in.put_in_place(monkeypatch)
    set_up = {"CALLGATE_STORE": store_url, "CALLGATE_SECRET": SECRET.decode()} if is_set_up else {}
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in set_up.items():
        monkeypatch.setenv(name, value)
    plugin.register()
    assert has_plugin(placed) == is_set_up


def test_settings_that_sglang_cannot_use_end_it(monkeypatch):
    """SGLang logs what a plugin raises, and goes on without it."""
    stand_in_sglang.put_in_place(monkeypatch)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CALLGATE_STORE", "sqlite:///tmp/none")
    with pytest.raises(SystemExit, match="callgate: neither CALLGATE_SECRET"):
        sglang_plugin.register()
