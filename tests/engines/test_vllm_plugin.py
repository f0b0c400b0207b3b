"""The plugin inside vLLM, against a stand-in that has vLLM's names and signatures."""

import random

import numpy as np
import pytest
import stand_in_vllm as stand_in
from engine_models import (
    AUTO,
    CALL,
    OWN,
    REQUIRED,
    SECRET,
    TOOLS,
    UNKEPT_MARKS,
    ids,
    look_up,
    marked,
    model_config,
    prepared,
    tokenizer,
)
from random_decoding import flags

from compiler.errors import MatchingTooSlow
from compiler.matcher import allocate_bitmask
from runtime.engines.engine_hooks import UnknownEngine
from runtime.engines.grammar_loader import GrammarUnavailable
from runtime.engines.masked_output import OutputRefused
from runtime.engines.request_mark import InvalidRequestMark
from runtime.engines.settings import PluginSettings
from runtime.engines.vllm.plugin import install


@pytest.fixture
def vllm(monkeypatch, store_url):
    placed = stand_in.put_in_place(monkeypatch)
    install(PluginSettings(store_url, SECRET, 2**26), placed.vllm)
    yield placed
    placed.backend.callgate_grammars.close()


@pytest.fixture
def start(vllm):
    """Starts an engine; options are those of `stand_in.config`."""

    def start(**options):
        return vllm.manager(stand_in.config(tokenizer(), model_config(), **options))

    return start


def asked(manager, *specs):
    """Requests of a manager, by their ids, with grammars."""
    requests = {}
    for number, spec in enumerate(specs):
        request = stand_in.Request(stand_in.Asked(spec), set(prepared().vocabulary.stop_ids))
        manager.grammar_init(request)
        requests[f"r{number}"] = request
    return requests


def masks(manager, requests, drafts=None):
    return manager.grammar_bitmask(requests, list(requests), drafts or {})


def grammar_of(requests, name="r0"):
    return requests[name].structured_output_request.grammar


def test_rows_of_marked_requests_are_those_of_the_gateways_matcher(start, lookup):
    manager = start()
    requests = asked(manager, marked(lookup), OWN, marked(lookup))
    matcher, width = lookup.grammar.matcher(), prepared().vocabulary.width
    expected = allocate_bitmask(1, width)
    for token in (*ids(CALL), *prepared().vocabulary.stop_ids):
        rows = masks(manager, requests)
        matcher.fill_bitmask(expected, 0)
        assert (rows[0] == expected[0]).all()
        assert np.flatnonzero(flags(rows[1], width)).tolist() == [65]
        assert (rows[2] == rows[0]).all() == (token == ids(CALL)[0])
        assert flags(rows[0], width)[token]
        assert matcher.accept(token)
        assert grammar_of(requests).accept_tokens("r0", [token])


@pytest.mark.parametrize("seed", range(12))
def test_random_outputs_have_the_same_masks_bit_for_bit(start, store_url, seed):
    """Decoded as vLLM does it: drafts are validated, some are taken back, others are accepted."""
    source = random.Random(seed)
    looked_up = look_up(store_url, choice=AUTO if seed % 2 else REQUIRED, parallel=seed % 3 == 0)
    manager = start(columns=prepared().vocabulary.width + (70 if seed % 4 == 0 else 0))
    is_thinking = seed % 5 == 0
    requests = asked(manager, marked(looked_up, is_thinking=is_thinking))
    grammar, matcher = grammar_of(requests), looked_up.grammar.matcher(is_thinking=is_thinking)
    width = prepared().vocabulary.width
    expected = allocate_bitmask(1, width)
    num_words, stop_ids = expected.shape[1], prepared().vocabulary.stop_ids
    for _ in range(60):
        matcher.fill_bitmask(expected, 0)
        row = masks(manager, requests)[0]
        assert (row[:num_words] == expected[0]).all()
        assert not row[num_words:].any()
        allowed = np.flatnonzero(flags(row, width)).tolist()
        drafts = [source.choice(allowed), source.randrange(width), source.randrange(width)]
        valid = grammar.validate_tokens(drafts)
        assert valid[:1] == drafts[:1]
        masks(manager, requests, {"r0": valid})  # accepts them and rolls back
        token = source.choice([t for t in allowed if t not in stop_ids] or allowed)
        assert grammar.accept_tokens("r0", [token])
        assert matcher.accept(token)
        if matcher.is_terminated():
            break


def test_behind_the_end_nothing_is_unmasked(start, lookup):
    """An engine that was told to ignore its stop token may only write it again, and its request ends."""
    manager = start()
    requests = asked(manager, marked(lookup))
    grammar, stop = grammar_of(requests), prepared().vocabulary.stop_ids[0]
    assert grammar.accept_tokens("r0", [*ids(CALL), stop])
    allowed = np.flatnonzero(flags(masks(manager, requests)[0], prepared().vocabulary.width))
    assert allowed.tolist() == list(prepared().vocabulary.stop_ids)
    assert not grammar.is_terminated()
    assert not grammar.accept_tokens("r0", [stop])
    assert grammar.validate_tokens([stop]) == []


