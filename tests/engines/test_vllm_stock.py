"""vLLM without the plugin: what is not sent again, and what it may write at one place and not at the next."""

from pluginless_servers import StockStandIn
from remote_engines import assert_valid, events_of, remote_over

from compiler.response_format import ResponseFormat
from runtime.engines import sent_grammars
from runtime.engines.grammar_position import GrammarPosition
from runtime.events import TextDelta


class LikesDigits(StockStandIn):
    """It likes 3 most, and then 2."""

    def noise(self, body):
        logits = super().noise(body) * 0
        for number, digit in enumerate((b"2", b"3"), 1):
            logits[self.text.vocabulary.tokens.index(digit)] = 10 * number
        return logits


async def test_text_for_which_there_is_no_room_at_one_place_may_stand_at_the_next(text):
    """The engine was asked not to write it any more: where a call begins with `>`, that was in no later text."""
    stand_in = LikesDigits(text)
    numbers = ResponseFormat("schema", {"enum": [1, 12, 123, 1357924680135792467]})
    async with remote_over(text, stand_in, kind="vllm_stock") as remote:
        lookup = await remote.grammars.find_format(numbers, prepared=text.prepared, syntax=None)
        events = await events_of(remote, remote.request(lookup, max_tokens=5))
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "123"
        first, second, third = stand_in.requests
        assert second["logit_bias"] == {str(text.vocabulary.tokens.index(b"3")): -100.0}
        assert second["max_tokens"] == 1
        assert "logit_bias" not in first | third


async def test_a_grammar_that_is_too_long_is_made_once_for_an_output(text, monkeypatch):
    """What an engine writes without one is refused some times, and each time it is asked again."""
    made = []
    make = GrammarPosition.rest_grammar
    monkeypatch.setattr(GrammarPosition, "rest_grammar", lambda where: made.append(where) or make(where))
    async with remote_over(text, StockStandIn(text), kind="vllm_stock") as remote:
        lookup = await remote.grammar(parallel=False)
        monkeypatch.setattr(sent_grammars, "MAX_GRAMMAR_CHARS", 50)
        request = remote.request(lookup)
        (finished,) = assert_valid(await events_of(remote, request), request)
        assert finished.stats.num_refused_tokens > 1
        assert len(made) == 1
