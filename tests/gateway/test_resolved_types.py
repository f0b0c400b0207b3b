"""Several threads may read the first bodies of a process at the same time."""

import subprocess
import sys

import pytest

FIRST_USE = """
import sys
import threading

import msgspec

from gateway.http.json_body import convert
from gateway.wire.field_reader import FieldReader

sys.setswitchinterval(1e-6)


def read(shape, gate, read_values):
    gate.wait()
    read_values.append({way}({{"inner": {{"a1": 3}}, "f3": [{{"a": 1}}]}}, shape).f3)


for number in range(60):
    inner = msgspec.defstruct("Inner", [(f"a{{i}}", int | None, None) for i in range(30)])
    fields = [(f"f{{i}}", "list[dict[str, int]] | None", None) for i in range(30)]
    shape = msgspec.defstruct("Shape", [("inner", inner), *fields], namespace={{"__module__": __name__}})
    gate, read_values = threading.Barrier(8), []
    threads = [threading.Thread(target=read, args=(shape, gate, read_values)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_values == [[{{"a": 1}}]] * 8
"""


@pytest.mark.parametrize("way", ["convert", "FieldReader().convert"])
def test_threads_that_read_a_type_for_the_first_time_do_not_end_the_process(way):
    """The process ended with a segmentation fault: msgspec 0.22 shows a type before it knows its fields."""
    program = [sys.executable, "-c", FIRST_USE.format(way=way)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
