"""Documents as people write them, in JSON or YAML, and references between them.

YAML is read by the core schema of YAML 1.2, which has the tags that OpenAPI allows: only `true` and `false`
are booleans, dates are text, and `010` is ten. Keys are always text: `200:` means the key `"200"`.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urldefrag

import yaml

from toolspecs.errors import UnreadableSource
from toolspecs.json_pointer import is_index, pointer_keys, shown_pointer
from toolspecs.json_scan import RepeatedMember, has_repeated_key, repeated_key
from toolspecs.json_value import Limits, find_flaw
from toolspecs.nearest import MAX_NAME, near_matches, shorten
from toolspecs.schemas.bundle import absolute

LIMITS = Limits(document_bytes=32 * 1024 * 1024, depth=200)
"""What an API's description may hold; the tools made of it are checked again, each with a tool's limits."""
_MERGE = "<<"
"""A key that a mapping may have several times, since it merges others into it."""
_MERGE_TAG = "tag:yaml.org,2002:merge"
MAX_DOCUMENTS = 256
MAX_UNREADABLE = 4
"""How many documents that cannot be read cost only the tools that need them; each may take a minute to fail.
"""
MAX_HOPS = 50
"""How many references are followed, one after another, to a value."""

Retrieve = Callable[[str], str]
"""The text at a URI. Raises `UnreadableSource` where it may not or cannot be read."""


def parse_document(text: str, name: str) -> Any:
    """The JSON value that a JSON or YAML text holds; `name` says in errors which text it is.

    >>> parse_document("paths: {/a: {get: {responses: {200: {description: on}}}}}", "api.yaml")
    {'paths': {'/a': {'get': {'responses': {'200': {'description': 'on'}}}}}}

    Raises:
        UnreadableSource: the text is neither, or it holds too much or what JSON cannot hold, or an object of
            it has a key twice: one of the two would be lost.
    """
    try:
        value, repeated = _from_json(text) or _from_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
        raise UnreadableSource(name, f"it is neither JSON nor YAML: {shorten(reason, 300)}") from None
    except RecursionError:
        raise UnreadableSource(name, f"it is nested more than {LIMITS.depth} deep") from None
    if repeated:
        raise UnreadableSource(name, str(repeated))
    # By aliases, a short YAML text can stand for a huge value.
    limits = replace(LIMITS, document_bytes=min(LIMITS.document_bytes, 10 * len(text) + 65_536))
    if flaw := find_flaw(value, limits, is_document=True):
        raise UnreadableSource(name, f"at {shown_pointer('', flaw.path) or '/'}: {flaw.message}")
    return value


def _from_json(text: str) -> tuple[Any, RepeatedMember | None] | None:
    """The value of a JSON text, and a key that an object has twice; None if it is not JSON.

    Raises:
        RecursionError: it is nested too deep.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None  # YAML has braces and brackets too
    encoded = text.encode("utf-8", "surrogatepass")
    return value, repeated_key(encoded) if has_repeated_key(encoded, value) else None


def _from_yaml(text: str) -> tuple[Any, RepeatedMember | None]:
    """The value of a YAML text, or a key that a mapping has twice.

    Raises:
        yaml.YAMLError, ValueError: it is not YAML, or has a value that JSON does not have. RecursionError: it
        is nested too deep.
    """
    if repeated := _check_events(text):
        return None, repeated
    return yaml.load(text, _Loader), None  # noqa: S506 - a safe loader's subclass


def _check_events(text: str) -> RepeatedMember | None:
    """The first key that a mapping of a YAML text has twice, None if there is none.

    The depth is checked before the text is loaded, because libyaml is recursive, in C.

    Raises:
        yaml.YAMLError, ValueError: it is not YAML. RecursionError: it is nested too deep.
    """
    levels: list[_Level] = []
    scalars: dict[str, yaml.ScalarEvent] = {}
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionEndEvent):
            levels.pop()
        elif isinstance(event, yaml.NodeEvent):
            if isinstance(event, yaml.ScalarEvent) and event.anchor:
                scalars[event.anchor] = event
            if levels and (key := levels[-1].repeated_by(scalars.get(event.anchor, event))) is not None:
                return RepeatedMember([level.step for level in levels[:-1]], key)
            if isinstance(event, yaml.CollectionStartEvent):
                levels.append(_Level(is_mapping=isinstance(event, yaml.MappingStartEvent)))
                if len(levels) > LIMITS.depth:
                    raise RecursionError
    return None


