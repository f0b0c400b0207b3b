"""The syntax of tool calls: what a model writes around names and arguments, and around its prose.

An output with calls is `opening call (separator call)* closing`, where a call is
`begin name after_name arguments end` and the arguments are a JSON object or tagged parameters. In text,
`trigger`, the beginning of `opening begin`, tells a call from prose. After the last call the output ends.

Some families frame their prose too. Then an output is a series of messages, and a call or a last message.

All texts are written here as a reader of the output sees them. `Vocabulary.spell` replaces the marker tokens
in them by sentinels.
"""

import json
import re
from dataclasses import dataclass

_written = json.JSONEncoder(ensure_ascii=False).encode
"""A text as JSON; a toolset may have two thousand names, and an encoder of its own for each takes long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """Arguments as parameters in tags: each is `begin key after_key value end`, one after the other.

    A string value is written as it is, without quotes or escapes; every other value is JSON. Where the family
    marks strings, `after_string_key` follows the key of a string.
    """

    begin: str
    after_key: str
    end: str
    after_string_key: str | None = None

    @property
    def tells_strings(self) -> bool:
        """Whether the tag itself tells a reader that a value is a string."""
        return self.after_string_key is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFrame:
    """How a model frames prose: `begin text end`.

    `is_thought`: the text is not part of the answer. `is_last`: `end` is not written, the output stops in the
    text.
    """

    begin: str
    end: str
    is_thought: bool = False
    is_last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax:
    """How one family of models spells a call: one row of `compiler.syntaxes`.

    | column | meaning |
    |---|---|
    | `separator` | None: an output has one call at most |
    | `after_number` | after `after_name` the model writes the call's number, as it counts calls, and this |
    | `has_plain_names` | a name is written as it is, not escaped as in a JSON string |
    | `other_headers` | other pairs of `begin` and `after_name` that models write |
    | `messages` | the frames of prose; a syntax that has some has no trigger |
    | `message_separator` | what is written between two messages |
    | `thought` | what an output may begin with, if the vocabulary has markers for it |
    """

    name: str
    begin: str
    after_name: str
    end: str
    separator: str | None
    trigger: str = ""
    opening: str = ""
    closing: str = ""
    item_separator: str = ", "
    key_separator: str = ": "
    has_plain_names: bool = False
    tags: Tags | None = None
    after_number: str | None = None
    other_headers: tuple[tuple[str, str], ...] = ()
    messages: tuple[MessageFrame, ...] = ()
    message_separator: str = ""
    thought: MessageFrame | None = None

    @property
    def frames_prose(self) -> bool:
        """Whether an output can contain prose that is neither a call nor the answer, even without tools."""
        return bool(self.messages) or self.thought is not None

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The texts before and after a call's name, in every variant."""
        return ((self.begin, self.after_name), *self.other_headers)

    @property
    def tag_texts(self) -> tuple[str, ...]:
        """Every tag of tagged arguments: a string without quotes must not contain any of them."""
        if self.tags is None:
            return ()
        fixed = (self.tags.end, self.tags.begin, self.tags.after_key, self.end, self.closing)
        pieces = (piece.strip() for text in fixed for piece in re.findall("<[^<]*", text))
        return tuple(dict.fromkeys(pieces))

    def header(self, name: str) -> str:
        """The text of a first call up to its arguments."""
        number = "" if self.after_number is None else f"0{self.after_number}"
        return self.begin + self.spell_name(name) + self.after_name + number

    def spell_name(self, name: str) -> str:
        """A tool name as it is written in a call."""
        return name if self.has_plain_names else _written(name)[1:-1]

    def can_spell(self, name: str) -> bool:
        """Whether a reader finds exactly this name in a call."""
        if not self.has_plain_names:
            return True
        is_plain = not re.search(r"[\x00-\x20<>]", name)
        return is_plain and all(
            not after or (name + after).find(after) == len(name) for _, after in self.headers
        )
