"""Invented parameters: names, schemas, and values with the words for them in a request."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tiny_model import domains, words


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. Its `shape` is its schema without names."""

    name: str
    kind: str
    schema: dict[str, Any]
    is_required: bool = True
    choices: tuple[str, ...] = ()
    is_signed: bool = False
    inner: tuple["Parameter", ...] = field(default=())

    @property
    def label(self) -> str:
        """The name as people say it."""
        spaced = "".join(f" {char.lower()}" if char.isupper() else char for char in self.name)
        return spaced.replace("_", " ").strip()

    @property
    def tells_kind(self) -> bool:
        """Whether the schema shows the kind of the value, apart from its JSON type and its name."""
        hint = _HINTS.get(self.kind, "")
        is_hinted = bool(hint) and hint in self.schema.get("description", "")
        return is_hinted or not {"format", "pattern"}.isdisjoint(self.schema)

    @property
    def shape(self) -> str:
        """Kinds and nesting, without names."""
        inner = ",".join(parameter.shape for parameter in self.inner)
        return f"{self.kind}{'' if self.is_required else '?'}{f'({inner})' if inner else ''}"


@dataclass(frozen=True, slots=True)
class Value:
    """A value, in JSON and in the words of a request."""

    json: Any
    spoken: str


_HINTS = {
    domains.DATE: "date as YYYY-MM-DD",
    domains.TIME: "time as HH:MM",
    domains.FLAG: "whether or not",
    domains.COUNT: "a whole number",
    domains.AMOUNT: "a number",
    domains.WORDS: "a list",
    domains.PERSON: "a person",
    domains.CODE: "a code",
}
_TYPES = {
    domains.COUNT: "integer",
    domains.AMOUNT: "number",
    domains.FLAG: "boolean",
    domains.WORDS: "array",
    domains.RECORD: "object",
}
_LENGTHS: tuple[dict[str, Any], ...] = ({"maxLength": 80}, {"maxLength": 200}, {"minLength": 1})
_BOUNDS: tuple[dict[str, Any], ...] = ({"minimum": 0}, {"minimum": 0, "maximum": 99_999})
_LIMITS: dict[str, tuple[dict[str, Any], ...]] = {
    domains.DATE: ({"format": "date"},),
    domains.TIME: ({"pattern": "^[0-9]{2}:[0-9]{2}$"},),
    domains.COUNT: _BOUNDS,
    domains.AMOUNT: _BOUNDS,
    domains.TEXT: _LENGTHS,
    domains.PERSON: _LENGTHS,
    domains.CODE: _LENGTHS,
}
_SIMPLE = (domains.TEXT, domains.PERSON, domains.CODE, domains.COUNT, domains.AMOUNT, domains.DATE)


def invent(
    rng: Random,
    name: str,
    kind: str,
    choices: tuple[str, ...],
    *,
    is_required: bool,
    verbose: float = 0.0,
    is_rich: bool = False,
) -> Parameter:
    """A parameter of a kind, with a schema that says more or less.

    A rich parameter may be negative, a list of choices, or an object with members of several kinds.
    """
    schema: dict[str, Any] = {"type": _TYPES.get(kind, "string")} | _described(rng, name, kind, verbose)
    inner: tuple[Parameter, ...] = ()
    if kind == domains.CHOICE:
        schema["enum"] = list(choices)
    elif kind == domains.WORDS:
        inner = (_item(rng, choices, is_rich=is_rich),)
        schema["items"] = inner[0].schema
    elif kind == domains.RECORD:
        inner = _members(rng, _SIMPLE + (domains.CHOICE, domains.FLAG) * is_rich, choices)
        schema |= object_schema(inner)
    elif rng.random() < 0.2 and not is_rich:
        schema |= rng.choice(_LIMITS.get(kind, ({},)))
    known = choices if kind == domains.CHOICE else ()
    parameter = Parameter(name, kind, schema, is_required, known, is_rich, inner)
    _distract(rng, parameter)
    return parameter


def _described(rng: Random, name: str, kind: str, verbose: float) -> dict[str, str]:
    """A description, or none."""
    if rng.random() < 0.4:
        return {}
    label = name.replace("_", " ")
    described = rng.choice((f"The {label}", label.capitalize(), f"{label.capitalize()} to use"))
    hint = _HINTS.get(kind)
    text = f"{described}, {hint}." if hint and rng.random() < 0.6 else f"{described}."
    if rng.random() < verbose:
        text += " " + rng.choice(_REMARKS).format(label=label)
    return {"description": text}


def _distract(rng: Random, parameter: Parameter) -> None:
    """Default and example values, which no request asks for."""
    if parameter.kind in {domains.WORDS, domains.RECORD} or rng.random() > 0.2:
        return
    value = draw(rng, parameter).json
    if not parameter.is_required and rng.random() < 0.5:
        parameter.schema["default"] = value
    elif parameter.kind != domains.FLAG and "description" in parameter.schema:
        parameter.schema["description"] = f"{parameter.schema['description'][:-1]}, such as {value}."


