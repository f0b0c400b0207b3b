"""What other servers' clients send is left out and named; slips, and what would change an answer, are refused."""

from dataclasses import replace
from urllib.parse import unquote

import pytest
from apis import CHAT, COMPLETIONS, MESSAGES, RESPONSES, TOOL_CALL, USER
from chat import URL, body

from gateway.errors import InvalidField
from gateway.wire.field_reader import MAX_IGNORED
from gateway.wire.openai import read_request
from gateway.wire.responses import read_request as read_responses_request
from runtime.errors import PromptTooLong
from runtime.request import Message
from toolspecs.errors import InvalidTools

WEATHER = {"name": "f", "parameters": {"type": "object", "properties": {}}}


def fed_back(**fields):
    """A message that a client got from a server and sends back."""
    return body(messages=[USER, {"role": "assistant", "content": "Hello", **fields}])


SENT = [
    # LiteLLM, OpenRouter and openai's own `.stream()` and `.parse()` feed these back.
    (fed_back(provider_specific_fields={"x": 1}), "messages[].provider_specific_fields"),
    (fed_back(reasoning="Hm", reasoning_details=[]), "messages[].reasoning, messages[].reasoning_details"),
    (fed_back(parsed={"a": 1}), "messages[].parsed"),
    (fed_back(extra_content={"google": {}}), "messages[].extra_content"),
    (fed_back(annotations=[{"type": "url_citation"}]), ""),
    (fed_back(refusal=None, parsed=None), ""),
    (
        fed_back(tool_calls=[TOOL_CALL | {"function": TOOL_CALL["function"] | {"parsed_arguments": {}}}]),
        "messages[].tool_calls[].function.parsed_arguments",
    ),
    (
        body(messages=[{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {}}]}]),
        "messages[].content[].cache_control",
    ),
    (
        body(tools=[{"type": "function", "function": WEATHER, "cache_control": {"type": "ephemeral"}}]),
        "tools[].cache_control",
    ),
    (body(tools=[{"type": "function", "function": WEATHER | {"x_hint": 1}}]), "tools[].x_hint"),
    # What people configure, and what other servers understand.
    (body(verbosity="low"), "verbosity"),
    (body(verbosity="medium"), ""),
    (body(prediction={"type": "content", "content": "x"}), "prediction"),
    (body(service_tier="flex"), "service_tier"),
    (body(store=True), "store"),
    (body(skip_special_tokens=False), "skip_special_tokens"),
    (body(skip_special_tokens=True, add_generation_prompt=True), ""),
    (body(guided_decoding_backend="outlines", guided_regex="a+"), "guided_decoding_backend"),
    (body(plugins=[{"id": "web"}], transforms=None), "plugins"),
    (
        body(stream=True, stream_options={"continuous_usage_stats": True}),
        "stream_options.continuous_usage_stats",
    ),
    (body(stream=True, stream_options={"include_obfuscation": True}), "stream_options.include_obfuscation"),
    (body(stream=True, stream_options={"include_obfuscation": False}), ""),
    (body(stop=["}"], response_format={"type": "json_object"}), "stop"),
]


@pytest.mark.parametrize(("sent", "named"), SENT, ids=[named or "nothing" for _, named in SENT])
def test_what_changes_no_answer_is_left_out_and_named(sent, named):
    assert ", ".join(read_request(sent).ignored) == named
    if named:
        with pytest.raises((InvalidField, InvalidTools)):
            read_request(sent, is_strict=True)


LEFT_OUT_OF_RESPONSES = [
    ({"include": ["file_search_call.results"]}, "include[].file_search_call.results"),
    ({"text": {"verbosity": "low"}}, "text.verbosity"),
    ({"reasoning": {"effort": "low", "summary": "auto"}}, "reasoning.summary"),
    ({"input": [{**USER, "cache_control": {}}]}, "input[].cache_control"),
]


@pytest.mark.parametrize(
    ("fields", "named"), LEFT_OUT_OF_RESPONSES, ids=[named for _, named in LEFT_OUT_OF_RESPONSES]
)
def test_what_changes_no_response_is_left_out_and_named(fields, named):
    sent = RESPONSES.body(**fields)
    assert ", ".join(read_responses_request(sent).ignored) == named
    with pytest.raises(InvalidField) as refused:
        read_responses_request(sent, is_strict=True)
    assert refused.value.param.split(".")[0].split("[")[0] == named.split(".")[0].split("[")[0]


def test_a_flood_of_unknown_fields_is_refused():
    with pytest.raises(InvalidField, match=f"more than {MAX_IGNORED}"):
        read_request(body(**{f"zz{i}": 1 for i in range(100_000)}))


