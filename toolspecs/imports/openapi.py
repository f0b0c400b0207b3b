"""The operations of an OpenAPI document (3.0 to 3.2) as tools.

An operation's parameters, wherever the request carries them, and its body are the arguments of one tool. The
body is the argument `body`, whatever its schema, so that nothing of that schema is lost:

>>> document = '''
... openapi: 3.1.0
... info: {title: Shop, version: "1"}
... paths:
...   /orders/{id}:
...     patch:
...       operationId: changeOrder
...       parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
...       requestBody: {required: true, content: {application/json: {schema: {type: object}}}}
... '''
>>> [tool] = import_openapi("shop.yaml", document, unreachable).tools
>>> tool.name, list(tool.parameters["properties"]), tool.parameters["required"]
('changeOrder', ['id', 'body'], ['id', 'body'])
>>> tool.extras["_meta"]["callgate/source"]["arguments"]
{'id': {'in': 'path', 'name': 'id'}, 'body': {'in': 'body', 'type': 'application/json'}}
"""

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any, NoReturn

from toolspecs.errors import Fault, UnreadableSource
from toolspecs.imports.documents import LinkedDocuments, Retrieve
from toolspecs.imports.imported import Imported, UniqueNames, valid_name, with_source_note
from toolspecs.imports.openapi_schemas import DocumentPlace, ToolSchemas, Unsupported
from toolspecs.json_value import Flaw, Path
from toolspecs.nearest import MAX_NAME, near_matches, shorten
from toolspecs.schemas.schema_check import fault_of
from toolspecs.tool import Tool

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_OTHER_METHODS = "additionalOperations"
"""The field of a Path Item with the operations of other methods, whose names are case-sensitive."""
_VERSIONS = ("3.0", "3.1", "3.2")
_PLACES = ("path", "query", "querystring", "header", "cookie")
_STYLES = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
"""The style of a parameter that names none."""
_WRITTEN = ("contentType", "style", "explode", "allowReserved")
"""The fields that say how a property of a form is written."""
_CLIENT_HEADERS = frozenset({"accept", "content-type", "authorization"})
"""Headers that OpenAPI does not let parameters describe."""


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """Which operations to import. One of each kind must match; an empty kind admits every operation.

    `tags` are compared as they are, `paths` and `operations` (names of tools, or operation ids) are patterns
    such as `/v1/users*`.
    """

    tags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()

    @property
    def by_kind(self) -> dict[str, tuple[str, ...]]:
        """The patterns by kind; a kind without patterns is left out."""
        return {kind: patterns for kind, patterns in asdict(self).items() if patterns}


EVERYTHING = OperationFilter()


