"""The plugin inside SGLang, against a stand-in that has SGLang's names and signatures."""

import random

import numpy as np
import pytest
import stand_in_sglang as stand_in
from engine_models import (
    AUTO,
    CALL,
    OWN,
    REQUIRED,
    SECRET,
    UNKEPT_MARKS,
    ids,
    look_up,
    marked,
    model_config,
    prepared,
    tokenizer,
)
from random_decoding import flags
from stand_in_vllm import Tensor

from compiler.matcher import allocate_bitmask
from runtime.engines.engine_hooks import UnknownEngine
from runtime.engines.settings import PluginSettings
from runtime.engines.sglang.plugin import install


@pytest.fixture
def sglang(monkeypatch, store_url):
    placed = stand_in.put_in_place(monkeypatch)
    install(PluginSettings(store_url, SECRET, 2**26), stand_in.VERSION)
    return placed


@pytest.fixture
def start(sglang):
    """Starts an engine; options are those of `stand_in.scheduler`."""
    started = []

    def start(**options):
        started.append(sglang.start(stand_in.scheduler(tokenizer(), model_config(), **options)))
        return started[-1]

    yield start
    for manager in started:
        manager.grammar_backend._grammars.close()


def asked(manager, *specs, is_failing=False):
    """Requests with grammars, once the manager has them ready, or has given them up."""
    requests = [stand_in.Req(spec) for spec in specs]
    for request in requests:
        assert manager.process_req_with_grammar(request)
    ready = []
    while len(ready) < len(requests):
        ready += manager.get_ready_grammar_requests()
    assert is_failing or not any(request.aborted_for for request in requests)
    return requests


def masks(requests, columns=None):
    return stand_in.masks(requests, columns or prepared().vocabulary.width)


def test_rows_of_marked_requests_are_those_of_the_gateways_matcher(start, lookup):
    """Whichever grammar is the first of a batch, which fills the rows of all; a row without one stays open."""
    requests = asked(start(), marked(lookup), OWN, marked(lookup))
    open_row = stand_in.Req("")
    matcher, width = lookup.grammar.matcher(), prepared().vocabulary.width
    expected = allocate_bitmask(1, width)
    for token in (*ids(CALL), *prepared().vocabulary.stop_ids):
        matcher.fill_bitmask(expected, 0)
        marked_first = masks([*requests, open_row])
        own_first = masks([requests[1], requests[0], open_row, requests[2]])[[1, 0, 3, 2]]
        assert (marked_first == own_first).all()
        assert (marked_first[0] == expected[0]).all()
        assert np.flatnonzero(flags(marked_first[1], width)).tolist() == [65]
        assert (marked_first[3] == -1).all()
        assert matcher.accept(token)
        requests[0].grammar.accept_token(token)
    assert requests[0].grammar.is_terminated()


@pytest.mark.parametrize("seed", range(8))
def test_random_outputs_have_the_same_masks_bit_for_bit(start, store_url, seed):
    """Decoded as SGLang does it: a tree of drafts is walked by accepting and rolling back, one token is kept."""
    source = random.Random(seed)
    looked_up = look_up(store_url, choice=AUTO if seed % 2 else REQUIRED, parallel=seed % 3 == 0)
    columns = prepared().vocabulary.width + (70 if seed % 4 == 0 else 0)
    is_thinking = seed % 5 == 0
    (request,) = asked(start(columns=columns), marked(looked_up, is_thinking=is_thinking))
    grammar, matcher = request.grammar, looked_up.grammar.matcher(is_thinking=is_thinking)
    expected = allocate_bitmask(1, prepared().vocabulary.width)
    num_words, stop_ids = expected.shape[1], prepared().vocabulary.stop_ids
    for _ in range(50):
        matcher.fill_bitmask(expected, 0)
        row = masks([request], columns)[0]
        assert (row[:num_words] == expected[0]).all()
        assert not row[num_words:].any()
        allowed = np.flatnonzero(flags(row, prepared().vocabulary.width)).tolist()
        for draft in source.sample(allowed, min(2, len(allowed))):
            grammar.accept_token(draft)
            if not grammar.is_terminated():
                masks([request], columns)
            grammar.rollback(1)
        token = source.choice([t for t in allowed if t not in stop_ids] or allowed)
        grammar.accept_token(token)
        assert matcher.accept(token)
        if matcher.is_terminated():
            assert grammar.is_terminated()
            break


def test_a_token_that_is_not_allowed_ends_its_request(start, lookup):
    (request,) = asked(start(), marked(lookup))
    before = masks([request]).copy()
    with pytest.raises(ValueError, match="the token 65 is not of its grammar"):
        request.grammar.accept_token(65)
    assert (masks([request]) == before).all()


def test_logits_are_masked_by_sglangs_own_operation(start, lookup):
    (request,) = asked(start(), marked(lookup))
    logits = np.zeros((1, prepared().vocabulary.width))
    request.grammar.apply_vocab_mask(
        logits=logits, vocab_mask=request.grammar.move_vocab_mask(Tensor(masks([request])), "cpu")
    )
    assert np.flatnonzero(np.isfinite(logits[0])).tolist() == [ids(CALL)[0]]


