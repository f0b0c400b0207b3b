"""Instances that a schema might admit, neighbours of them, and texts that spell them in many ways."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from soundness.mutations import mutations

from fuzz.pools import (
    FORMATS,
    HOSTILE_KEYS,
    HOSTILE_NUMBERS,
    HOSTILE_STRINGS,
    PLAIN_KEYS,
    PLAIN_STRINGS,
    SMALL_NUMBERS,
    mostly,
)

_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "/": "\\/",
    "\n": "\\n",
    "\t": "\\t",
    "\x08": "\\b",
    "\x0c": "\\f",
    "\r": "\\r",
}


class InstanceMaker:
    """Makes up instances of one document; most come close to being valid."""

    def __init__(self, document: Any, rng: random.Random) -> None:
        self._document = document
        self._rng = rng

    def instance(self) -> Any:
        """One instance."""
        return self._value([self._document], 5)

    def _value(self, schemas: list[Any], depth: int) -> Any:
        rng, parts = self._rng, list(self._parts(schemas, 6))
        listed = [
            value
            for part in parts
            for value in ([part["const"]] if "const" in part else part.get("enum", ()))
        ]
        if listed and rng.random() < 0.8:
            return copy.deepcopy(rng.choice(listed))
        kind = self._kind(parts)
        if depth <= 0 and kind in {"array", "object"}:
            return [] if kind == "array" else {}
        makers: dict[str, Callable[[], Any]] = {
            "array": lambda: self._array(parts, depth),
            "object": lambda: self._object(parts, depth),
            "string": lambda: self._string(parts),
            "integer": lambda: self._number(parts, kind),
            "number": lambda: self._number(parts, kind),
            "boolean": lambda: rng.random() < 0.5,
            "null": lambda: None,
        }
        return makers[kind]()

    def _parts(self, schemas: list[Any], depth: int) -> Iterator[dict[str, Any]]:
        """The schemas, and those that apply to the same value, one of each list of alternatives."""
        rng = self._rng
        for schema in schemas:
            if not isinstance(schema, dict):
                continue
            yield schema
            if depth <= 0:
                continue
            inner: list[Any] = list(schema.get("allOf", ()))
            inner += [rng.choice(schema[name]) for name in ("anyOf", "oneOf") if schema.get(name)]
            inner += [
                schema[name]
                for name in ("if", "then", "else", "not")
                if name in schema and rng.random() < 0.5
            ]
            inner += [v for v in schema.get("dependentSchemas", {}).values() if rng.random() < 0.5]
            inner += [
                self._referent(schema[name])
                for name in ("$ref", "$dynamicRef", "$recursiveRef")
                if name in schema
            ]
            yield from self._parts(inner, depth - 1)

    def _referent(self, uri: Any) -> Any:
        if not isinstance(uri, str) or uri == "#" or not uri.startswith("#/"):
            return self._document
        found = self._document
        for step in uri[2:].split("/"):
            found = found.get(unquote(step), {}) if isinstance(found, dict) else {}
        return found

    def _kind(self, parts: list[dict[str, Any]]) -> str:
        declared = [part["type"] for part in parts if "type" in part]
        if declared and self._rng.random() < 0.95:
            kind = self._rng.choice(declared)
            return self._rng.choice(kind) if isinstance(kind, list) else kind
        keywords = {keyword for part in parts for keyword in part}
        guesses = [
            kind
            for kind, names in (
                ("object", {"properties", "required", "additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties"}),
                ("array", {"items", "prefixItems", "contains", "uniqueItems", "minItems", "unevaluatedItems"}),
                ("string", {"pattern", "minLength", "maxLength", "format"}),
                ("number", {"minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"}),
            )
            if names & keywords
        ]  # fmt: skip
        return self._rng.choice(guesses if guesses and self._rng.random() < 0.9 else _TYPES)

    def _string(self, parts: list[dict[str, Any]]) -> str:
        rng = self._rng
        if formats := [part["format"] for part in parts if part.get("format") in FORMATS]:
            return rng.choice(FORMATS[rng.choice(formats)])
        lengths = [part[name] for part in parts for name in ("minLength", "maxLength") if name in part]
        text = mostly(rng, PLAIN_STRINGS, HOSTILE_STRINGS, 0.7)
        if lengths and text:
            length = min(200, max(0, rng.choice(lengths) + rng.choice((-1, 0, 0, 1))))
            text = (text * length)[:length]
        return text

    def _number(self, parts: list[dict[str, Any]], kind: str) -> Any:
        rng = self._rng
        names = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
        bounds = [part[n] for part in parts for n in names if n in part and not isinstance(part[n], bool)]
        number = mostly(rng, SMALL_NUMBERS, HOSTILE_NUMBERS, 0.85)
        if bounds and rng.random() < 0.8:
            bound = rng.choice(bounds)
            number = rng.choice(
                (bound, bound, bound + 1, bound - 1, bound * 2, -bound, bound * rng.randint(1, 9))
            )
        if kind == "integer" and rng.random() < 0.8 and abs(number) < 1e300:
            return int(number)
        return number

    def _array(self, parts: list[dict[str, Any]], depth: int) -> list[Any]:
        rng = self._rng
        wanted = [
            p[n] for p in parts for n in ("minItems", "maxItems", "minContains", "maxContains") if n in p
        ]
        number = min(6, rng.choice(wanted) if wanted and rng.random() < 0.7 else rng.randint(0, 3))
        items = []
        for index in range(number):
            inner: list[Any] = []
            for part in parts:
                for name in ("prefixItems", "items"):
                    listed = part.get(name)
                    inner += listed[index : index + 1] if isinstance(listed, list) else []
                others = [
                    part[n] for n in ("items", "additionalItems", "unevaluatedItems", "contains") if n in part
                ]
                others = [other for other in others if not isinstance(other, list)]
                inner += others if not inner or rng.random() < 0.5 else []
            items.append(self._value(inner, depth - 1))
        return items

    def _object(self, parts: list[dict[str, Any]], depth: int) -> dict[str, Any]:
        rng = self._rng
        declared = dict.fromkeys(key for part in parts for key in part.get("properties", ()))
        keys = [key for key in declared if rng.random() < 0.6]
        keys += [
            key
            for part in parts
            for key in part.get("required", ())
            if isinstance(key, str) and rng.random() < 0.9
        ]
        keys += [
            key
            for p in parts
            for n in ("dependencies", "dependentRequired")
            for key in p.get(n, ())
            if rng.random() < 0.4
        ]
        if rng.random() < 0.4:
            keys.append(mostly(rng, PLAIN_KEYS, HOSTILE_KEYS, 0.7))
        made = {}
        for key in dict.fromkeys(keys):
            inner = [part["properties"][key] for part in parts if key in part.get("properties", ())]
            if not inner or rng.random() < 0.1:
                inner += [
                    v
                    for part in parts
                    for v in part.get("patternProperties", {}).values()
                    if rng.random() < 0.5
                ]
                inner += [
                    part[n]
                    for part in parts
                    for n in ("additionalProperties", "unevaluatedProperties")
                    if n in part
                ]
            made[key] = self._value(inner, depth - 1)
        order = list(declared) + [key for key in made if key not in declared]
        return {key: made[key] for key in order if key in made}


def neighbours(value: Any, rng: random.Random, count: int) -> Iterator[Any]:
    """The value, and values that differ from it a little."""
    yield value
    try:
        yield from mutations(value, rng, count)
    except OverflowError:
        return


def spelled(value: Any, rng: random.Random) -> str:
    """A JSON text of the value: blanks, escapes and numbers as they may be written; now and then a key twice."""
    match value:
        case str():
            style = rng.random()
            return '"' + "".join(_character(c, rng, style) for c in value) + '"'
        case bool() | None:
            return json.dumps(value)
        case int() | float():
            return _number(value, rng)
        case list():
            return "[" + _comma(rng).join(spelled(item, rng) for item in value) + "]"
    pairs = list(value.items())
    if pairs and rng.random() < 0.03:
        pairs.insert(rng.randrange(len(pairs) + 1), rng.choice(pairs))
    colon = rng.choice((":", ": "))
    return "{" + _comma(rng).join(spelled(k, rng) + colon + spelled(v, rng) for k, v in pairs) + "}"


def _comma(rng: random.Random) -> str:
    return rng.choice((",", ", "))


def _character(character: str, rng: random.Random, style: float) -> str:
    needs_escape = character in '"\\' or character < " "
    if character in _SHORT_ESCAPES and (needs_escape or rng.random() < 0.3) and rng.random() < 0.8:
        return _SHORT_ESCAPES[character]
    if not needs_escape and (style < 0.6 or rng.random() < 0.6):
        return character
    units = character.encode("utf-16-be")
    digits = "{:04x}" if rng.random() < 0.5 else "{:04X}"
    return "".join("\\u" + digits.format(int.from_bytes(units[i : i + 2])) for i in range(0, len(units), 2))


def _number(value: float, rng: random.Random) -> str:
    text = json.dumps(value)
    if rng.random() < 0.75:
        return text
    plain = text.lstrip("-").isdigit()
    return rng.choice(
        (
            text + (".0" if plain else ""),
            text + ("e0" if "e" not in text else ""),
            text + ("0" if "." in text and "e" not in text else ""),
            text + ("0e-1" if plain and value else ""),
            "-0" if text == "0" else text,
        )
    )


def broken(text: str, rng: random.Random) -> str:
    """The text with a character changed, left out, or put in."""
    at = rng.randrange(len(text) + 1)
    more = rng.choice(
        ('"', "\\", ",", "]", "}", "0", ".", "e", " ", "\\ud800", "\x00", "a", "-", ":", "[", "{", '""')
    )
    return rng.choice(
        (text[:at] + text[at + 1 :], text[:at] + more + text[at:], text[:at] + more + text[at + 1 :])
    )
