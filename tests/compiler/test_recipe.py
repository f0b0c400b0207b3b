"""Recipes: small values from which everybody who reads the store links the same grammar."""

import msgspec
import pytest
from grammar_caches import PREPARED, SECRET, failing, find, tool
from whole_outputs import admits

from compiler.cache import grammar_store
from compiler.cache.grammar_cache import GrammarCache
from compiler.cache.grammar_store import UNIT_PREFIX, verify
from compiler.cache_entry import CacheEntry
from compiler.prepared_vocabulary import prepare
from compiler.recipe import GrammarRecipe
from compiler.response_format import ResponseFormat
from compiler.vocabulary import Vocabulary
from toolspecs.errors import StoreFull, StoreUnavailable
from toolspecs.stores import open_store
from toolspecs.tool import ChoiceMode, ToolChoice

FORMAT = ResponseFormat("choice", ["yes", "no"])
CHOICES = [
    ToolChoice(ChoiceMode.AUTO),
    ToolChoice(ChoiceMode.REQUIRED),
    ToolChoice(ChoiceMode.NONE),
    ToolChoice.named("g"),
    ToolChoice(ChoiceMode.AUTO, ("f",)),
]


@pytest.fixture
async def store():
    store = open_store("sqlite://:memory:")
    yield store
    await store.close()


async def entries_of(recipe, store, prepared):
    contents = {key: verify(await store.get(UNIT_PREFIX + key), key, SECRET) for key in recipe.keys}
    return {key: CacheEntry.from_bytes(contents[key], prepared, kind) for key, kind in recipe.keys.items()}


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("response_format", [None, FORMAT])
async def test_a_recipe_links_the_grammar_of_its_look_up(store, choice, response_format):
    found = await GrammarCache(store, secret=SECRET).find_toolset(
        [tool("f"), tool("g", b={"type": "string"})],
        prepared=PREPARED,
        syntax="json",
        tool_choice=choice,
        response_format=response_format,
    )
    recipe = msgspec.json.decode(found.recipe.to_bytes(), type=GrammarRecipe)
    linked = recipe.link(await entries_of(recipe, store, PREPARED), PREPARED)
    assert linked.digest == found.grammar.digest
    assert [name for name, _ in recipe.tools] == list(found.grammar.names)


async def test_a_recipe_tells_orders_of_keys_apart(store):
    """Keys of the parts do, so an engine that links the recipe admits what the gateway does."""
    tools = [tool("f", a={"type": "null"}, b={"type": "null"})]
    of_schema = ResponseFormat("schema", tools[0].parameters)
    recipes = []
    for order in (None, "any", "declared"):
        found = await GrammarCache(store, secret=SECRET).find_toolset(
            tools,
            prepared=PREPARED,
            syntax="json",
            tool_choice=ToolChoice(ChoiceMode.AUTO),
            response_format=of_schema,
            key_order=order,
        )
        recipes.append(found.recipe)
        linked = found.recipe.link(await entries_of(found.recipe, store, PREPARED), PREPARED)
        assert linked.digest == found.grammar.digest
        for text in ('[{"name": "f", "arguments": {"b": null, "a": null}}]', '{"b": null, "a": null}'):
            assert admits(linked, text) == (order == "any"), text
    assert recipes[0] == recipes[2]
    assert not set(recipes[0].keys) & set(recipes[1].keys)


@pytest.mark.parametrize("syntax", [None, "hermes"])
async def test_a_recipe_of_a_format_alone(store, syntax):
    prepared = prepare(
        Vocabulary.from_tokens(
            [b"y", b"es", b"no"], markers={"<think>": 3, "</think>": 4}, stop_ids=[5], width=6
        )
    )
    found = await GrammarCache(store, secret=SECRET).find_format(FORMAT, prepared=prepared, syntax=syntax)
    linked = found.recipe.link(await entries_of(found.recipe, store, prepared), prepared)
    assert (linked.digest, type(linked)) == (found.grammar.digest, type(found.grammar))


async def test_equal_recipes_have_equal_digests_and_others_do_not(store):
    cache = GrammarCache(store, secret=SECRET)
    one, same, other = [
        (await find(cache, tools)).recipe for tools in ([tool("f")], [tool("f")], [tool("g")])
    ]
    assert one == same
    assert one.digest == same.digest != other.digest


async def test_what_the_store_lost_is_published_again(store):
    cache = GrammarCache(store, secret=SECRET)
    recipe = (await find(cache, [tool("f"), tool("g", b={"type": "string"})])).recipe
    lost = next(iter(recipe.keys))
    await store.delete(UNIT_PREFIX + lost)
    assert await cache.publish(list(recipe.keys), "a client")
    entries = await entries_of(recipe, store, PREPARED)
    assert recipe.link(entries, PREPARED).matcher().forced_text()


async def test_each_client_publishes_within_its_own_allowance_and_the_gateway_beyond_all(store, monkeypatch):
    cache = GrammarCache(store, secret=SECRET)
    recipe = (await find(cache, [tool("f")])).recipe
    (key,) = recipe.keys
    content = await store.get(UNIT_PREFIX + key)
    monkeypatch.setattr(grammar_store, "MAX_CLIENT_BYTES", len(content))
    expected = {"one": [True, False], "another": [True, False], None: [True, True]}
    for client_id, outcomes in expected.items():
        for outcome in outcomes:
            await store.delete(UNIT_PREFIX + key)
            assert await cache.publish(list(recipe.keys), client_id) is outcome
            assert (await store.get(UNIT_PREFIX + key) is not None) is outcome


async def test_what_a_full_store_refuses_uses_up_no_allowance(store, monkeypatch):
    """Else the client's requests would be refused for days after the store has room again."""
    cache = GrammarCache(store, secret=SECRET)
    recipe = (await find(cache, [tool("f")])).recipe
    (key,) = recipe.keys
    content = await store.get(UNIT_PREFIX + key)
    monkeypatch.setattr(grammar_store, "MAX_CLIENT_BYTES", len(content))
    await store.delete(UNIT_PREFIX + key)

    with monkeypatch.context() as patched:
        failing(patched, store, StoreFull("a test", "it is full"), "set")
        for _ in range(2):
            with pytest.raises(StoreFull):
                await cache.publish([key], "a client")
    assert await cache.publish([key], "a client")


async def test_publishing_says_that_the_store_fails(store, monkeypatch):
    cache = GrammarCache(store, secret=SECRET)
    recipe = (await find(cache, [tool("f")])).recipe
    failing(monkeypatch, store, StoreUnavailable("of tests", "told to fail"), "get_many")
    with pytest.raises(StoreUnavailable):
        await cache.publish(list(recipe.keys), "a client")
