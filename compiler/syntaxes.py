"""How each family of models spells a tool call: one row per family (columns: `compiler.syntax`)."""
# ruff: noqa: RUF001 - markers are spelled with the characters their vocabularies spell them with

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from compiler.errors import UnknownSyntax
from compiler.syntax import MessageFrame, Syntax, Tags


def _dsml(name: str, calls: str, space: str = "") -> Syntax:
    """A row of DeepSeek's markup; its versions differ only in these texts."""
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
            MessageFrame(begin="<|channel|>analysis<|message|>", end="<|end|>", is_thought=True),
            MessageFrame(begin="<|channel|>commentary<|message|>", end="<|end|>"),
            MessageFrame(begin="<|channel|>final<|message|>", end="<|end|>", is_last=True),
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
"""A suffix to the name of a row: models think first, between `<think>` and `</think>`."""
_THOUGHT = MessageFrame(begin="<think>", end="</think>", is_thought=True)

SYNTAXES: Mapping[str, Syntax] = MappingProxyType({row.name: row for row in _ROWS})
"""The rows by name."""


_TEMPLATE_TEXTS = (
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
"""Texts that chat templates of a family contain. The first row whose texts are all there wins."""


def find_syntax(name: str) -> Syntax:
    """The row of that name; with the suffix `+think`, the row for models that think first.

    Raises:
        UnknownSyntax: there is no such row; the error names all rows.
    """
    row = SYNTAXES.get(name.removesuffix(THINK))
    if row is None or (row.messages and name.endswith(THINK)):
        raise UnknownSyntax(name, tuple(sorted(SYNTAXES)))
    return replace(row, name=name, thought=_THOUGHT) if name.endswith(THINK) else row


def syntax_of_template(chat_template: str | None) -> Syntax:
    """The row whose texts the chat template contains; if there is none, `json`, which any model can write.

    If the template contains the end of a thought, models think first.
    """
    template = chat_template or ""
    fitting = (name for name, texts in _TEMPLATE_TEXTS if all(text in template for text in texts))
    row = SYNTAXES[next(fitting, "json")]
    return find_syntax(row.name + THINK) if _THOUGHT.end in template and not row.messages else row