def test_a_slip_in_a_tool_is_refused():
    for slip in ({"parametres": {}}, {"descripton": "x"}):
        with pytest.raises(InvalidTools, match="did you mean"):
            read_request(body(tools=[{"type": "function", "function": {"name": "f", **slip}}]))


async def test_an_answer_names_the_fields_that_were_left_out(client):
    response = await client.post(URL, json=body(prediction={}, **{"a\r\nSet-Cookie: b": 1, "é" * 500: 1}))
    assert response.status_code == 200
    named = response.headers["x-callgate-ignored"].split(", ")
    assert named[:2] == ["prediction", "a%0D%0ASet-Cookie%3A%20b"]
    assert len(response.headers["x-callgate-ignored"]) <= 2000
    assert "set-cookie" not in response.headers
    streamed = await client.post(URL, json=body(stream=True, prediction={}))
    assert streamed.headers["x-callgate-ignored"] == "prediction"
    assert "x-callgate-ignored" not in (await client.post(URL, json=body())).headers


async def test_a_reasoning_effort_sets_the_switch_that_the_template_has(client, runtime):
    asked = body(reasoning_effort="none")
    assert (await client.post(URL, json=asked)).headers["x-callgate-ignored"] == "reasoning_effort"
    assert runtime.requests[-1].template_options == {}
    runtime.card = replace(runtime.card, template_variables=frozenset({"enable_thinking"}))
    assert "x-callgate-ignored" not in (await client.post(URL, json=asked)).headers
    assert runtime.requests[-1].template_options == {"enable_thinking": False}
    await client.post(URL, json=body(reasoning_effort="high"))
    assert runtime.requests[-1].template_options == {"enable_thinking": True}
    own = body(reasoning_effort="high", chat_template_kwargs={"enable_thinking": False})
    await client.post(URL, json=own)
    assert runtime.requests[-1].template_options == {"enable_thinking": False}
    runtime.card = replace(runtime.card, template_variables=frozenset({"reasoning_effort"}))
    await client.post(URL, json=body(reasoning_effort="low"))
    assert runtime.requests[-1].template_options == {"reasoning_effort": "low"}


async def test_a_limit_on_tokens_has_no_effect_beside_a_grammar(client, runtime):
    asked = body(min_tokens=5, stop_token_ids=[3])
    assert "x-callgate-ignored" not in (await client.post(URL, json=asked)).headers
    assert (runtime.requests[-1].min_tokens, runtime.requests[-1].stop_token_ids) == (5, (3,))
    answer = await client.post(URL, json=asked | {"response_format": {"type": "json_object"}})
    assert answer.headers["x-callgate-ignored"] == "min_tokens, stop_token_ids"


class ShortContext:
    """Refuses prompts of more than `num_messages` messages, as a runtime with a short context does."""

    def __init__(self, runtime, num_messages):
        self.runtime, self.num_messages = runtime, num_messages
        self.play = runtime.generate

    async def generate(self, request):
        if len(request.messages) > self.num_messages:
            raise PromptTooLong(len(request.messages), self.num_messages)
        async for event in self.play(request):
            yield event


async def test_the_oldest_turns_are_left_out_only_where_that_is_asked_for(client, runtime, monkeypatch):
    monkeypatch.setattr(runtime, "generate", ShortContext(runtime, 5).generate)
    turns = [{"role": role, "content": f"{role} {i}"} for i in range(4) for role in ("user", "assistant")]
    sent = {"instructions": "Be brief.", "input": [*turns, USER]}
    assert (await RESPONSES.refusal(client, **sent))["code"] == "context_length_exceeded"
    answer = await RESPONSES.ask(client, **sent, truncation="auto")
    kept = runtime.requests[-1].messages
    assert kept[0] == Message("system", "Be brief.")
    assert kept[-1] == Message("user", "Hi")
    assert kept[1].role == "user"
    assert (answer["truncation"], answer["callgate"]["dropped_messages"]) == ("auto", 10 - len(kept))
    hopeless = [USER] + [{"role": "assistant", "content": "x"}] * 9
    error = await RESPONSES.refusal(client, input=hopeless, truncation="auto")
    assert error["code"] == "context_length_exceeded"


