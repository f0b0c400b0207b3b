"""The plugin inside a real vLLM and a real SGLang on a CPU, with the tiny model; a client posts marks as a gateway does.

What runs of SGLang, and what was replaced: `sglang_on_a_cpu.py`.
"""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jsonschema_rs
import pytest
from corpus import corpus
from engine_models import AUTO, REQUIRED, SECRET, TOOLS, ids, look_up, marked, prepared, tokenizer
from sglang_server import generate, running_sglang
from vllm_server import complete, running_vllm

from compiler.prepared_vocabulary import prepare
from runtime.engines.request_mark import PLUGIN_MISSING
from toolspecs.tool import Tool, ToolChoice

pytestmark = pytest.mark.engines

PROMPT = "<|im_start|>user\nList the issues of a repository.<|im_end|>\n<|im_start|>assistant\n"
NUM_CALLS = 100
MAX_TOKENS = 300
RUNNING = {"vllm": running_vllm, "sglang": running_sglang}
POST = {"vllm": complete, "sglang": generate}


@pytest.fixture(scope="module", params=RUNNING)
def server(request, tmp_path_factory, store_url):
    folder = tmp_path_factory.mktemp(request.param)
    with RUNNING[request.param](folder, store_url=store_url, secret=SECRET.decode()) as server:
        yield server


@pytest.fixture(scope="module")
def github():
    content = json.loads(corpus("mcp", "github.json").read_text("utf-8"))
    return tuple(Tool(tool["name"], "", tool["inputSchema"]) for tool in content)


def post(server, prompt_ids, mark, **sampling):
    return POST[server.kind](server, prompt_ids, mark, **sampling)


class Answer(NamedTuple):
    """The tokens that an engine wrote, and how it says that they ended."""

    token_ids: list[int]
    reason: str

    @property
    def text(self):
        return tokenizer().decode(self.token_ids).removesuffix("<|im_end|>")


def answer_in(server, response):
    assert response.status_code == 200, response.text
    body = response.json()
    if server.kind == "sglang":
        return Answer(body["output_ids"], body["meta_info"]["finish_reason"]["type"])
    choice = body["choices"][0]
    return Answer(choice["token_ids"], choice["finish_reason"])


def ask(server, prompt_ids, mark, **sampling):
    return answer_in(server, post(server, prompt_ids, mark, **sampling))


def calls_in(text):
    """The names and arguments of all calls in an output."""
    for part in text.split("<tool_call>")[1:]:
        call = json.loads(part.split("</tool_call>")[0])
        yield call["name"], call["arguments"]


def test_calls_of_many_tools_are_valid(server, store_url, github):
    """Eight clients, 117 tools, every kind of choice: each token is one that the gateway's matcher allows."""
    validators = {tool.name: jsonschema_rs.validator_for(tool.parameters) for tool in github}
    kinds = [
        look_up(store_url, github, choice=REQUIRED, parallel=True),
        look_up(store_url, github, choice=ToolChoice.named("list_issues")),
        look_up(store_url, github, choice=AUTO),
        look_up(store_url, github, choice=REQUIRED),
    ]
    marks = [marked(lookup) for lookup in kinds]

    def call(number):
        at = number % len(kinds)
        return kinds[at], ask(server, ids(PROMPT), marks[at], max_tokens=MAX_TOKENS, temperature=0.5)

    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(call, range(NUM_CALLS)))
    num_finished = num_calls = 0
    for lookup, answer in answers:
        matcher = lookup.grammar.matcher()
        assert all(map(matcher.accept, answer.token_ids)), answer
        assert matcher.is_terminated() == (answer.reason == "stop")
        if matcher.is_terminated():
            num_finished += 1
            for name, arguments in calls_in(answer.text):
                num_calls += 1
                assert validators[name].is_valid(arguments), (name, arguments)
    print(
        f"\n{NUM_CALLS} answers, {num_finished} finished in {MAX_TOKENS} tokens, {num_calls} calls, all valid"
    )
    assert num_calls > NUM_CALLS / 10


