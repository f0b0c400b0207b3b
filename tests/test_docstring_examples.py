"""Examples in docstrings that begin with `>>>` print what they say."""

import ast
import asyncio
import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import compiler
import toolspecs
from compiler.linker.linker import link
from compiler.syntaxes import find_syntax

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("toolspecs", "compiler", "runtime", "gateway")
WITH_EXAMPLES = sorted(
    path.relative_to(ROOT)
    for layer in LAYERS
    for path in (ROOT / layer).rglob("*.py")
    if ">>> " in path.read_text("utf-8")
)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def names() -> dict[str, object]:
    """What examples may use without importing it: the public names, and a few tools."""
    public = {name: getattr(package, name) for package in (toolspecs, compiler) for name in package.__all__}
    amount = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}
    query = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    schemas = {"pay": amount, "search": query, "send": amount, "read": query}
    tools = {name: toolspecs.Tool(name, "", schema) for name, schema in schemas.items()}
    own = {
        "do_the_job": do_the_job,
        "link": link,
        "find_syntax": find_syntax,
        "vocabulary": compiler.Vocabulary.of_bytes(),
    }
    return {**public, **tools, **own}


async def do_the_job() -> None:
    """What an example does under a lock."""


@pytest.fixture(autouse=True)
def awaits(monkeypatch):
    """Let examples await, as in Python's asynchronous prompt (`python -m asyncio`)."""

    def compile_example(source, file_name, mode, flags, _):
        return compile(source, file_name, mode, flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)

    def run(code, names):
        result = eval(code, names)
        if inspect.iscoroutine(result):
            runner.run(result)

    with asyncio.Runner() as runner:
        monkeypatch.setattr(doctest, "compile", compile_example, raising=False)
        monkeypatch.setattr(doctest, "exec", run, raising=False)
        yield


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=str)
def test_examples_print_what_they_say(path):
    module = importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    found = doctest.testmod(module, extraglobs=names(), optionflags=OPTIONS)
    assert found.attempted
    assert not found.failed


def test_there_are_examples():
    assert len(WITH_EXAMPLES) > 10
