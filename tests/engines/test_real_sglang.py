"""The plugin inside a real SGLang on a CPU, with the tiny model; a client posts marks as a gateway does.

What runs of SGLang, and what was replaced: `sglang_on_a_cpu.py`.
"""

import inspect
import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import jsonschema_rs
import pytest
import stand_in_sglang as stand_in
from corpus import corpus
from engine_models import AUTO, REQUIRED, SECRET, TOOLS, ids, look_up, marked, prepared, tokenizer
from sglang_server import generate, running_sglang, variables_of_sglang

from compiler.matcher import allocate_bitmask
from compiler.prepared_vocabulary import prepare
from runtime.engines.request_mark import PLUGIN_MISSING
from runtime.engines.sglang.plugin import INIT, READ, READY
from toolspecs.tool import Tool, ToolChoice

pytestmark = pytest.mark.engines

HERE = Path(__file__).resolve().parent
PROMPT = "<|im_start|>user\nList the issues of a repository.<|im_end|>\n<|im_start|>assistant\n"
NUM_CALLS = 100
MAX_TOKENS = 300


@pytest.fixture(scope="module")
def server(tmp_path_factory, store_url):
    folder = tmp_path_factory.mktemp("sglang")
    with running_sglang(folder, store_url=store_url, secret=SECRET.decode()) as server:
        yield server


@pytest.fixture(scope="module")
def github():
    content = json.loads(corpus("mcp", "github.json").read_text("utf-8"))
    return tuple(Tool(tool["name"], "", tool["inputSchema"]) for tool in content)


def answer_of(response):
    """The token ids of an answer, and the kind of its end."""
    assert response.status_code == 200, response.text
    answer = response.json()
    return answer["output_ids"], answer["meta_info"]["finish_reason"]["type"]


def text_of(token_ids):
    return tokenizer().decode(token_ids)


def calls_in(text):
    """The names and arguments of all calls in an output."""
    for part in text.split("<tool_call>")[1:]:
        call = json.loads(part.split("</tool_call>")[0])
        yield call["name"], call["arguments"]


def run_in_sglang(folder, script, *arguments, store_url=None):
    """What a script prints that runs with SGLang's package, and with ours as if it were installed."""
    environment = dict(os.environ) | variables_of_sglang(folder)
    environment |= {
        "CALLGATE_STORE": store_url or "",
        "CALLGATE_SECRET": SECRET.decode() if store_url else "",
    }
    command = [sys.executable, *script, *arguments]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_the_stand_in_has_sglangs_signatures(tmp_path):
    """Else the tests that everybody runs would say nothing about SGLang."""
    hooks = (INIT, READY, *READ)
    code = (
        "import importlib, inspect, json, sys\n"
        "for module, owner, method in json.loads(sys.argv[1]):\n"
        "    found = getattr(getattr(importlib.import_module(module), owner), method)\n"
        "    print('#', owner, method, *inspect.signature(found).parameters)\n"
        "from sglang.version import __version__; print('version', __version__)"
    )
    named = json.dumps([(hook.module, hook.owner, hook.method) for hook in hooks])
    said = run_in_sglang(tmp_path, ["-c", code], named)
    real = {line[2:] for line in said.splitlines() if line.startswith("# ")}
    ours = set()
    for hook in hooks:
        lookup = getattr(getattr(stand_in, hook.owner), hook.method)
        ours.add(" ".join([hook.owner, hook.method, *inspect.signature(lookup).parameters]))
    assert ours == real
    assert f"version {stand_in.VERSION}" in said


