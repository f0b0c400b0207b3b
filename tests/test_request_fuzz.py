"""Whole requests with any features together keep what is promised, and what breaks a promise is found out."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from request_fuzz.answers import Answer, Choice
from request_fuzz.drawing import Asked
from request_fuzz.engine_worlds import ENGINES
from request_fuzz.promises import broken_promises
from request_fuzz.rounds import run_round
from request_fuzz.subjects import CUSTOM, SCHEMAS, TEXT_FORMATS, input_fault

from compiler.linker.outer_positions import BeforeThought
from compiler.syntaxes import find_syntax
from runtime.engines import completion_request
from runtime.engines.engine_kinds import ENGINE_KINDS
from runtime.engines.remote import Admission
from runtime.engines.verified_output import VerifiedOutput

ROUNDS = (12, 13, 26, 31, 114, 711)
"""Quick ones, of several call syntaxes: in some, a model thinks first; in 711, it frames its prose."""
ENGINE_ROUNDS = (
    ("vllm", 8, False),
    ("vllm", 3, True),
    ("sglang", 4, False),
    ("vllm_stock", 8, False),
    ("llama_server", 6, False),
    ("llama_server", 2, True),
)
"""With external engines; in some, these break off and write what their masks forbid."""
WORLD = SimpleNamespace(
    syntax=find_syntax("hermes"),
    has_markers=True,
    context_length=200,
    default_max_tokens=40,
    closers={"budget"},
    is_faulty=False,
    least_tokens=1,
    tells_each_logprob=True,
)
USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
}
EXTENSION = {"closed_by": None, "forced_tokens": 0, "selections": []}
WEATHER = Asked(
    {"model": "tight", "max_tokens": 30},
    "",
    ("get_weather",),
    {"get_weather": SCHEMAS["get_weather"]},
    mode="required",
)
CALL = Choice(calls=[("function", "get_weather", '{"place": "Oslo"}')], finish="tool_calls")
STOPPED = replace(WEATHER, body={**WEATHER.body, "stop": ["x"]}, mode="auto")
ORDERED = ("function", "get_weather", '{"days": 1, "place": "Oslo"}')


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("worlds")


@pytest.mark.parametrize("number", ROUNDS)
def test_a_round_keeps_every_promise(folder, number):
    outcome = asyncio.run(run_round(number, folder, num_requests=10))
    assert outcome.findings == []
    assert outcome.counts["status 200"] > 2


def test_there_are_rounds_with_every_kind_of_engine():
    assert {*ENGINES} == {engine for engine, *_ in ENGINE_ROUNDS} == ENGINE_KINDS.keys()


@pytest.mark.parametrize(("engine", "number", "is_faulty"), ENGINE_ROUNDS)
def test_a_round_with_external_engines_keeps_every_promise(folder, engine, number, is_faulty):
    outcome = asyncio.run(run_round(number, folder, engine=engine, num_requests=8))
    assert outcome.findings == []
    assert outcome.counts["status 200"] > 2
    assert outcome.counts["engine requests"] > 5
    assert outcome.is_faulty == is_faulty


@pytest.mark.parametrize(
    ("number", "owner", "name", "mutant", "fault"),
    [
        (8, VerifiedOutput, "_as_asked", lambda self, token: token, "the alternatives are not in order"),
        (4, completion_request, "_seed_of", lambda *seed: None, "alone, the answer is"),
        (4, Admission, "_check", lambda self, request: self._sequences.update(["x"]), "these are counted"),
    ],
)
def test_a_fault_before_external_engines_is_found_out(
    folder, monkeypatch, number, owner, name, mutant, fault
):
    monkeypatch.setattr(owner, name, mutant)
    outcome = asyncio.run(run_round(number, folder, engine="vllm", num_requests=8))
    assert any(fault in finding for finding in outcome.findings), outcome.findings


def test_a_matcher_that_its_forks_share_is_found_out(folder, monkeypatch):
    monkeypatch.setattr(BeforeThought, "fork", lambda self: self)
    outcome = asyncio.run(run_round(13, folder, num_requests=10))
    assert any("the grammar refused token" in finding for finding in outcome.findings)


@pytest.mark.parametrize(
    ("asked", "changes", "usage", "fault"),
    [
        (WEATHER, {}, {}, ""),
        (WEATHER, {"calls": []}, {}, "no call"),
        (WEATHER, {"calls": [("function", "now", "{}")]}, {}, "not allowed"),
        (WEATHER, {"calls": [("function", "get_weather", "{")]}, {}, "no JSON"),
        (WEATHER, {"calls": [("function", "get_weather", "{}")]}, {}, "required"),
        (WEATHER, {"calls": [ORDERED]}, {}, "order"),
        (WEATHER, {"finish": "length"}, {}, "the budget closed nothing"),
        (WEATHER, {"finish": "stop"}, {}, "ends in stop"),
        (WEATHER, {"thought": "hm"}, {}, "a thought"),
        (WEATHER, {}, {"total_tokens": 16}, "does not add up"),
        (WEATHER, {}, {"completion_tokens": 31, "total_tokens": 41}, "has room for 30"),
        (WEATHER, {}, {"prompt_tokens_details": {"cached_tokens": 11}}, "more was cached"),
        (replace(WEATHER, mode="none"), {}, {}, "the choice is none"),
        (STOPPED, {"content": "axb", "calls": [], "finish": "stop"}, {}, "the stop string"),
        (STOPPED, {"content": "ab", "calls": [], "finish": "length"}, {}, "ends in length after 5"),
        (replace(STOPPED, answer_format=TEXT_FORMATS[0]), {"content": "1", "calls": [], "finish": "stop"}, {}, "not of the format"),
    ],
)  # fmt: skip
def test_a_broken_promise_is_found_out(asked, changes, usage, fault):
    answer = Answer([replace(CALL, **changes)], {**USAGE, **usage}, EXTENSION, [])
    faults = list(broken_promises(asked, answer, WORLD))
    assert (faults == []) if not fault else any(fault in found for found in faults), faults


def test_formats_and_inputs_are_judged():
    for text, fits in (("SELECT a,count(b_) FROM c;", True), ("SELECT a FROM ;", False), ("((x))", True)):
        assert any(each.fits(text) for each in TEXT_FORMATS[-2:]) is fits
    assert not TEXT_FORMATS[-2].fits("((x)")
    for name, good, bad in (("phone", "555-1234", "555"), ("sum", "1+2", "1+"), ("note", "", None)):
        assert input_fault(CUSTOM[name], good) == ""
        assert bad is None or input_fault(CUSTOM[name], bad)
