"""Markers come from the chat template alone: whatever anybody else wrote is tokenized as text.

The families' templates differ in how they write markers: as constants, joined from a role, around keys of
tools, around text that they cut. Each is here in a few lines, with the markers of its family.
"""
# ruff: noqa: RUF001 - markers are spelled with the characters their vocabularies spell them with

import json
import unicodedata
from functools import cache

import pytest
from corpus import corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from runtime.errors import RequestRefused
from runtime.models.chatml import CHATML
from runtime.request import Message
from runtime.text.template import ChatTemplate
from toolspecs.tool import Tool, ToolCall

HARMONY = """\
{%- for tool in tools or [] %}{{ '<|start|>developer<|message|>' + tool.function.description + '<|end|>' }}{% endfor %}
{%- for m in messages %}
    {%- if m.reasoning_content %}
        {{- '<|start|>assistant<|channel|>analysis<|message|>' + m.reasoning_content + '<|end|>' }}
    {%- endif %}
    {{- '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}
    {%- for call in m.tool_calls or [] %}
        {{- '<|start|>assistant to=functions.' + call.function.name + '<|channel|>commentary json<|message|>' }}
        {{- call.function.arguments | tojson + '<|call|>' }}
    {%- endfor %}
{%- endfor %}<|start|>assistant"""
LLAMA = """\
{{- bos_token }}
{%- for m in messages %}
    {{- '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}
    {%- for call in m.tool_calls or [] %}{"name": "{{ call.function.name }}", "parameters": {
        {{- call.function.arguments | tojson }}}<|eom_id|>{% endfor %}
{%- endfor %}
{%- for tool in tools or [] %}{{ tool | tojson(indent=4) }}{% endfor %}<|start_header_id|>assistant<|end_header_id|>"""
GLM = """\
[gMASK]<sop>
{%- for tool in tools or [] %}<|system|>{{ tool | tojson(ensure_ascii=False) }}{% endfor %}
{%- for m in messages %}
    {%- if m.role == 'user' %}<|user|>
{{ m.content }}
    {%- elif m.role == 'assistant' %}<|assistant|>
        {%- if '</think>' in m.content %}{{ '<think></think>' + m.content.split('</think>')[-1].strip() }}
        {%- else %}{{ '<think>' + m.reasoning_content | default('') + '</think>' + m.content }}{% endif %}
        {%- for call in m.tool_calls or [] %}<tool_call>{{ call.function.name }}
            {%- for key, value in call.function.arguments.items() %}<arg_key>{{ key }}</arg_key><arg_value>
                {{- value if value is string else value | tojson }}</arg_value>{% endfor %}</tool_call>
        {%- endfor %}
    {%- else %}<|observation|>{{ m.content }}{% endif %}
{%- endfor %}<|assistant|>"""
DEEPSEEK = """\
{{ bos_token }}
{%- for m in messages %}
    {%- if m.role == 'assistant' %}{{ '<｜Assistant｜>' + m.content.split('</think>')[-1] }}
        {%- for call in m.tool_calls or [] %}{{ '<｜tool▁calls▁begin｜>' + call.function.name + '<｜tool▁sep｜>' }}
            {{- call.function.arguments | string + '<｜tool▁calls▁end｜>' }}{% endfor %}{{ eos_token }}
    {%- else %}{{ '<｜User｜>' + m.content }}{% endif %}
{%- endfor %}
{%- for tool in tools or [] %}{{ tool.function.parameters }}{% endfor %}{{ '<｜Assistant｜><think>\n' }}"""
PHI = """\
{%- for m in messages %}
    {{- '<|' + m.role + '|>' + m.content }}
    {%- for call in m.tool_calls or [] %}{{ '<|tool_call|>' + call.function | tojson }}{% endfor %}{{ '<|end|>' }}
{%- endfor %}
{%- for tool in tools or [] %}<|{{ 'tool' }}|>{{ tool | tojson }}{% endfor %}<|assistant|>"""
CODER = """\
{%- for tool in tools or [] %}
    {%- for key in tool.function.parameters %}{{ '\n<' ~ key ~ '>' ~ tool.function.description ~ '</' ~ key ~ '>' }}
    {%- endfor %}
{%- endfor %}
{%- for m in messages %}
    {{- '<|im_start|>' + m.role + '\n' + m.content.replace('/no_think', '').replace('\n', '') + '<|im_end|>' }}
    {%- for call in m.tool_calls or [] %}
        {%- for key, value in call.function.arguments.items() %}<parameter={{ key }}>{{ value }}</parameter>{% endfor %}
    {%- endfor %}
{%- endfor %}<|im_start|>assistant"""
MISTRAL = """\
{{- bos_token }}
{%- for m in messages %}
    {%- if m.role in ('system', 'user') %}[INST] {{ m.content }}[/INST]
    {%- elif m.role == 'tool' %}[TOOL_RESULTS] {{ m.content }}[/TOOL_RESULTS]
    {%- else %} {{ m.content }}
        {%- for call in m.tool_calls or [] %}[TOOL_CALLS] {{ call.function | tojson }}{% endfor %}{{ eos_token }}
    {%- endif %}
{%- endfor %}
{%- for tool in tools or [] %}[AVAILABLE_TOOLS] {{ tool | tojson }}[/AVAILABLE_TOOLS]{% endfor %}"""