def test_an_output_goes_on_behind_what_the_prompt_ends_with(start, lookup):
    begun = ids(CALL)[:9]
    (request,) = asked(start(), marked(lookup, written_ids=tuple(begun)))
    matcher = lookup.grammar.matcher()
    assert all(map(matcher.accept, begun))
    expected = allocate_bitmask(1, prepared().vocabulary.width)
    matcher.fill_bitmask(expected, 0)
    assert (masks([request])[0] == expected[0]).all()


def test_sglang_remembers_no_grammar_of_a_mark(start, lookup):
    """It would never forget it, and two outputs would share one matcher."""
    manager = start()
    first, second = (asked(manager, marked(lookup))[0] for _ in range(2))
    assert first.grammar is not second.grammar
    asked(manager, OWN)
    assert [key[1] for key in manager.grammar_backend.cache] == [OWN]


@pytest.mark.parametrize("case", UNKEPT_MARKS)
def test_a_mark_that_cannot_be_kept_ends_its_request_and_says_why(start, lookup, case):
    spell, options, reason = UNKEPT_MARKS[case]
    manager = start(**options)
    (request,) = asked(manager, spell(lookup), is_failing=True)
    assert reason in request.aborted_for
    assert not manager.grammar_backend.cache
    assert np.flatnonzero(flags(masks(asked(manager, OWN), 4000)[0], 4000)).tolist() == [65]


def test_what_fails_on_one_rank_of_several_waits_until_all_give_it_up(start, lookup):
    """Its request would end on this rank, and go on at the others, which wait for this one forever."""
    manager = start(num_ranks=2)
    fine, failing = (
        stand_in.Req(marked(lookup)),
        stand_in.Req(marked(lookup, secret=b"another secret, as long")),
    )
    for request in (fine, failing):
        manager.process_req_with_grammar(request)
    ready = []
    while fine not in ready:
        ready += manager.get_ready_grammar_requests()
    while failing not in ready:
        assert failing.is_waiting, "what fails is never ready"
        ready += manager.get_ready_grammar_requests()
    assert failing.aborted_for == "Grammar preprocessing timed out"
    assert failing.grammar_wait_ct == manager.SGLANG_GRAMMAR_MAX_POLL_ITERATIONS + 1
    assert not manager.grammar_backend.cache


def test_a_request_that_is_left_before_its_grammar_is_ready_costs_nothing(start, lookup, monkeypatch):
    manager = start()
    monkeypatch.setattr(manager.grammar_backend._own, "executor", Waiting())
    request = stand_in.Req(marked(lookup))
    manager.process_req_with_grammar(request)
    assert request.grammar.cancel()
    manager.grammar_backend.executor.run()
    assert request.grammar.cancelled()


class Waiting:
    """An executor whose work waits until `run`."""

    def __init__(self):
        self.work = []

    def submit(self, *work):
        self.work.append(work)

    def run(self):
        for call, *arguments in self.work:
            call(*arguments)


def test_an_engine_that_reads_thoughts_masks_those_of_marks_too(start, lookup):
    """SGLang's own backend leaves thoughts unmasked, and names grammars by how a prompt ends."""
    manager = start(own_backend=stand_in.ReasonerGrammarBackend(stand_in.XGrammarGrammarBackend()))
    marked_one, other = asked(manager, marked(lookup), OWN)
    assert marked_one.grammar_key == ("ebnf", marked(lookup))
    assert other.grammar_key == ("ebnf:open_answer", OWN)
    width = prepared().vocabulary.width
    assert np.flatnonzero(flags(masks([marked_one])[0], width)).tolist() == ids(CALL)[:1]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"own_backend": stand_in.BaseGrammarBackend()}, "--grammar-backend xgrammar"),
        ({"pp_size": 2}, "--pp-size 1"),
    ],
)
def test_engines_that_are_set_up_otherwise_do_not_start(sglang, options, reason):
    with pytest.raises(UnknownEngine, match=reason):
        sglang.start(stand_in.scheduler(tokenizer(), model_config(), **options))


def test_an_engine_without_grammars_starts_and_reads_no_marks(sglang):
    manager = sglang.start(stand_in.scheduler(tokenizer(), model_config(), own_backend=None))
    assert manager.grammar_backend is None


@pytest.mark.parametrize("version", ["0.5.22", "0.6.0", "0.0.0.dev0"])
def test_an_unknown_sglang_is_refused_with_both_versions(store_url, version):
    with pytest.raises(UnknownEngine, match=rf"SGLang {version}.*SGLang 0\.5\.23"):
        install(PluginSettings(store_url, SECRET, 2**26), version)


@pytest.mark.parametrize(
    ("owner", "method"),
    [("BaseGrammarObject", "rollback"), ("BaseGrammarBackend", "set_cache"), ("XGrammarGrammar", "apply_vocab_mask")],
)  # fmt: skip
def test_other_parameters_are_refused(sglang, monkeypatch, owner, method):
    monkeypatch.setattr(getattr(sglang, owner), method, lambda self, something: None)
    with pytest.raises(UnknownEngine, match=f"another {owner}.{method}"):
        sglang.start(stand_in.scheduler(tokenizer(), model_config()))