def test_outputs_are_masked_in_sglangs_own_code(tmp_path):
    """Two marks, a grammar of SGLang's own and a request without one share batches; a forged mark fails."""
    store_url = f"sqlite://{tmp_path}/store.sqlite3"
    lookup = [look_up(store_url, choice=choice, parallel=False) for choice in (REQUIRED, AUTO)]
    script = [str(HERE / "sglang_schedule.py")]
    said = run_in_sglang(tmp_path, script, *map(marked, lookup), store_url=store_url)
    result = json.loads(next(line for line in said.splitlines() if line.startswith("result "))[7:])
    assert result["backend"] == "SglangBackend"
    assert "the signature of the mark is wrong" in result["failed"]
    assert not any("#callgate" in key for key in result["cached"])
    width = prepared().vocabulary.width
    expected = allocate_bitmask(1, width)
    for row, one in enumerate(lookup):
        matcher = one.grammar.matcher()
        written = result["outputs"][row]
        assert written
        for step, token in enumerate(written):
            matcher.fill_bitmask(expected, 0)
            assert result["masks"][step][min(row, len(result["masks"][step]) - 1)] == expected[0].tolist()
            assert matcher.accept(token)
    own = result["outputs"][2]
    text = b"".join(prepared().vocabulary.tokens[token] for token in own)
    assert text.startswith(b"{")
    assert set(text) <= set(b"{abc}")
    assert len(result["outputs"][3]) == len(result["masks"])


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
        response = generate(server, ids(PROMPT), marks[at], max_new_tokens=MAX_TOKENS, temperature=0.5)
        return kinds[at], *answer_of(response)

    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(ask, range(NUM_CALLS)))
    num_finished = num_calls = 0
    for lookup, token_ids, reason in answers:
        matcher = lookup.grammar.matcher()
        assert all(map(matcher.accept, token_ids)), token_ids
        assert matcher.is_terminated() == (reason == "stop")
        if matcher.is_terminated():
            num_finished += 1
            for name, arguments in calls_in(text_of(token_ids)):
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
        sampling = {"max_new_tokens": 120, "temperature": 2.0, "top_k": 40}
        return answer_of(generate(server, ids(PROMPT), marks[at], **sampling))

    with ThreadPoolExecutor(16) as clients:
        answers = list(clients.map(ask, order))
    for at, (token_ids, _) in zip(order, answers, strict=True):
        if at < len(grammars):
            matcher = grammars[at].grammar.matcher()
            assert all(map(matcher.accept, token_ids)), token_ids
        elif at == 3:
            assert text_of(token_ids).removesuffix("<|im_end|>") in {"yes", "no"}


def test_an_output_goes_on_behind_what_the_prompt_ends_with(server, store_url):
    lookup = look_up(store_url)
    begun = ids('<tool_call>\n{"name": "pay", "arguments": {"am')
    mark = marked(lookup, written_ids=tuple(begun))
    response = generate(server, [*ids(PROMPT), *begun], mark, max_new_tokens=60, temperature=0)
    matcher = lookup.grammar.matcher()
    assert all(map(matcher.accept, [*begun, *answer_of(response)[0]]))


def test_a_request_that_ignores_its_stop_token_ends_one_token_later(server, store_url):
    """SGLang asks after its next step whether a grammar has ended. The gateway sends no such request."""
    lookup = look_up(store_url, choice=ToolChoice.named("pay"))
    sampling = {"max_new_tokens": MAX_TOKENS, "temperature": 0, "ignore_eos": True}
    token_ids, reason = answer_of(generate(server, ids(PROMPT), marked(lookup), **sampling))
    matcher = lookup.grammar.matcher()
    assert all(map(matcher.accept, token_ids[:-1]))
    assert (matcher.is_terminated(), reason) == (True, "stop")


@pytest.mark.parametrize("case", ["another secret", "no such unit", "another vocabulary"])
def test_a_mark_that_cannot_be_kept_fails_its_request_only_and_says_why(server, store_url, case):
    lookup = look_up(store_url)
    changed = {
        "another secret": lambda: marked(lookup, secret=b"another secret, as long"),
        "no such unit": lambda: marked(look_up("sqlite://:memory:", [Tool("lost", "", {"properties": {"unseen": {"const": 7}}})])),
        "another vocabulary": lambda: marked(look_up(store_url, vocabulary=prepare(None))),
    }  # fmt: skip
    response = generate(server, ids(PROMPT), changed[case]())
    assert response.status_code == httpx.codes.BAD_REQUEST
    said = {
        "another secret": "CALLGATE_SECRET",
        "no such unit": "the store lacks the grammar of 'lost'",
        "another vocabulary": "give the gateway the tokenizer of the model",
    }
    assert said[case] in response.text
    assert answer_of(generate(server, ids(PROMPT), marked(lookup), max_new_tokens=60))[0]


def test_the_engine_is_prepared_before_it_is_ready(server):
    is_ready = "callgate is ready for the vocabulary " + prepared().vocabulary.digest[:12]
    assert server.said().index(is_ready) < server.said().index("Application startup complete")


def test_without_the_plugins_settings_only_its_absence_is_written(tmp_path, store_url):
    mark = marked(look_up(store_url))
    with running_sglang(tmp_path) as server:
        for temperature in (0, 1.0, 2.0):
            sampling = {"max_new_tokens": 100, "temperature": temperature}
            token_ids, _ = answer_of(generate(server, ids(PROMPT), mark, **sampling))
            assert text_of(token_ids).removesuffix("<|im_end|>") == PLUGIN_MISSING


def test_half_of_the_settings_stops_the_engine(tmp_path):
    with (
        pytest.raises(AssertionError, match="ended with exit code"),
        running_sglang(tmp_path, store_url="sqlite:///nowhere/store.sqlite3", secret=""),
    ):
        pass
    assert (
        "neither CALLGATE_SECRET nor CALLGATE_SECRET_FILE is set" in next(tmp_path.glob("*.log")).read_text()
    )