async def test_chat_completions_may_leave_out_the_oldest_turns_too(client, runtime, monkeypatch):
    monkeypatch.setattr(runtime, "generate", ShortContext(runtime, 3).generate)
    turns = [{"role": role, "content": f"{role} {i}"} for i in range(4) for role in ("user", "assistant")]
    asked = body(messages=[*turns, USER], truncation="auto")
    assert (await client.post(URL, json=asked | {"truncation": "disabled"})).status_code == 400
    answer = await client.post(URL, json=asked)
    assert "x-callgate-ignored" not in answer.headers
    kept = runtime.requests[-1].messages
    assert kept[-1] == Message("user", "Hi")
    assert answer.json()["callgate"]["dropped_messages"] == 9 - len(kept)


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"reasoning_effort": "low"}, "reasoning_effort"), ({"callgate": {"accept": 2}}, "callgate.accept")],
)
async def test_strict_fields_refuse_what_has_no_effect_on_this_answer(client_with, runtime, fields, param):
    async with client_with(strict_fields=True) as client:
        assert (await CHAT.refusal(client, **fields))["param"] == param
        error = await RESPONSES.refusal(client, reasoning={"effort": "low"})
        assert error["param"] == "reasoning.effort"
        assert error["message"].startswith("reasoning.effort: it has no effect")
    assert runtime.requests == []


REGEX = r"(a)\1"
NOT_A_SCHEMA = {"type": "string", "pattern": REGEX}


@pytest.mark.parametrize(
    ("api", "fields", "name"),
    [
        (CHAT, {"guided_regex": REGEX}, "guided_regex"),
        (CHAT, {"structured_outputs": {"json": NOT_A_SCHEMA}}, "structured_outputs.json"),
        (CHAT, {"response_format": {"type": "regex", "pattern": REGEX}}, "response_format"),
        (COMPLETIONS, {"ebnf": "root ::= root"}, "ebnf"),
        (MESSAGES, {"output_format": {"type": "json_schema", "schema": NOT_A_SCHEMA}}, "output_format"),
    ],
)
async def test_a_refusal_names_the_field_that_the_request_has(client, api, fields, name):
    """Several fields ask for a format; the usual one may not be the one that was sent."""
    error = await api.refusal(client, **fields)
    assert error["param"] == name
    assert error["message"].startswith(f"{name} at /"), "clients show the message, and not always `param`"


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"output_config": {"effort": "low"}}, "output_config.effort"),
        ({"thinking": {"type": "enabled"}}, "thinking"),
    ],
)
async def test_an_effort_without_effect_has_the_name_that_the_request_has_for_it(client, fields, name):
    answer = await client.post(MESSAGES.url, json=MESSAGES.body(**fields))
    assert answer.headers["x-callgate-ignored"] == name


@pytest.mark.parametrize("api", [CHAT, COMPLETIONS, MESSAGES, RESPONSES])
async def test_an_unknown_field_of_our_own_object_is_no_hint_for_another_server(client, runtime, api):
    """For instance a toolset in the wrong place, without which the answer would have no tools."""
    error = await api.refusal(client, callgate={"toolset": "weather"})
    assert error["param"] == "callgate.toolset"
    assert runtime.requests == []


SLIPS = {
    "type": "object",
    "properties": {"b": {"type": "string", "patern": "(a)", "format": "emial"}},
    "requird": ["b"],
}
"""Its schema is an object of one string that may be left out."""
SLIPPED = ("requird", "properties.b.patern", "properties.b.format")
NAMED_FORMAT = {"type": "json_schema", "name": "a", "schema": SLIPS}

SLIPPING_TOOL = {"name": "g", "input_schema": SLIPS}

KEYWORDS = [
    (CHAT, {"tools": [WEATHER, SLIPPING_TOOL]}, "tools[1].schema"),
    (
        CHAT,
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SLIPS}}},
        "response_format.json_schema.schema",
    ),
    (COMPLETIONS, {"guided_json": SLIPS}, "guided_json"),
    (RESPONSES, {"text": {"format": NAMED_FORMAT}}, "text.format.schema"),
    (MESSAGES, {"tools": [SLIPPING_TOOL]}, "tools[0].schema"),
    (
        MESSAGES,
        {"output_config": {"format": {"type": "json_schema", "schema": SLIPS}}},
        "output_config.format.schema",
    ),
]


@pytest.mark.parametrize(("api", "fields", "schema"), KEYWORDS)
async def test_keywords_of_a_requests_own_schemas_that_have_no_effect_are_named(
    client_with, client, api, fields, schema
):
    """As in the warnings about a registered schema."""
    for _ in range(2):  # compiled, then from memory
        answer = await client.post(api.url, json=api.body(**fields))
        assert answer.headers["x-callgate-ignored"] == ", ".join(f"{schema}.{each}" for each in SLIPPED)
    async with client_with(strict_fields=True) as strict_client:
        error = await api.refusal(strict_client, **fields)
    path = f"{schema}.{SLIPPED[0]}"
    assert error["param"] == path
    assert error["message"].startswith(f"{path}: ")
    assert "did you mean 'required'?" in error["message"]


