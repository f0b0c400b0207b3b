"""What the documents name is there: settings, links, routes, the fields of a response."""

import re
from pathlib import Path

import pytest
from fake_runtime import FakeRuntime

from gateway.app import create_app
from gateway.http.problems import CLIENT_CLOSED_REQUEST, STATUSES
from gateway.model_settings import ModelSettings
from gateway.settings import Settings
from gateway.settings_table import settings_table

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PICTURE = ROOT / "docs" / "architecture.svg"
API = (ROOT / "docs" / "api.md").read_text("utf-8")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_named_in_code_type_exists(path):
    named = re.findall(
        r"`((?:compiler|docs|gateway|helm|runtime|tests|toolspecs)/[\w./-]+)`", path.read_text("utf-8")
    )
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_file_in_the_picture_exists():
    named = re.findall(r">((?:compiler|gateway|runtime|toolspecs)/[\w./]+\.py)<", PICTURE.read_text("utf-8"))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("layer", ["compiler", "runtime"])
def test_the_map_of_a_layer_names_each_of_its_files_once(layer):
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = text.partition(f"\n| files in `{layer}/` |")[2].partition("\n\n")[0]
    files = [path.name for path in (ROOT / layer).glob("*.py") if path.name != "__init__.py"]
    assert sorted(re.findall(r"`(\w+\.py)`", table)) == sorted(files)


def test_every_setting_in_the_readme_and_in_the_table_of_operations_exists():
    operations = (ROOT / "docs" / "operations.md").read_text("utf-8")
    table = operations.partition("## Settings\n")[2].partition("\n## ")[0]
    text = (ROOT / "README.md").read_text("utf-8") + table
    variables = {setting.variable for setting in settings_table()} | {"CALLGATE_CONFIG"}
    options = {setting.option for setting in settings_table()} | {"--config"}
    assert set(re.findall(r"CALLGATE_[A-Z_]+", text)) <= variables
    assert set(re.findall(r"`(--[a-z-]+)", text)) <= options
    assert table.count("\n| `--") > 20


def test_every_setting_is_explained_on_some_page():
    text = "\n".join(path.read_text("utf-8") for path in DOCUMENTS)
    named = set(re.findall(r"(?<![\w-])(?:--)?[\w-]+(?![\w-])", text))
    names = [(setting.name, setting.option, setting.variable) for setting in settings_table()]
    assert [name for name, *others in names if named.isdisjoint((name, *others))] == []


def test_every_field_of_a_models_table_is_documented():
    section = API.partition("\n## Models and engines\n")[2].partition("\n```toml")[0]
    assert [name for name in ModelSettings.__struct_fields__ if f"`{name}`" not in section] == []


def test_every_route_is_documented_and_every_documented_route_is_there(tmp_path):
    app = create_app(Settings(data_dir=str(tmp_path)), runtime=FakeRuntime())
    served = {_plain(route.path) for route in app.routes}
    written = re.findall(r"`(?:GET|PUT|POST|DELETE)[A-Z, ]* (/[^?`\s]+)[^`]*`", API)
    documented = {_plain(part) for path in written for part in _expand(path)}
    assert documented <= served
    assert {path for path in served if path.startswith("/v1/")} <= documented | {"/v1/models/{}"}


def test_every_error_is_in_the_table_in_the_row_of_its_status():
    section = API.partition("\n## Errors\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d.*?) \|", section, re.MULTILINE)
    written = {
        (int(part[:3]), code)
        for row in rows
        for part in _by_status(row)
        for code in re.findall(r"`(\w+)`", part)
    }
    others = {(404, "not_found"), (405, "method_not_allowed"), (500, "internal_error")}
    assert written - others == {row for row in STATUSES.values() if row[0] != CLIENT_CLOSED_REQUEST}


def _by_status(row: str) -> list[str]:
    return re.findall(r"\d{3}\D*", row)


def _expand(path: str) -> list[str]:
    """`/a[/{n}]` is both `/a` and `/a/{n}`."""
    bare, bracket, rest = path.partition("[")
    return [bare, bare + rest.removesuffix("]")] if bracket else [path]


def _plain(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)
