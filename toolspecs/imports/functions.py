"""Python functions and pydantic models as tools; pydantic says what their arguments are.

>>> def refund(order: int, reason: str = "") -> None:
...     '''Refund an order.
...
...     Args:
...         order: Number of the order.
...         reason: Why.
...     '''
>>> [tool] = import_functions("shop", {"refund": refund}).tools
>>> tool.description, tool.parameters["properties"]["order"]
('Refund an order.', {'type': 'integer', 'description': 'Number of the order.'})
"""

import inspect
from collections.abc import Mapping
from typing import Any

from docstring_parser import Docstring, parse
from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import DecimalSchema, TaggedUnionSchema

from toolspecs.errors import Fault
from toolspecs.imports.imported import Imported, UniqueNames, with_source_note
from toolspecs.nearest import shorten
from toolspecs.tool import Tool

_MAX_WHOLE_DIGITS = 20
"""A decimal with more digits before its point gets no bounds. Grammars write no such numbers anyway."""


def import_functions(title: str, objects: Mapping[str, Any]) -> Imported:
    """Import functions and pydantic models as tools; `objects` maps the tools' names to them."""
    names, tools = UniqueNames(), dict[str, Tool]()
    faults: list[Fault] = []
    for known_as, function in objects.items():
        name = names.name(known_as.rpartition(".")[2])
        try:
            tools[name] = with_source_note(_tool(name, function), {"object": known_as})
        except (PydanticUserError, NameError, TypeError, ValueError) as error:
            reason = shorten(str(error).partition("\n")[0], 500)
            suggestion = "give each argument a name and a type that JSON can hold"
            faults.append(Fault(name, "", "", reason, suggestion))
    return Imported("python", title, tuple(tools.values()), tuple(faults))


def _tool(name: str, function: Any) -> Tool:
    docstring = parse(inspect.getdoc(function) or "")
    description = "\n\n".join(filter(None, (docstring.short_description, docstring.long_description)))
    if inspect.isclass(function) and issubclass(function, BaseModel):
        schema = function.model_json_schema(schema_generator=_SchemasOfTools)
    elif callable(function) and not inspect.isclass(function):
        schema = TypeAdapter(function).json_schema(schema_generator=_SchemasOfTools)
    else:
        raise TypeError(f"{name} is neither a function nor a pydantic model")
    if schema.get("type") != "object":
        raise TypeError(f"arguments of {name} cannot be given by name")
    return Tool(name, description, _described(schema, docstring))


def _described(schema: dict[str, Any], docstring: Docstring) -> dict[str, Any]:
    """The schema with the docstring's description of each argument that has none."""
    descriptions = {param.arg_name: param.description for param in docstring.params if param.description}
    properties = {
        name: {**value, "description": descriptions[name]}
        if name in descriptions and "description" not in value
        else value
        for name, value in schema.get("properties", {}).items()
    }
    others = {key: value for key, value in schema.items() if key not in {"title", "description"}}
    return {**others, "properties": properties}


class _SchemasOfTools(GenerateJsonSchema):
    """Leaves out titles, which only repeat names, and says what pydantic demands of unions and decimals."""

    def tagged_union_schema(self, schema: TaggedUnionSchema) -> dict[str, Any]:
        """The alternatives, each of which needs the discriminator, although it may have a default."""
        union = super().tagged_union_schema(schema)
        discriminator = union.pop("discriminator", None)
        return union if discriminator is None else {**union, "required": [discriminator["propertyName"]]}

    def decimal_schema(self, schema: DecimalSchema) -> dict[str, Any]:
        """A number of the decimal's digits, and no text: pydantic refuses most that its schema admits."""
        number: dict[str, Any] = super().decimal_schema(schema)["anyOf"][0]
        places, digits = schema.get("decimal_places"), schema.get("max_digits")
        if places is not None and (step := float(f"1e-{places}")):
            number.setdefault("multipleOf", step)
        if places is not None and digits is not None and digits - places <= _MAX_WHOLE_DIGITS:
            beyond = 10 ** (digits - places)
            number["exclusiveMinimum"] = max(number.get("exclusiveMinimum", -beyond), -beyond)
            number["exclusiveMaximum"] = min(number.get("exclusiveMaximum", beyond), beyond)
        return number

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the base class's signature
        return False

    def get_title_from_name(self, name: str) -> str:  # noqa: ARG002
        return ""
