"""The settings name every kind of engine, and know which fields each uses."""

from typing import get_args

from gateway.model_settings import USED_BY, EngineName
from runtime.engines.engine_kinds import ENGINE_KINDS


def test_the_setting_names_every_kind_of_engine():
    names = {*get_args(EngineName)} - {"embedded"}
    assert names == ENGINE_KINDS.keys(), "correct EngineName in gateway/model_settings.py"


def test_the_settings_know_which_engines_have_the_plugin_and_take_images():
    expected = {
        "engine_units": {name for name, kind in ENGINE_KINDS.items() if kind.has_plugin},
        "engine_images": {name for name, kind in ENGINE_KINDS.items() if kind.takes_images},
    }
    used_by = {field: set(USED_BY[field]) for field in expected}
    assert used_by == expected, "correct USED_BY in gateway/model_settings.py"
