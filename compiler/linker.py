"""The linker: joins units behind a dispatcher into the grammar of a toolset's calls.

Nothing is compiled here. What the linked grammar's matcher allows is, token for token, what one grammar
of the whole language would: text up to a trigger, calls of any of the tools in the syntax of the model,
and tokens that straddle their borders.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import MappingProxyType

from compiler.dispatcher import Dispatcher, consumed
from compiler.errors import UnsupportedGrammar, UnsupportedSchema, UnsupportedToolset
from compiler.exits import Exits
from compiler.free_text import FreeText
from compiler.junction import Junction, Names
from compiler.linked_matcher import LinkedMatcher
from compiler.syntaxes import Syntax
from compiler.unit import Unit
from compiler.vocabulary import Vocabulary
from toolspecs.choice import ChoiceMode, ToolChoice


class LazyUnits(Mapping[str, Unit]):
    """Units that are loaded when first used, by tool name, in the order of the names."""

    def __init__(self, names: tuple[str, ...], load: Callable[[str], Unit]) -> None:
        self._loaded: dict[str, Unit | None] = dict.fromkeys(names)
        self._load = load

    def __getitem__(self, name: str) -> Unit:
        unit = self._loaded[name]
        if unit is None:
            unit = self._loaded[name] = self._load(name)
        return unit

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)


@dataclass(frozen=True, eq=False)
class LinkedGrammar:
    """Immutable and shared; `names` are the tools that may be called, `units` may hold more of them."""

    names: tuple[str, ...]
    units: Mapping[str, Unit] = field(repr=False)
    syntax: Syntax
    vocabulary: Vocabulary
    choice: ToolChoice
    parallel: bool
    _dispatcher: Dispatcher = field(repr=False)
    _digests: Mapping[str, str] | None = field(repr=False)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over what the language depends on; loads no unit if their digests were given."""
        digests = self._digests or {name: self.units[name].digest for name in self.names}
        tools = [(name, digests[name]) for name in self.names]
        origin = [self.syntax.name, self.vocabulary.digest, self.choice.mode, self.parallel]
        return hashlib.sha256(json.dumps([*origin, tools]).encode()).hexdigest()

    @property
    def dispatcher(self) -> Dispatcher:
        """The fixed part that its matchers and closers share."""
        return self._dispatcher

    def matcher(self) -> LinkedMatcher:
        """A fresh matcher at the start."""
        return LinkedMatcher(self._dispatcher)


def link(
    units: Mapping[str, Unit],
    syntax: Syntax,
    vocabulary: Vocabulary,
    choice: ToolChoice,
    *,
    parallel: bool = True,
    digests: Mapping[str, str] | None = None,
) -> LinkedGrammar:
    """Join units, by tool name, that were compiled for this syntax and vocabulary.

    `parallel` False: exactly one call where one is made. `digests` names the units' digests where `units`
    is lazy. A mode of `auto` without tools is `none`.

    Raises:
        UnsupportedToolset: an unknown tool was chosen, none is left where a call is required, or two
            names cannot be told apart in a call.
        UnsupportedGrammar: the vocabulary has a marker token inside the syntax's trigger.
    """
    names = _chosen(units, choice)
    start = _call_junctions(names, units, syntax, vocabulary, parallel=parallel) if names else None
    dispatcher = Dispatcher(
        vocabulary,
        MappingProxyType(units) if isinstance(units, dict) else units,
        None if choice.mode is ChoiceMode.REQUIRED else _free_text(syntax, vocabulary, start),
        start,
        Exits(vocabulary.index, vocabulary.spell(syntax.end).encode(), start.follow) if start else None,
    )
    return LinkedGrammar(names, units, syntax, vocabulary, choice, parallel, dispatcher, digests)


def _chosen(units: Mapping[str, Unit], choice: ToolChoice) -> tuple[str, ...]:
    if choice.allowed is not None:
        unknown = [name for name in choice.allowed if name not in units]
        if unknown:
            raise UnsupportedToolset([(name, _refusal("the toolset has no such tool")) for name in unknown])
    if choice.mode is ChoiceMode.NONE:
        return ()
    allowed = frozenset(units if choice.allowed is None else choice.allowed)
    names = tuple(name for name in units if name in allowed)
    if choice.mode is ChoiceMode.REQUIRED and not names:
        raise UnsupportedToolset([("", _refusal("a call is required, but there is no tool to call"))])
    return names


def _refusal(reason: str) -> UnsupportedSchema:
    return UnsupportedSchema("", "tool_choice", reason)


def _call_junctions(
    names: tuple[str, ...],
    units: Mapping[str, Unit],
    syntax: Syntax,
    vocabulary: Vocabulary,
    *,
    parallel: bool,
) -> Junction:
    after_name = vocabulary.spell(syntax.after_name)
    try:
        table = Names([((syntax.spell_name(name) + after_name).encode(), name) for name in names])
    except ValueError as error:
        raise UnsupportedToolset([("", UnsupportedSchema("", "name", str(error)))]) from error
    ask = partial(consumed, units)
    closing = vocabulary.spell(syntax.closing).encode()
    lead = vocabulary.spell(syntax.separator + syntax.begin).encode() if parallel else None
    follow = Junction(vocabulary.index, table, lead=lead, closing=closing, consumed=ask)
    lead = vocabulary.spell(syntax.opening + syntax.begin).encode()
    return Junction(vocabulary.index, table, lead=lead, closing=None, consumed=ask, follow=follow)


def _free_text(syntax: Syntax, vocabulary: Vocabulary, start: Junction | None) -> FreeText:
    """Text that a reader of its spelling never takes for a call, unless it leads into one."""
    trigger = syntax.trigger.encode()
    if start is None:
        return FreeText(vocabulary.index, trigger)
    assert start.lead is not None, "calls begin somewhere"
    if start.lead.startswith(trigger):
        return FreeText(vocabulary.index, trigger, leads=lambda rest: start.fits(trigger + rest))
    leading = [i for i in vocabulary.marker_ids if start.lead.startswith(vocabulary.tokens[i])]
    if not leading:
        raise UnsupportedGrammar(f"a marker token stands inside the trigger {syntax.trigger!r}")
    return FreeText(vocabulary.index, trigger, marker_id=leading[0])
