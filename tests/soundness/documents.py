"""Schemas whose parts are spread over several documents, with references between these in every spelling."""

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from soundness.schemas import DIALECTS

from compiler.frontend.keywords import children, inside, resolve, transformed
from toolspecs.json_pointer import child, pointer_keys
from toolspecs.json_value import Limits
from toolspecs.schemas.schema_check import check_document

MAIN = "https://example.com/schemas/main"
"""The identifier of a schema that documents refer back to."""
EMBEDDED = "https://example.com/embedded/"
"""What identifiers of schemas inside the first one begin with."""
DOCUMENTS = ("https://example.com/schemas/parts/a", "https://other.example/b")
KEYS = ("d", "e", "a/b", "~1", "a~b", "a%b", "%25", "a b", "é", "<a>", "0", "$ref", "properties")
"""Keys that pointers escape, and keys that look like something else."""
DECOY = {"enum": ["decoy"]}
"""What stands, in another document, under the name of a part: a reference that leads there is wrong."""
ROOT = ""
"""The name of the part that is the schema itself."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part stands: in which document ("" is the schema), at which keys, with which names of its own."""

    uri: str
    keys: tuple[str, ...]
    anchor: str = ""
    identifier: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """Two schemas that mean the same: one refers only to itself, the other one also to `documents`, by URI."""

    whole: dict[str, Any]
    schema: dict[str, Any]
    documents: dict[str, Any]


def spread(schema: dict[str, Any], draft: int, rng: random.Random) -> Spread:
    """The schema with some of its subschemas as definitions, and then with all definitions at other places.

    The schema refers to nothing but itself and its definitions, and has no names.
    """
    return _Spreading(draft, rng, schema).result()


