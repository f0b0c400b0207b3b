"""Schemas made up at random: of every draft, with every keyword, most of them small.

Each document uses only some of the keywords, drawn anew (swarm testing): two keywords that stand together often are
met more often than if all had equal chances in every document.
"""

import json
import random
from typing import Any

from soundness.schemas import DIALECTS

from fuzz.pools import (
    DIVISORS,
    FORMATS,
    HOSTILE_KEYS,
    HOSTILE_NUMBERS,
    HOSTILE_STRINGS,
    PATTERNS,
    PLAIN_KEYS,
    PLAIN_STRINGS,
    SMALL_NUMBERS,
    mostly,
)

_OBJECTS = (
    "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties", "dependencies",
    "dependentRequired", "dependentSchemas", "unevaluatedProperties",
)  # fmt: skip
_ARRAYS = (
    "items", "prefixItems", "additionalItems", "minItems", "maxItems", "contains", "minContains", "maxContains", "uniqueItems", "unevaluatedItems",
)  # fmt: skip
_COMBINING = ("allOf", "anyOf", "oneOf", "not", "if", "$ref")
_LEAVES = ("string", "number", "simple", "listed", "format", "pattern", "distinct")
_SINCE = {
    "prefixItems": 2020,
    "dependentRequired": 2019,
    "dependentSchemas": 2019,
    "unevaluatedProperties": 2019,
    "unevaluatedItems": 2019,
    "minContains": 2019,
    "maxContains": 2019,
    "if": 7,
    "contains": 6,
    "propertyNames": 6,
}
_UNTIL = {"additionalItems": 2019}
_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")