@dataclass(frozen=True, slots=True)
class _Operation:
    """An operation of an OpenAPI document.

    `items` are its Path Item and those that this one refers to, each with the URI of its document. `fields`
    is the Operation Object itself, and `place` is where it stands.
    """

    method: str
    route: str
    items: tuple[tuple[str, dict[str, Any]], ...]
    fields: dict[str, Any]
    place: DocumentPlace

    @property
    def title(self) -> str:
        """The operation's own id, else its method and path."""
        operation_id = self.fields.get("operationId")
        if isinstance(operation_id, str) and operation_id:
            return operation_id
        return f"{self.method} {self.route}"

    @property
    def tags(self) -> frozenset[str]:
        """The operation's tags."""
        tags = self.fields.get("tags")
        return (
            frozenset(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else frozenset()
        )

    def is_selected(self, selection: OperationFilter) -> bool:
        """Whether the selection admits the operation."""
        names = {self.title, valid_name(self.title)}
        return (
            (not selection.tags or not self.tags.isdisjoint(selection.tags))
            and (not selection.paths or any(fnmatchcase(self.route, glob) for glob in selection.paths))
            and (
                not selection.operations
                or any(fnmatchcase(name, glob) for name in names for glob in selection.operations)
            )
        )


def import_openapi(
    uri: str, text: str, retrieve: Retrieve, selection: OperationFilter = EVERYTHING
) -> Imported:
    """The tools of the document `text`, which was found at `uri`; `retrieve` reads those it refers to.

    Raises:
        UnreadableSource: it is no such document, or several that it refers to cannot be read, or no operation
            is selected.
    """
    documents = LinkedDocuments(uri, text, retrieve)
    document = documents.root
    version = _version(uri, document)
    operations = list(_operations(documents))
    selected = [operation for operation in operations if operation.is_selected(selection)]
    if not selected:
        raise UnreadableSource(uri, _nothing_selected(operations, selection))
    # Names do not depend on the selection, or a selection would rename the tools of another.
    unique = UniqueNames()
    names = {operation.place.path: unique.name(operation.title) for operation in operations}
    tools: list[Tool] = []
    faults: list[Fault] = []
    for operation in selected:
        name = names[operation.place.path]
        schemas = ToolSchemas(documents, is_3_0=version == "3.0")
        try:
            tools.append(_tool(name, operation, schemas))
        except Unsupported as error:
            faults.append(fault_of(error.flaw, name, ""))
    info = document.get("info")
    title = info.get("title") if isinstance(info, dict) else None
    return Imported("openapi", title if isinstance(title, str) else "", tuple(tools), tuple(faults))


def unreachable(uri: str) -> NoReturn:
    """Retrieves nothing: for documents that refer to no others."""
    raise UnreadableSource(uri, "other documents are not read here")


def _version(uri: str, document: Any) -> str:
    declared = document.get("openapi") if isinstance(document, dict) else None
    if type(declared) not in {str, int, float}:  # `openapi: 3.1` is a number in YAML
        is_older = isinstance(document, dict) and "swagger" in document
        advice = "; it is Swagger 2.0: convert it to OpenAPI 3" if is_older else ""
        raise UnreadableSource(uri, f"an OpenAPI document has the field `openapi`{advice}")
    version = ".".join(str(declared).split(".")[:2])
    if version not in _VERSIONS:
        shown = shorten(str(declared), 50)
        raise UnreadableSource(uri, f"OpenAPI {shown} cannot be read, only {', '.join(_VERSIONS)}")
    if not isinstance(document.get("paths", {}), dict):
        raise UnreadableSource(uri, "at /paths: paths are an object")
    return version


def _operations(documents: LinkedDocuments) -> Iterator[_Operation]:
    for route, path_item in documents.root.get("paths", {}).items():
        try:
            chain = documents.chain(documents.uri, path_item)
            items = tuple((base, item) for base, item in chain if isinstance(item, dict))
        except LookupError as error:
            raise UnreadableSource(documents.uri, f"at the path {route}: {error.args[0]}") from None
        found: dict[Path, tuple[str, dict[str, Any]]] = {}
        for base, item in items:
            for path, fields in _operation_fields(item):
                found.setdefault(path, (base, fields))
        order = [*((method,) for method in _METHODS if (method,) in found), *found]
        for path in dict.fromkeys(order):
            base, fields = found[path]
            place = DocumentPlace(base, ("paths", route, *path))
            yield _Operation(str(path[-1]), route, items, fields, place)


def _operation_fields(item: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Each Operation Object that a Path Item has itself, with its path there."""
    for method in _METHODS:
        if isinstance(item.get(method), dict):
            yield (method,), item[method]
    others = item.get(_OTHER_METHODS)
    for method, fields in others.items() if isinstance(others, dict) else ():
        if isinstance(fields, dict):
            yield (_OTHER_METHODS, method), fields


def _nothing_selected(operations: list[_Operation], selection: OperationFilter) -> str:
    if not operations:
        return "it has no operations"
    tags = {tag for operation in operations for tag in operation.tags}
    unknown = [tag for tag in selection.tags if tag not in tags]
    if unknown:
        near = near_matches(unknown[0], tags, 3) or sorted(tags)[:8]
        return f"no operation has the tag {unknown[0]!r}; there are {', '.join(map(repr, near)) or 'none'}"
    return f"none of its {len(operations)} operations is selected; the first is {operations[0].title!r}"


def _tool(name: str, operation: _Operation, schemas: ToolSchemas) -> Tool:
    properties: dict[str, Any] = {}
    required: list[str] = []
    arguments: dict[str, Any] = {}
    names = UniqueNames()
    parameters = _parameters(operation, schemas)
    for parameter, place in parameters:
        location = parameter["in"]
        if location == "header" and parameter["name"].lower() in _CLIENT_HEADERS:
            continue
        argument = names.name(parameter["name"], location)
        schema, media_type = _parameter_schema(parameter, place, schemas)
        properties[argument] = _described(schema, parameter)
        arguments[argument] = {"in": location, "name": parameter["name"], **_serialization(parameter)}
        if media_type:
            arguments[argument]["type"] = media_type
        if parameter.get("required") is True or location == "path":
            required.append(argument)
    _check_route(operation, {parameter["name"] for parameter, _ in parameters if parameter["in"] == "path"})
    if body := _body(operation, schemas):
        argument = names.name("body")
        media_type, properties[argument], encoding, is_required = body
        arguments[argument] = {"in": "body", "type": media_type, **encoding}
        if is_required:
            required.append(argument)
    tool = Tool(name, _description(operation.fields), schemas.arguments(properties, required))
    method = operation.method.upper() if operation.method in _METHODS else operation.method
    return with_source_note(tool, {"operation": f"{method} {operation.route}", "arguments": arguments})


def _description(fields: dict[str, Any]) -> str:
    """Summary and description, without one that repeats the other; and whether it is deprecated."""
    summary, description = (
        fields[key].strip() if isinstance(fields.get(key), str) else "" for key in ("summary", "description")
    )
    written = description if description.startswith(summary) else f"{summary}\n\n{description}".strip()
    return f"Deprecated. {written}".strip() if fields.get("deprecated") is True else written


def _parameters(
    operation: _Operation, schemas: ToolSchemas
) -> Collection[tuple[dict[str, Any], DocumentPlace]]:
    """Each parameter of an operation, with its place; its own replace those of the path."""
    parameters: dict[tuple[str, str], tuple[dict[str, Any], DocumentPlace]] = {}
    route = operation.place.path[:2]
    items = [(item, DocumentPlace(base, route)) for base, item in reversed(operation.items)]
    for fields, owner in (*items, (operation.fields, operation.place)):
        references = fields.get("parameters")
        for index, reference in enumerate(references if isinstance(references, list) else ()):
            parameter, place = schemas.follow(reference, owner.at("parameters", index))
            is_whole = isinstance(parameter.get("name"), str) and parameter.get("in") in _PLACES
            if not is_whole:
                message = "a parameter has a name, and is in " + ", ".join(_PLACES)
                raise Unsupported(Flaw(place.path, "in", message))
            parameters[parameter["name"], parameter["in"]] = parameter, place
    return parameters.values()


def _parameter_schema(
    parameter: dict[str, Any], place: DocumentPlace, schemas: ToolSchemas
) -> tuple[Any, str]:
    """The schema of a parameter, and the media type of its `content` if the schema stands there."""
    if "schema" in parameter:
        return _annotated(schemas.copy(parameter["schema"], place.at("schema")), parameter), ""
    content = parameter.get("content")
    for media_type, reference in content.items() if isinstance(content, dict) else ():
        media, here = schemas.follow(reference, place.at("content", media_type))
        if "schema" in media:
            return _annotated(schemas.copy(media["schema"], here.at("schema")), parameter), media_type
    message = f"the parameter {shorten(parameter['name'], MAX_NAME)!r} has no schema"
    raise Unsupported(Flaw(place.path, "schema", message, "declare one; {} admits any value"))


def _serialization(parameter: dict[str, Any]) -> dict[str, Any]:
    """How the value of a parameter is written, if not in the way that is usual at its place."""
    usual_style = _STYLES.get(parameter["in"])
    style = parameter["style"] if isinstance(parameter.get("style"), str) else usual_style
    written: dict[str, Any] = {"style": style} if style != usual_style else {}
    usual = {"explode": style in {"form", "cookie"}, "allowReserved": False}
    for field, default in usual.items():
        if isinstance(parameter.get(field), bool) and parameter[field] is not default:
            written[field] = parameter[field]
    return written


def _annotated(schema: Any, parameter: dict[str, Any]) -> Any:
    """The copied schema of a parameter with what that says of it; without its `examples`, which are long."""
    if not isinstance(schema, dict):
        return schema
    told: dict[str, Any] = {"deprecated": True} if parameter.get("deprecated") is True else {}
    told |= {"examples": [parameter["example"]]} if "example" in parameter else {}
    return {**told, **schema}


def _described(schema: Any, parameter: dict[str, Any]) -> Any:
    description = parameter.get("description")
    if not isinstance(description, str) or not description or not isinstance(schema, dict):
        return schema
    return {**schema, "description": description}


def _check_route(operation: _Operation, declared: set[str]) -> None:
    for part in operation.route.split("{")[1:]:
        variable = part.partition("}")[0]
        if variable not in declared:
            message = f"the path has {{{shorten(variable, MAX_NAME)}}}, but no parameter says what it is"
            raise Unsupported(Flaw(operation.place.path, "parameters", message, "declare it with `in: path`"))


def _body(operation: _Operation, schemas: ToolSchemas) -> tuple[str, Any, dict[str, Any], bool] | None:
    """The media type of a body, its schema, `_encoding`, and whether it is required.

    JSON is preferred to other types.
    """
    if "requestBody" not in operation.fields:
        return None
    body, place = schemas.follow(operation.fields["requestBody"], operation.place.at("requestBody"))
    content = body.get("content")
    if not isinstance(content, dict) or not content:
        return None
    media_type = min(content, key=_preference)  # the first of equals
    media, here = schemas.follow(content[media_type], place.at("content", media_type))
    schema = schemas.copy(media.get("schema", {}), here.at("schema"))
    return media_type, _described(schema, body), _encoding(media), body.get("required") is True


def _encoding(media: dict[str, Any]) -> dict[str, Any]:
    """How the document says that properties of a form are written, by their names; without their headers."""
    declared = media.get("encoding")
    encoding = {
        name: {field: fields[field] for field in _WRITTEN if isinstance(fields.get(field), str | bool)}
        for name, fields in (declared.items() if isinstance(declared, dict) else ())
        if isinstance(fields, dict)
    }
    told = {name: fields for name, fields in encoding.items() if fields}
    return {"encoding": told} if told else {}


def _preference(media_type: str) -> int:
    bare = media_type.partition(";")[0].strip().lower()
    if bare == "application/json" or bare.endswith("+json"):
        return 0
    return {
        "*/*": 1,
        "application/*": 1,
        "application/x-www-form-urlencoded": 2,
        "multipart/form-data": 3,
    }.get(bare, 4)
