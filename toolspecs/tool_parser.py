"""Reads tools in the shape of any API. Each tool is checked as a whole, and all its faults are reported.

The shape is detected for each tool (`toolspecs/shapes.py`). A field that its shape does not have is refused
by name. A field that is null counts as left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import msgspec

from toolspecs.custom_shapes import definition_path, flaw_of, is_custom, read_custom, read_input
from toolspecs.errors import Fault, InvalidTools, LimitExceeded
from toolspecs.json_pointer import shown_pointer
from toolspecs.json_value import DEFAULT_LIMITS, TYPE_NAMES, Flaw, Limits, find_flaw, type_name
from toolspecs.nearest import MAX_NAME, near_matches, shorten
from toolspecs.schemas.schema_check import check_schema, fault_of
from toolspecs.shapes import EXTRAS, KEY_ORDERS, OWN_FIELD, SHAPES, Shape, ShapeRow, detect_shape, write_tool
from toolspecs.tool import KeyOrder, Tool, custom_tool
from toolspecs.toolset import TOOL_NAME, TOOL_RULE, find_duplicates

OWN_OPTIONS = ("key_order", "input")

NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}

_LIST = "/tools"
"""The JSON pointer of a list of tools, in whatever a client sends."""
_MAX_LABEL = 1_000


@dataclass(frozen=True, slots=True)
class CheckedTool:
    """A tool without faults, and the JSON pointer of its schema in the submitted document.

    For a custom tool, the pointer is that of the object that holds its definition.
    """

    tool: Tool
    schema_pointer: str


def parse_tools(documents: Any, *, limits: Limits = DEFAULT_LIMITS) -> tuple[Tool, ...]:
    """Read a list of tools, each in any shape.

    >>> [tool.name for tool in parse_tools([{"name": "now", "parameters": {"type": "object"}}])]
    ['now']

    Raises:
        InvalidTools: with every fault of every tool.
        LimitExceeded: there are more tools than `limits` allows.
    """
    checked, faults = read_tools(documents, limits=limits)
    if faults:
        raise InvalidTools(faults)
    return tuple(checked_tool.tool for checked_tool in checked)


def read_tool(document: Any, *, limits: Limits) -> CheckedTool:
    """Read one tool in any shape. Raises `InvalidTools` with every fault."""
    parser = _ToolParser(document, 0, "", limits)
    if parser.faults:
        raise InvalidTools(parser.faults)
    return parser.checked()


def read_tools(documents: Any, *, limits: Limits) -> tuple[tuple[CheckedTool, ...], list[Fault]]:
    """The tools of a list that have no faults, and the faults of the others; each tool is read once.

    After very many faults, no more tools are read, because finding suggestions takes time.

    Raises:
        InvalidTools: `documents` is not a list.
        LimitExceeded: there are more tools than `limits` allows.
    """
    if not isinstance(documents, list):
        raise InvalidTools([Fault(None, _LIST, "", f"tools are a list, not {type_name(documents)}")])
    if len(documents) > limits.num_tools:
        raise LimitExceeded("num_tools", limits.num_tools, len(documents))
    parsers: list[_ToolParser] = []
    num_faults = 0
    for index, item in enumerate(documents):
        parsers.append(_ToolParser(item, index, f"{_LIST}/{index}", limits))
        num_faults += len(parsers[-1].faults)
        if num_faults >= limits.num_faults:
            break
    named = ((parser.index, parser.name) for parser in parsers if parser.name is not None)
    duplicates = list(find_duplicates(named, _LIST))
    repeated = {fault.pointer for fault in duplicates}
    faults = [fault for parser in parsers for fault in parser.faults] + duplicates
    good = (parser for parser in parsers if not parser.faults and parser.base not in repeated)
    return tuple(parser.checked() for parser in good), faults


def check_tool(tool: Tool, limits: Limits = DEFAULT_LIMITS, *, index: int = 0, base: str = "") -> list[Fault]:
    """The faults of a tool that was not read by this module; pointers are into its `function` shape."""
    return _ToolParser(write_tool(tool, Shape.FUNCTION, all_extras=True), index, base, limits, EXTRAS).faults


class _ToolParser:
    """Reads one tool; afterwards it has the faults, or the tool."""

    def __init__(
        self,
        document: Any,
        index: int,
        base: str,
        limits: Limits,
        extras: Mapping[str, type] | None = None,
    ) -> None:
        self.index = index
        self.base = base
        self.limits = limits
        self.extras = extras
        self.name = submitted_name(document)
        self.tool: Tool | None = None
        self.schema_pointer = base
        flaws = list(islice(self._read(document), limits.num_faults_per_tool))
        label = index if self.name is None else self.name
        self.faults = [fault_of(flaw, label, base) for flaw in flaws]

    def checked(self) -> CheckedTool:
        """The tool, if there are no faults."""
        assert self.tool, "a document without fault is a tool"
        return CheckedTool(self.tool, self.schema_pointer)

    def _read(self, document: Any) -> Iterator[Flaw]:
        """Yield what is wrong; set `tool` if nothing is."""
        if flaw := find_flaw(document, self.limits):
            yield flaw
            return
        if not isinstance(document, dict):
            yield Flaw((), "", f"a tool is an object, not {type_name(document)}")
            return
        if is_custom(document):
            yield from self._read_custom(document)
            return
        shape = detect_shape(document)
        row = SHAPES[shape]
        yield from _outer_flaws(document, row)
        fields = document.get(row.wrapper) if row.wrapper else document
        if not isinstance(fields, dict) or _is_hosted(document):
            return
        path = (row.wrapper,) if row.wrapper else ()
        self.schema_pointer = shown_pointer(self.base, (*path, row.schema_field))
        for flaw in self._read_fields(fields, shape):
            yield flaw.inside(*path)

    def _read_custom(self, document: dict[str, Any]) -> Iterator[Flaw]:
        try:
            tool = read_custom(document)
        except msgspec.ValidationError as error:
            yield flaw_of(error)
            return
        outer = ("custom",) if "custom" in document else ()
        for flaw in (
            *_name_flaws(tool.name, self.limits),
            *_description_flaws(tool.description, self.limits),
        ):
            yield flaw.inside(*outer)
        self.schema_pointer = shown_pointer(self.base, definition_path(document))
        self.name, self.tool = _label_of(tool.name), tool

    def _read_fields(self, fields: dict[str, Any], shape: Shape) -> Iterator[Flaw]:
        row = SHAPES[shape]
        extras = self.extras or row.extras
        yield from _unknown_fields(fields, shape, extras)
        name, description = fields.get("name"), fields.get("description")
        yield from _name_flaws(name, self.limits)
        yield from _description_flaws(description, self.limits)
        present = {field: fields[field] for field in extras if fields.get(field) is not None}
        yield from _extra_flaws(present, extras)
        own = fields.get(OWN_FIELD)
        yield from _own_flaws(own)
        parameters = fields.get(row.schema_field)
        if parameters is None:
            parameters = dict(NO_ARGUMENTS)
        for flaw in check_schema(parameters, self.limits):
            yield replace(flaw.inside(row.schema_field), keyword=flaw.keyword or row.schema_field)
        if not isinstance(name, str):
            return
        self.name = _label_of(name)
        options = own if isinstance(own, dict) else {}
        order: KeyOrder = options.get("key_order") or "declared"
        self.tool = Tool(name, description or "", parameters, present, key_order=order)
        if options.get("input") is not None:
            yield from self._read_input(options["input"], fields.get(row.schema_field), row.schema_field)

    def _read_input(self, written: Any, schema: Any, schema_field: str) -> Iterator[Flaw]:
        """Make the tool a custom tool; its schema must be missing or the one that custom tools get."""
        assert self.tool, "the rest was read"
        path = (OWN_FIELD, "input")
        try:
            custom = read_input(written)
        except msgspec.ValidationError as error:
            suggestion = 'write {"syntax", "definition"}'
            yield replace(flaw_of(error).inside(*path), keyword="input", suggestion=suggestion)
            return
        tool = custom_tool(self.tool.name, self.tool.description, custom)
        if schema is not None and schema != tool.parameters:
            yield Flaw(
                (schema_field,),
                schema_field,
                "the schema of a custom tool is made from its input",
                "leave it out",
            )
        self.schema_pointer = shown_pointer(self.base, path)
        self.tool = replace(tool, extras=self.tool.extras)


def submitted_name(document: Any) -> str | None:
    """The name of a tool in any shape, before it is read; None if it has none that a tool may have."""
    wrapper = "custom" if is_custom(document) else "function"
    fields = document.get(wrapper, document) if isinstance(document, dict) else None
    name = fields.get("name") if isinstance(fields, dict) else None
    label = _label_of(name) if isinstance(name, str) else None
    return label if label is not None and TOOL_NAME.fullmatch(label) else None


def _label_of(name: str) -> str | None:
    """The name, by which every fault of the tool tells it; None if it is too long for that."""
    return name if len(name) <= _MAX_LABEL else None


def _outer_flaws(document: dict[str, Any], row: ShapeRow) -> Iterator[Flaw]:
    """What is wrong with `type` and with fields outside the wrapper."""
    tag = document.get("type")
    if tag is not None and tag != row.tag:
        shown = shorten(repr(tag), 60) if isinstance(tag, str) else type_name(tag)
        suggestion = 'use "function" (OpenAI), "custom" (Anthropic), or leave it out'
        yield Flaw(("type",), "type", f"a tool of type {shown} is not a function", suggestion)
    if not row.wrapper:
        return
    if tag is None:
        message, suggestion = (
            'a tool with the field "function" needs the field "type" too',
            'add "type": "function"',
        )
        yield Flaw((), "type", message, suggestion)
    if not isinstance(document.get(row.wrapper), dict):
        yield Flaw((), row.wrapper, 'the field "function" is missing or not an object')
    for field in document:
        if field not in {"type", row.wrapper}:
            suggestion = f"fields other than 'type' belong inside {row.wrapper!r}"
            yield Flaw((field,), field, f"unknown field {shorten(field, MAX_NAME)!r}", suggestion)


def _is_hosted(document: dict[str, Any]) -> bool:
    """Whether this is a provider's own tool, such as a web search: a type, and neither name nor schema."""
    own = {"name", *(row.wrapper or row.schema_field for row in SHAPES.values())}
    tag = document.get("type")
    return (
        isinstance(tag, str) and tag not in {row.tag for row in SHAPES.values()} and own.isdisjoint(document)
    )


