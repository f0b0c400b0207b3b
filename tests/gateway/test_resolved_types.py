"""Several threads may read the first bodies of a process at the same time."""

import ast
import builtins
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READ_BY_ONE_THREAD = {
    ("gateway/commands/gateway_client.py", "ProblemReply"),
    ("gateway/commands/gateway_client.py", "shape"),
    ("gateway/setting_sources.py", "hints[name]"),
    ("gateway/sources/source_process.py", "SourceOrder"),
    ("runtime/study/journal.py", "cls"),
}
"""Of commands, of a start, and of a process of its own."""

FIRST_USE = """
import sys
import threading

import msgspec

from gateway.http.conversion import convert
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
    """Msgspec 0.22 shows a type before it knows its fields, and who reads it then ends with a segmentation fault."""
    program = [sys.executable, "-c", FIRST_USE.format(way=way)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr


def decoded_types(source):
    """The types that a source lets msgspec read."""
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call):
            is_in_thread = ast.unparse(call.func) == "asyncio.to_thread"
            function, *arguments = call.args if is_in_thread else [call.func, *call.args]
            if ast.unparse(function) in {"msgspec.json.decode", "msgspec.convert"}:
                yield from arguments[1:2]
                yield from (keyword.value for keyword in call.keywords if keyword.arg == "type")


def is_built_in(shape):
    names = {ast.unparse(node) for node in ast.walk(shape) if isinstance(node, ast.Name | ast.Attribute)}
    return names <= {*vars(builtins), "msgspec", "msgspec.Raw"}


def test_types_that_threads_read_are_resolved():
    found = {
        (path.relative_to(ROOT).as_posix(), ast.unparse(shape))
        for package in ("toolspecs", "compiler", "runtime", "gateway")
        for path in (ROOT / package).rglob("*.py")
        for shape in decoded_types(path.read_text())
        if not is_built_in(shape)
    }
    # Others end the process now and then, if several threads read the first ones together.
    unresolved = {(path, shape) for path, shape in found if not shape.startswith("resolved(")}
    assert unresolved == READ_BY_ONE_THREAD
    assert len(found - unresolved) > 15
