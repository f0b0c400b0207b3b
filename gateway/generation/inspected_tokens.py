"""Inspected tokens as clients get them, each with the place in the schema that describes it.

The schema is that of the called tool, or of the response format.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import msgspec

from compiler.frontend.source_map import SchemaLocation, SourceMap
from compiler.frontend.undeclared_dialects import in_declared_dialect
from compiler.response_format import SCHEMA, ResponseFormat
from runtime.events import InspectedToken
from runtime.inspection import MAX_POINTER, TokenPlace
from toolspecs.tool import Tool

DIGITS = 4
"""Digits after the point of each probability."""


class InspectedTokens:
    """The inspected tokens of one answer, as JSON, until they are sent.

    Each token is encoded as it comes: encoding thousands at the end would block the event loop.
    """

    def __init__(self, tools: Iterable[Tool], response_format: ResponseFormat | None = None) -> None:
        self._schemas = {
            tool.name: PlaceSchema(tool.parameters, tool.documents) for tool in tools if tool.custom is None
        }
        self._answer: PlaceSchema | None = None
        if response_format is not None and response_format.kind == SCHEMA:
            self._answer = PlaceSchema(response_format.content)
        self._tokens: list[msgspec.Raw] = []

    def add(self, token: InspectedToken) -> None:
        """Add the next token."""
        inspection = token.inspection
        mass_removed = None if inspection.mass_removed is None else round(inspection.mass_removed, 6)
        fields = {
            "index": token.choice,
            "id": token.token_id,
            "text": token.text,
            "cause": inspection.cause.value,
            "mass_removed": mass_removed,
            "candidates": [
                {
                    "id": candidate.token_id,
                    "text": text,
                    "probability": float(f"{candidate.probability:.{DIGITS}g}"),
                    "removed": candidate.is_removed,
                }
                for candidate, text in zip(inspection.candidates, token.candidate_texts, strict=True)
            ],
            "place": self._place(token.place),
        }
        self._tokens.append(msgspec.Raw(msgspec.json.encode(fields)))

    def take(self) -> list[msgspec.Raw]:
        """Return the tokens added since the last call."""
        tokens, self._tokens = self._tokens, []
        return tokens

    def _place(self, place: TokenPlace) -> dict[str, Any]:
        schema = self._answer if place.part == "text" else self._schemas.get(place.tool or "")
        pointer = schema.pointer(place.path) if schema is not None and place.path is not None else None
        return {
            "part": place.part,
            "call": place.call,
            "tool": place.tool,
            "pointer": place.pointer,
            "writes": place.writes,
            "schema": pointer,
        }


class PlaceSchema:
    """Finds the schema inside a schema that describes a place in one of its values."""

    def __init__(self, schema: Any, documents: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._schema = schema
        self._documents = documents
        self._passed: list[tuple[str | int, SchemaLocation]] = []
        """The steps of the last path, and where they lead: the next path begins alike."""

    def pointer(self, path: tuple[str | int, ...]) -> str | None:
        """The pointer into the schema; None if it is too long.

        If several schemas describe the place, it is the first in the document; if none does, the schema of
        the enclosing value.
        """
        pointer = self._location(path).pointer
        return pointer if len(pointer) <= MAX_POINTER else None

    @cached_property
    def _source_map(self) -> SourceMap:
        return SourceMap(in_declared_dialect(self._schema, self._documents), self._documents)

    def _location(self, path: tuple[str | int, ...]) -> SchemaLocation:
        pairs = zip(self._passed, path, strict=False)
        num_shared = next((i for i, (passed, step) in enumerate(pairs) if passed[0] != step), len(path))
        del self._passed[num_shared:]
        for step in path[len(self._passed) :]:
            around = self._passed[-1][1] if self._passed else self._source_map.root
            inner = self._inside(around, step)
            self._passed.append((step, inner))
        return self._passed[-1][1] if self._passed else self._source_map.root

    def _inside(self, location: SchemaLocation, step: str | int) -> SchemaLocation:
        if isinstance(step, int):
            return self._source_map.item(location, step)
        return self._source_map.property(location, step)
