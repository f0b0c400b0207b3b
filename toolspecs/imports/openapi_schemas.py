"""Schemas of an OpenAPI document as the schema of one tool, which refers to nothing outside itself.

Every reference leads to the tool's own definitions, whichever document it led to before. Keywords that only
OpenAPI has are translated into JSON Schema, or left out if they do not limit what a client may send:

| OpenAPI | in the tool |
|---|---|
| `readOnly: true` on a property | the property is left out, since only the server writes it |
| `discriminator` | each alternative requires its own value of that property |
| `example` | `examples` |
| `nullable`, bounds as booleans (3.0) | as they are, under OpenAPI 3.0's own `$schema` |
| `xml`, `externalDocs`, `x-…`, `writeOnly` | left out |
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from toolspecs.imports.documents import LinkedDocuments
from toolspecs.imports.imported import UniqueNames
from toolspecs.json_pointer import pointer_keys
from toolspecs.json_value import Flaw, Path
from toolspecs.schemas.dialects import VALUE_KEYWORDS
from toolspecs.schemas.drafts import OPENAPI_3_0
from toolspecs.schemas.metaschemas import SCHEMAS_BY_NAME

_LEFT_OUT = frozenset({"xml", "externalDocs", "discriminator", "readOnly", "writeOnly", "example"})
_MOVED = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor")
"""Keywords whose meaning depends on the document around them."""
_MAX_DEPTH = 20
"""How deep `allOf` and references are followed to find a property."""


class Unsupported(Exception):
    """No tool can be made of a part of a document."""

    def __init__(self, flaw: Flaw) -> None:
        self.flaw = flaw
        super().__init__(flaw.message)


class DocumentPlace(NamedTuple):
    """Where a value stands: the URI of its document, and the path that led to it, for errors."""

    uri: str
    path: Path

    def at(self, *steps: str | int) -> "DocumentPlace":
        """The place to which some steps lead from here."""
        return self._replace(path=(*self.path, *steps))


class ToolSchemas:
    """Copies schemas into one tool, and collects the definitions that they refer to."""

    def __init__(self, documents: LinkedDocuments, *, is_3_0: bool) -> None:
        self._documents = documents
        self._is_3_0 = is_3_0
        self._field = "definitions" if is_3_0 else "$defs"
        self._names: dict[tuple[str, str], str] = {}
        self._unique = UniqueNames()
        self._pending: list[tuple[str, str]] = []

    def arguments(self, properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
        """The tool's parameters, of properties that `copy` made."""
        schema: dict[str, Any] = {"$schema": OPENAPI_3_0} if self._is_3_0 else {}
        schema |= {"type": "object", "properties": dict(properties)}
        if required:
            schema["required"] = required
        schema["additionalProperties"] = False
        if definitions := dict(self._definitions()):
            schema[self._field] = definitions
        return schema

    def follow(self, value: Any, place: DocumentPlace) -> tuple[dict[str, Any], DocumentPlace]:
        """The object that a value is or refers to; its place is in its own document, at the same path.

        Raises:
            Unsupported: a reference leads nowhere, or there is no object.
        """
        try:
            uri, target = self._documents.follow(place.uri, value)
        except LookupError as error:
            raise Unsupported(Flaw((*place.path, "$ref"), "$ref", str(error.args[0]))) from None
        if not isinstance(target, dict):
            raise Unsupported(Flaw(place.path, "", "this is an object"))
        return target, place._replace(uri=uri)

    def copy(self, schema: Any, place: DocumentPlace) -> Any:
        """The copy of a schema that stands at a place.

        Raises:
            Unsupported: a reference leads nowhere, or means something else away from its document.
        """
        if isinstance(schema, list):
            return [self.copy(item, place.at(index)) for index, item in enumerate(schema)]
        if not isinstance(schema, dict):
            return schema
        for keyword in _MOVED:
            if isinstance(schema.get(keyword), str | bool):
                message = "its meaning depends on the document around it"
                raise Unsupported(Flaw((*place.path, keyword), keyword, message, "refer by JSON pointer"))
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema, place)
        return self._members(self._for_clients(schema, place.uri), place)

    def _members(self, schema: dict[str, Any], place: DocumentPlace) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for keyword, value in schema.items():
            here = place.at(keyword)
            if keyword in SCHEMAS_BY_NAME and isinstance(value, dict):
                members[keyword] = {name: self.copy(member, here.at(name)) for name, member in value.items()}
            elif keyword in {"oneOf", "anyOf"} and isinstance(value, list) and _discriminator(schema):
                members[keyword] = list(self._alternatives(schema, keyword, here))
            elif keyword == "example":
                members.setdefault("examples", [value])
            elif keyword in VALUE_KEYWORDS:
                members[keyword] = value
            elif keyword not in _LEFT_OUT and not keyword.startswith("x-"):
                members[keyword] = self.copy(value, here)
        return members

    def _reference(self, schema: dict[str, Any], place: DocumentPlace) -> dict[str, Any]:
        try:
            target = self._documents.resolve(place.uri, schema["$ref"])
            self._documents.at(*target)
        except LookupError as error:
            raise Unsupported(Flaw((*place.path, "$ref"), "$ref", str(error.args[0]))) from None
        if target not in self._names:
            keys = pointer_keys(target[1]) or (target[0].rsplit("/", 1)[-1].partition(".")[0],)
            self._names[target] = self._unique.name(keys[-1])
            self._pending.append(target)
        names_properties = not schema.keys().isdisjoint(("properties", "required", "allOf"))
        seen = self._for_clients(schema, place.uri) if names_properties else schema
        beside = {keyword: value for keyword, value in seen.items() if keyword != "$ref"}
        if self._is_3_0:  # it ignores all keywords beside `$ref`
            beside = {keyword: value for keyword, value in beside.items() if keyword == "description"}
        return {"$ref": f"#/{self._field}/{self._names[target]}", **self._members(beside, place)}

    def _definitions(self) -> Iterator[tuple[str, Any]]:
        """The definitions by name, including those that only other definitions refer to."""
        while self._pending:
            uri, fragment = target = self._pending.pop(0)
            schema = self._documents.at(uri, fragment)
            yield self._names[target], self.copy(schema, DocumentPlace(uri, pointer_keys(fragment)))

    def _for_clients(self, schema: dict[str, Any], base: str) -> dict[str, Any]:
        """A schema without what only the server writes."""
        server_only = set(self._server_only(schema, base))
        return _without(schema, server_only) if server_only else schema

    def _server_only(self, schema: Any, base: str) -> Iterator[str]:
        """The names of the properties that are `readOnly`."""
        for name, value, uri in self._properties(schema, base):
            _, declared = self._followed(uri, value)
            if any(
                isinstance(declaration, dict) and declaration.get("readOnly") is True
                for declaration in (value, declared)
            ):
                yield name

    def _properties(self, schema: Any, base: str, depth: int = 0) -> Iterator[tuple[str, Any, str]]:
        """Each property that a schema declares, itself or by `allOf`, and the document that has it."""
        if depth > _MAX_DEPTH:
            return
        for uri, declaring in self._declaring(base, schema):
            properties, parts = declaring.get("properties"), declaring.get("allOf")
            for name, value in (properties if isinstance(properties, dict) else {}).items():
                yield name, value, uri
            for part in parts if isinstance(parts, list) else ():
                yield from self._properties(part, uri, depth + 1)

    def _declaring(self, base: str, schema: Any) -> list[tuple[str, dict[str, Any]]]:
        """The schemas whose keywords hold for a schema: what it refers to and, except in 3.0, it itself."""
        try:
            chain = list(self._documents.chain(base, schema))
        except LookupError:
            return []  # `copy` reports it
        return [(uri, part) for uri, part in chain[-1 if self._is_3_0 else 0 :] if isinstance(part, dict)]

    def _followed(self, base: str, value: Any) -> tuple[str, Any]:
        """As `LinkedDocuments.follow`, but None if a reference leads nowhere; `copy` reports that."""
        try:
            return self._documents.follow(base, value)
        except LookupError:
            return base, None

    def _alternatives(self, schema: dict[str, Any], keyword: str, place: DocumentPlace) -> Iterator[Any]:
        """The alternatives, each with its values of the discriminating property."""
        name, base = _discriminator(schema), place.uri
        mapping = schema["discriminator"].get("mapping")
        targets = {
            value: self._mapped(base, target)
            for value, target in (mapping if isinstance(mapping, dict) else {}).items()
            if isinstance(target, str)
        }
        for index, part in enumerate(schema[keyword]):
            copied = self.copy(part, place.at(index))
            declared = {
                key: self._followed(uri, value)[1] for key, value, uri in self._properties(part, base)
            }
            if not isinstance(declared.get(name), dict) or not isinstance(part.get("$ref"), str):
                yield copied
                continue
            target = self._documents.resolve(base, part["$ref"])
            values = [value for value, mapped in targets.items() if mapped == target]
            values = values or [pointer_keys(target[1])[-1] if target[1] else ""]
            values = _telling(values, declared[name])
            if not values:
                yield copied
                continue
            named_value = {"type": "object", "properties": {name: {"enum": values}}, "required": [name]}
            yield {"allOf": [copied, named_value]}

    def _mapped(self, base: str, target: str) -> tuple[str, str]:
        """What a mapping's value names: a schema of the document by its name, or any by a reference."""
        named = f"#/components/schemas/{target.replace('~', '~0').replace('/', '~1')}"
        for reference in (named, target):  # a name may have dots, so it may look like a file's
            try:
                found = self._documents.resolve(base, reference)
                if reference == named:
                    self._documents.at(*found)
            except LookupError:
                continue
            return found
        return "", ""


