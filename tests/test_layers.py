"""The direction of dependency: toolspecs <- compiler <- runtime <- gateway, and inside the first two."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("toolspecs", "compiler", "runtime", "gateway")

TOOLSPECS = (
    *("cancellation", "confined_files", "held_parts", "lru_cache", "resolved_types", "json_value", "nearest"),
    *("json_pointer", "errors", "json_scan", "tool", "custom_shapes", "pinned_source", "store"),
    *("search", "fairness", "schemas", "stores", "toolset", "shapes", "tool_parser", "revisions", "imports"),
    "__init__",
)

COMPILER = (
    *(
        "errors",
        "digraph",
        "doubles",
        "output_parts",
        "matcher",
        "held_memory",
        "kept_sets",
        "timed_fills",
        "client_grammar_matcher",
        "report",
        "syntax",
        "syntaxes",
        "tagged_values",
        "vocabulary",
        "token_index",
    ),
    *("regular", "guard", "grammar", "prepared_vocabulary", "frontend", "scalars", "lark", "lowering"),
    *(
        "recogniser",
        "closing",
        "constraint",
        "units",
        "compiled_format",
        "schema",
        "response_format",
        "linker",
    ),
    *("toolset_compiler", "argument_faults", "cache_entry", "recipe", "isolation", "cache", "__init__"),
)
"""The packages of two layers, and the modules beside them, each after those that it imports."""

# With the compiler, what runs inside somebody else's engine: it may load no model and no web framework.
PURE_RUNTIME = (
    "request",
    "events",
    "errors",
    "protocol",
    "text.parameters",
    "engines.request_mark",
    "engines.vllm.plugin",
    "engines.sglang.plugin",
)

WEB = {"litestar", "starlette", "fastapi", "uvicorn", "granian"}
FRONT = WEB | {"typer", "rich"}
"""Web frameworks, servers and the command line: the gateway's alone."""

ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv"}
SETTINGS = {Path("gateway/setting_sources.py"), Path("runtime/engines/settings.py")}
"""Of the gateway, and of the plugins inside engines, which run in processes of their own."""


def sources() -> list[Path]:
    return sorted(path.relative_to(ROOT) for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))


def imported_modules(tree: ast.AST, path: Path) -> Iterator[str]:
    """Every module a file imports, at any depth of nesting, relative imports made absolute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.parent.parts[: len(path.parent.parts) - node.level + 1] if node.level else ()
            yield ".".join([*package, *([node.module] if node.module else [])])


def environment_reads(tree: ast.AST) -> Iterator[int]:
    """Lines that touch the environment: `os.environ`, `os.getenv` and names imported from os."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if node.attr in ENVIRONMENT and isinstance(node.value, ast.Name) and node.value.id == "os":
                yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            yield from (node.lineno for alias in node.names if alias.name in ENVIRONMENT)


@cache
def parse(path: Path) -> ast.AST:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), str(path))


def imported_packages(path: Path) -> set[str]:
    return {module.split(".")[0] for module in imported_modules(parse(path), path)}


def test_a_file_imports_only_its_own_layer_and_those_below():
    above = {path: set(LAYERS[LAYERS.index(path.parts[0]) + 1 :]) for path in sources()}
    assert {path: found for path in above if (found := imported_packages(path) & above[path])} == {}


@pytest.mark.parametrize(("layer", "order"), [("toolspecs", TOOLSPECS), ("compiler", COMPILER)])
def test_a_part_of_a_layer_imports_only_those_before_it(layer, order):
    wrong = {}
    for path in (path for path in sources() if path.parts[0] == layer):
        part = path.with_suffix("").parts[1]
        assert part in order, f"name {part!r} in {layer.upper()}, after all that it imports"
        reached = (module.split(".") for module in imported_modules(parse(path), path))
        parts = {[*names, "__init__"][1] for names in reached if names[0] == layer}
        wrong[path] = parts - set(order[: order.index(part) + 1])
    assert {path: parts for path, parts in wrong.items() if parts} == {}


def test_only_the_gateway_knows_a_web_framework():
    others = (path for path in sources() if path.parts[0] != "gateway")
    assert {path: found for path in others if (found := imported_packages(path) & FRONT)} == {}


def test_only_the_settings_read_the_environment():
    others = (path for path in sources() if path not in SETTINGS)
    assert {path: lines for path in others if (lines := list(environment_reads(parse(path))))} == {}


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("import gateway.app", {"gateway.app"}),
        ("from gateway import app", {"gateway"}),
        ("def f():\n    from gateway.wire import openai", {"gateway.wire"}),
        ("from ..gateway import app", {"gateway"}),
        ("from . import errors", {"runtime"}),
        ("from .errors import Overloaded", {"runtime.errors"}),
    ],
)
def test_imports_are_found_wherever_they_stand(source, modules):
    assert set(imported_modules(ast.parse(source), Path("runtime/engine.py"))) == modules


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import os\nos.environ['A']", [2]),
        ("import os\nos.getenv('A')", [2]),
        ("from os import environ", [1]),
        ("import os\nos.cpu_count()", []),
        ("settings.environ", []),
    ],
)
def test_environment_reads_are_found(source, lines):
    assert list(environment_reads(ast.parse(source))) == lines


# xgrammar imports transformers for the name of its tokenizer class: the package loads, its models do not.
MODELS = {"transformers.modeling_utils", "transformers.models", "accelerate"}


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """What a fresh interpreter holds after it has imported a layer, and before it imports the next one.

    These are the names of modules and of their top-level packages.
    """
    toolspecs = (path.with_suffix("").parts for path in sources() if path.parts[0] == "toolspecs")
    imports = {
        "toolspecs": [".".join(parts).removesuffix(".__init__") for parts in toolspecs],
        "compiler": ["compiler", "compiler.closing.closer"],
        "the pure half of the runtime": [f"runtime.{name}" for name in PURE_RUNTIME],
    }
    code = "import sys\n" + "".join(
        f"import {', '.join(modules)}\nprint(' '.join(sys.modules))\n" for modules in imports.values()
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    held = [set(line.split()) for line in done.stdout.splitlines()]
    packages = [names | {name.split(".")[0] for name in names} for names in held]
    return dict(zip(imports, packages, strict=True))


@pytest.mark.parametrize(
    ("layer", "refused"),
    [
        ("toolspecs", {"compiler", "runtime", "gateway", "torch", "transformers", "xgrammar"}),
        ("compiler", {"gateway", "runtime", *MODELS, *WEB}),
        ("the pure half of the runtime", {"gateway", *MODELS, *WEB}),
    ],
)
def test_a_layer_imports_without_those_above_models_or_a_web_framework(loaded, layer, refused):
    assert not loaded[layer] & refused
