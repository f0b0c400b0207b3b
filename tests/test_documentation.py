"""What the documents name is there, and what is there is in the documents: settings, routes, fields, commands."""

import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest
import typer
import yaml
from fake_runtime import FakeRuntime

from compiler.regular.formats import FORMATS
from compiler.syntaxes import SYNTAXES
from gateway.access.cors import EXPOSED
from gateway.api_document.document import describe
from gateway.api_document.document_routes import API_ROUTES
from gateway.api_document.request_schemas import BODIES, STRUCTS
from gateway.app import create_app
from gateway.cli import cli
from gateway.http.problems import CLIENT_CLOSED_REQUEST, STATUSES
from gateway.model_settings import ModelSettings
from gateway.routes.import_routes import ImportBody
from gateway.routes.mcp_routes import McpMessage
from gateway.settings import Settings
from gateway.settings_table import settings_table
from gateway.sources.source_readers import SourceKind
from gateway.telemetry.access_log import REQUEST_LOG
from gateway.telemetry.metrics import METRICS
from gateway.wire.answers import extension, operation_answers, registry_answers
from gateway.wire.turn_fields import CallgateFields, ToolSearchFields
from runtime.engines.engine_kinds import ENGINE_KINDS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LAYERS = ("toolspecs", "compiler", "runtime", "gateway")
PICTURE = ROOT / "docs" / "architecture.svg"
API = "\n".join(
    (ROOT / "docs" / page).read_text("utf-8")
    for page in ("toolsets.md", "selected-answers.md", "administration.md", "api.md")
)
IMPORTING = (ROOT / "docs" / "importing.md").read_text("utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")
TELEMETRY = (ROOT / "docs" / "telemetry.md").read_text("utf-8")
REQUESTS = (*(body.fields for body in BODIES.values()), CallgateFields, ToolSearchFields)
OWN_ANSWERS = [
    found
    for module in (extension, operation_answers, registry_answers)
    for name, found in vars(module).items()
    if isinstance(found, type) and issubclass(found, msgspec.Struct) and not name.startswith("Mcp")
    if not name.startswith(("OpenAIError", "AnthropicError"))
]
UNUSUAL_DEFAULTS = {
    "the user's data directory",
    "1073741824",  # 1 GiB
}
"""Defaults that the table of settings writes in words."""
UNANSWERED = {
    *("ToolspecsError", "RuntimeFault", "GatewayError"),
    *("TooManyValues", "TooDeep", "UnsupportedKeyword"),
    *("ModelLoadError", "AdapterLoadError", "UnusableDevice", "SettingsError", "BenchMissing"),
}
"""Errors that no request ends with: roots, those that are raised again as others, and those of commands."""


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_section_finds_it(path):
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", path.read_text("utf-8"))
    assert [
        link for link in links if link[1] not in _anchors(path.parent / link[0] if link[0] else path)
    ] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_named_in_code_type_exists(path):
    named = re.findall(
        r"`((?:compiler|docs|gateway|helm|runtime|tests|toolspecs)/[\w./-]+)`", path.read_text("utf-8")
    )
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_make_target_and_every_extra_that_a_page_names_exists():
    text = "\n".join(path.read_text("utf-8") for path in DOCUMENTS)
    targets = re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [name for names in re.findall(r"-e '\.\[([\w,-]+)\]'", text) for name in names.split(",")]
    assert set(re.findall(r"(?:`|^)make ([a-z][\w-]*)", text, re.MULTILINE)) <= set(targets)
    assert set(extras) <= set(project["optional-dependencies"])


