"""The syntax of tool calls: what a model writes around names and arguments, and around its prose.

An output with calls is `opening call (separator call)* closing`, where a call is
`begin name after_name arguments end` and the arguments are a JSON object, or tagged parameters. In text,
`trigger` (how `opening begin` starts) is what tells a call from prose; after the last call the output ends.
Where a family frames its prose too, an output is a series of messages and a call or a last message. Texts
are written as a reader of the output sees them; `Vocabulary.spell` turns the marker tokens among them into
sentinels.
"""

import json
import re
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """Arguments as parameters in tags, each `begin key after_key value end`, one after the other.

    A string is its text as it is, every other value is JSON. `after_string_key` stands behind the key of a
    string, where the family tells them apart.
    """

    begin: str
    after_key: str
    end: str
    after_string_key: str | None = None

    @property
    def tells_strings(self) -> bool:
        """Whether a reader knows from the tag alone that a value is a string."""
        return self.after_string_key is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFrame:
    """Framed prose: `begin text end`. `is_thought`: not part of the answer.

    `is_last`: the output stops in its text instead.
    """

    begin: str
    end: str
    is_thought: bool = False
    is_last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax:
    """How one family of models spells a call: one row of `compiler.syntaxes`.

    `separator` None: one call an output. `after_number`: behind `after_name` stand the number of the call, as
    the model counts it, and this text. `has_plain_names`: a name stands in a call as it is, not escaped as
    in a JSON string. `other_headers` are (begin, after_name) that models write as well. `messages` are the
    frames of prose, the text between two of them `message_separator`; there is no trigger then. `thought` is
    what a model may begin with, where its vocabulary has markers for it. `may_answer`: an output that does
    not begin with the trigger is an answer in a given format.
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
    may_answer: bool = False

    @property
    def frames_prose(self) -> bool:
        """Whether some of an output is neither call nor answer, tools or not."""
        return bool(self.messages) or self.thought is not None

    @property
    def answering(self) -> "Syntax":
        """The row for an output that is an answer in a given format: no text of it leads into a call."""
        return replace(self, trigger="", may_answer=False)

    @property
    def calling_or_answering(self) -> "Syntax":
        """The row for an output that is calls, or an answer in a given format."""
        return replace(self, may_answer=True)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """What stands before and after a call's name, in every way it may be written."""
        return ((self.begin, self.after_name), *self.other_headers)

    @property
    def tag_texts(self) -> tuple[str, ...]:
        """Every tag of tagged arguments: what a raw text must not hold."""
        if self.tags is None:
            return ()
        fixed = (self.tags.end, self.tags.begin, self.tags.after_key, self.end, self.closing)
        pieces = (piece.strip() for text in fixed for piece in re.findall("<[^<]*", text))
        return tuple(dict.fromkeys(pieces))

    def header(self, name: str) -> str:
        """A call's text up to its arguments, where it has a number that of a first one."""
        number = "" if self.after_number is None else f"0{self.after_number}"
        return self.begin + self.spell_name(name) + self.after_name + number

    def spell_name(self, name: str) -> str:
        """A tool name as it stands in a call."""
        return name if self.has_plain_names else json.dumps(name, ensure_ascii=False)[1:-1]

    def can_spell(self, name: str) -> bool:
        """Whether a reader gets this name back out of a call."""
        if not self.has_plain_names:
            return True
        is_plain = not re.search(r"[\x00-\x20<>]", name)
        return is_plain and all(
            not after or (name + after).find(after) == len(name) for _, after in self.headers
        )