class SchemaMaker:
    """Makes up one document; unless it `has_names`, it refers only to itself and its definitions, by pointers."""

    def __init__(
        self, rng: random.Random, draft: int, *, hostility: float = 0.25, has_names: bool = True
    ) -> None:
        self._rng = rng
        self._draft = draft
        self._hostility = hostility
        self._keys = [self._key() for _ in range(rng.randint(2, 5))]
        self._objects = self._enabled(_OBJECTS)
        self._arrays = self._enabled(_ARRAYS)
        self._combining = self._enabled(_COMBINING)
        self._leaves = self._enabled(_LEAVES) or ["simple"]
        self._definitions = "$defs" if draft >= 2019 else "definitions"
        self._anchor = has_names and rng.random() < 0.35
        self._targets = ["#", *(f"#/{self._definitions}/{name}" for name in "de")]
        self._targets += ["#anchor-d", "#anchor-e"] if self._anchor else []

    def document(self, depth: int = 3, *, only_objects: bool = False) -> dict[str, Any]:
        """A schema with its dialect and what it refers to."""
        schema = self._object(depth) if only_objects else self._schema(depth)
        schema = schema if isinstance(schema, dict) else {"allOf": [schema]} if self._draft > 4 else {}
        schema = {"$schema": DIALECTS[self._draft], **schema}
        if "$ref" in self._combining:
            parts = {name: self._anchored(name, self._schema(depth - 1)) for name in "de"}
            schema[self._definitions] = parts
        if self._anchor and self._draft in (2019, 2020):
            schema |= {"$recursiveAnchor": True} if self._draft == 2019 else {"$dynamicAnchor": "node"}
        return schema

    def _anchored(self, name: str, schema: Any) -> Any:
        if not self._anchor:
            return schema
        if not isinstance(schema, dict) or "$ref" in schema:
            schema = {"anyOf": [schema]}
        if self._draft >= 2019:
            return {"$anchor": f"anchor-{name}", **schema}
        return {"id" if self._draft == 4 else "$id": f"#anchor-{name}", **schema}

    def _enabled(self, names: tuple[str, ...]) -> list[str]:
        known = [n for n in names if _SINCE.get(n, 0) <= self._draft <= _UNTIL.get(n, 9999)]
        known = known or list(names)
        share = self._rng.choice((0.3, 0.5, 0.8))
        return [name for name in known if self._rng.random() < share]

    def _key(self) -> str:
        return mostly(self._rng, PLAIN_KEYS, HOSTILE_KEYS, 1 - self._hostility)

    def _number(self) -> Any:
        return mostly(self._rng, SMALL_NUMBERS, HOSTILE_NUMBERS, 1 - self._hostility)

    def _string(self) -> str:
        return mostly(self._rng, PLAIN_STRINGS, HOSTILE_STRINGS, 1 - self._hostility)

    def _schema(self, depth: int) -> Any:
        rng = self._rng
        if depth <= 0 or rng.random() < 0.2:
            return self._leaf()
        chosen = rng.random()
        if chosen < 0.35:
            return self._object(depth)
        if chosen < 0.6:
            return self._array(depth)
        if chosen < 0.85:
            return self._combination(depth)
        if chosen < 0.93:
            return {**self._object(depth), **self._combination(depth)}
        return {**self._array(depth), **self._combination(depth)}

    def _trivial(self) -> Any:
        if self._draft == 4:
            return self._rng.choice(({}, {"not": {}}))
        return self._rng.choice((True, True, False, {}))

    def _leaf(self) -> Any:
        rng = self._rng
        if rng.random() < 0.12:
            return self._trivial()
        return getattr(self, f"_{rng.choice(self._leaves)}_leaf")()

    def _typed(self, kind: str, schema: dict[str, Any]) -> dict[str, Any]:
        chance = self._rng.random()
        if chance < 0.75:
            return {"type": kind, **schema}
        if chance < 0.85:
            return {"type": self._rng.sample([kind, *(t for t in _TYPES if t != kind)][:4], 2), **schema}
        return schema

    def _string_leaf(self) -> Any:
        rng, schema = self._rng, {}
        if rng.random() < 0.4:
            schema["minLength"] = rng.choice((0, 1, 2, 3, 7, 9))
        if rng.random() < 0.6:
            schema["maxLength"] = rng.choice((0, 1, 2, 4, 7, 8, 9, 12, 20, 100))
        return self._typed("string", schema)

    def _pattern_leaf(self) -> Any:
        schema = self._string_leaf() if self._rng.random() < 0.5 else self._typed("string", {})
        return {**schema, "pattern": self._rng.choice(PATTERNS)}

    def _format_leaf(self) -> Any:
        schema = self._string_leaf() if self._rng.random() < 0.3 else self._typed("string", {})
        return {**schema, "format": self._rng.choice(list(FORMATS))}

    def _number_leaf(self) -> Any:
        rng, schema = self._rng, {}
        for keyword in ("minimum", "maximum"):
            strict = f"exclusive{keyword.capitalize()}"
            chance = rng.random()
            if chance < 0.4:
                schema[keyword] = self._number()
                if self._draft == 4 and rng.random() < 0.4:
                    schema[strict] = rng.random() < 0.7
            elif chance < 0.6 and self._draft > 4:
                schema[strict] = self._number()
        low, high = schema.get("minimum"), schema.get("maximum")
        if low is not None and high is not None and low > high and rng.random() < 0.8:
            schema["minimum"], schema["maximum"] = high, low
        if rng.random() < 0.3:
            schema["multipleOf"] = rng.choice(DIVISORS)
        return self._typed(rng.choice(("integer", "number")), schema)

    def _simple_leaf(self) -> Any:
        rng = self._rng
        return {"type": rng.choice(_TYPES) if rng.random() < 0.7 else rng.sample(_TYPES, rng.randint(1, 3))}

    def _listed_leaf(self) -> Any:
        if self._draft > 4 and self._rng.random() < 0.4:
            return {"const": self._value(2)}
        values: list[Any] = []
        for _ in range(self._rng.randint(1, 4)):
            value = self._value(1)
            if not any(value == other for other in values):
                values.append(value)
        return {"enum": values}

    def _distinct_leaf(self) -> Any:
        rng = self._rng
        items = rng.choice(
            (
                {"enum": ["a", "ab", "b", 1]},
                {"type": "string", "maxLength": rng.choice((1, 2, 9))},
                {"type": "integer"},
                {"type": "number", "minimum": 0, "maximum": 2},
                {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}},
                {"type": "object", "additionalProperties": {"type": "string", "maxLength": 8}},
                {"type": "object", "properties": {"a": {"enum": [0, 1]}}, "additionalProperties": False},
            )
        )
        schema: dict[str, Any] = {"type": "array", "uniqueItems": True}
        if rng.random() < 0.85:
            schema["items"] = items
        if rng.random() < 0.5:
            schema["minItems"] = rng.randint(1, 4)
        return schema

    def _value(self, depth: int) -> Any:
        rng = self._rng
        chance = rng.random()
        if depth <= 0 or chance < 0.7:
            make = rng.choice(
                (self._string, self._string, self._number, lambda: rng.choice((None, True, False)))
            )
            return make()
        if chance < 0.85:
            return [self._value(depth - 1) for _ in range(rng.randint(0, 2))]
        return {self._any_key(): self._value(depth - 1) for _ in range(rng.randint(0, 2))}

    def _any_key(self) -> str:
        return self._rng.choice(self._keys)

    def _object(self, depth: int) -> dict[str, Any]:
        rng = self._rng
        schema: dict[str, Any] = {"type": "object"} if rng.random() < 0.75 else {}
        count = min(len(self._objects), rng.randint(1, 4))
        for keyword in rng.sample(self._objects, count):
            schema[keyword] = self._object_keyword(keyword, depth - 1)
        if len(schema) < 2:
            schema["properties"] = self._object_keyword("properties", depth - 1)
        return schema

    def _by_key(self, depth: int, most: int) -> dict[str, Any]:
        number = self._rng.randint(1, most)
        return {self._any_key(): self._schema(depth) for _ in range(number)}

    def _some_keys(self) -> list[str]:
        keys = dict.fromkeys(self._any_key() for _ in range(self._rng.randint(1, 3)))
        return list(keys)

    def _object_keyword(self, keyword: str, depth: int) -> Any:
        rng = self._rng
        makers = {
            "properties": lambda: self._by_key(depth, 4),
            "dependentSchemas": lambda: self._by_key(depth, 2),
            "required": self._some_keys,
            "patternProperties": lambda: {
                rng.choice(PATTERNS): self._schema(depth) for _ in range(rng.randint(1, 2))
            },
            "minProperties": lambda: rng.randint(0, 3),
            "maxProperties": lambda: rng.randint(0, 3),
            "dependentRequired": lambda: {
                self._any_key(): self._some_keys() for _ in range(rng.randint(1, 2))
            },
            "dependencies": lambda: {
                self._any_key(): self._schema(depth) if rng.random() < 0.5 else self._some_keys()
                for _ in range(rng.randint(1, 2))
            },
            "propertyNames": lambda: (
                self._leaf() if rng.random() < 0.3 else {"pattern": rng.choice(PATTERNS)}
            ),
        }
        if keyword in makers:
            return makers[keyword]()
        return False if rng.random() < 0.4 else self._schema(depth)

    def _array(self, depth: int) -> dict[str, Any]:
        rng = self._rng
        schema: dict[str, Any] = {"type": "array"} if rng.random() < 0.75 else {}
        count = min(len(self._arrays), rng.randint(1, 4))
        for keyword in rng.sample(self._arrays, count):
            schema[keyword] = self._array_keyword(keyword, depth - 1)
        if {"minContains", "maxContains"} & schema.keys():
            schema.setdefault("contains", self._leaf())
        return schema or {"items": self._leaf()}

    def _array_keyword(self, keyword: str, depth: int) -> Any:
        rng = self._rng
        match keyword:
            case "prefixItems":
                return [self._schema(depth) for _ in range(rng.randint(1, 3))]
            case "items" if self._draft < 2020 and rng.random() < 0.4:
                return [self._schema(depth) for _ in range(rng.randint(1, 3))]
            case "minItems" | "maxItems" | "minContains" | "maxContains":
                return rng.choice((0, 1, 1, 2, 2, 3, 4))
            case "uniqueItems":
                return rng.random() < 0.9
            case "additionalItems" | "unevaluatedItems":
                return False if rng.random() < 0.4 else self._schema(depth)
            case _:
                return self._schema(depth)

    def _combination(self, depth: int) -> dict[str, Any]:
        rng = self._rng
        if not self._combining:
            return {"anyOf": [self._leaf()]}
        keyword = rng.choice(self._combining)
        if keyword == "$ref":
            return self._reference()
        if keyword == "not":
            return {"not": self._schema(depth - 1)}
        if keyword == "if":
            kept = [name for name in ("then", "else") if rng.random() < 0.75]
            return {name: self._schema(depth - 1) for name in ("if", *kept)}
        return {keyword: [self._schema(depth - 1) for _ in range(rng.randint(1, 3))]}

    def _reference(self) -> dict[str, Any]:
        rng = self._rng
        if self._anchor and rng.random() < 0.5:
            dynamic = {2019: {"$recursiveRef": "#"}, 2020: {"$dynamicRef": "#node"}}.get(self._draft)
            if dynamic and rng.random() < 0.5:
                return dynamic
        reference: dict[str, Any] = {"$ref": rng.choice(self._targets)}
        if rng.random() < 0.2:
            reference |= {"description": "beside", **rng.choice(({"type": "object"}, {"minLength": 1}, {}))}
        return reference


def make_schema(rng: random.Random, *, only_objects: bool = False) -> dict[str, Any]:
    """A document of a random draft."""
    draft = rng.choices(list(DIALECTS), weights=(1, 1, 2, 3, 4))[0]
    hostility = rng.choice((0.0, 0.1, 0.4))
    maker = SchemaMaker(rng, draft, hostility=hostility)
    return maker.document(rng.choice((1, 2, 2, 3)), only_objects=only_objects)


def with_parts_elsewhere(schema: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The schema, now and then with its definitions where no keyword holds schemas, if none has a name."""
    keyword = "$defs" if "$defs" in schema else "definitions"
    text = json.dumps(schema)
    if rng.random() < 0.7 or keyword not in schema or "anchor" in text.lower():
        return schema
    moved: dict[str, Any] = json.loads(text.replace(f'"#/{keyword}/', '"#/parts/'))
    moved["parts"] = moved.pop(keyword)
    return moved
