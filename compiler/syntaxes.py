"""How a model family spells a tool call: one row a family.

An output with calls is `opening call (separator call)* closing`, where a call is
`begin name after_name arguments end` and the arguments are a JSON object, or tagged parameters. In text,
`trigger` (how `opening begin` starts) is what tells a call from prose; after the last call the output ends.
Where a family frames its prose too, an output is a series of messages and a call or a last message. Texts
are written as a reader of the output sees them; `Vocabulary.spell` turns the marker tokens among them into
sentinels.
"""
# ruff: noqa: RUF001 - markers are spelled with the characters their vocabularies spell them with

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from compiler.errors import UnknownSyntax


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
class Message:
    """Framed prose: `begin text end`. `is_thought`: not part of the answer.

    `is_last`: the output stops in its text instead.
    """

    begin: str
    end: str
    is_thought: bool = False
    is_last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax:
    """One row.

    `separator` None: one call an output. `after_number`: behind `after_name` stand the number of the call, as
    the model counts it, and this text. `has_plain_names`: a name stands in a call as it is, not escaped as
    in a JSON string. `other_headers` are (begin, after_name) that models write as well. `messages` are the
    frames of prose, the text between two of them `message_separator`; there is no trigger then. `thought` is
    what a model may begin with, where its vocabulary has markers for it.
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
    messages: tuple[Message, ...] = ()
    message_separator: str = ""
    thought: Message | None = None

    @property
    def frames_prose(self) -> bool:
        """Whether some of an output is neither call nor answer, tools or not."""
        return bool(self.messages) or self.thought is not None

    @property
    def answering(self) -> "Syntax":
        """The row for an output that is an answer in a given format: no text of it leads into a call."""
        return replace(self, trigger="")

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


def _dsml(name: str, calls: str, space: str = "") -> Syntax:
    """The rows of DeepSeek's markup, which differ in little."""
    return Syntax(
        name=name,
        opening=f"<｜DSML｜{calls}>\n",
        begin=f'<｜DSML｜{space}invoke name="',
        after_name='">\n',
        tags=Tags(
            begin=f'<｜DSML｜{space}parameter name="',
            after_key='" string="false">',
            after_string_key='" string="true">',
            end=f"</｜DSML｜{space}parameter>\n",
        ),
        end=f"</｜DSML｜{space}invoke>\n",
        separator="",
        closing=f"</｜DSML｜{calls}>",
        trigger=f"<｜DSML｜{calls}>",
        has_plain_names=True,
    )


_ROWS = (
    Syntax(
        name="deepseek_v3",
        opening="<｜tool▁calls▁begin｜>",
        begin="<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
        after_name="\n```json\n",
        end="\n```<｜tool▁call▁end｜>",
        separator="\n",
        closing="<｜tool▁calls▁end｜>",
        trigger="<｜tool▁calls▁begin｜>",
    ),
    _dsml("deepseek_v3_2", "function_calls"),
    _dsml("deepseek_v4", "tool_calls"),
    _dsml("deepseek_v4_1", " calls", " "),
    Syntax(
        name="deepseek_v3_1",
        opening="<｜tool▁calls▁begin｜>",
        begin="<｜tool▁call▁begin｜>",
        after_name="<｜tool▁sep｜>",
        end="<｜tool▁call▁end｜>",
        separator="",
        closing="<｜tool▁calls▁end｜>",
        trigger="<｜tool▁calls▁begin｜>",
    ),
    Syntax(
        name="exaone",
        begin='<tool_call>{"name": "',
        after_name='", "arguments": ',
        end="}</tool_call>",
        separator="\n",
        trigger="<tool_call>",
    ),
    Syntax(
        name="glm_4_5",
        begin="<tool_call>",
        after_name="\n",
        tags=Tags(begin="<arg_key>", after_key="</arg_key>\n<arg_value>", end="</arg_value>\n"),
        end="</tool_call>",
        separator="\n",
        trigger="<tool_call>",
        has_plain_names=True,
    ),
    Syntax(
        name="glm_4_7",
        begin="<tool_call>",
        after_name="",
        tags=Tags(begin="<arg_key>", after_key="</arg_key><arg_value>", end="</arg_value>"),
        end="</tool_call>",
        separator="",
        trigger="<tool_call>",
        has_plain_names=True,
    ),
    Syntax(
        name="harmony",
        begin="<|channel|>commentary to=functions.",
        after_name=" <|constrain|>json<|message|>",
        other_headers=(
            ("<|channel|>commentary to=functions.", "<|constrain|>json<|message|>"),
            (" to=functions.", "<|channel|>commentary <|constrain|>json<|message|>"),
            (" to=functions.", "<|channel|>commentary json<|message|>"),
        ),
        end="<|call|>",
        separator=None,
        messages=(
            Message(begin="<|channel|>analysis<|message|>", end="<|end|>", is_thought=True),
            Message(begin="<|channel|>commentary<|message|>", end="<|end|>"),
            Message(begin="<|channel|>final<|message|>", end="<|end|>", is_last=True),
        ),
        message_separator="<|start|>assistant",
        has_plain_names=True,
    ),
    Syntax(
        name="hermes",
        begin='<tool_call>\n{"name": "',
        after_name='", "arguments": ',
        end="}\n</tool_call>",
        separator="\n",
        trigger="<tool_call>",
    ),
    Syntax(
        name="kimi",
        opening="<|tool_calls_section_begin|>",
        begin="<|tool_call_begin|>functions.",
        after_name=":",
        after_number="<|tool_call_argument_begin|>",
        end="<|tool_call_end|>",
        separator="",
        closing="<|tool_calls_section_end|>",
        trigger="<|tool_calls_section_begin|>",
        has_plain_names=True,
    ),
    Syntax(
        name="mimo",
        begin="<tool_call><function=",
        after_name=">",
        tags=Tags(begin="<parameter=", after_key=">", end="</parameter>"),
        end="</function></tool_call>",
        separator="",
        trigger="<tool_call>",
        has_plain_names=True,
    ),
    Syntax(
        name="minimax",
        opening="<minimax:tool_call>\n",
        begin='<invoke name="',
        after_name='">\n',
        tags=Tags(begin='<parameter name="', after_key='">', end="</parameter>\n"),
        end="</invoke>\n",
        separator="",
        closing="</minimax:tool_call>",
        trigger="<minimax:tool_call>",
        has_plain_names=True,
    ),
    Syntax(
        name="mistral",
        opening="[TOOL_CALLS] [",
        begin='{"name": "',
        after_name='", "arguments": ',
        end="}",
        separator=", ",
        closing="]",
        trigger="[TOOL_CALLS]",
    ),
    Syntax(
        name="mistral_v13",
        begin="[TOOL_CALLS]",
        after_name="[ARGS]",
        end="",
        separator="",
        trigger="[TOOL_CALLS]",
        has_plain_names=True,
    ),
    Syntax(
        name="qwen3_coder",
        begin="<tool_call>\n<function=",
        after_name=">\n",
        tags=Tags(begin="<parameter=", after_key=">\n", end="\n</parameter>\n"),
        end="</function>\n</tool_call>",
        separator="\n",
        trigger="<tool_call>",
        has_plain_names=True,
    ),
    Syntax(
        name="llama3",
        begin='{"name": "',
        after_name='", "parameters": ',
        end="}",
        separator="; ",
        trigger='{"name": "',
    ),
    Syntax(
        name="json",
        opening="[",
        begin='{"name": "',
        after_name='", "arguments": ',
        end="}",
        separator=", ",
        closing="]",
        trigger='[{"name": "',
    ),
)

