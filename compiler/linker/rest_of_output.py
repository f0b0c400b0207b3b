"""What may still follow an output outside of units and answers: texts that complete it, and a grammar."""

from collections.abc import Iterator

from compiler.compiled_format import CompiledFormat
from compiler.grammar.grammar import EMPTY, Expr, Literal, concat, union
from compiler.linker.dispatch_states import DispatchState, FreeText, HeaderTarget
from compiler.linker.dispatcher import Dispatcher, Thought
from compiler.recogniser.rest_rules import RestRules
from compiler.recogniser.search_budget import SearchBudget
from compiler.vocabulary import MARKER_START


def completions_of_text(
    dispatcher: Dispatcher, text: FreeText, state: int, budget: SearchBudget
) -> Iterator[bytes]:
    """What completes an output from free text on, `state` bytes into what ends the text."""
    if text.may_stop:
        yield b""
    elif text.exit is not None:
        yield from completions_after(dispatcher, text.exit, text.held_back(state), budget)


def completions_after(
    dispatcher: Dispatcher, state: DispatchState, text: bytes, budget: SearchBudget
) -> Iterator[bytes]:
    """What completes an output after `text`, read from the beginning of a state on.

    These are the closing, the shortest call of each tool, with the shortest header first, and the header
    of each message in which the output may stop at once. Other messages are considered only where nothing
    else is possible, since they lead on to a further header. See `Closable.completions` for `budget`.
    """
    closing = state.closing_after(text)
    if closing is not None:
        yield closing
    headers = state.headers_after(text)
    are_all_open = all(_is_open(target) for _, target in headers)
    for header, target in sorted(headers, key=lambda each: len(each[0])):
        if isinstance(target, str):
            for call in dispatcher.units[target].shortest_texts(budget):
                yield header + call + dispatcher.shortest_closing
        elif isinstance(target, CompiledFormat):
            yield from (header + answer for answer in target.shortest_texts(budget))
        elif target.may_stop or are_all_open:
            rests = completions_of_text(dispatcher, target, 0, budget)
            yield from (header + rest for rest in rests)


def rest_of_text(dispatcher: Dispatcher, text: FreeText, state: int, rules: RestRules) -> Expr | None:
    """Free text and what follows it, `state` bytes into what ends the text."""
    options: list[Expr | None] = [EMPTY] if text.may_stop else []
    if text.exit is not None:
        options.append(_rest_from(dispatcher, text.exit, rules))
    prose = concat(_prose(text, rules), union(options))
    held_back = text.held_back(state)
    if not held_back or text.exit is None:
        return prose
    return union([rest_after(dispatcher, text.exit, held_back, rules), prose])


def rest_of_thought(dispatcher: Dispatcher, thought: Thought, rules: RestRules) -> Expr | None:
    """A thought, its end, and the answer."""
    end = literal(dispatcher.vocabulary.tokens[thought.end_id])
    return concat(_prose(thought.text, rules), end, dispatcher.begin_answer().rest(rules))


def rest_after(dispatcher: Dispatcher, state: DispatchState, text: bytes, rules: RestRules) -> Expr | None:
    """What follows `text`, read from the beginning of a state on.

    Where more than one tool may be called, it ends after the header of a call: the arguments of all tools
    together make a large grammar, of which an output needs little.
    """
    closing, headers = state.closing_after(text), state.headers_after(text)
    options = [] if closing is None else [literal(closing)]
    has_many_tools = len({target for _, target in headers if isinstance(target, str)}) > 1
    for header, target in headers:
        ends_here = isinstance(target, str) and has_many_tools
        rest = EMPTY if ends_here else _rest_of_target(dispatcher, target, rules)
        options.append(concat(literal(header), rest))
    return union(options)


def _rest_from(dispatcher: Dispatcher, state: DispatchState, rules: RestRules) -> Expr | None:
    """What follows from the beginning of a state on: a rule, since it may lead back there."""
    return rules.rule(state, lambda: rest_after(dispatcher, state, b"", rules))


def _rest_of_target(dispatcher: Dispatcher, target: HeaderTarget, rules: RestRules) -> Expr | None:
    """What a header leads to."""
    if isinstance(target, FreeText):
        return rules.rule(target, lambda: rest_of_text(dispatcher, target, 0, rules))
    if isinstance(target, CompiledFormat):
        return rules.whole(target.network)
    after = _rest_from(dispatcher, dispatcher.after_call, rules)
    return concat(rules.whole(dispatcher.units[target].network), after)


def _prose(text: FreeText, rules: RestRules) -> Expr:
    return rules.prose(text.pattern.decode(), MARKER_START)


def _is_open(target: HeaderTarget) -> bool:
    """Whether an output cannot end in what this header leads to."""
    return isinstance(target, FreeText) and not target.may_stop


def literal(text: bytes) -> Expr | None:
    """A text of the grammar; None if it begins inside a character."""
    try:
        return Literal(text.decode())
    except UnicodeDecodeError:
        return None
