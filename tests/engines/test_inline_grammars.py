"""Grammars that travel with their requests: an engine without a store writes what the gateway's grammar allows."""

import asyncio
from dataclasses import dataclass, replace

import pytest
import stand_in_vllm
from completions_server import SECRET as GATEWAYS_SECRET
from completions_server import StandIn
from engine_models import REQUIRED, SECRET, TOOLS, marked, model_config, prepared, tokenizer
from remote_engines import SETTINGS, answer_of, remote_over

from compiler.cache.grammar_cache import GrammarCache
from compiler.cache.grammar_store import sign
from compiler.matcher import allocate_bitmask
from runtime.engines import inline_grammars
from runtime.engines.grammar_loader import GrammarLoader, GrammarUnavailable
from runtime.engines.inline_grammars import InlineGrammars
from runtime.engines.request_mark import RequestMark, read_request_mark, spell_request_mark
from runtime.engines.settings import PluginSettings
from runtime.engines.vllm.plugin import install
from runtime.errors import RequestRefused


@dataclass
class StorelessStandIn(StandIn):
    """An engine whose plugin has no store."""

    loader: GrammarLoader = None

    def linked(self, mark):
        return self.loader.grammar(mark.recipe, mark.parts)


async def test_an_engine_without_a_store_answers(text):
    loader = GrammarLoader(None, GATEWAYS_SECRET, text.prepared, cache_bytes=2**26)
    stand_in = StorelessStandIn(text, loader=loader)
    async with remote_over(text, stand_in, settings=replace(SETTINGS, sends_units=True)) as remote:
        for mode in ("required", "auto"):
            calls, _ = await answer_of(remote, remote.request(await remote.grammar(mode)))
            assert calls or mode == "auto"
        (state,) = (await remote.runtime.health()).engines
        assert (state.num_failed, state.num_refused_tokens) == (0, 0)
    loader.close()


def inline(tools=TOOLS):
    """A grammar that was looked up, and its parts as a gateway signs them."""

    async def find():
        cache = GrammarCache(None, secret=SECRET)
        sent = InlineGrammars(SECRET)
        sent.start(cache)
        lookup = await cache.find_toolset(
            tools, prepared=prepared(), syntax="hermes", tool_choice=REQUIRED, is_parallel=False
        )
        await sent.publish(lookup.recipe, None)
        await cache.close()
        return lookup, sent.parts(lookup.recipe)

    return asyncio.run(find())


@pytest.fixture
def engine(monkeypatch):
    """A vLLM whose plugin has no store: called with a mark, it returns the grammar object."""
    placed = stand_in_vllm.put_in_place(monkeypatch)
    install(PluginSettings(None, SECRET, 2**26), placed.vllm)
    placed.manager(stand_in_vllm.config(tokenizer(), model_config()))
    grammars = placed.backend.callgate_grammars
    stop_ids = set(prepared().vocabulary.stop_ids)
    yield lambda mark: grammars.compile("GRAMMAR", mark, stop_ids)
    grammars.close()


def test_masks_of_a_mark_with_its_parts_are_those_of_the_gateway(engine):
    lookup, parts = inline()
    grammar = engine(spell_request_mark(RequestMark(lookup.recipe, parts=parts), SECRET))
    width = prepared().vocabulary.width
    got, expected = allocate_bitmask(1, width), allocate_bitmask(1, width)
    grammar.output.fill(got, 0)
    lookup.grammar.matcher().fill_bitmask(expected, 0)
    assert (got == expected).all()
    assert engine(marked(lookup)), "what was linked once needs no parts"


def test_without_parts_and_a_store_there_is_no_grammar(engine):
    lookup, _ = inline()
    with pytest.raises(GrammarUnavailable, match=r"no store, .*'pay', 'tag'.*engine_units"):
        engine(marked(lookup))


@pytest.mark.parametrize("case", ["another secret", "another unit's", "altered"])
def test_a_part_that_the_gateway_did_not_seal_for_its_key_is_refused(engine, case):
    """Its mark is signed, so this takes a gateway that is broken."""
    lookup, parts = inline()
    pay, tag = (key for _, key in lookup.recipe.tools)
    other = {
        "another secret": sign(parts[pay][32:], pay, b"another secret, as long"),
        "another unit's": parts[tag],
        "altered": parts[pay][:-1] + b"!",
    }
    mark = spell_request_mark(RequestMark(lookup.recipe, parts={**parts, pay: other[case]}), SECRET)
    with pytest.raises(GrammarUnavailable, match="the grammar of 'pay' cannot be used: its signature"):
        engine(mark)


def test_a_mark_keeps_its_parts():
    lookup, parts = inline()
    mark = spell_request_mark(RequestMark(lookup.recipe, parts=parts), SECRET)
    assert read_request_mark(mark, SECRET).parts == parts


def test_what_is_too_large_is_refused_and_says_what_to_do(monkeypatch):
    signed = []
    monkeypatch.setattr(inline_grammars, "MAX_INLINE_BYTES", 100)
    monkeypatch.setattr(inline_grammars, "sign", lambda *of: signed.append(of) or sign(*of))
    with pytest.raises(RequestRefused, match=r"more than 100 .*offer fewer tools.*engine_units"):
        inline()
    assert len(signed) == 1  # the first part was too much


def test_what_left_memory_is_refused():
    lookup, _ = inline()
    with pytest.raises(RequestRefused, match="left the gateway's memory"):
        InlineGrammars(SECRET).parts(lookup.recipe)
