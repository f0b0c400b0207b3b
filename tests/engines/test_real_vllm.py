"""What the stand-in for vLLM says of a real vLLM."""

import inspect
import json
import subprocess

import pytest
import stand_in_vllm as stand_in
from vllm_server import PYTHON

from runtime.engines.vllm.plugin import COMPILE, FILL, INIT, READ

pytestmark = pytest.mark.engines


def test_the_stand_in_has_vllms_signatures():
    """Else the tests that everybody runs would say nothing about vLLM."""
    hooks = (INIT, COMPILE, FILL, *READ)
    code = (
        "import importlib, inspect, json, sys\n"
        "for module, owner, method in json.loads(sys.argv[1]):\n"
        "    found = getattr(getattr(importlib.import_module(module), owner), method)\n"
        "    print(owner, method, *(str(p).split(':')[0] for p in inspect.signature(found).parameters.values()))\n"
        "import vllm; print('version', vllm.__version__)"
    )
    named = json.dumps([(hook.module, hook.owner, hook.method) for hook in hooks])
    if not PYTHON.exists():
        pytest.skip("there is no environment with vLLM; `make test-engines` makes it")
    done = subprocess.run(
        [PYTHON, "-c", code, named], capture_output=True, text=True, check=True, timeout=300
    )
    real = {line for line in done.stdout.splitlines() if line.split()[0] in {h.owner for h in hooks}}
    ours = set()
    for hook in hooks:
        method = getattr(getattr(stand_in, hook.owner), hook.method)
        names = (str(parameter).split(":")[0] for parameter in inspect.signature(method).parameters.values())
        ours.add(" ".join([hook.owner, hook.method, *names]))
    assert ours == real
    assert f"version {stand_in.VERSION}" in done.stdout
