"""Messages and tools in, prompt token ids out."""

import dataclasses

import pytest
from transformers import AutoTokenizer

from runtime.errors import RequestRefused
from runtime.models.chatml import CHATML
from runtime.request import Message
from runtime.text.template import ChatTemplate
from toolspecs.tool import Tool, ToolCall

TOOL = Tool(
    "get_weather", "Weather of a city", {"type": "object", "properties": {"city": {"type": "string"}}}
)
CONVERSATION = (
    Message("system", "Be brief."),
    Message("user", "Weather in Ankara and Bonn?"),
    Message(
        "assistant",
        calls=(
            ToolCall("call_1", "get_weather", '{"city": "Ankara"}'),
            ToolCall("call_2", "get_weather", '{"city":"Bonn"}'),
        ),
    ),
    Message("tool", "sunny", call_id="call_1"),
    Message("tool", "rain", call_id="call_2"),
    Message("assistant", "Sun and rain."),
    Message("user", "Thanks"),
)
RENDERED = """\
<|im_start|>user
Weather in Ankara and Bonn?<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "get_weather", "arguments": {"city": "Ankara"}}
</tool_call>
<tool_call>
{"name": "get_weather", "arguments": {"city": "Bonn"}}
</tool_call><|im_end|>
<|im_start|>user
<tool_response>
sunny
</tool_response>
<tool_response>
rain
</tool_response><|im_end|>
<|im_start|>assistant
Sun and rain.<|im_end|>
<|im_start|>user
Thanks<|im_end|>
<|im_start|>assistant
"""


def test_results_are_shown_in_the_order_of_their_calls(tokenizer):
    ordered = list(CONVERSATION)
    swapped = [*ordered[:3], ordered[4], ordered[3], *ordered[5:]]
    assert render(tokenizer, swapped) == render(tokenizer, ordered)
    strange = dataclasses.replace(ordered[3], call_id="call_9")
    shown = render(tokenizer, [*ordered[:3], ordered[4], strange])
    assert shown.index("rain") < shown.index("sunny"), "as they came, where one answers another call"


@pytest.fixture(scope="module")
def loaded_tokenizer(random_model):
    return AutoTokenizer.from_pretrained(random_model)


@pytest.fixture
def tokenizer(loaded_tokenizer, monkeypatch):
    monkeypatch.setattr(loaded_tokenizer, "chat_template", CHATML)
    return loaded_tokenizer


def render(tokenizer, messages, tools=(), **options):
    return tokenizer.decode(ChatTemplate(tokenizer).token_ids(messages, tools, options))


def test_a_tool_is_shown_with_the_documents_it_refers_to(tokenizer):
    uri = "https://example.com/city"
    parameters = {"type": "object", "properties": {"city": {"$ref": uri}}, "$defs": {"a": {}}}
    tool = Tool("get_weather", "", parameters, documents={uri: {"enum": ["Ankara"]}})
    prompt = render(tokenizer, CONVERSATION[:2], [tool])
    assert uri in prompt
    assert "Ankara" in prompt.split("Weather in")[0]
    assert list(parameters["$defs"]) == ["a"]


def test_a_conversation_without_tools(tokenizer):
    expected = "<|im_start|>system\nBe brief.<|im_end|>\n" + RENDERED
    assert render(tokenizer, CONVERSATION) == expected
    assert render(tokenizer, CONVERSATION[1:]) == RENDERED


def test_tools_stand_in_the_system_message(tokenizer):
    text = render(tokenizer, CONVERSATION, [TOOL])
    system, rest = text.split("<|im_end|>\n", 1)
    assert rest == RENDERED
    assert system.startswith("<|im_start|>system\nBe brief.\n\n# Tools")
    assert (
        '{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city"'
        in system
    )


def test_markers_of_the_template_are_single_tokens(tokenizer):
    ids = ChatTemplate(tokenizer).token_ids(CONVERSATION)
    assert ids.count(tokenizer.convert_tokens_to_ids("<tool_call>")) == 2
    assert ids.count(tokenizer.eos_token_id) == 6


def test_arguments_reach_the_template_as_values(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", "{{ messages[0].tool_calls[0].function.arguments.city }}")
    assert render(tokenizer, CONVERSATION[2:3]) == "Ankara"


def test_options_reach_the_template(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", "{{ 'deep' if thinks else 'flat' }}")
    assert render(tokenizer, CONVERSATION, thinks=True) == "deep"


def test_call_ids_become_what_mistral_demands(tokenizer, monkeypatch):
    template = "{# length 9 #}{{ messages[0].tool_calls[0].id }} {{ messages[1].tool_call_id }}"
    monkeypatch.setattr(tokenizer, "chat_template", template)
    called, answered = render(tokenizer, CONVERSATION[2:4]).split()
    assert called == answered
    assert len(called) == 9
    assert called.isalnum()


def test_call_ids_become_what_kimi_writes(tokenizer, monkeypatch):
    template = (
        "{# <|tool_call_argument_begin|> #}{% for m in messages %}"
        "{{ m.tool_call_id or (m.tool_calls or [{}])[-1].id }} {% endfor %}"
    )
    monkeypatch.setattr(tokenizer, "chat_template", template)
    assert render(tokenizer, CONVERSATION[2:5]).split() == [
        "functions.get_weather:1",
        "functions.get_weather:0",
        "functions.get_weather:1",
    ]


@pytest.mark.parametrize(
    ("template", "messages", "options", "parameter", "match"),
    [
        (
            "{{ raise_exception('roles must alternate') }}",
            CONVERSATION,
            {},
            "messages",
            "roles must alternate",
        ),
        ("{{ messages[0].content.missing.deeper }}", CONVERSATION, {}, "messages", "missing"),
        ("", CONVERSATION, {}, "messages", "refuses|empty"),
        (CHATML, (), {}, "messages", "no messages"),
        (CHATML, CONVERSATION, {"tokenize": False}, "template_options", "tokenize"),
        (CHATML, CONVERSATION, {"self": 1}, "template_options", "self"),
        (
            CHATML,
            (Message("assistant", calls=(ToolCall("c", "f", "{"),)),),
            {},
            "messages",
            "arguments of call 'c'",
        ),
    ],
)
def test_what_a_template_refuses(tokenizer, monkeypatch, template, messages, options, parameter, match):
    monkeypatch.setattr(tokenizer, "chat_template", template)
    with pytest.raises(RequestRefused, match=match) as refused:
        render(tokenizer, messages, **options)
    assert refused.value.parameter == parameter


def test_a_thought_reaches_the_template(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", "{{ messages[0].reasoning_content }}")
    assert render(tokenizer, [Message("assistant", "b", thought="<think>a")]) == "<think>a"


def test_what_the_assistant_said_is_the_templates_to_read(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", "{{ messages[0].content.split('</think>')[-1] }}")
    assert render(tokenizer, [Message("assistant", "<think>a</think>b")]) == "b"
