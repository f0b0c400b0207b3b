r"""The parts of an output: prose, thoughts and calls, as a matcher tells them apart token by token.

A matcher knows for each token where in the syntax it stands, so nobody has to find calls in the text again.
What a token settles are parts (`Matcher.parts`). What it leaves open, such as the first bytes of what may
become a call, is pending (`Matcher.pending_parts`). Texts are bytes: a token can end inside a character.

In the syntax `hermes`, these tokens settle:

    Look:_                       TextPart(b"Look: ")
    <tool_call>                  nothing
    \n{"name": "                 nothing
    pay", "arguments": {         CallStart("pay"), ArgumentsPart(b"{")
    }}                           ArgumentsPart(b"}")
    \n</tool_call>               CallEnd()
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextPart:
    """More of the answer's text."""

    text: bytes


@dataclass(frozen=True, slots=True)
class ThoughtPart:
    """More of what the model thinks before it answers."""

    text: bytes


@dataclass(frozen=True, slots=True)
class CallStart:
    """A call begins: its name is complete."""

    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsPart:
    """More of the call's arguments: JSON, or tagged parameters as the syntax spells them."""

    text: bytes


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The call is complete."""


OutputPart = TextPart | ThoughtPart | CallStart | ArgumentsPart | CallEnd
