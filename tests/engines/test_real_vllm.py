"""The plugin inside a real vLLM on a CPU, with the tiny model; a client posts marks as a gateway does."""

import inspect
import json
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor

import jsonschema_rs
import pytest
import stand_in_vllm as stand_in
from corpus import corpus
from engine_models import AUTO, REQUIRED, SECRET, TOOLS, ids, look_up, marked, prepared
from vllm_server import PYTHON, complete, running_vllm

from runtime.engines.request_mark import PLUGIN_MISSING
from runtime.engines.vllm.plugin import COMPILE, FILL, INIT, READ
from toolspecs.tool import Tool, ToolChoice

pytestmark = pytest.mark.engines

PROMPT = "<|im_start|>user\nList the issues of a repository.<|im_end|>\n<|im_start|>assistant\n"
NUM_CALLS = 100
MAX_TOKENS = 300


@pytest.fixture(scope="module")
def server(tmp_path_factory, store_url):
    folder = tmp_path_factory.mktemp("vllm")
    with running_vllm(folder, store_url=store_url, secret=SECRET.decode()) as server:
        yield server


@pytest.fixture(scope="module")
def github():
    content = json.loads(corpus("mcp", "github.json").read_text("utf-8"))
    return tuple(Tool(tool["name"], "", tool["inputSchema"]) for tool in content)


def choice_of(response):
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]


def calls_in(text):
    """The names and arguments of all calls in an output."""
    for part in text.split("<tool_call>")[1:]:
        call = json.loads(part.split("</tool_call>")[0])
        yield call["name"], call["arguments"]


def test_the_stand_in_has_vllms_signatures():
    """Else the tests that everybody runs would say nothing about vLLM."""
    hooks = (INIT, COMPILE, FILL, *READ)
    code = (
        "import importlib, inspect, json, sys\n"
        "for module, owner, method in json.loads(sys.argv[1]):\n"
        "    found = getattr(getattr(importlib.import_module(module), owner), method)\n"
        "    print(owner, method, *(str(p).split(':')[0] for p in inspect.signature(found).parameters.values()))\n"
        "import vllm; print('version', vllm.__version__)"
    )
    named = json.dumps([(hook.module, hook.owner, hook.method) for hook in hooks])
    if not PYTHON.exists():
        pytest.skip("there is no environment with vLLM; `make test-engines` makes it")
    done = subprocess.run(
        [PYTHON, "-c", code, named], capture_output=True, text=True, check=True, timeout=300
    )
    real = {line for line in done.stdout.splitlines() if line.split()[0] in {h.owner for h in hooks}}
    ours = set()
    for hook in hooks:
        method = getattr(getattr(stand_in, hook.owner), hook.method)
        names = (str(parameter).split(":")[0] for parameter in inspect.signature(method).parameters.values())
        ours.add(" ".join([hook.owner, hook.method, *names]))
    assert ours == real
    assert f"version {stand_in.VERSION}" in done.stdout


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

    def ask(number):
        at = number % len(kinds)
        response = complete(server, ids(PROMPT), marks[at], max_tokens=MAX_TOKENS, temperature=0.5)
        return kinds[at], choice_of(response)

    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(ask, range(NUM_CALLS)))
    num_finished = num_calls = 0
    for lookup, answer in answers:
        matcher = lookup.grammar.matcher()
        assert all(map(matcher.accept, answer["token_ids"])), answer
        assert matcher.is_terminated() == (answer["finish_reason"] == "stop")
        if matcher.is_terminated():
            num_finished += 1
            for name, arguments in calls_in(answer["text"]):
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

    def ask(at):
        return choice_of(complete(server, ids(PROMPT), marks[at], max_tokens=120, temperature=2.0, top_k=40))

    with ThreadPoolExecutor(16) as clients:
        answers = list(clients.map(ask, order))
    for at, answer in zip(order, answers, strict=True):
        if at < len(grammars):
            matcher = grammars[at].grammar.matcher()
            assert all(map(matcher.accept, answer["token_ids"])), answer
        elif at == 3:
            assert answer["text"].removesuffix("<|im_end|>") in {"yes", "no"}


def test_an_output_goes_on_behind_what_the_prompt_ends_with(server, store_url):
    lookup = look_up(store_url)
    begun = ids('<tool_call>\n{"name": "pay", "arguments": {"am')
    mark = marked(lookup, written_ids=tuple(begun))
    answer = choice_of(complete(server, [*ids(PROMPT), *begun], mark, max_tokens=60, temperature=0))
    matcher = lookup.grammar.matcher()
    assert all(map(matcher.accept, [*begun, *answer["token_ids"]]))


def test_an_engine_that_ignores_its_stop_token_ends_with_an_error(server, store_url):
    mark = marked(look_up(store_url, choice=ToolChoice.named("pay")))
    response = complete(server, ids(PROMPT), mark, max_tokens=MAX_TOKENS, temperature=0, ignore_eos=True)
    assert response.status_code == 500 or choice_of(response)["finish_reason"] == "error"


@pytest.mark.parametrize("case", ["another secret", "no such unit", "another vocabulary"])
def test_a_mark_that_cannot_be_kept_fails_its_request_only(server, store_url, case):
    lookup = look_up(store_url)
    changed = {
        "another secret": lambda: marked(lookup, secret=b"another secret, as long"),
        "no such unit": lambda: marked(look_up("sqlite://:memory:", [Tool("lost", "", {"properties": {"unseen": {"const": 7}}})])),
        "another vocabulary": lambda: marked(look_up(store_url, vocabulary=_byte_vocabulary())),
    }  # fmt: skip
    response = complete(server, ids(PROMPT), changed[case](), max_tokens=20)
    assert response.status_code == 500
    log = server.said()
    said = {
        "another secret": "CALLGATE_SECRET",
        "no such unit": "the store lacks the grammar of 'lost'",
        "another vocabulary": "give the gateway the tokenizer of the model",
    }
    assert said[case] in log
    assert choice_of(complete(server, ids(PROMPT), marked(lookup), max_tokens=60))["token_ids"]


def _byte_vocabulary():
    from compiler.prepared_vocabulary import prepare

    return prepare(None)


def test_the_engine_is_prepared_before_it_is_ready(server):
    log = server.said()
    is_ready = "callgate is ready for the vocabulary " + prepared().vocabulary.digest[:12]
    assert log.index(is_ready) < log.index("Application startup complete")


def test_without_the_plugins_settings_only_its_absence_is_written(tmp_path, store_url):
    mark = marked(look_up(store_url))
    with running_vllm(tmp_path) as server:
        for temperature in (0, 1.0, 2.0):
            answer = choice_of(complete(server, ids(PROMPT), mark, max_tokens=100, temperature=temperature))
            assert answer["text"].removesuffix("<|im_end|>") == PLUGIN_MISSING


def test_half_of_the_settings_stops_the_engine(tmp_path):
    with (
        pytest.raises(AssertionError, match="ended with exit code"),
        running_vllm(tmp_path, store_url="sqlite:///nowhere/store.sqlite3", secret=""),
    ):
        pass
    assert (
        "neither CALLGATE_SECRET nor CALLGATE_SECRET_FILE is set" in next(tmp_path.glob("*.log")).read_text()
    )
