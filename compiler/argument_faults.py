"""What is wrong with the arguments of a call that somebody else's model wrote.

A validator judges them by the tool's JSON Schema as it is written: in the dialect that its grammar is made
in, with its documents, and with formats asserted. Masks may admit less than the schema, such as keys in one
order only; arguments that only a mask would refuse have no fault.

>>> pay = Tool("pay", "", {"properties": {"amount": {"type": "integer"}}, "required": ["amount"]})
>>> [(fault.pointer, fault.keyword, fault.message) for fault in argument_faults(pay, {"amount": "7"})]
[('/amount', 'type', '"7" is not of type "integer"')]
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import jsonschema_rs
from lark import Lark, UnexpectedInput

from compiler.frontend.definitions import with_definitions
from compiler.frontend.keywords import short_pointer
from compiler.frontend.undeclared_dialects import in_declared_dialect
from compiler.lark.lark_source import load
from toolspecs.json_pointer import child
from toolspecs.json_value import type_name
from toolspecs.nearest import shorten
from toolspecs.schemas.drafts import NEWEST_DRAFT, draft_named
from toolspecs.schemas.metaschemas import deepest_error
from toolspecs.tool import INPUT, CustomInput, Tool

MAX_FAULTS = 50
"""The most faults that are reported for one call."""
_MAX_MESSAGE = 300
_MAX_POINTER = 1_000
"""The most characters of a pointer; a fault deeper inside is reported at the container around it."""


@dataclass(frozen=True, slots=True)
class ArgumentFault:
    """One fault: the JSON pointer of the value at fault, the keyword that it fails, and why in words."""

    pointer: str
    keyword: str
    message: str


def argument_faults(tool: Tool, arguments: Any) -> tuple[ArgumentFault, ...]:
    """The first `MAX_FAULTS` faults of the arguments of a call; none if they are valid.

    The tool must be one that compiles. Hostile schemas and patterns can take very long here.
    """
    faults = tuple(islice(_schema_faults(tool.parameters, tool.documents, arguments), MAX_FAULTS))
    if not faults and tool.custom and tool.custom.syntax == "lark":
        return tuple(_grammar_faults(tool.custom, arguments))
    return faults


def _schema_faults(
    parameters: Mapping[str, Any], documents: Mapping[str, Any], arguments: Any
) -> Iterator[ArgumentFault]:
    if not isinstance(arguments, dict):
        message = f"the arguments of a call are an object, not {type_name(arguments)}"
        yield ArgumentFault("", "type", message)
        return
    defined = with_definitions(in_declared_dialect(dict(parameters), documents), documents)
    schema, draft = defined.document, draft_named(defined.document.get("$schema")) or NEWEST_DRAFT
    resources = [("", schema), *defined.documents.items()]  # documents may refer back to the schema
    registry = jsonschema_rs.Registry(resources, draft=draft) if documents else None
    validator = jsonschema_rs.validator_for(schema, validate_formats=True, offline=True, registry=registry)
    for error in validator.iter_errors(arguments):
        deepest = deepest_error(error)
        pointer = short_pointer(child("", *map(str, deepest.instance_path)), _MAX_POINTER)
        yield ArgumentFault(pointer, deepest.kind.name, shorten(deepest.message, _MAX_MESSAGE))


def _grammar_faults(custom: CustomInput, arguments: Mapping[str, str]) -> Iterator[ArgumentFault]:
    """A grammar is no part of a schema, so Lark itself reads the input."""
    parser = Lark(load(custom.definition), parser="earley")
    try:
        parser.parse(arguments[INPUT])
    except RecursionError:
        raise
    except RuntimeError:  # it reads the input in two ways, whose ends are a terminal and ignored text
        return
    except UnexpectedInput as error:
        reason = str(error).strip().partition("\n")[0].rstrip(":. ")
        yield ArgumentFault(child("", INPUT), "grammar", shorten(reason, _MAX_MESSAGE))
