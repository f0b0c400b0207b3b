"""What the masks of one engine step cost: 1 to 256 outputs, each at its own place in a call.

OMP_NUM_THREADS=1 PYTHONPATH=.:tests python tests/bench/bench_engine_masks.py [--steps 40] [--vocabulary qwen3]

All tools of the MCP corpus in one grammar, as the plugins inside engines link it; a call is required. The rows
are at random places of random outputs, and one in five is under a guard. In each step all rows are filled, one by
one or in a batch in turn, and then each output accepts one random token. Times are milliseconds a step: of the
quietest tenth of the steps and, in brackets, the median.
"""

import argparse
import asyncio
import random
import statistics
import time
from tempfile import TemporaryDirectory

import numpy as np
from corpus import corpus, mcp_tools
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from compiler.cache.grammar_cache import GrammarCache
from compiler.isolation.priming import prime
from compiler.linker.inner_positions import InUnit
from compiler.linker.linked_matcher import LinkedMatcher
from compiler.linker.linker import LinkedGrammar
from compiler.matcher import allocate_bitmask
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.recipe import GrammarRecipe
from compiler.vocabulary import Vocabulary
from runtime.engines.grammar_loader import GrammarLoader
from runtime.engines.masked_output import BatchFill, MaskedOutput
from runtime.engines.request_mark import RequestMark
from toolspecs.stores import open_store
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

NUM_ROWS = (1, 8, 32, 128, 256)
GUARDED_SHARE = 0.2
MAX_TOKENS = 60
SECRET = b"sixteen bytes or more"


class Rows:
    """Outputs that are somewhere in a call; those that end are replaced by others."""

    def __init__(self, grammar: LinkedGrammar, num_rows: int, num_threads: int, seed: int) -> None:
        self._batch = BatchFill(num_threads)
        self._grammar = grammar
        self._width = grammar.vocabulary.width
        self._source = random.Random(seed)
        self._stop_ids = set(grammar.vocabulary.stop_ids)
        self._guarded, self._plain = (
            [name for name in grammar.names if (grammar.units[name].guard is not None) is guarded]
            for guarded in (True, False)
        )
        is_guarded = [at < GUARDED_SHARE * num_rows for at in range(num_rows)]
        self._is_guarded = self._source.sample(is_guarded, num_rows)
        self.outputs = [self._begun(is_guarded=is_guarded) for is_guarded in self._is_guarded]
        self.bitmask = allocate_bitmask(num_rows, self._width)

    def _begun(self, *, is_guarded: bool) -> MaskedOutput:
        """An output at a random place of a call of a tool with or without a guard."""
        names = self._guarded if is_guarded else self._plain
        while True:
            name = self._source.choice(names)
            output = MaskedOutput(self._grammar, RequestMark(RECIPE), self._grammar.prepared, self._width)
            header = f'<tool_call>\n{{"name": "{name}", "arguments": {{'
            assert output.accept(self._ids(header))
            for _ in range(self._source.randrange(MAX_TOKENS)):
                if not self._goes_on(output):
                    break
            else:
                return output

    def _ids(self, text: str) -> list[int]:
        """The text's markers and bytes, each a token."""
        pieces = self._grammar.vocabulary.pieces(self._grammar.vocabulary.spell(text).encode())
        byte_ids = BYTE_IDS[self._grammar.vocabulary.digest]
        return [i for p in pieces for i in ([p] if isinstance(p, int) else [byte_ids[b] for b in p])]

    def _goes_on(self, output: MaskedOutput) -> bool:
        """Accept a random token; False if the call is over."""
        mask = allocate_bitmask(1, self._width)
        output.fill(mask, 0)
        assert output.accept([self._drawn(mask[0])])
        return _is_in_call(output)

    def step(self, *, in_batch: bool) -> tuple[float, float]:
        """Seconds to fill all rows, and to accept one token in each."""
        numbered = [(output, row) for row, output in enumerate(self.outputs)]
        start = time.perf_counter()
        if in_batch:
            self._batch.fill(numbered, self.bitmask)
        else:
            for output, row in numbered:
                output.fill(self.bitmask, row)
        filled = time.perf_counter() - start
        tokens = [self._drawn(row) for row in self.bitmask]
        start = time.perf_counter()
        for output, token in zip(self.outputs, tokens, strict=True):
            assert output.accept([token])
        accepted = time.perf_counter() - start
        for at, output in enumerate(self.outputs):
            if not _is_in_call(output):
                self.outputs[at] = self._begun(is_guarded=self._is_guarded[at])
        return filled, accepted

    def _drawn(self, row: np.ndarray) -> int:
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        return int(allowed[self._source.randrange(len(allowed))])