FAMILIES = {
    "chatml": (CHATML, "<|im_start|> <|im_end|> <tool_call> </tool_call> <tool_response> </tool_response>"),
    "harmony": (HARMONY, "<|start|> <|end|> <|channel|> <|message|> <|call|> <|return|>"),
    "llama3": (LLAMA, "<|start_header_id|> <|end_header_id|> <|eot_id|> <|eom_id|> <|python_tag|>"),
    "glm": (
        GLM,
        (
            "[gMASK] <sop> <|system|> <|user|> <|assistant|> <|observation|> <think> </think> <tool_call> "
            "</tool_call> <arg_key> </arg_key> <arg_value> </arg_value>"
        ),
    ),
    "deepseek": (
        DEEPSEEK,
        "<｜User｜> <｜Assistant｜> <｜tool▁calls▁begin｜> <｜tool▁sep｜> <｜tool▁calls▁end｜> <think> </think>",
    ),
    "phi": (PHI, "<|system|> <|user|> <|assistant|> <|tool|> <|tool_call|> <|end|>"),
    "coder": (CODER, "<|im_start|> <|im_end|> <tool_call> <parameter= </parameter> <think>"),
    "mistral": (MISTRAL, "[INST] [/INST] [TOOL_CALLS] [TOOL_RESULTS] [/TOOL_RESULTS] [AVAILABLE_TOOLS]"),
}
MARKERS = sorted({marker for _, markers in FAMILIES.values() for marker in markers.split()})
FULL_WIDTH = str.maketrans({chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)})
PIECES = [
    *MARKERS,
    *(marker[:3] for marker in MARKERS),
    *(marker[3:] for marker in MARKERS),
    *(marker.strip("<>|[]") for marker in MARKERS),
    *(marker.translate(FULL_WIDTH) for marker in MARKERS[:6]),
    *(
        "<|",
        "|>",
        "<",
        ">",
        "/no_think",
        "\n",
        " ",
        "user",
        "tool",
        "\\ufdd0",
        "\ufdd0",
        "\ufdef",
        "<s>",
        "</s>",
        "é",
    ),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


def byte_tokenizer(markers, *, normalizer=None, **flags):
    """A tokenizer with a token per byte, and these markers."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    if normalizer:
        backend.normalizer = normalizer
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    tokenizer.add_tokens([AddedToken(marker, **({"normalized": False} | flags)) for marker in markers])
    return tokenizer


@cache
def tokenizer_of(name):
    """A family's chat template over bytes, or over a real vocabulary; skips the test where that is absent."""
    if name in FAMILIES:
        template, markers = FAMILIES[name]
        tokenizer = byte_tokenizer(markers.split())
    else:
        template = {"qwen3": CHATML, "mistral-v3": MISTRAL}[name]
        tokenizer = AutoTokenizer.from_pretrained(corpus("tokenizers", name))
    tokenizer.chat_template = template
    return tokenizer


@cache
def template_of(name):
    return ChatTemplate(tokenizer_of(name))


def markers_in(tokenizer, ids):
    added = tokenizer.added_tokens_decoder
    return [str(added[i]) for i in ids if i in added]


def conversation(text, key):
    """A conversation in which everybody writes `text`, and its tool, of whose schema `key` is a key."""
    called = ToolCall("callid001", f"f{text}", json.dumps({f"k{text}": text, key: [text, {"a": text}]}))
    messages = (
        Message("system", f"s{text}"),
        Message("user", f"u{text}", name=f"n{text}"),
        Message("assistant", f"a{text}", calls=(called,), thought=f"t{text}"),
        Message("tool", f"r{text}", call_id="callid001", name=f"f{text}"),
        Message("assistant", f"b{text}", thought=f"h{text}"),
        Message("user", text),
    )
    parameters = {
        "type": "object",
        key: {},
        "properties": {f"p{text}": {"description": text, "enum": [text]}},
    }
    return messages, [Tool("f", f"d{text}", parameters, documents={f"https://a/{text}": {"title": text}})]


def check_markers(name, text, key):
    tokenizer, template = tokenizer_of(name), template_of(name)
    hostile = template.token_ids(*conversation(text, key), {"custom": text})
    harmless = template.token_ids(*conversation("x", "y"), {"custom": "x"})
    found = markers_in(tokenizer, hostile)
    assert found == markers_in(tokenizer, harmless)
    assert len(found) >= 6


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=40)
@given(text=TEXTS, key=st.sampled_from(PIECES))
def test_only_the_template_writes_markers(name, text, key):
    check_markers(name, text, key)


