"""One name for one thing, no cycle of imports in the product's files, and no import of what is not there."""

import ast
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("toolspecs", "compiler", "runtime", "gateway")
FILES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
RECURRING = {"__init__", "__main__", "errors", "settings", "limits", "plugin"}
"""File names that every package may have."""


def is_wire(path: Path) -> bool:
    """Whether the file is in a wire format, where each API's own words stand."""
    return path.relative_to(ROOT).parts[:2] == ("gateway", "wire")


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def repeated(places: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {name: found for name, found in places.items() if len(found) > 1}


def public_classes(tree: ast.Module) -> Iterator[str]:
    """The classes of a module and the types that it names, private ones left out."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name[0].isupper() and not name.isupper():
                yield name


def test_no_two_classes_share_a_name():
    places = defaultdict(list)
    for path in FILES:
        if not is_wire(path):
            for name in public_classes(ast.parse(path.read_text("utf-8"))):
                if not name.startswith("_"):
                    places[name].append(module_of(path))
    assert not repeated(places)


def test_no_two_files_share_a_name():
    places = defaultdict(list)
    for path in FILES:
        if not is_wire(path) and path.stem not in RECURRING:
            places[path.stem].append(module_of(path))
    assert not repeated(places)


def imported(nodes: Iterable[ast.stmt], *, with_types: bool) -> Iterator[str]:
    """The product's modules that a module imports when it is loaded, and (`with_types`) for annotations alone."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.If):
            is_for_types = ast.unparse(node.test).endswith("TYPE_CHECKING")
            if with_types or not is_for_types:
                yield from imported(node.body, with_types=with_types)
            yield from imported(node.orelse, with_types=with_types)
        elif isinstance(node, ast.ClassDef | ast.Try | ast.With):
            yield from imported(node.body, with_types=with_types)


def imports(*, with_types: bool) -> dict[str, set[str]]:
    found = {}
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text("utf-8"))
        found[module] = {name for name in imported(tree.body, with_types=with_types) if name in MODULES} - {
            module
        }
    return found


def cycles(following: Mapping[str, set[str]]) -> list[list[str]]:
    """Modules that import one another, directly or by way of others (Tarjan, 1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in following[module]:
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            at = stack.index(module)
            cycle = stack[at:]
            del stack[at:]
            if len(cycle) > 1:
                found.append(sorted(cycle))

    for module in following:
        if module not in number:
            visit(module)
    return found


def test_no_cycle_of_files_at_run_time():
    assert cycles(imports(with_types=False)) == []


def test_no_cycle_of_files_in_the_compiler_with_type_imports():
    following = {
        module: {other for other in others if other.startswith("compiler.")}
        for module, others in imports(with_types=True).items()
        if module.startswith("compiler.")
    }
    assert cycles(following) == []


def test_no_cycle_of_packages_with_type_imports():
    """Files of one package may name each other's types, outside of the compiler; packages may not."""
    following: dict[str, set[str]] = defaultdict(set)
    for module, others in imports(with_types=True).items():
        package = package_of(module)
        following[package] |= {package_of(other) for other in others} - {package}
    assert cycles(following) == []


def package_of(module: str) -> str:
    """The folder that a module is in; a module beside packages stands for itself."""
    path = MODULES[module]
    folder = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return module if folder in LAYERS else folder


@pytest.mark.parametrize(
    ("following", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, [["a", "b", "c"]]),
    ],
)
def test_circles_are_found(following, expected):
    assert cycles(following) == expected


def test_imports_for_types_are_told_apart():
    tree = ast.parse("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import compiler.errors\n")
    assert list(imported(tree.body, with_types=False)) == ["typing"]
    assert list(imported(tree.body, with_types=True)) == ["typing", "compiler.errors"]


def programs(path: Path) -> Iterator[ast.Module]:
    """A file, and the programs in its texts, which tests start in processes of their own."""
    tree = ast.parse(path.read_text("utf-8"))
    yield tree
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            with suppress(SyntaxError):
                yield ast.parse(textwrap.dedent(node.value).strip().rstrip(";"))


@cache
def defined(module: str) -> set[str]:
    """The names that a module of the product gives to something."""
    nodes = list(ast.walk(ast.parse(MODULES[module].read_text("utf-8"))))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return {
        *(
            node.name
            for node in nodes
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        *(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)),
        *(alias.asname or alias.name for node in imports for alias in node.names),
    }


def missing(tree: ast.Module) -> Iterator[str]:
    """The modules and names of the product that a program imports, and that are not there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in LAYERS:
            names = defined(node.module) if node.module in MODULES else set()
            imported_names = {alias.name for alias in node.names}
            yield from (
                f"{node.module}.{name}"
                for name in imported_names - names
                if f"{node.module}.{name}" not in MODULES
            )
        elif isinstance(node, ast.Import):
            names = {alias.name for alias in node.names if alias.name.split(".")[0] in LAYERS}
            yield from names - MODULES.keys()


def test_what_tests_import_is_there():
    """Also in tests that are rarely run, and in the programs that they start."""
    found = {
        path.relative_to(ROOT).as_posix(): names
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if (names := [name for program in programs(path) for name in missing(program)])
    }
    assert found == {}, "a rename left these behind"


def test_imports_of_what_is_not_there_are_found(tmp_path):
    path, name = tmp_path / "test.py", "no_name"
    path.write_text(
        f"from compiler import {name}\nLATER = 'from compiler.schema import {name}; {name}(); '\n"
    )
    found = [each for program in programs(path) for each in missing(program)]
    assert found == ["compiler.no_name", "compiler.schema.no_name"]