def _unknown_fields(fields: dict[str, Any], shape: Shape, extras: Mapping[str, type]) -> Iterator[Flaw]:
    row = SHAPES[shape]
    known = ["name", "description", row.schema_field, *extras, OWN_FIELD]
    # Without a schema the shape is a guess, so the field may belong to any shape.
    schema_fields = {other.schema_field for other in SHAPES.values()}
    others = () if schema_fields & {*fields} else schema_fields - {*known}
    admitted = {*known, "type"} if row.tag and not row.wrapper else set(known)
    for field in fields:
        if field not in admitted:
            near = near_matches(field, (*known, *others), 1)
            suggestion = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            shown = shorten(field, MAX_NAME)
            yield Flaw((field,), field, f"unknown field {shown!r} of a tool in {shape} shape", suggestion)


def _name_flaws(name: Any, limits: Limits) -> Iterator[Flaw]:
    if name is None:
        yield Flaw((), "name", "a tool needs a name")
    elif not isinstance(name, str):
        yield Flaw(("name",), "name", f"a name is a string, not {type_name(name)}")
    elif not name or len(name) > limits.tool_name_length:
        message = f"a name of {len(name)} characters; 1 to {limits.tool_name_length} are allowed"
        yield Flaw(("name",), "name", message)
    elif not TOOL_NAME.fullmatch(name):
        yield Flaw(("name",), "name", f"{name!r} is not a tool name", f"a name is made of {TOOL_RULE}")


