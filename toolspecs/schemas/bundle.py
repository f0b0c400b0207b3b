"""References between schema documents, and bundles: the documents that one tool's schema refers to.

A bundle holds the documents that references reach, directly or through other documents. Of each document it
holds only the parts that are reached, under their own keys:

>>> definitions = {"amount": {"type": "number"}, "code": {"type": "string"}}
>>> documents = {"https://a.example/money": {"$defs": definitions}}
>>> Bundler(documents).bundle({"$ref": "https://a.example/money#/$defs/amount"})[0]
{'https://a.example/money': {'$defs': {'amount': {'type': 'number'}}}}

So the meaning of a tool depends only on its schema and its bundle, not on documents of the same toolset that
it never refers to, nor on a document that another toolset registered under the same URI. If bundling misses a
reference, the compiler cannot resolve it and refuses the schema.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from toolspecs.errors import Fault, InvalidTools, LimitExceeded
from toolspecs.json_pointer import pointer_keys
from toolspecs.json_value import DEFAULT_LIMITS, Limits, objects_in, own_size, value_at
from toolspecs.schemas.dialects import dialect_of
from toolspecs.schemas.drafts import FIRST_WITH_DEFS, OPENAPI_3_0, SchemaDraft, draft_named
from toolspecs.tool import Tool

Documents = Mapping[str, Any]
_Keys = tuple[str, ...]

MAX_URI = 1000
"""Characters of a base or of a reference before its `#`. Longer ones lead to nothing: joining takes time in
proportion to the length, and a schema may have a reference every 15 bytes."""
MAX_JOINED = 20_000
"""Pairs of a base and a reference that one bundler joins, in 2 s if all are long; others lead to nothing."""
_WHOLE: _Keys = ()
_IDENTIFIERS = ("$id", "id")
"""The keyword by which schemas name themselves since draft 6, and the one of draft 4."""
_ROOT_KEYWORDS = ("$schema", *_IDENTIFIERS)
_DYNAMIC = ("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor")


class BundleTooLarge(ValueError):
    """The documents that a schema refers to take more than `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        super().__init__(f"the documents that the schema refers to take more than {max_bytes} bytes")


def bundle_tools(
    tools: Sequence[Tool],
    documents: Documents,
    pointers: Sequence[str] = (),
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[Tool, ...]:
    """The tools, each with its bundle; `pointers` are the tools' JSON pointers, by default `/tools/<index>`.

    Raises:
        InvalidTools: bundles are larger than a tool may be.
        LimitExceeded: all bundles together are larger than a toolset may be.
    """
    if not documents:
        return tuple(replace(tool, documents={}) if tool.documents else tool for tool in tools)
    bundler = Bundler(documents)
    bundled: list[Tool] = []
    faults: list[Fault] = []
    num_bytes = 0
    for index, tool in enumerate(tools):
        at = pointers[index] if pointers else f"/tools/{index}"
        try:
            bundle, size = bundler.bundle(tool.parameters, limits.tool_bytes)
        except BundleTooLarge as error:
            message = f"the documents it refers to add more than {error.max_bytes} bytes to the tool"
            suggestion = "refer to parts of documents, by JSON pointers, or to smaller documents"
            faults.append(Fault(tool.name, at, "$ref", message, suggestion))
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
    """Makes bundles from one set of documents; reads each part of a document once for all tools."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._joined: dict[tuple[str, str], str] = {}
        self._is_divisible: dict[str, bool] = {}
        self._read: dict[tuple[str, _Keys], tuple[int, frozenset[tuple[str, str]]]] = {}

    def bundle(self, schema: Any, max_bytes: int | None = None) -> tuple[dict[str, Any], int]:
        """The bundle of a schema, by URI, and the number of bytes that were read to find it.

        Raises:
            BundleTooLarge: more than `max_bytes` were read.
        """
        _, new_references = self._references(schema, "")
        references = list(new_references)
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
            size, new_references = self._part(uri, keys)
            references += new_references
            num_bytes += size
            if max_bytes is not None and num_bytes > max_bytes:
                raise BundleTooLarge(max_bytes)
        return {uri: _pruned(self._documents[uri], needed[uri]) for uri in sorted(needed)}, num_bytes

    def _part(self, uri: str, keys: _Keys) -> tuple[int, frozenset[tuple[str, str]]]:
        """The size of a part in bytes, and the URIs and fragments that it refers to."""
        if (uri, keys) not in self._read:
            self._read[uri, keys] = self._references(value_at(self._documents[uri], keys), uri)
        return self._read[uri, keys]

    def _keys(self, uri: str, fragment: str) -> _Keys | None:
        """The keys that lead to the part that a fragment means; None if there is no such part."""
        document = self._documents[uri]
        if not fragment.startswith("/") or not self._can_be_divided(uri):
            return _WHOLE  # an anchor may be anywhere
        keys = pointer_keys(fragment)
        for length, key in enumerate(keys):
            if isinstance(document, list):
                return keys[:length]
            if not isinstance(document, dict) or key not in document:
                return None
            document = document[key]
        return keys

    def _can_be_divided(self, uri: str) -> bool:
        """Whether references mean the same inside a part of the document as in the whole document."""
        if uri not in self._is_divisible:
            document = self._documents[uri]
            self._is_divisible[uri] = not any(
                any(keyword in item for keyword in _DYNAMIC)
                or (item is not document and any(_identity(item, keyword) for keyword in _IDENTIFIERS))
                for item in objects_in(document)
            )
        return self._is_divisible[uri]

    def _references(self, value: Any, root: str) -> tuple[int, frozenset[tuple[str, str]]]:
        """The size of a JSON value in bytes, and the URIs and fragments that it refers to.

        It also reads values that are not schemas, and identifiers that are not base URIs: finding a reference
        too many does no harm.
        """
        size = 0
        references: set[tuple[str, str]] = set()
        stack = [(value, (root,) * len(_IDENTIFIERS))]
        while stack:
            item, outer = stack.pop()
            size += own_size(item)
            if isinstance(item, dict):
                bases = tuple(
                    self._join(base, _identity(item, keyword))[0]
                    for base, keyword in zip(outer, _IDENTIFIERS, strict=True)
                )
                size += sum(map(own_size, item))
                spelled = [item[keyword] for keyword in REFERENCES if isinstance(item.get(keyword), str)]
                # Beside an old `$ref` an identifier has no force, so the outer bases count as well.
                starts = {root, *outer, *bases} if spelled else ()
                references.update(self._join(start, reference) for reference in spelled for start in starts)
                stack += [(inner, bases) for inner in item.values()]
            elif isinstance(item, list):
                stack += [(inner, outer) for inner in item]
        return size, frozenset(references)

    def _join(self, base: str, reference: str) -> tuple[str, str]:
        """As `absolute`, with a cache, and with limits on the length and number of URIs."""
        uri, _, fragment = reference.partition("#")
        if (base, uri) not in self._joined:
            if max(len(base), len(uri)) > MAX_URI or len(self._joined) == MAX_JOINED:
                return "", ""
            self._joined[base, uri] = absolute(base, uri)[0]
        return self._joined[base, uri], unquote(fragment)


def _identity(schema: Mapping[str, Any], keyword: str) -> str:
    """The URI in a schema's `$id` or `id`, or nothing."""
    name = schema.get(keyword)
    return name if isinstance(name, str) and name[:1] != "#" else ""


def _pruned(document: Any, parts: set[_Keys]) -> Any:
    """The document with only some of its parts, and with its own `$schema` and identifier."""
    if _WHOLE in parts or not isinstance(document, dict):
        return document
    pruned = {key: document[key] for key in _ROOT_KEYWORDS if isinstance(document.get(key), str)}
    for keys in sorted(parts):
        if any(keys[:length] in parts for length in range(len(keys))):
            continue
        holder: dict[str, Any] = pruned
        for key in keys[:-1]:
            holder = holder.setdefault(key, {})
        holder[keys[-1]] = value_at(document, keys)
    return pruned


def compound_schema(schema: Mapping[str, Any], documents: Documents) -> dict[str, Any]:
    """The schema with its bundle inside, each document under its identifier, as JSON Schema embeds documents.

    >>> money = {"https://a.example/money": {"type": "number"}}
    >>> compound_schema({"items": {"$ref": "https://a.example/money"}}, money)["$defs"]
    {'https://a.example/money': {'$id': 'https://a.example/money', 'type': 'number'}}
    """
    if not documents:
        return dict(schema)
    dialect = dialect_of(schema)
    draft = SchemaDraft.DRAFT_4 if dialect == OPENAPI_3_0 else draft_named(dialect)
    assert draft is not None, dialect
    name = "id" if draft == SchemaDraft.DRAFT_4 else "$id"
    keyword = "$defs" if draft >= FIRST_WITH_DEFS else "definitions"
    embedded = {
        uri: {name: uri, **(document if isinstance(document, dict) else {"allOf": [document]})}
        for uri, document in documents.items()
    }
    return {**schema, keyword: {**schema.get(keyword, {}), **embedded}}


REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
"""The keywords that refer to schemas."""


def absolute(base: str, reference: str) -> tuple[str, str]:
    """The URI of the document that `reference` means at the base URI `base`, and the decoded fragment.

    Both are empty if the reference is not a URI.

    >>> absolute("https://a.example/schemas/order", "money#/$defs/amount")
    ('https://a.example/schemas/money', '/$defs/amount')
    """
    try:
        # `urljoin` does not join a fragment to a URN.
        uri, fragment = urldefrag(base + reference if reference[:1] == "#" else urljoin(base, reference))
    except ValueError:
        return "", ""
    return uri, unquote(fragment)