def test_two_grammars_and_plain_text_share_a_batch(server, store_url):
    """Guards hold: the second tool's items are distinct and short."""
    names = [ToolChoice.named(tool.name) for tool in TOOLS]
    grammars = [look_up(store_url, TOOLS, choice=choice) for choice in names]
    marks = [*map(marked, grammars), None, 'root ::= "yes" | "no"']
    source = random.Random(5)
    order = [source.randrange(len(marks)) for _ in range(48)]

    def call(at):
        return ask(server, ids(PROMPT), marks[at], max_tokens=120, temperature=2.0, top_k=40)

    with ThreadPoolExecutor(16) as clients:
        answers = list(clients.map(call, order))
    for at, answer in zip(order, answers, strict=True):
        if at < len(grammars):
            matcher = grammars[at].grammar.matcher()
            assert all(map(matcher.accept, answer.token_ids)), answer
        elif at == 3:
            assert answer.text in {"yes", "no"}


def test_an_output_goes_on_behind_what_the_prompt_ends_with(server, store_url):
    lookup = look_up(store_url)
    begun = ids('<tool_call>\n{"name": "pay", "arguments": {"am')
    mark = marked(lookup, written_ids=tuple(begun))
    answer = ask(server, [*ids(PROMPT), *begun], mark, max_tokens=60, temperature=0)
    matcher = lookup.grammar.matcher()
    assert all(map(matcher.accept, [*begun, *answer.token_ids]))


def test_a_request_that_ignores_its_stop_token_ends_soon_after(server, store_url):
    """VLLM calls it an error; SGLang asks after its next step whether a grammar has ended. The gateway never asks so."""
    lookup = look_up(store_url, choice=ToolChoice.named("pay"))
    sampling = {"max_tokens": MAX_TOKENS, "temperature": 0, "ignore_eos": True}
    response = post(server, ids(PROMPT), marked(lookup), **sampling)
    if server.kind == "vllm":
        assert response.status_code == 500 or answer_in(server, response).reason == "error"
    else:
        answer, matcher = answer_in(server, response), lookup.grammar.matcher()
        assert all(map(matcher.accept, answer.token_ids[:-1]))
        assert (matcher.is_terminated(), answer.reason) == (True, "stop")


@pytest.mark.parametrize("case", ["another secret", "no such unit", "another vocabulary"])
def test_a_mark_that_cannot_be_kept_fails_its_request_only(server, store_url, case):
    """VLLM says why in its log, SGLang in its answer."""
    lookup = look_up(store_url)
    changed = {
        "another secret": lambda: marked(lookup, secret=b"another secret, as long"),
        "no such unit": lambda: marked(look_up("sqlite://:memory:", [Tool("lost", "", {"properties": {"unseen": {"const": 7}}})])),
        "another vocabulary": lambda: marked(look_up(store_url, vocabulary=prepare(None))),
    }  # fmt: skip
    said = {
        "another secret": "CALLGATE_SECRET",
        "no such unit": "the store lacks the grammar of 'lost'",
        "another vocabulary": "give the gateway the tokenizer of the model",
    }
    response = post(server, ids(PROMPT), changed[case](), max_tokens=20)
    if server.kind == "vllm":
        assert response.status_code == 500
        assert said[case] in server.said()
    else:
        assert response.status_code == 400
        assert said[case] in response.text
    assert ask(server, ids(PROMPT), marked(lookup), max_tokens=60).token_ids


def test_the_engine_is_prepared_before_it_is_ready(server):
    log = server.said()
    is_ready = "callgate is ready for the vocabulary " + prepared().vocabulary.digest[:12]
    assert log.index(is_ready) < log.index("Application startup complete")


@pytest.mark.parametrize("kind", RUNNING)
def test_without_the_plugins_settings_only_its_absence_is_written(tmp_path, store_url, kind):
    mark = marked(look_up(store_url))
    with RUNNING[kind](tmp_path) as server:
        for temperature in (0, 1.0, 2.0):
            answer = ask(server, ids(PROMPT), mark, max_tokens=100, temperature=temperature)
            assert answer.text == PLUGIN_MISSING


@pytest.mark.parametrize("kind", RUNNING)
def test_half_of_the_settings_stops_the_engine(tmp_path, kind):
    with (
        pytest.raises(AssertionError, match="ended with exit code"),
        RUNNING[kind](tmp_path, store_url="sqlite:///nowhere/store.sqlite3", secret=""),
    ):
        pass
    assert (
        "neither CALLGATE_SECRET nor CALLGATE_SECRET_FILE is set" in next(tmp_path.glob("*.log")).read_text()
    )
