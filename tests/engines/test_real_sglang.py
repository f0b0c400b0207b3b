"""The plugin in SGLang's own grammar code, and what the stand-in says of SGLang; no server runs here."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import stand_in_sglang as stand_in
from engine_models import AUTO, REQUIRED, SECRET, look_up, marked, prepared
from sglang_server import variables_of_sglang

from compiler.matcher import allocate_bitmask
from runtime.engines.sglang.plugin import INIT, READ, READY

pytestmark = pytest.mark.engines

HERE = Path(__file__).resolve().parent


def run_in_sglang(folder, script, *arguments, store_url=None):
    """What a script prints that runs with SGLang's package, and with ours as if it were installed."""
    environment = dict(os.environ) | variables_of_sglang(folder)
    environment |= {
        "CALLGATE_STORE": store_url or "",
        "CALLGATE_SECRET": SECRET.decode() if store_url else "",
    }
    command = [sys.executable, *script, *arguments]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_the_stand_in_has_sglangs_signatures(tmp_path):
    """Else the tests that everybody runs would say nothing about SGLang."""
    hooks = (INIT, READY, *READ)
    code = (
        "import importlib, inspect, json, sys\n"
        "for module, owner, method in json.loads(sys.argv[1]):\n"
        "    found = getattr(getattr(importlib.import_module(module), owner), method)\n"
        "    print('#', owner, method, *inspect.signature(found).parameters)\n"
        "from sglang.version import __version__; print('version', __version__)"
    )
    named = json.dumps([(hook.module, hook.owner, hook.method) for hook in hooks])
    said = run_in_sglang(tmp_path, ["-c", code], named)
    real = {line[2:] for line in said.splitlines() if line.startswith("# ")}
    ours = set()
    for hook in hooks:
        lookup = getattr(getattr(stand_in, hook.owner), hook.method)
        ours.add(" ".join([hook.owner, hook.method, *inspect.signature(lookup).parameters]))
    assert ours == real
    assert f"version {stand_in.VERSION}" in said


def test_outputs_are_masked_in_sglangs_own_code(tmp_path):
    """Two marks, a grammar of SGLang's own and a request without one share batches; a forged mark fails."""
    store_url = f"sqlite://{tmp_path}/store.sqlite3"
    lookup = [look_up(store_url, choice=choice, parallel=False) for choice in (REQUIRED, AUTO)]
    script = [str(HERE / "sglang_schedule.py")]
    said = run_in_sglang(tmp_path, script, *map(marked, lookup), store_url=store_url)
    result = json.loads(next(line for line in said.splitlines() if line.startswith("result "))[7:])
    assert result["backend"] == "SglangBackend"
    assert "the signature of the mark is wrong" in result["failed"]
    assert not any("#callgate" in key for key in result["cached"])
    width = prepared().vocabulary.width
    expected = allocate_bitmask(1, width)
    for row, one in enumerate(lookup):
        matcher = one.grammar.matcher()
        written = result["outputs"][row]
        assert written
        for step, token in enumerate(written):
            matcher.fill_bitmask(expected, 0)
            assert result["masks"][step][min(row, len(result["masks"][step]) - 1)] == expected[0].tolist()
            assert matcher.accept(token)
    own = result["outputs"][2]
    text = b"".join(prepared().vocabulary.tokens[token] for token in own)
    assert text.startswith(b"{")
    assert set(text) <= set(b"{abc}")
    assert len(result["outputs"][3]) == len(result["masks"])