async def test_a_keyword_that_is_no_slip_is_named_and_not_refused(client_with):
    own = {
        "type": "object",
        "properties": {"kind": {"type": "string", "nullable": True}},
        "discriminator": {},
    }
    async with client_with(strict_fields=True) as client:
        answer = await client.post(URL, json=body(tools=[{"name": "g", "parameters": own}]))
    named = "tools[0].schema.discriminator, tools[0].schema.properties.kind.nullable"
    assert (answer.status_code, answer.headers["x-callgate-ignored"]) == (200, named)


async def test_a_slip_is_found_behind_many_keywords_without_effect(client_with):
    properties = {f"p{number}": {"type": "string", "example": "a"} for number in range(40)}
    own = {"type": "object", "properties": properties, "requird": ["p0"]}
    async with client_with(strict_fields=True) as client:
        refused = await client.post(URL, json=body(tools=[{"name": "g", "parameters": own}]))
    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith("tools[0].schema.requird: unknown keyword, ignored")


async def test_what_was_warned_of_at_registration_or_is_never_used_is_not_named(client):
    tools = [{"name": "registered", "parameters": SLIPS}]
    registered = await client.put("/v1/toolsets/mail", json={"tools": tools})
    assert len(registered.json()["warnings"]) == 3
    unused = {"type": "object", "$defs": {"a": {"minLength": 3}}}
    draft_4 = {"type": "object", "properties": {"n": {"minimum": 0, "exclusiveMinimum": True}}}
    own = [{"name": "a", "parameters": unused}, {"name": "b", "parameters": draft_4}]
    answer = await client.post(URL, json=body(toolset="mail", tools=own))
    assert answer.status_code == 200
    assert "x-callgate-ignored" not in answer.headers


async def test_only_the_first_keywords_without_effect_are_named(client):
    many = {"type": "object", **{f"zz{i}": 1 for i in range(1_000)}}
    tools = [{"name": name, "parameters": many} for name in "gh"]
    answer = await client.post(URL, json=body(tools=tools))
    assert len(answer.headers["x-callgate-ignored"].split(", ")) == 32


OF_OTHER_APIS = [
    (CHAT, "disable_parallel_tool_use", "use parallel_tool_calls"),
    (CHAT, "functions", "use tools"),
    (CHAT, "function_call", "use tool_choice"),
    (CHAT, "input", "use messages"),
    (CHAT, "instructions", "use a message of the role system"),
    (CHAT, "max_output_tokens", "use max_completion_tokens"),
    (CHAT, "output_config", "use response_format and reasoning_effort"),
    (CHAT, "previous_response_id", "send the whole conversation in messages"),
    (CHAT, "stop_sequences", "use stop"),
    (COMPLETIONS, "functions", "there are no tools here"),
    (COMPLETIONS, "input", "use prompt"),
    (COMPLETIONS, "max_completion_tokens", "use max_tokens"),
    (COMPLETIONS, "messages", "use /v1/chat/completions"),
    (COMPLETIONS, "output_config", "use response_format"),
    (COMPLETIONS, "stop_sequences", "use stop"),
    (COMPLETIONS, "system", "use prompt"),
    (MESSAGES, "function_call", "use tool_choice"),
    (MESSAGES, "instructions", "use system"),
    (MESSAGES, "max_completion_tokens", "use max_tokens"),
    (MESSAGES, "reasoning_effort", "use output_config.effort"),
    (MESSAGES, "response_format", "use output_config.format"),
    (MESSAGES, "stop", "use stop_sequences"),
    (MESSAGES, "n", "one answer is made"),
    (RESPONSES, "functions", "use tools"),
    (RESPONSES, "max_tokens", "use max_output_tokens"),
    (RESPONSES, "messages", "use input"),
    (RESPONSES, "output_config", "use text.format and reasoning.effort"),
    (RESPONSES, "presence_penalty", "only /v1/chat/completions has it"),
    (RESPONSES, "stop", "there are no stop sequences here"),
    (RESPONSES, "system", "use instructions"),
]


@pytest.mark.parametrize(("api", "field", "said"), OF_OTHER_APIS)
async def test_a_field_of_another_api_that_would_change_the_answer_is_refused(client, api, field, said):
    error = await api.refusal(client, **{field: "x"})
    assert error["param"] == field
    assert said in error["message"]


async def test_the_header_names_whole_fields_as_many_as_fit(client):
    fields = {f"{number}{'ü' * 90}": 1 for number in range(10, 30)}
    response = await client.post("/v1/chat/completions", json=body(**fields))
    named = response.headers["x-callgate-ignored"]
    assert len(named) <= 2000
    assert [unquote(name) for name in named.split(", ")] == list(fields)[:3]
