"""A tool: what a model may call."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Tool:
    """A name, a description for the model, and the JSON Schema of the arguments.

    `parameters` is never modified after construction; the order of its keys is the order in which
    arguments are generated, so it is part of the tool's identity.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the tool's content, hexadecimal; key order counts."""
        content = json.dumps([self.name, self.description, self.parameters], separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()