def test_each_attack_names_its_code_and_its_tests_and_each_test_of_security_is_named():
    text = (ROOT / "docs" / "attacks.md").read_text("utf-8")
    code, link = r"`[\w/.]+`", r"\[\w+\.py\]\(\.\./tests/[\w/.]+\)"
    row_of_attack = re.compile(rf"\| .+ \| .+ \| {code}(, {code})* \| {link}(, {link})* \|")
    rows = [row for row in text.splitlines() if row.startswith("| ") and not row.endswith("| test |")]
    assert len(rows) > 50
    assert [row for row in rows if not row_of_attack.fullmatch(row)] == []
    named = set(re.findall(r"\(\.\./(tests/security/[\w.]+)\)", text))
    there = {f"tests/security/{path.name}" for path in (ROOT / "tests" / "security").glob("test_*.py")}
    assert there - named == set()


@pytest.mark.parametrize("name", ["README.md", "docs/engines.md", "docs/operations.md"])
def test_every_value_of_the_chart_that_a_page_names_exists(name):
    values = yaml.safe_load((ROOT / "helm" / "callgate" / "values.yaml").read_text("utf-8"))
    tops = "|".join(key for key in values if isinstance(values[key], dict))
    named = re.findall(rf"(?:`|--set )((?:{tops})(?:\.[a-zA-Z]+)+)", (ROOT / name).read_text("utf-8"))
    assert named
    assert [path for path in named if not _has_value(values, path.split("."))] == []


def test_every_file_in_the_picture_exists():
    named = re.findall(r">((?:compiler|gateway|runtime|toolspecs)/[\w./]+\.py)<", PICTURE.read_text("utf-8"))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("layer", LAYERS)
def test_the_map_of_a_layer_names_each_of_its_files_once(layer):
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = text.partition(f"\n| files in `{layer}/` |")[2].partition("\n\n")[0]
    cells = " ".join(re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE))
    files = [path.name for path in (ROOT / layer).glob("*.py") if path.name != "__init__.py"]
    assert sorted(re.findall(r"`(\w+\.py)`", cells)) == sorted(files)


@pytest.mark.parametrize("layer", LAYERS)
def test_the_map_of_a_layer_names_each_of_its_packages(layer):
    section = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition(f"\n## {layer}: ")[2]
    cells = " ".join(re.findall(r"^\| (`.*?`) \|", section.partition("\n## ")[0], re.MULTILINE))
    named = {name.removeprefix(f"{layer}/") for name in re.findall(r"`([\w/]+)/`", cells)}
    assert named == {path.parent.name for path in (ROOT / layer).glob("*/__init__.py")}


@pytest.mark.parametrize("page", ["administration.md", "engines.md", "operations.md"])
def test_every_kind_of_engine_is_documented(page):
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert [name for name in ENGINE_KINDS if not re.search(rf"(`|--engine ){name}\b", text)] == []


def test_every_setting_in_the_readme_and_in_the_table_of_operations_exists():
    table = _settings_of_operations()
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


def test_the_tables_of_settings_have_the_defaults_of_the_settings():
    settings = {setting.option: setting for setting in settings_table()}
    for row in re.findall(r"^\| `--.*", _settings_of_operations(), re.MULTILINE):
        options, default, *_ = row.removeprefix("|").split("|")
        named = [settings[option] for option in re.findall(r"`(--[\w-]+)`", options)]
        written = re.findall(r"`([^`]+)`", default)
        for setting in named:
            if setting.default and setting.default not in UNUSUAL_DEFAULTS:
                assert setting.default.removesuffix(".0") in written, row
    limits = API.partition("\n## Connections and bodies\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", limits, re.MULTILINE)
    assert len(rows) >= 10
    by_name = {setting.name: setting.default.removesuffix(".0") for setting in settings.values()}
    assert {name: number.replace(",", "") for name, number in rows} == {
        name: by_name[name] for name, _ in rows
    }