def _description_flaws(description: Any, limits: Limits) -> Iterator[Flaw]:
    if description is None:
        return
    if not isinstance(description, str):
        message = f"a description is a string, not {type_name(description)}"
        yield Flaw(("description",), "description", message)
    elif len(description) > limits.description_length:
        message = f"{len(description)} characters; at most {limits.description_length} are allowed"
        yield Flaw(("description",), "description", message)


def _extra_flaws(extra_fields: dict[str, Any], extras: Mapping[str, type]) -> Iterator[Flaw]:
    for field, value in extra_fields.items():
        if not isinstance(value, extras[field]):
            message = f"{field!r} is {TYPE_NAMES[extras[field]]}, not {type_name(value)}"
            yield Flaw((field,), field, message)


def _own_flaws(own: Any) -> Iterator[Flaw]:
    """What is wrong with the options of the field `callgate`."""
    if own is None:
        return
    if not isinstance(own, dict):
        yield Flaw((OWN_FIELD,), OWN_FIELD, f"{OWN_FIELD!r} is an object, not {type_name(own)}")
        return
    for option, value in own.items():
        if option not in OWN_OPTIONS:
            message = f"unknown option {shorten(option, MAX_NAME)!r}"
            yield Flaw((OWN_FIELD, option), option, message, f"known are {' and '.join(OWN_OPTIONS)}")
        elif option == "key_order" and value is not None and value not in KEY_ORDERS:
            message = f"{shorten(repr(value), 60)} is not an order of keys"
            yield Flaw((OWN_FIELD, option), option, message, f"use {' or '.join(map(repr, KEY_ORDERS))}")