THINK = "+think"
"""Behind the name of a row: its models think first, between `<think>` and `</think>`."""
_THOUGHT = Message(begin="<think>", end="</think>", is_thought=True)

SYNTAXES: Mapping[str, Syntax] = MappingProxyType({row.name: row for row in _ROWS})
"""The rows by name."""


_MARKS = (
    ("harmony", ("<|channel|>", "<|message|>", "functions")),
    ("deepseek_v4_1", ("<｜DSML｜ calls>",)),
    ("deepseek_v4", ("<｜DSML｜tool_calls>",)),
    ("deepseek_v3_2", ("<｜DSML｜function_calls>",)),
    ("deepseek_v3", ("<｜tool▁calls▁begin｜>", "```json")),
    ("deepseek_v3_1", ("<｜tool▁calls▁begin｜>",)),
    ("kimi", ("<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>")),
    ("minimax", ("minimax:tool_call", "<invoke name=")),
    ("glm_4_7", ("</arg_key><arg_value>",)),
    ("glm_4_5", ("<arg_key>", "<arg_value>")),
    ("mimo", ("<tool_call><function=",)),
    ("qwen3_coder", ("<tool_call>", "<function=", "<parameter=")),
    ("exaone", ("<tool_call>{", "[|assistant|]")),
    ("hermes", ("<tool_call>", '"arguments"')),
    ("mistral", ("[TOOL_CALLS] [",)),
    ("mistral_v13", ("[TOOL_CALLS]", "[ARGS]")),
    ("llama3", ("<|start_header_id|>", '"parameters": ')),
    ("llama3", ("<|header_start|>", '"parameters": ')),
)
"""Texts that a chat template of the family contains, all of them; the first row that fits is it."""


def syntax(name: str) -> Syntax:
    """The row of that name, or (`hermes+think`) the row for models that think first.

    Raises:
        UnknownSyntax: there is none; the error names those there are.
    """
    row = SYNTAXES.get(name.removesuffix(THINK))
    if row is None or (row.messages and name.endswith(THINK)):
        raise UnknownSyntax(name, tuple(sorted(SYNTAXES)))
    return replace(row, name=name, thought=_THOUGHT) if name.endswith(THINK) else row


def syntax_of_template(chat_template: str | None) -> Syntax:
    """The row whose marks the chat template holds; `json`, which any model can write, if there is none.

    Where the template knows the end of a thought, the model thinks first.
    """
    template = chat_template or ""
    fitting = (name for name, marks in _MARKS if all(mark in template for mark in marks))
    row = SYNTAXES[next(fitting, "json")]
    return syntax(row.name + THINK) if _THOUGHT.end in template and not row.messages else row