RECIPE = GrammarRecipe("", "hermes")
BYTE_IDS: dict[str, dict[int, int]] = {}
"""By the digest of a vocabulary, the token of each byte."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--vocabulary", choices=["qwen3", "mistral-v3"], default="qwen3")
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(corpus("tokenizers", options.vocabulary))
    tools = unique_mcp_tools()
    with TemporaryDirectory() as folder:
        url = f"sqlite://{folder}/store.sqlite3"
        recipe = asyncio.run(_stored(tools, _primed(tokenizer), url))
        grammar = _loaded(recipe, _primed(tokenizer), url)
    vocabulary = grammar.vocabulary
    BYTE_IDS[vocabulary.digest] = {t[0]: i for i, t in enumerate(vocabulary.tokens) if len(t) == 1}
    num_guarded = sum(unit.guard is not None for unit in grammar.units.values())
    print(f"{len(tools)} tools, {num_guarded} of them with a guard; {options.threads} threads fill a batch")
    print("| rows | one by one | in one batch | accept |\n|--:|--:|--:|--:|")
    for num_rows in NUM_ROWS:
        rows = Rows(grammar, num_rows, options.threads, seed=num_rows)
        steps = [(at % 2 == 1, *rows.step(in_batch=at % 2 == 1)) for at in range(2 * options.steps)]
        single, batched = (
            [fill for is_batch, fill, _ in steps if is_batch is kind] for kind in (False, True)
        )
        print(f"| {num_rows} | {_shown(single)} | {_shown(batched)} | {_shown([s[2] for s in steps])} |")


def _is_in_call(output: MaskedOutput) -> bool:
    """Whether an output is within the arguments of a call."""
    matcher = output.matcher
    assert isinstance(matcher, LinkedMatcher)
    return isinstance(matcher._position, InUnit)


def _primed(tokenizer: PreTrainedTokenizerBase) -> PreparedVocabulary:
    prepared = PreparedVocabulary(Vocabulary.from_tokenizer(tokenizer))
    assert prepared.index.last_word is not None
    prime(prepared)
    return prepared


async def _stored(tools: list[Tool], prepared: PreparedVocabulary, url: str) -> GrammarRecipe:
    """The recipe of a grammar whose units a gateway has compiled into a store."""
    store = open_store(url)
    cache = GrammarCache(store, secret=SECRET)
    required = ToolChoice(ChoiceMode.REQUIRED)
    found = await cache.find_toolset(tools, prepared=prepared, syntax="hermes", tool_choice=required)
    await cache.close()
    await store.close()
    return found.recipe


def _loaded(recipe: GrammarRecipe, prepared: PreparedVocabulary, url: str) -> LinkedGrammar:
    """The grammar as a plugin loads it; prints how long an engine waits that has only its vocabulary ready."""
    loader = GrammarLoader(lambda: open_store(url), SECRET, prepared, cache_bytes=2**30)
    width = prepared.vocabulary.width
    start = time.perf_counter()
    grammar = loader.grammar(recipe)
    MaskedOutput(grammar, RequestMark(recipe), prepared, width).fill(allocate_bitmask(1, width), 0)
    print(f"first mask, nothing cached but the store: {time.perf_counter() - start:.2f} s")
    loader.close()
    assert isinstance(grammar, LinkedGrammar)
    return grammar


def _shown(seconds: list[float]) -> str:
    """The quietest tenth of the steps, and the median, in milliseconds."""
    ordered = sorted(second * 1e3 for second in seconds)
    return f"{ordered[len(ordered) // 10]:.2f} ({statistics.median(ordered):.2f})"


def unique_mcp_tools() -> list[Tool]:
    """Every tool of the corpus, once by name."""
    by_name: dict[str, Tool] = {}
    for _, tool in mcp_tools():
        by_name.setdefault(tool["name"], Tool(tool["name"], "", tool["inputSchema"]))
    return list(by_name.values())


if __name__ == "__main__":
    main()
