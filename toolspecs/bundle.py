"""Bundling: what a tool's schema leads to among the documents registered with its toolset.

A bundle holds the documents that references reach, directly or by way of others, each with no more than the
parts that are reached, at their places. So what a tool means depends on its schema and its bundle alone: not
on documents of the same toolset that it never refers to, nor on another toolset's document of the same URI.
A reference that bundling does not see through is one that the compiler does not find, and refuses.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from toolspecs.errors import Fault, InvalidTools, LimitExceeded
from toolspecs.json_value import Limits, own_size
from toolspecs.tool import Tool

Documents = Mapping[str, Any]
_Keys = tuple[str, ...]

DEFAULT_LIMITS = Limits()
_WHOLE: _Keys = ()
_ROOT_KEYWORDS = ("$schema", "$id", "id")
_DYNAMIC = ("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor")


class BundleTooLarge(ValueError):
    """What a schema leads to takes more than `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        super().__init__(f"what the schema leads to takes more than {max_bytes} bytes")


def bundle_tools(
    tools: Sequence[Tool],
    documents: Documents,
    places: Sequence[str] = (),
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[Tool, ...]:
    """The tools, each with its bundle; `places` are their JSON pointers, by default those of a toolset.

    Raises:
        InvalidTools: some bundles are larger than a tool may be.
        LimitExceeded: all bundles together are larger than a toolset may be.
    """
    if not documents:
        return tuple(replace(tool, documents={}) if tool.documents else tool for tool in tools)
    bundler = Bundler(documents)
    bundled: list[Tool] = []
    faults: list[Fault] = []
    num_bytes = 0
    for index, tool in enumerate(tools):
        place = places[index] if places else f"/tools/{index}"
        try:
            bundle, size = bundler.bundle(tool.parameters, limits.tool_bytes)
        except BundleTooLarge as error:
            message = f"the documents it refers to add more than {error.max_bytes} bytes to the tool"
            suggestion = "refer to parts of documents, by JSON pointers, or to smaller documents"
            faults.append(Fault(tool.name, place, "$ref", message, suggestion))
            size = error.max_bytes
        else:
            bundled.append(replace(tool, documents=bundle))
        num_bytes += size
        if num_bytes > limits.toolset_bytes:
            raise LimitExceeded("toolset_bytes", limits.toolset_bytes)
    if faults:
        raise InvalidTools(faults)
    return tuple(bundled)


class Bundler:
    """Bundles out of the same documents."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._is_divisible: dict[str, bool] = {}
        self._read: dict[tuple[str, _Keys], tuple[int, frozenset[tuple[str, str]]]] = {}

    def bundle(self, schema: Any, max_bytes: int | None = None) -> tuple[dict[str, Any], int]:
        """The documents that a schema leads to, by URI, and the bytes looked through to find them.

        Raises:
            BundleTooLarge: those are more than `max_bytes`.
        """
        _, found = _references(schema, "")
        references = list(found)
        needed: dict[str, set[_Keys]] = {}
        num_bytes = 0
        while references:
            uri, fragment = references.pop()
            if uri not in self._documents:
                continue
            parts = needed.setdefault(uri, set())
            keys = self._keys(uri, fragment)
            if keys is None or any(keys[:length] in parts for length in range(len(keys) + 1)):
                continue
            parts.add(keys)
            size, found = self._part(uri, keys)
            references += found
            num_bytes += size
            if max_bytes is not None and num_bytes > max_bytes:
                raise BundleTooLarge(max_bytes)
        return {uri: _pruned(self._documents[uri], needed[uri]) for uri in sorted(needed)}, num_bytes

    def _part(self, uri: str, keys: _Keys) -> tuple[int, frozenset[tuple[str, str]]]:
        """The size of a part in bytes, and what it refers to; looked through once for all tools."""
        if (uri, keys) not in self._read:
            self._read[uri, keys] = _references(_at(self._documents[uri], keys), uri)
        return self._read[uri, keys]

    def _keys(self, uri: str, fragment: str) -> _Keys | None:
        """The part that a fragment needs, as the keys that lead there; None if there is no such part."""
        document = self._documents[uri]
        if not fragment.startswith("/") or not self._can_be_divided(uri):
            return _WHOLE  # an anchor may stand anywhere
        keys = pointer_keys(fragment)
        for length, key in enumerate(keys):
            if isinstance(document, list):
                return keys[:length]
            if not isinstance(document, dict) or key not in document:
                return None
            document = document[key]
        return keys

    def _can_be_divided(self, uri: str) -> bool:
        """Whether references mean the same in a part as in the whole."""
        if uri not in self._is_divisible:
            document = self._documents[uri]
            self._is_divisible[uri] = not any(
                any(keyword in item for keyword in _DYNAMIC) or (item is not document and _identity(item))
                for item in objects_in(document)
            )
        return self._is_divisible[uri]


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value, in no promised order."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack += item.values()
        elif isinstance(item, list):
            stack += item


def _references(value: Any, root: str) -> tuple[int, frozenset[tuple[str, str]]]:
    """The size of a JSON value in bytes, and the URIs and fragments that it refers to.

    Values that are no schemas are looked at, too, and names that are no base URI: a reference too many does
    no harm.
    """
    size = 0
    found: set[tuple[str, str]] = set()
    stack = [(value, root)]
    while stack:
        item, base = stack.pop()
        size += own_size(item)
        if isinstance(item, dict):
            base = absolute(base, _identity(item))[0]
            size += sum(map(own_size, item))
            spelled = [item[keyword] for keyword in KEYWORDS if isinstance(item.get(keyword), str)]
            found.update(absolute(start, reference) for reference in spelled for start in (root, base))
            stack += [(inner, base) for inner in item.values()]
        elif isinstance(item, list):
            stack += [(inner, base) for inner in item]
    return size, frozenset(found)


def _identity(schema: Mapping[str, Any]) -> str:
    """The URI that a schema names itself by, or nothing."""
    names = (schema.get("$id"), schema.get("id"))
    return next((name for name in names if isinstance(name, str) and name[:1] != "#"), "")


def _at(document: Any, keys: _Keys) -> Any:
    for key in keys:
        document = document[key]
    return document


def _pruned(document: Any, parts: set[_Keys]) -> Any:
    """The document with nothing but some of its parts, and what it says of itself."""
    if _WHOLE in parts or not isinstance(document, dict):
        return document
    kept = {key: document[key] for key in _ROOT_KEYWORDS if isinstance(document.get(key), str)}
    for keys in sorted(parts):
        if any(keys[:length] in parts for length in range(len(keys))):
            continue
        holder: dict[str, Any] = kept
        for key in keys[:-1]:
            holder = holder.setdefault(key, {})
        holder[keys[-1]] = _at(document, keys)
    return kept


KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")


def absolute(base: str, reference: str) -> tuple[str, str]:
    """The URI of the document that `reference` leads to from `base`, and the fragment, decoded.

    Both are empty where the reference is no URI.
    """
    try:
        # `urljoin` leaves a fragment alone that stands behind a URN.
        uri, fragment = urldefrag(base + reference if reference[:1] == "#" else urljoin(base, reference))
    except ValueError:
        return "", ""
    return uri, unquote(fragment)


def pointer_keys(fragment: str) -> tuple[str, ...]:
    """The keys of a JSON pointer, unescaped."""
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in fragment.split("/")[1:])
