"""What tests of the plugins share: the tiny model's files, a store with units in it, and marks of them."""

import asyncio
from dataclasses import replace
from functools import cache

from transformers import AutoConfig, AutoTokenizer

from compiler.cache.grammar_cache import GrammarCache
from compiler.prepared_vocabulary import PreparedVocabulary
from runtime.engines.request_mark import RequestMark, spell_request_mark
from runtime.models import TINY_MODEL_FOLDER
from runtime.models.model_config import model_vocabulary
from toolspecs.stores import open_store
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

SECRET = b"sixteen bytes or more"
CALL = '<tool_call>\n{"name": "pay", "arguments": {"amount": 7}}\n</tool_call>'
OWN = chr(65)
"""A grammar without a mark: the stand-ins of plugins' engines allow the token 65 only."""
REQUIRED, AUTO = ToolChoice(ChoiceMode.REQUIRED), ToolChoice(ChoiceMode.AUTO)
TOOLS = (
    Tool(
        "pay", "", {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
    ),
    Tool(
        "tag",
        "",
        {
            "type": "object",
            "properties": {
                "names": {"type": "array", "items": {"type": "string", "maxLength": 40}, "uniqueItems": True}
            },
            "required": ["names"],
        },
    ),
)


@cache
def tokenizer():
    return AutoTokenizer.from_pretrained(TINY_MODEL_FOLDER)


@cache
def model_config():
    return AutoConfig.from_pretrained(TINY_MODEL_FOLDER)


@cache
def prepared() -> PreparedVocabulary:
    return PreparedVocabulary(model_vocabulary(tokenizer(), model_config()))


def look_up(store_url, tools=TOOLS, *, choice=REQUIRED, parallel=False, secret=SECRET, vocabulary=None):
    """The grammar of some tools, and its recipe; their units are in the store from then on."""

    async def find():
        store = open_store(store_url)
        cache = GrammarCache(store, secret=secret)
        try:
            return await cache.find_toolset(
                tools,
                prepared=vocabulary or prepared(),
                syntax="hermes",
                tool_choice=choice,
                is_parallel=parallel,
            )
        finally:
            await cache.close()
            await store.close()

    return asyncio.run(find())


def marked(lookup, *, secret=SECRET, is_thinking=False, written_ids=()) -> str:
    """What a gateway sends for a grammar that was looked up."""
    return spell_request_mark(RequestMark(lookup.recipe, is_thinking, written_ids), secret)


def _of_another(lookup, **changes) -> str:
    return marked(replace(lookup, recipe=replace(lookup.recipe, **changes)))


UNKEPT_MARKS = {
    "signed with another secret": (lambda one: marked(one, secret=b"another secret, as long"), {}, "CALLGATE_SECRET"),
    "of another vocabulary": (lambda one: _of_another(one, vocabulary="0" * 64), {}, "tokenizer"),
    "of units that nobody stored": (lambda one: _of_another(one, tools=(("pay", "0" * 64),)), {}, "the store lacks the grammar of 'pay'"),
    "in an engine with narrow logits": (marked, {"columns": 4000}, "4000 columns"),
    "after what is not of its grammar": (lambda one: marked(one, written_ids=(65,)), {}, "the prompt ends with"),
}  # fmt: skip
"""Marks that no engine can keep: how a lookup is spelled, the options of the stand-in's engine, and the reason."""


def ids(text: str) -> list[int]:
    return tokenizer().encode(text, add_special_tokens=False)