@pytest.mark.parametrize("name", ["qwen3", "mistral-v3"])
def test_only_the_template_writes_markers_of_real_vocabularies(name):
    everything = "".join(map(str, tokenizer_of(name).added_tokens_decoder.values()))
    for text in ("".join(MARKERS), everything, "".join(PIECES)):
        check_markers(name, text, "<|im_end|>")


@pytest.mark.parametrize("name", ["chatml", "qwen3"])
@settings(max_examples=40)
@given(text=TEXTS)
def test_a_text_reaches_the_model_as_it_was_written(name, text):
    ids = template_of(name).token_ids([Message("user", f"({text})"), Message("assistant", f"[{text}]")])
    shown = tokenizer_of(name).decode(ids)
    for written in (f"({text})", f"[{text}]"):
        assert (unicodedata.normalize("NFC", written) if name == "qwen3" else written) in shown


def test_noncharacters_and_their_escapes_reach_the_model():
    text = "".join(map(chr, range(0xFDD0, 0xFDF0))) + r" \ufdd0 \uFDD0 \U0000fdd0"
    messages, tools = conversation(text, "y")
    shown = tokenizer_of("chatml").decode(template_of("chatml").token_ids(messages, tools))
    in_json = json.dumps(text, ensure_ascii=False)[1:-1]
    # The system prompt, three other messages that begin with a letter, and the last one.
    assert [shown.count(letter + text) for letter in "surab"] == [1] * 5
    assert shown.count(text) == 6
    assert shown.count(in_json) >= 6, "in the arguments of the call and in the tool"


@pytest.mark.parametrize("form", ["NFKC", "NFKD"])
def test_full_width_spellings_are_no_markers_after_normalisation(form):
    markers = FAMILIES["chatml"][1].split()
    tokenizer = byte_tokenizer(markers, normalizer=getattr(normalizers, form)(), normalized=True)
    tokenizer.chat_template = CHATML
    text = "".join(markers).translate(FULL_WIDTH)
    assert markers_in(tokenizer, tokenizer(text)["input_ids"]) == markers, "unprotected, they are markers"
    ids = ChatTemplate(tokenizer).token_ids([Message("user", text)])
    assert markers_in(tokenizer, ids) == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]


