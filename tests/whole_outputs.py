"""Whole outputs: how calls are spelled, whether a grammar admits them, and what a reader gets out of them."""

from output_reader import OutputReader
from vocabularies import ids_of

from runtime.events import ArgumentsDelta, CallStarted, TextDelta


def admits(grammar, output):
    """Whether a model can write an output, markers as markers, and then stop."""
    matcher = grammar.matcher()
    return all(map(matcher.accept, ids_of(output, grammar.vocabulary))) and matcher.is_completed()


def admits_beginning(grammar, text):
    """Whether a model can begin its output with a text."""
    return all(map(grammar.matcher().accept, ids_of(text, grammar.vocabulary)))


def spell_calls(syntax, *calls):
    """The output that is some calls, each a name and its arguments as a model of the syntax writes them."""
    spelled = [syntax.header(name) + arguments + syntax.end for name, arguments in calls]
    return syntax.opening + (syntax.separator or "").join(spelled) + syntax.closing


def parse_calls(text, syntax, types_of=None):
    """The prose of a whole output, and the (name, arguments) of its calls; a call left open counts too."""
    parts = OutputReader(text, syntax, types_of).read()
    prose = "".join(part for kind, part in parts if kind == "TextPart")
    calls = []
    for kind, part in parts:
        if kind == "CallStart":
            calls.append((part, ""))
        elif kind == "ArgumentsPart":
            calls[-1] = (calls[-1][0], part)
    return prose, calls


def calls_of(events, choice=0):
    """The (name, arguments) of the calls in the events of a choice."""
    calls = {}
    for event in events:
        if event.choice == choice and isinstance(event, CallStarted):
            calls[event.index] = (event.name, "")
        if event.choice == choice and isinstance(event, ArgumentsDelta):
            name, arguments = calls[event.index]
            calls[event.index] = (name, arguments + event.text)
    return list(calls.values())


def text_of(events, choice=0):
    """The text in the events of a choice."""
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.choice == choice)