def _discriminator(schema: Mapping[str, Any]) -> str:
    """The name of the property that tells a schema's alternatives apart, if it has one."""
    declared = schema.get("discriminator")
    name = declared.get("propertyName") if isinstance(declared, dict) else None
    return name if isinstance(name, str) else ""


def _telling(values: list[str], declared: dict[str, Any]) -> list[str]:
    """The values that tell an alternative from the others; none if the property's schema does, or lacks them.

    The alternatives often share a base, whose property lists the values of all of them.
    """
    if "const" in declared or declared.get("readOnly") is True:
        return []
    admitted = declared.get("enum")
    if not isinstance(admitted, list):
        return values
    own = [value for value in values if value in admitted]
    return own if len(own) < len(admitted) else []


def _without(schema: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """An object's schema, with all parts of its `allOf`, without some of its properties."""
    changed = dict(schema)
    if isinstance(schema.get("allOf"), list):
        changed["allOf"] = [
            _without(part, names) if isinstance(part, dict) else part for part in schema["allOf"]
        ]
    if isinstance(schema.get("properties"), dict):
        changed["properties"] = {
            key: subschema for key, subschema in schema["properties"].items() if key not in names
        }
    if isinstance(schema.get("required"), list):
        changed["required"] = [
            name for name in schema["required"] if not isinstance(name, str) or name not in names
        ]
        if not changed["required"]:  # draft-04 does not allow an empty list
            del changed["required"]
    return changed