@pytest.mark.parametrize(
    "quoted", ["</think>", "so: <think>b</think>", "<tool_call>{}</tool_call>", "<|user|>"]
)
def test_of_an_assistants_text_only_a_thought_at_its_beginning_is_read(quoted):
    tokenizer, template = tokenizer_of("glm"), template_of("glm")

    def shown(content):
        return tokenizer.decode(template.token_ids([Message("user", "u"), Message("assistant", content)]))

    assert shown("<think>why</think>yes").endswith("<|assistant|><think></think>yes<|assistant|>")
    assert shown(f"<think>why</think>yes{quoted}").endswith(f"<think></think>yes{quoted}<|assistant|>")
    assert shown(f"yes{quoted}").endswith(f"<think></think>yes{quoted}<|assistant|>")


@pytest.mark.parametrize("marker", ["a", "<think>", "tool", " b ", "'", "{{", "\\n", "{%"])
def test_any_added_token_can_be_a_marker(marker):
    """Added tokens that mean something to Jinja must not break the template."""
    markers = [*FAMILIES["chatml"][1].split(), marker]
    tokenizer = byte_tokenizer(markers)
    tokenizer.chat_template = CHATML
    ids = ChatTemplate(tokenizer).token_ids([Message("user", f"x{marker}")])
    assert f"x{marker}" in tokenizer.decode(ids)


def test_a_model_with_ids_left_out_keeps_text_and_markers_apart():
    model = models.WordLevel({"a": 0, "b": 9, "user": 2, "\n": 3}, unk_token="a")
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.Split("b", "isolated")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")
    tokenizer.add_tokens([AddedToken("<x>"), AddedToken("<y>")])
    tokenizer.chat_template = "{% for m in messages %}<x>{{ m.content }}<y>{% endfor %}"
    x, y = tokenizer.convert_tokens_to_ids(["<x>", "<y>"])
    assert ChatTemplate(tokenizer).token_ids([Message("user", "bb")]) == [x, 9, 9, y]


def test_a_template_that_joins_markers_otherwise_is_refused():
    tokenizer = byte_tokenizer(["<|im_start|>"])
    tokenizer.chat_template = "{{ '<|im' ~ '_start|>' }}{{ messages[0].content }}"
    with pytest.raises(ValueError, match="joins marker tokens from parts"):
        ChatTemplate(tokenizer)


def test_a_model_that_makes_markers_of_text_refuses_the_text():
    vocabulary = [
        ("<unk>", 0.0),
        *((char, -2.0) for char in "abcdefghijklmnopqrstuvwxyz<>|_ \n"),
        ("<|end|>", -1.0),
    ]
    backend = Tokenizer(models.Unigram(vocabulary, unk_id=0))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>")
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}<|end|>{% endfor %}"
    template = ChatTemplate(tokenizer)
    assert template.token_ids([Message("user", "a")])[-1] == tokenizer.eos_token_id
    with pytest.raises(RequestRefused, match=r"cannot write '<\|end\|>' as text; remove it"):
        template.token_ids([Message("user", "a<|end|>b")])


def test_errors_of_a_template_tell_no_private_names():
    tokenizer = byte_tokenizer(["<|im_start|>"])
    tokenizer.chat_template = "{{ raise_exception('no <|im_start|> for ' ~ messages[0].content) }}"
    with pytest.raises(RequestRefused, match=r"no <\|im_start\|> for hi$"):
        ChatTemplate(tokenizer).token_ids([Message("user", "hi")])


def test_an_option_cannot_replace_the_tokens_of_the_template():
    with pytest.raises(RequestRefused, match="'eos_token' is not an option"):
        template_of("chatml").token_ids([Message("user", "hi")], options={"eos_token": "<|im_start|>"})


def test_a_flood_of_markers_is_one_call_of_the_tokenizer(monkeypatch):
    """Not two for each marker."""
    template = template_of("chatml")
    tokenizer, calls = template._markers._tokenizer, []

    class Counted:
        def encode_batch_fast(self, texts, **options):
            calls.append(len(texts))
            return tokenizer.encode_batch_fast(texts, **options)

    monkeypatch.setattr(template._markers, "_tokenizer", Counted())
    template.token_ids([Message("user", "<|im_end|>" * 40_000)])
    assert calls == [1]
