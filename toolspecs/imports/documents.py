"""Documents as people write them, in JSON or YAML, and references between them.

YAML is read by the core schema of YAML 1.2, which has the tags that OpenAPI allows: only `true` and `false`
are booleans, dates are text, and `010` is ten. Keys are always text: `200:` means the key `"200"`.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urldefrag

import yaml

from toolspecs.bundle import absolute
from toolspecs.errors import UnreadableSource
from toolspecs.json_pointer import is_index, pointer_keys, shown_pointer
from toolspecs.json_value import Limits, find_flaw
from toolspecs.nearest import MAX_NAME, near_matches, shorten

LIMITS = Limits(document_bytes=32 * 1024 * 1024, depth=200)
"""What an API's description may hold; the tools made of it are checked again, each with a tool's limits."""
MAX_DOCUMENTS = 256
MAX_HOPS = 50
"""How many references are followed, one after another, to a value."""

Retrieve = Callable[[str], str]
"""The text at a URI. Raises `UnreadableSource` where it may not or cannot be read."""


def parse_document(text: str, name: str) -> Any:
    """The JSON value that a JSON or YAML text holds; `name` says in errors which text it is.

    >>> parse_document("paths: {/a: {get: {responses: {200: {description: on}}}}}", "api.yaml")
    {'paths': {'/a': {'get': {'responses': {'200': {'description': 'on'}}}}}}

    Raises:
        UnreadableSource: the text is neither, or it holds too much or what JSON cannot hold.
    """
    try:
        value = json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except ValueError:
        value = None  # YAML has braces and brackets too
    except RecursionError:
        raise UnreadableSource(name, f"it is nested more than {LIMITS.depth} deep") from None
    try:
        value = _from_yaml(text) if value is None else value
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
        raise UnreadableSource(name, f"it is neither JSON nor YAML: {shorten(reason, 300)}") from None
    except RecursionError:
        raise UnreadableSource(name, f"it is nested more than {LIMITS.depth} deep") from None
    # By aliases, a short YAML text can stand for a huge value.
    limits = replace(LIMITS, document_bytes=min(LIMITS.document_bytes, 10 * len(text) + 65_536))
    if flaw := find_flaw(value, limits, is_document=True):
        raise UnreadableSource(name, f"at {shown_pointer('', flaw.path) or '/'}: {flaw.message}")
    return value


def _from_yaml(text: str) -> Any:
    """The value of a YAML text. Its depth is checked first, because libyaml is recursive, in C.

    Raises:
        yaml.YAMLError, ValueError: it is not YAML, or has a value that JSON does not have. RecursionError: it
        is nested too deep.
    """
    depth = 0
    for event in yaml.parse(text, _Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > LIMITS.depth:
            raise RecursionError
    return yaml.load(text, _Loader)  # noqa: S506 - a safe loader's subclass


class LinkedDocuments:
    """A document and the documents that it refers to, each retrieved when it is first needed."""

    def __init__(self, uri: str, text: str, retrieve: Retrieve) -> None:
        self.uri = urldefrag(uri)[0]
        self.root = parse_document(text, uri)
        self._retrieve = retrieve
        self._documents = {self.uri: self.root}

    def resolve(self, base: str, reference: str) -> tuple[str, str]:
        """The URI of the document that a reference means at the URI `base`, and the JSON pointer in it.

        Raises:
            LookupError: the reference's fragment is not a JSON pointer.
        """
        uri, fragment = absolute(base, reference)
        if not uri or (fragment and not fragment.startswith("/")):
            raise LookupError(f"{shorten(reference, MAX_NAME)!r} is not a JSON pointer into a document")
        return uri, fragment

    def at(self, uri: str, fragment: str) -> Any:
        """The value at a JSON pointer in a document.

        Raises:
            LookupError: there is nothing.
            UnreadableSource: the document may not or cannot be read.
        """
        value = self._document(uri)
        for key in pointer_keys(fragment):
            if isinstance(value, list) and is_index(key) and int(key) < len(value):
                value = value[int(key)]
            elif isinstance(value, dict) and key in value:
                value = value[key]
            else:
                near = near_matches(key, value, 1) if isinstance(value, dict) else ()
                guess = f"; did you mean {near[0]!r}?" if near else ""
                raise LookupError(f"nothing is at {shorten(f'{uri}#{fragment}', 200)}{guess}")
        return value

    def follow(self, base: str, value: Any) -> tuple[str, Any]:
        """Follow a value's references until it is not a reference; returns the value and its document's URI.

        Raises what `resolve` and `at` raise.
        """
        for _ in range(MAX_HOPS):
            if not isinstance(value, dict) or not isinstance(value.get("$ref"), str):
                return base, value
            base, fragment = self.resolve(base, value["$ref"])
            value = self.at(base, fragment)
        raise LookupError("references form a cycle")

    def _document(self, uri: str) -> Any:
        if uri not in self._documents:
            if len(self._documents) == MAX_DOCUMENTS:
                raise UnreadableSource(uri, f"it would be the document number {MAX_DOCUMENTS + 1}")
            self._documents[uri] = parse_document(self._retrieve(uri), uri)
        return self._documents[uri]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - filled below, as its base class does

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._num_left = len(text) + 65_536

    def flatten_mapping(self, node: Any) -> None:
        """Merge what `<<` names, with a limit: with aliases, a short text can merge very many members."""
        super().flatten_mapping(node)
        self._num_left -= len(node.value)
        if self._num_left < 0:
            raise yaml.constructor.ConstructorError(None, None, "too much is merged", node.start_mark)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002
        self.flatten_mapping(node)
        mapping = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is not text", key.start_mark)
            mapping[key.value] = self.construct_object(value, deep=deep)
        return mapping


def _integer(loader: Any, node: Any) -> int:
    text = loader.construct_scalar(node)
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


_SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+0123456789."),
    ),
    "merge": ("<<", ["<"]),
}
"""What a plain scalar is, and the characters with which it begins."""
for _tag, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor(
    "tag:yaml.org,2002:float",
    lambda loader, node: float(
        loader.construct_scalar(node).lower().replace(".inf", "inf").replace(".nan", "nan")
    ),
)