def test_every_command_and_every_option_is_documented():
    text = "\n".join(path.read_text("utf-8") for path in DOCUMENTS)
    for names in re.findall(r"callgate tools (\w+(?:\|\w+)+)", text):  # `callgate tools list|show`
        text += "".join(f"\ncallgate tools {name}" for name in names.split("|"))
    commands = dict(_commands(typer.main.get_command(cli)))
    assert len(commands) > 15
    assert [name for name in commands if not re.search(rf"callgate {name}(?![\w-])", text)] == []
    shared = {setting.option for setting in settings_table()} | {"--help"}
    options = {option for own in commands.values() for option in own} - shared
    assert [option for option in options if not re.search(rf"{option}(?![\w-])", text)] == []


def test_every_kind_of_source_has_an_option_a_field_and_a_row_of_the_page():
    kinds = set(get_args(SourceKind))
    options = dict(_commands(typer.main.get_command(cli)))["tools import"]
    assert {f"--{kind}" for kind in kinds} <= {*options}, "gateway/commands/import_cli.py"
    assert kinds <= {*ImportBody.__struct_fields__}, "gateway/routes/import_routes.py"
    assert [kind for kind in kinds if f'| `{{"{kind}": ' not in IMPORTING] == [], "docs/importing.md"


def test_the_table_of_syntaxes_has_every_row():
    cells = re.findall(r"^\| (`.*?`) \|", (ROOT / "docs" / "syntaxes.md").read_text("utf-8"), re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == SYNTAXES.keys()


def test_the_table_of_formats_has_every_format():
    section = (ROOT / "docs" / "soundness.md").read_text("utf-8").partition("\n### Formats\n")[2]
    cells = re.findall(r"^\| (`.*?`) \|", section.partition("\n## ")[0], re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)} == FORMATS.keys()


def test_the_totals_of_reliability_are_those_of_its_faults():
    text = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    rows = re.findall(r"^\| .* \| (\d+) \| (none|\d+ `.*?) \|", text, re.MULTILINE)
    assert len(rows) > 20
    answered = sum(int(number) for number, _ in rows)
    refused = sum(int(number) for _, codes in rows for number in re.findall(r"(\d+) `", codes))
    assert f"**{answered} requests answered, each with a valid call; {refused} refused " in text


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


def test_each_query_parameter_is_documented_with_its_route():
    written = {}
    for line in API.splitlines():
        for methods, path in re.findall(r"`([A-Z, ]+?) (/[^`\s]*)`", line):
            for method in methods.split(", "):
                written.setdefault((method, _plain(path.partition("?")[0])), []).append(line)
    parameters = [
        (method.upper(), _plain(path), parameter["name"])
        for path, operations in describe(API_ROUTES)["paths"].items()
        for method, operation in operations.items()
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query"
    ]
    assert len(parameters) > 20
    assert [
        (method, path, name)
        for method, path, name in parameters
        if not any(re.search(rf"\b{name}=", line) for line in written.get((method, path), ()))
    ] == []


@pytest.mark.parametrize("struct", REQUESTS, ids=lambda struct: struct.__name__)
def test_every_field_of_a_request_to_a_model_is_documented(struct):
    assert _undocumented(struct, API) == []


def own_bodies():
    """The structs of the bodies that our own routes read, those within them included."""
    found, kinds = [], [*STRUCTS]
    while kinds:
        kind = kinds.pop()
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            kinds += get_args(kind)
        elif kind not in found and kind.__module__.startswith(("gateway.routes.", "gateway.access.")):
            found.append(kind)
            kinds += get_type_hints(kind).values()
    return [struct for struct in found if struct is not McpMessage]


@pytest.mark.parametrize("struct", own_bodies(), ids=lambda struct: struct.__name__)
def test_every_field_of_a_body_of_our_own_routes_is_documented(struct):
    assert _undocumented(struct, API + IMPORTING) == []


@pytest.mark.parametrize("struct", OWN_ANSWERS, ids=lambda struct: struct.__name__)
def test_every_field_of_our_own_answers_is_documented(struct):
    assert _undocumented(struct, API + IMPORTING) == []


