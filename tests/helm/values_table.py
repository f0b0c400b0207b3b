"""What the chart repeats: its values in the table of its README, and the gateway's settings in values.schema.json.

`python tests/helm/values_table.py` writes both; a test sees that they are up to date.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gateway.settings_table import settings_table

CHART = Path(__file__).resolve().parents[2] / "helm" / "callgate"
README, SCHEMA_FILE = CHART / "README.md", CHART / "values.schema.json"
SCHEMA = json.loads(SCHEMA_FILE.read_text("utf-8"))
BEGIN, END = "<!-- values -->\n", "<!-- end of values -->\n"


def leaves(
    values: Mapping[str, Any], schema: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, str]]:
    """Each value that can be set: its path, its default and its description."""
    for name, value in values.items():
        shape = properties_of(schema)[name]
        if "description" in shape:
            yield prefix + name, value, shape["description"]
        else:
            yield from leaves(value, shape, f"{prefix}{name}.")


def properties_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of an object's schema; those of a later part of `allOf` come before those of an earlier one."""
    found = dict(schema.get("properties", {}))
    if "$ref" in schema:
        found |= properties_of(SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]])
    for part in schema.get("allOf", ()):
        found |= properties_of(part)
    return found


def table() -> str:
    """The table, as Markdown."""
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    rows = ["| value | default | what |", "|---|---|---|"]
    for path, default, description in leaves(values, SCHEMA):
        text = default if isinstance(default, str) else json.dumps(default)
        shown = f" `{text}`" if default not in ("", [], {}) else ""
        rows.append(f"| `{path}` |{shown} | {description} |")
    return "\n".join(rows) + "\n"


def with_table(text: str) -> str:
    """The README with today's table in it."""
    head, _, rest = text.partition(BEGIN)
    return head + BEGIN + "\n" + table() + "\n" + END + rest.partition(END)[2]


def with_settings(text: str) -> str:
    """The text of values.schema.json with today's settings, without those that the chart sets itself."""
    own = properties_of(properties_of(json.loads(text))["gateway"])["settings"]["properties"]
    names = "|".join(setting.name for setting in settings_table() if setting.name not in own)
    return re.sub(r'"\^\([a-z_|]+\)\$"', f'"^({names})$"', text)


if __name__ == "__main__":
    SCHEMA_FILE.write_text(with_settings(SCHEMA_FILE.read_text("utf-8")), "utf-8")
    README.write_text(with_table(README.read_text("utf-8")), "utf-8")