@dataclass
class _Spreading:
    """The spreading of one schema of a draft."""

    draft: int
    rng: random.Random
    schema: dict[str, Any]
    parts: dict[str, Any] = field(init=False)
    places: dict[str, Place] = field(init=False)
    base: str = field(init=False)
    """The URI of the schema, "" if it has none."""

    def __post_init__(self) -> None:
        self.definitions = "$defs" if self.draft >= 2019 else "definitions"
        self.identifier = "id" if self.draft == 4 else "$id"
        root = copy.deepcopy(self.schema)
        self.parts = {**root.pop(self.definitions, {}), ROOT: root}
        root.pop("$schema", None)

    def result(self) -> Spread:
        """The schemas and the documents."""
        for number in range(self.rng.randint(0, 2)):
            self._cut_out(f"s{number}")
        dialect = {"$schema": DIALECTS[self.draft]}
        definitions = {name: part for name, part in self.parts.items() if name != ROOT}
        whole = copy.deepcopy({**dialect, **self.parts[ROOT], self.definitions: definitions})
        self._choose_places()
        contents: dict[str, dict[str, Any]] = {"": {}}
        for name in sorted(self.parts, key=lambda name: len(self.places[name].keys)):  # a root comes first
            self._put(contents, self.places[name], self._written(name))
        if self.places[ROOT].uri:
            reference = {"$ref": self._reference(self.base, self.places[ROOT])}
            contents[""] |= reference if self.draft >= 2019 else {"allOf": [reference]}
        for place in self.places.values():
            if self.rng.random() < 0.3 and place.keys:
                self._put_decoy(contents, place)
        name = {self.identifier: self.base} if self.base else {}
        schema = {**dialect, **name, **contents.pop("")}
        documents = {
            uri: {**({} if self._may_lack_dialect(content) else dialect), **self._named(uri), **content}
            for uri, content in contents.items()
        }
        return Spread(whole, schema, documents)

    def _may_lack_dialect(self, content: dict[str, Any]) -> bool:
        """Whether a document may leave its dialect to the schema: it must be valid in the newest draft, too."""
        return self.rng.random() < 0.5 and not check_document(content, Limits())

    def _named(self, uri: str) -> dict[str, str]:
        return {self.identifier: uri} if self.rng.random() < 0.3 else {}

    def _cut_out(self, name: str) -> None:
        """Make a part of some subschema."""
        subschemas = [(part, at) for part in self.parts.values() for at in _pointers(part) if at]
        if not subschemas:
            return
        part, pointer = self.rng.choice(subschemas)
        parent, _, _ = pointer.rpartition("/")
        holder, key = resolve(part, parent), pointer_keys(pointer)[-1]
        key = int(key) if isinstance(holder, list) else key
        self.parts[name] = holder[key]
        holder[key] = {"$ref": f"#/{self.definitions}/{name}"}

    def _choose_places(self) -> None:
        moved = {name: self.rng.choice(DOCUMENTS) for name in self.parts if self.rng.random() < 0.6}
        self.base = self.rng.choice(("", MAIN))
        pending = [] if self.base else list(moved)
        while pending:  # nothing can refer back to a schema that has no URI
            for target in self._targets(pending.pop()):
                if target not in moved:
                    moved[target] = self.rng.choice(DOCUMENTS)
                    pending.append(target)
        self.places = {}
        for name in self.parts:
            self.places[name] = self._place(name, moved.get(name, ""))

    def _place(self, name: str, uri: str) -> Place:
        """A free place in a document."""
        taken = {place.keys for place in self.places.values() if place.uri == uri}
        has_own_document = bool(uri) and () not in taken and self.rng.random() < 0.3
        if has_own_document or (name == ROOT and not uri):
            return Place(uri, ())
        key = self.rng.choice([key for key in KEYS if not any(key in other for other in taken)])
        as_definition = (self.definitions, key)
        places = [
            Place(uri, as_definition),
            Place(uri, as_definition, anchor=name or "root"),
            Place(uri, (self.definitions, f"around {key}", self.definitions, key)),
            Place(uri, ("components", key)),
        ]
        if self.base and not uri:
            places.append(Place(uri, as_definition, identifier=f"{EMBEDDED}{name}"))
        return self.rng.choice(places)

    def _targets(self, name: str) -> Iterator[str]:
        return (_target(part["$ref"]) for part in inside(self.parts[name]) if "$ref" in part)

    def _written(self, name: str) -> Any:
        """A part as it is written at its place."""
        place = self.places[name]
        base = place.identifier or place.uri or self.base

        def change(schema: dict[str, Any]) -> dict[str, Any]:
            if "$ref" not in schema:
                return schema
            return {**schema, "$ref": self._reference(base, self.places[_target(schema["$ref"])])}

        part = transformed(self.parts[name], change)
        names = {}
        if place.identifier:
            names[self.identifier] = place.identifier
        elif place.anchor:
            names |= (
                {"$anchor": place.anchor} if self.draft >= 2019 else {self.identifier: f"#{place.anchor}"}
            )
        needs_object = names or not place.keys
        if needs_object and (not isinstance(part, dict) or (self.draft < 2019 and "$ref" in part)):
            part = {"allOf": [part]}  # up to draft 7, nothing beside `$ref` has force
        return {**names, **part} if names else part

    def _reference(self, base: str, place: Place) -> str:
        """A reference to a place from a schema whose base URI is `base`."""
        uri = place.identifier or place.uri or self.base
        if place.identifier:
            fragment = self.rng.choice(("", "#"))
        elif place.anchor:
            fragment = f"#{place.anchor}"
        elif place.keys:
            fragment = f"#{self._encoded(child('', *place.keys))}"
        else:
            fragment = self.rng.choice(("", "#")) if uri != base else "#"
        if uri == base and self.rng.random() < 0.7:
            return fragment or "#"
        spellings = [uri, *(spelling for spelling in _relative(uri) if urljoin(base, spelling) == uri)]
        return self.rng.choice(spellings) + fragment

    def _encoded(self, pointer: str) -> str:
        """A pointer as the fragment of a URI; some characters are encoded that need not be.

        The first slash stays: where it is encoded, jsonschema_rs reads a name.
        """
        encoded = (
            f"%{ord(char):02X}" if char.isascii() and self.rng.random() < 0.1 else quote(char, safe="/~$")
            for char in pointer[1:]
        )
        return f"/{''.join(encoded)}"

    def _put(self, contents: dict[str, dict[str, Any]], place: Place, part: Any) -> None:
        holder = contents.setdefault(place.uri, {})
        if not place.keys:
            holder |= part
            return
        for key in place.keys[:-1]:
            holder = holder.setdefault(key, {})
        holder[place.keys[-1]] = part

    def _put_decoy(self, contents: dict[str, dict[str, Any]], place: Place) -> None:
        """Something else at the same keys of another document, under the same name."""
        other = self.rng.choice([uri for uri in ("", *DOCUMENTS) if uri != place.uri])
        content = contents.get(other, {})
        is_known = other == "" or other in contents
        taken = [(at.keys, at.anchor) for at in self.places.values() if at.uri == other]
        if not is_known or any(
            keys[:2] == place.keys[:2] or anchor == place.anchor for keys, anchor in taken
        ):
            return
        if self.draft < 2019 and "$ref" in content:
            return
        self._put(contents, Place(other, place.keys), DECOY)


def _pointers(schema: Any) -> list[str]:
    """The pointers of a schema and of all its subschemas."""
    found, pending = [], [("", schema)]
    while pending:
        pointer, part = pending.pop()
        if not isinstance(part, list):  # keys under `dependencies`
            found.append(pointer)
        if isinstance(part, dict):
            pending += children(pointer, part)
    return found


def _target(reference: str) -> str:
    """The name of the part that a schema in one document refers to."""
    return ROOT if reference == "#" else reference.rpartition("/")[2]


def _relative(uri: str) -> Iterator[str]:
    """References by which a URI may be meant, depending on the base."""
    parts = urlsplit(uri)
    yield f"//{parts.netloc}{parts.path}"
    yield parts.path
    keys = parts.path.split("/")[1:]
    for index in range(len(keys)):
        rest = "/".join(keys[index:])
        yield from (rest, f"./{rest}", f"../{rest}", f"../../{rest}")