class _Level:
    """A mapping or sequence whose events are read; `step` leads to the value that is read now."""

    def __init__(self, *, is_mapping: bool) -> None:
        self.step: str | int = -1
        self._keys: set[str] | None = set() if is_mapping else None
        self._is_key = False

    def repeated_by(self, event: yaml.NodeEvent) -> str | None:
        """The key that begins with an event, if the mapping has had it before."""
        if self._keys is None:
            self.step = int(self.step) + 1
            return None
        self._is_key = not self._is_key
        if not self._is_key or not isinstance(event, yaml.ScalarEvent):
            return None
        self.step = key = event.value
        if key == _MERGE and event.implicit[0]:  # not in quotes
            return None
        is_repeated = key in self._keys
        self._keys.add(key)
        return key if is_repeated else None


class LinkedDocuments:
    """A document and the documents that it refers to, each retrieved when it is first needed."""

    def __init__(self, uri: str, text: str, retrieve: Retrieve) -> None:
        self.uri = urldefrag(uri)[0]
        self.root = parse_document(text, uri)
        self._retrieve = retrieve
        self._documents = {self.uri: self.root}
        self._unreadable: dict[str, str] = {}
        """Why documents cannot be read, by their URIs."""

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
            LookupError: there is nothing, or the document may not or cannot be read.
            UnreadableSource: so many documents cannot be read.
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
        *_, last = self.chain(base, value)
        return last

    def chain(self, base: str, value: Any) -> Iterator[tuple[str, Any]]:
        """A value and those that its references lead to, one after another, each with its document's URI.

        Raises what `resolve` and `at` raise.
        """
        for _ in range(MAX_HOPS):
            yield base, value
            if not isinstance(value, dict) or not isinstance(value.get("$ref"), str):
                return
            base, fragment = self.resolve(base, value["$ref"])
            value = self.at(base, fragment)
        raise LookupError("references form a cycle")

    def _document(self, uri: str) -> Any:
        if uri in self._unreadable:
            raise LookupError(self._unreadable[uri])
        if uri not in self._documents:
            if len(self._documents) == MAX_DOCUMENTS:
                raise UnreadableSource(uri, f"it would be the document number {MAX_DOCUMENTS + 1}")
            try:
                self._documents[uri] = parse_document(self._retrieve(uri), uri)
            except UnreadableSource as error:
                if len(self._unreadable) == MAX_UNREADABLE:
                    raise
                self._unreadable[uri] = reason = shorten(str(error), 500)
                raise LookupError(reason) from error
        return self._documents[uri]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - filled below, as its base class does

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._num_left = len(text) + 65_536

    def flatten_mapping(self, node: Any) -> None:
        """Merge what `<<` names: a mapping's own members win, then those of the mapping that is named first.

        PyYAML 6.0.4 lets the last one win. With aliases, a short text can merge very many members: they and
        their mappings are counted.
        """
        members, node.value = node.value, []  # a mapping that merges itself has nothing to merge yet
        merged: dict[Any, tuple[Any, Any]] = {}
        for mapping in _merged_mappings(members):
            self.flatten_mapping(mapping)
            self._num_left -= 1 + len(mapping.value)
            if self._num_left < 0:
                raise yaml.constructor.ConstructorError(None, None, "too much is merged", node.start_mark)
            for key, value in mapping.value:
                merged.setdefault(key.value if isinstance(key, yaml.ScalarNode) else key, (key, value))
        node.value = [*merged.values(), *(member for member in members if member[0].tag != _MERGE_TAG)]

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002
        self.flatten_mapping(node)
        mapping = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is not text", key.start_mark)
            mapping[key.value] = self.construct_object(value, deep=deep)
        return mapping


def _merged_mappings(members: list[tuple[Any, Any]]) -> Iterator[Any]:
    for key, value in members:
        if key.tag == _MERGE_TAG:
            for mapping in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(mapping, yaml.MappingNode):
                    raise yaml.constructor.ConstructorError(
                        None, None, "`<<` merges what is no mapping", mapping.start_mark
                    )
                yield mapping


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
    "merge": (_MERGE, ["<"]),
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