_REMARKS = (
    "Leave it out to use what is configured.",
    "Has to be the {label} that an earlier call returned.",
    "Only the {label} given here is looked at, whatever else is known.",
    "If there are several, the first one counts.",
    "Spaces at either end are not removed.",
    "Must not be longer than what the form has room for; longer ones are cut.",
)
"""Further sentences in descriptions; no request depends on them."""


def _item(rng: Random, choices: tuple[str, ...], *, is_rich: bool) -> Parameter:
    kind = rng.choice((domains.TEXT, domains.TEXT, domains.COUNT, domains.CODE))
    if is_rich and kind == domains.CODE:
        return Parameter("item", domains.CHOICE, {"type": "string", "enum": list(choices)}, choices=choices)
    return Parameter("item", kind, {"type": _TYPES.get(kind, "string")}, is_signed=is_rich)


def _members(rng: Random, kinds: tuple[str, ...], choices: tuple[str, ...]) -> tuple[Parameter, ...]:
    names = list(dict.fromkeys(words.identifier(rng, 1) for _ in range(rng.randint(1, 3))))
    return tuple(invent(rng, name, rng.choice(kinds), choices, is_required=True) for name in names)


def object_schema(parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    """The schema of an object with these members."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {parameter.name: parameter.schema for parameter in parameters},
    }
    required = [parameter.name for parameter in parameters if parameter.is_required]
    return schema | ({"required": required} if required else {})


def draw(rng: Random, parameter: Parameter) -> Value:
    """A random value of a parameter; its words contain the value literally, except for booleans."""
    match parameter.kind:
        case domains.COUNT:
            text = _sign(rng, parameter) + words.digits(rng, 1, rng.choice((1, 2, 2, 3, 4)))
            value = Value(int(text), str(int(text)))
        case domains.AMOUNT:
            number = round(rng.uniform(0, 10 ** rng.randint(1, 4)), rng.randint(1, 2))
            text = _sign(rng, parameter) + str(number)
            value = Value(float(text), text)
        case domains.FLAG:
            is_on = rng.random() < 0.5
            value = Value(is_on, rng.choice(_SPOKEN_FLAGS[is_on]))
        case domains.CHOICE:
            choice = rng.choice(parameter.choices)
            value = Value(choice, choice.replace("_", " ") if rng.random() < 0.3 else choice)
        case domains.WORDS:
            (item,) = parameter.inner
            value = _list(rng, [draw(rng, item) for _ in range(rng.randint(1, 4))])
        case domains.RECORD:
            value = _record(rng, parameter.inner)
        case _:
            value = _string(rng, parameter.kind)
    return value


def _sign(rng: Random, parameter: Parameter) -> str:
    return "-" if parameter.is_signed and rng.random() < 0.5 else ""


_SPOKEN_FLAGS = {True: ("true", "yes", "on"), False: ("false", "no", "off")}


def _list(rng: Random, items: list[Value]) -> Value:
    spoken = [item.spoken for item in items]
    if rng.random() < 0.3 or len(items) == 1:
        return Value([item.json for item in items], ", ".join(spoken))
    return Value([item.json for item in items], ", ".join(spoken[:-1]) + " and " + spoken[-1])


def _record(rng: Random, members: tuple[Parameter, ...]) -> Value:
    values = {member.name: draw(rng, member) for member in members}
    between = rng.choice((" ", ": ", " = "))
    spoken = ", ".join(f"{member.label}{between}{values[member.name].spoken}" for member in members)
    return Value(
        {name: value.json for name, value in values.items()}, f"({spoken})" if rng.random() < 0.5 else spoken
    )


def _string(rng: Random, kind: str) -> Value:
    match kind:
        case domains.DATE:
            text = f"{rng.randint(1990, 2049)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        case domains.TIME:
            text = f"{rng.randrange(24):02}:{rng.randrange(60):02}"
        case domains.CODE:
            text = words.code(rng)
        case domains.PERSON:
            text = words.email(rng) if rng.random() < 0.25 else _name(rng)
        case _:
            return _text(rng)
    return Value(text, text)


def _name(rng: Random) -> str:
    return " ".join(words.proper(rng) for _ in range(rng.choice((1, 1, 2))))


def _text(rng: Random) -> Value:
    if rng.random() < 0.4:
        name = _name(rng)
        return Value(name, name)
    if rng.random() < 0.15:
        path = words.path(rng)
        return Value(path, path)
    quote = rng.choice('"""\'')
    text = words.phrase(rng, words.COMMON)
    return Value(text, f"{quote}{text}{quote}")
