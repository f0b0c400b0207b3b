"""The page that shows the document: HTML without a script, and without anything from elsewhere."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import Any

JSON = Mapping[str, Any]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 14px/1.4 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8886; border-radius: 6px; }
details { margin: .25rem 0 .25rem 1rem; }
summary { cursor: pointer; margin-left: -1rem; }
td, th { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0; }
.method { display: inline-block; width: 4.5rem; font-weight: 600; }
:root { color-scheme: light dark; }
"""

_DIGEST = b64encode(sha256(_STYLE.encode()).digest()).decode()

PAGE_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
"""The page loads nothing and runs nothing, whatever is in it."""

_REFERENCE = re.compile(r"&quot;#/components/schemas/([\w.]+)&quot;")


def write_page(document: JSON) -> str:
    """The page of an OpenAPI document."""
    return "".join(_page(document))


def _page(document: JSON) -> Iterator[str]:
    yield '<!doctype html><html lang="en"><meta charset="utf-8"><title>Callgate</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{_STYLE}</style><h1>Callgate</h1>{_text(document['info']['description'])}"
    yield '<p>The same as <a href="openapi.json">OpenAPI document</a>.</p>'
    for tag in document["tags"]:
        yield f"<h2>{escape(tag['name'])}</h2>"
        for path, item in document["paths"].items():
            for method, operation in item.items():
                if tag["name"] in operation["tags"]:
                    yield from _operation(method, path, operation)
    yield "<h2>Schemas</h2>"
    for name, schema in document["components"]["schemas"].items():
        yield f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>'
        yield f"{_json(schema)}</details>"
    yield "</html>"


def _operation(method: str, path: str, operation: JSON) -> Iterator[str]:
    yield f'<details><summary><code><span class="method">{method.upper()}</span>{escape(path)}</code>'
    yield f" {_inline(operation['summary'])}</summary>{_text(operation['description'])}"
    if parameters := operation.get("parameters"):
        yield "<table><tr><th>parameter</th><th>in</th><th>schema</th></tr>"
        for parameter in parameters:
            schema = json.dumps(parameter["schema"], ensure_ascii=False)
            yield f"<tr><td><code>{escape(parameter['name'])}</code></td><td>{escape(parameter['in'])}</td>"
            description = _inline(parameter.get("description", ""))
            yield f"<td><code>{_linked(escape(schema))}</code> {description}</td></tr>"
        yield "</table>"
    if body := operation.get("requestBody"):
        yield f"<p>Request</p>{_json(body['content']['application/json']['schema'])}"
    for status, answer in operation["responses"].items():
        yield f"<p>{escape(status)} {_inline(answer['description'])}</p>"
        for media_type, content in answer.get("content", {}).items():
            schema = content.get("x-item-schema", content["schema"])
            yield f"<details><summary><code>{escape(media_type)}</code></summary>{_json(schema)}</details>"
    yield "</details>"


def _json(value: Any) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return f"<pre>{_linked(escape(text))}</pre>"


def _linked(text: str) -> str:
    """Escaped JSON with its references as links; following one opens the `details` that it leads to."""
    return _REFERENCE.sub(r'<a href="#\1">\1</a>', text)


def _text(text: str) -> str:
    return "".join(f"<p>{_inline(paragraph)}</p>" for paragraph in text.split("\n\n"))


def _inline(text: str) -> str:
    """Text, with everything between backticks marked as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