def test_every_header_that_pages_may_read_is_documented():
    text = API.lower()
    assert [
        name for name in EXPOSED.lower().split(", ") if f"`{name}`" not in text and name not in text
    ] == []


def test_every_attribute_of_a_span_is_documented():
    sources = [path.read_text("utf-8") for path in (ROOT / "gateway" / "telemetry").glob("*.py")]
    attributes = {name for source in sources for name in re.findall(r'"(callgate\.[a-z_.]+)"', source)}
    attributes -= {metric.name for metric in METRICS} | {REQUEST_LOG}
    assert len(attributes) > 20
    assert [name for name in sorted(attributes) if f"`{name}`" not in TELEMETRY] == []


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


@pytest.mark.parametrize("layer", LAYERS)
def test_the_docstring_of_a_layers_errors_draws_their_tree(layer):
    own = _errors_of(layer)
    drawing = import_module(f"{layer}.errors").__doc__
    drawn, path = {}, re.findall(r"^\w+$", drawing, re.MULTILINE)
    for branch, name in re.findall(r"^([│ ]*[├└])── (\w+)", drawing, re.MULTILINE):
        del path[len(branch) // 4 + 1 :]
        drawn[name] = path[-1]
        path.append(name)
    assert drawn == {
        name: error.__base__.__name__ for name, error in own.items() if error.__base__.__name__ in own
    }


@pytest.mark.parametrize("layer", LAYERS)
def test_every_error_that_a_request_may_meet_has_a_status(layer):
    unknown = {name for name, error in _errors_of(layer).items() if STATUSES.keys().isdisjoint(error.__mro__)}
    assert unknown - UNANSWERED == set(), "give it a row in gateway/http/problems.py"


def _errors_of(layer: str) -> dict[str, type[Exception]]:
    errors = import_module(f"{layer}.errors")
    found = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    return {error.__name__: error for error in found if error.__module__ == errors.__name__}


def _anchors(page: Path) -> set[str]:
    """The names by which links lead to the sections of a page, as GitHub makes them of headings."""
    text = page.read_text("utf-8")
    headings = (
        re.sub(r"[^\w\- ]", "", line.lower()) for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    )
    return {heading.replace(" ", "-") for heading in headings} | set(re.findall(r'<a id="([^"]+)"', text))


def _has_value(values: object, path: list[str]) -> bool:
    """Whether a chart has a value; an empty object may have any members."""
    if not path or values == {}:
        return True
    return isinstance(values, dict) and path[0] in values and _has_value(values[path[0]], path[1:])


def _settings_of_operations() -> str:
    return OPERATIONS.partition("## Settings\n")[2].partition("\n## ")[0]


def _commands(command, path=()):
    """Each command with its options, as `("tools apply", ["--name", …])`."""
    if inner := getattr(command, "commands", None):
        for name, subcommand in inner.items():
            yield from _commands(subcommand, (*path, name))
    else:
        options = [option for parameter in command.params for option in parameter.opts]
        yield " ".join(path), [option for option in options if option.startswith("--")]


def _undocumented(struct: type, text: str) -> list[str]:
    """The fields of a struct that no code of a page names; `guided_*` names all that begin so."""
    fenced = re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)
    inline = re.findall(r"`[^`]+`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    code = " ".join([*fenced, *inline])
    named = set(re.findall(r"\w+", code))
    prefixes = tuple(re.findall(r"(\w+_)\*", code))
    names = [field.encode_name for field in msgspec.structs.fields(struct)]
    return [name for name in names if name not in named and not name.startswith(prefixes)]


def _by_status(row: str) -> list[str]:
    return re.findall(r"\d{3}\D*", row)


def _expand(path: str) -> list[str]:
    """`/a[/{n}]` is both `/a` and `/a/{n}`."""
    bare, bracket, rest = path.partition("[")
    return [bare, bare + rest.removesuffix("]")] if bracket else [path]


def _plain(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)
