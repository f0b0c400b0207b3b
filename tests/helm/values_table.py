"""The table of values in the chart's README, from values.yaml and the descriptions in values.schema.json.

`python tests/helm/values_table.py` writes it; a test sees that it is up to date.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[2] / "helm" / "callgate"
BEGIN, END = "<!-- values -->\n", "<!-- end of values -->\n"


def leaves(
    values: Mapping[str, Any], schema: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, str]]:
    """Each value that can be set: its path, its default and its description."""
    for name, value in values.items():
        shape = schema["properties"][name]
        if "description" in shape:
            yield prefix + name, value, shape["description"]
        else:
            yield from leaves(value, shape, f"{prefix}{name}.")


def table() -> str:
    """The table, as Markdown."""
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    rows = ["| value | default | what |", "|---|---|---|"]
    for path, default, description in leaves(values, schema):
        text = default if isinstance(default, str) else json.dumps(default)
        shown = f" `{text}`" if default not in ("", [], {}) else ""
        rows.append(f"| `{path}` |{shown} | {description} |")
    return "\n".join(rows) + "\n"


def with_table(text: str) -> str:
    """The README with today's table in it."""
    head, _, rest = text.partition(BEGIN)
    return head + BEGIN + "\n" + table() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    readme = CHART / "README.md"
    readme.write_text(with_table(readme.read_text("utf-8")), "utf-8")
