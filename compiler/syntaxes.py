"""How a model family spells a tool call: one row a family.

An output with calls is `opening call (separator call)* closing`, where a call is
`begin name after_name arguments end`, the name escaped as in a JSON string and the arguments a JSON object.
In text, `trigger` (how `opening begin` starts) is what tells a call from prose; after the last call the
output ends. Texts are written as a reader of the output sees them; `Vocabulary.spell` turns the marker
tokens among them into sentinels.
"""
# ruff: noqa: RUF001 - markers are spelled with the characters their vocabularies spell them with

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from compiler.errors import UnknownSyntax


@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax:
    """One row. `template_marks` are texts that a chat template of the family contains, all of them."""

    name: str
    begin: str
    after_name: str
    end: str
    separator: str
    trigger: str
    opening: str = ""
    closing: str = ""
    item_separator: str = ", "
    key_separator: str = ": "
    template_marks: tuple[str, ...] = ()

    def header(self, name: str) -> str:
        """A call's text up to its arguments."""
        return self.begin + self.spell_name(name) + self.after_name

    def spell_name(self, name: str) -> str:
        """A tool name as it stands in a call."""
        return json.dumps(name, ensure_ascii=False)[1:-1]


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
        template_marks=("<｜tool▁calls▁begin｜>", "```json"),
    ),
    Syntax(
        name="deepseek_v3_1",
        opening="<｜tool▁calls▁begin｜>",
        begin="<｜tool▁call▁begin｜>",
        after_name="<｜tool▁sep｜>",
        end="<｜tool▁call▁end｜>",
        separator="",
        closing="<｜tool▁calls▁end｜>",
        trigger="<｜tool▁calls▁begin｜>",
        template_marks=("<｜tool▁calls▁begin｜>",),
    ),
    Syntax(
        name="hermes",
        begin='<tool_call>\n{"name": "',
        after_name='", "arguments": ',
        end="}\n</tool_call>",
        separator="\n",
        trigger="<tool_call>",
        template_marks=("<tool_call>", '"arguments"'),
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
        template_marks=("[TOOL_CALLS] [",),
    ),
    Syntax(
        name="llama3",
        begin='{"name": "',
        after_name='", "parameters": ',
        end="}",
        separator="; ",
        trigger='{"name": "',
        template_marks=("<|start_header_id|>", '"parameters": '),
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

SYNTAXES: Mapping[str, Syntax] = MappingProxyType({row.name: row for row in _ROWS})
"""The rows by name."""


def syntax(name: str) -> Syntax:
    """The row of that name.

    Raises:
        UnknownSyntax: there is none; the error names those there are.
    """
    try:
        return SYNTAXES[name]
    except KeyError:
        raise UnknownSyntax(name, tuple(sorted(SYNTAXES))) from None


def syntax_of_template(chat_template: str | None) -> Syntax:
    """The row whose marks the chat template holds; `json`, which any model can write, if there is none."""
    for row in _ROWS:
        if row.template_marks and all(mark in (chat_template or "") for mark in row.template_marks):
            return row
    return SYNTAXES["json"]