def test_an_output_goes_on_behind_what_the_prompt_ends_with(start, lookup):
    manager = start()
    begun = ids(CALL)[:9]
    requests = asked(manager, marked(lookup, written_ids=tuple(begun)))
    matcher = lookup.grammar.matcher()
    assert all(map(matcher.accept, begun))
    expected = allocate_bitmask(1, prepared().vocabulary.width)
    matcher.fill_bitmask(expected, 0)
    assert (masks(manager, requests)[0] == expected[0]).all()
    grammar_of(requests).accept_tokens("r0", ids(CALL)[9:11])
    grammar_of(requests).reset()
    assert (masks(manager, requests)[0] == expected[0]).all()


def test_a_refused_token_changes_nothing(start, lookup):
    manager = start()
    requests = asked(manager, marked(lookup))
    before = masks(manager, requests)[0].copy()
    assert not grammar_of(requests).accept_tokens("r0", [65])
    assert (masks(manager, requests)[0] == before).all()


def test_a_matcher_that_fails_ends_its_own_request_only(start, lookup, monkeypatch, caplog):
    manager = start()
    requests = asked(manager, marked(lookup), marked(lookup))

    def fail(*_):
        raise RuntimeError("lost")

    monkeypatch.setattr(grammar_of(requests).output, "_fill", fail)
    rows = masks(manager, requests)
    width = prepared().vocabulary.width
    assert np.flatnonzero(flags(rows[0], width)).tolist() == list(prepared().vocabulary.stop_ids)
    assert np.flatnonzero(flags(rows[1], width)).tolist() == [ids(CALL)[0]]
    assert not grammar_of(requests).accept_tokens("r0", list(prepared().vocabulary.stop_ids))
    assert grammar_of(requests, "r1").accept_tokens("r1", ids(CALL)[:1])
    assert "lost" in caplog.text


def test_a_mask_that_cannot_be_filled_ends_no_engine_that_speculates(start, lookup, monkeypatch):
    """VLLM stops with an AssertionError if a valid draft token is refused while it fills the rows of a draft."""
    manager = start()
    requests = asked(manager, marked(lookup), marked(lookup))
    grammar, first, filled = grammar_of(requests), ids(CALL)[:2], []

    def fail(*_):
        filled.append(1)
        raise MatchingTooSlow(0.5)

    assert grammar.validate_tokens(first) == first
    monkeypatch.setattr(grammar.output.matcher, "fill_bitmask", fail)
    rows = masks(manager, requests, {"r0": first})
    stop_ids = list(prepared().vocabulary.stop_ids)
    for row in rows[:3]:
        assert np.flatnonzero(flags(row, prepared().vocabulary.width)).tolist() == stop_ids
    assert len(filled) == 1  # a thread still uses the matcher
    assert not grammar.accept_tokens("r0", first[:1])
    assert not grammar.accept_tokens("r0", stop_ids[:1])
    assert grammar_of(requests, "r1").accept_tokens("r1", first)


@pytest.mark.parametrize("case", UNKEPT_MARKS)
def test_a_mark_that_cannot_be_kept_fails_its_request(start, lookup, case):
    spell, options, reason = UNKEPT_MARKS[case]
    manager = start(**options)
    with pytest.raises((InvalidRequestMark, GrammarUnavailable, OutputRefused), match=reason):
        asked(manager, spell(lookup))
    assert np.flatnonzero(flags(masks(manager, asked(manager, OWN))[0], 4000)).tolist() == [65]


def test_an_engine_that_would_not_stop_is_refused(start, lookup):
    manager = start()
    request = stand_in.Request(stand_in.Asked(marked(lookup)), {1})
    with pytest.raises(GrammarUnavailable, match="would not stop"):
        manager.grammar_init(request)


def test_in_an_engine_with_a_parser_of_thoughts_marks_need_masks_in_thoughts(start, lookup):
    with pytest.raises(GrammarUnavailable, match="enable_in_reasoning"):
        asked(start(reasoning_parser="qwen3"), marked(lookup))
    manager = start(reasoning_parser="qwen3", enable_in_reasoning=True)
    assert masks(manager, asked(manager, marked(lookup))).any()


def test_nothing_masked_is_no_bitmask(start):
    assert masks(start(), {}) is None


def test_installing_twice_replaces_once(vllm, store_url):
    before = vllm.manager.grammar_bitmask
    install(PluginSettings(store_url, SECRET, 2**26), vllm.vllm)
    assert vllm.manager.grammar_bitmask is before


@pytest.mark.parametrize("version", ["0.31.2", "0.33.0", "1.0", "dev"])
def test_an_unknown_vllm_is_refused_with_both_versions(monkeypatch, store_url, version):
    placed = stand_in.put_in_place(monkeypatch)
    placed.vllm.__version__ = version
    with pytest.raises(UnknownEngine, match=rf"vLLM {version}.*vLLM 0\.32\.\*"):
        install(PluginSettings(store_url, SECRET, 2**26), placed.vllm)


@pytest.mark.parametrize(
    ("owner", "method"),
    [("backend", "compile_grammar"), ("manager", "grammar_bitmask"), ("grammar", "rollback")],
)
def test_other_parameters_are_refused(monkeypatch, store_url, owner, method):
    placed = stand_in.put_in_place(monkeypatch)
    monkeypatch.setattr(getattr(placed, owner), method, lambda self, something: None)
    with pytest.raises(UnknownEngine, match=f"another .*{method}"):
        install(PluginSettings(store_url, SECRET, 2**26), placed.vllm)


def test_tools_of_the_test_have_a_guard(lookup):
    """Otherwise the tests above would not show that guards hold in an engine."""
    assert any(lookup.grammar.units[tool.name].guard for tool in TOOLS)
