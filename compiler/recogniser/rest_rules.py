r"""The rules of what may follow a text: the grammar of its rest, also called its derivative or left quotient.

A parser state knows what is missing of every rule that the text has begun. Written down as rules, this is the
grammar of all that completes the text. After `{"a": ` in `"{" pair "}"` with `pair ::= "\"a\": " [0-9]+`, it
is `[0-9]+ frame` with `frame ::= "}"`.

An engine that takes a grammar with a request begins at its root. So one that goes on after what is written
gets the grammar of the rest.
"""

from collections.abc import Callable, Hashable, Mapping
from functools import cached_property

from compiler.grammar.grammar import (
    EMPTY,
    Choice,
    Concatenation,
    Expr,
    Grammar,
    GuardedText,
    Literal,
    Prose,
    Repeat,
    Rule,
    RuleRef,
    choice,
    concat,
    subexpressions,
    union,
)
from compiler.grammar.passes import prune
from compiler.grammar.rules import RuleTable
from compiler.guard.string_automaton import StringAutomaton
from compiler.recogniser.network import Network, StateSet
from compiler.recogniser.network_states import (
    CallState,
    CharTailState,
    ChoiceState,
    EndState,
    LiteralState,
    NetworkState,
    ProseState,
    RepeatState,
    TextState,
)
from compiler.recogniser.parser_state import ParserState, StackFrame


class RestRules:
    """Collects rules of several grammars and rests of texts, and makes one grammar of them.

    The rest of a text that ends inside a character is None: no rules describe it. The grammar can be wider
    than what may follow: it has no guards, and for a guarded text it has the wider rule that is compiled.
    """

    def __init__(self) -> None:
        self._table = RuleTable()
        self._refs: dict[Hashable, RuleRef] = {}
        self._copies: dict[Network, _CopiedRules] = {}

    def grammar(self, root: Expr | None) -> Grammar | None:
        """The grammar of `root`, which refers to rules of this table."""
        return None if root is None else prune(self._table.grammar(Rule(root)))

    def rule(self, key: Hashable, build: Callable[[], Expr | None]) -> Expr | None:
        """The rule of a key; `build` makes its body, which may refer to the rule itself."""
        if key not in self._refs:
            self._refs[key] = ref = self._table.reserve("part")
            body = build()
            assert body is not None, "what begins after a text begins a character"
            self._table.fill(ref, Rule(body))
        return self._refs[key]

    def prose(self, *excludes: str) -> RuleRef:
        """Text that contains none of some texts."""
        return _prose(self._table, excludes)

    def whole(self, network: Network) -> Expr:
        """A sentence of a grammar."""
        return self._of(network).whole()

    def rest(self, state: ParserState) -> Expr | None:
        """What completes a text."""
        return self._of(state.network).rest(state)

    def _of(self, network: Network) -> "_CopiedRules":
        if network not in self._copies:
            self._copies[network] = _CopiedRules(network, self._table)
        return self._copies[network]


class _CopiedRules:
    """The rules of one grammar, and rests of its texts, as they are copied into a table."""

    def __init__(self, network: Network, table: RuleTable) -> None:
        self._network = network
        self._table = table
        self._refs: dict[str | ChoiceState | StackFrame, RuleRef] = {}
        """References to rules: by name, or by the choice or the frame that they are made of."""
        self._pending: list[tuple[RuleRef, Expr | ChoiceState | StackFrame]] = []

    def whole(self) -> Expr:
        """A sentence of the grammar."""
        ref = self._named(self._network.grammar.root)
        self._fill_pending()
        return ref

    def rest(self, state: ParserState) -> Expr | None:
        """What completes a text; None if the text ends inside a character."""
        if any(_is_in_character(inner) for states in state.live.values() for inner in states.consuming):
            return None
        body = union(
            concat(self._live(states, is_bottom=frame is state.bottom), self._after(frame))
            for frame, states in state.live.items()
        )
        self._fill_pending()
        return body

    def _live(self, states: StateSet, *, is_bottom: bool) -> Expr | None:
        """What completes the rule; what it calls is live in a frame of its own."""
        options = [self._sequence(inner) for inner in states.consuming]
        return union([*options, EMPTY] if states.is_end and is_bottom else options)

    def _after(self, frame: StackFrame) -> Expr:
        """What follows the rule of a frame."""
        return self._deferred(frame, frame, "after") if frame.callers else EMPTY

    def _named(self, name: str) -> RuleRef:
        """A rule of the grammar."""
        return self._deferred(name, self._network.grammar.rules[name].body, name)

    def _deferred(
        self, key: str | ChoiceState | StackFrame, source: Expr | ChoiceState | StackFrame, hint: str
    ) -> RuleRef:
        """A rule that is filled later, since it may lead back to itself or be nested deeply."""
        if key not in self._refs:
            self._refs[key] = ref = self._table.reserve(hint)
            self._pending.append((ref, source))
        return self._refs[key]

    def _fill_pending(self) -> None:
        while self._pending:
            ref, source = self._pending.pop()
            match source:
                case ChoiceState(options):
                    body = choice(*map(self._sequence, options))
                case StackFrame():
                    body = choice(*(self._returned(*caller) for caller in source.callers))
                case _:
                    body = self._copied(source)
            self._table.fill(ref, Rule(body))

    def _returned(self, states: StateSet, caller: StackFrame) -> Expr:
        """What follows a call: the states that it returns to, and what follows its caller."""
        return concat(choice(*map(self._sequence, states.states)), self._after(caller))

    def _sequence(self, state: NetworkState) -> Expr:
        """What completes a rule from a state on."""
        items: list[Expr] = []
        while not isinstance(state, EndState):
            match state:
                case LiteralState(text, at):
                    items.append(Literal(text[at:].decode()))
                case RepeatState(Repeat(item, 1, 1)):
                    items.append(item)
                case RepeatState(repeat):
                    items.append(repeat)
                case CallState(name):
                    items.append(self._named(name))
                case ProseState(forbidden):
                    items.append(_prose(self._table, tuple(text.decode() for text in forbidden.texts)))
                case TextState(automaton):
                    items.append(self._named(self._widened[automaton].name))
                    state = state.after  # the quote, which the widened rule reads
                    assert isinstance(state, LiteralState), "a guarded text ends with a quote"
                case ChoiceState():  # a rule, since many states may lead to it
                    return concat(*items, self._deferred(state, state, "rest"))
                case CharTailState():
                    raise AssertionError("a rule is inside a character only after what was read")
            state = state.after
        return concat(*items)

    def _copied(self, expr: Expr) -> Expr:
        match expr:
            case RuleRef(name) | GuardedText(_, RuleRef(name)):
                return self._named(name)
            case Concatenation(items):
                return concat(*map(self._copied, items))
            case Choice(options):
                return choice(*map(self._copied, options))
            case _:
                return expr

    @cached_property
    def _widened(self) -> Mapping[StringAutomaton, RuleRef]:
        """The rule that is compiled for each guarded text, by its automaton."""
        return {
            part.automaton: part.widened
            for rule in self._network.grammar.rules.values()
            for part in subexpressions(rule.body)
            if isinstance(part, GuardedText)
        }


def _prose(table: RuleTable, excludes: tuple[str, ...]) -> RuleRef:
    return table.define("text", Rule(Prose(excludes)))


def _is_in_character(state: NetworkState) -> bool:
    """Whether the text that led to a state ends inside a character."""
    match state:
        case LiteralState(text, at):
            return 0x80 <= text[at] < 0xC0
        case CharTailState():
            return True
        case _:
            return False
