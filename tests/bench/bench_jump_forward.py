"""The share of tokens that a grammar forces, in BFCL's expected calls, and whether they are the tokenizer's own.

The model is one that writes these calls as its tokenizer spells them; of `mcp`, the shortest call of each tool.
With jump-forward the output must be the same tokens, fewer of them drawn.

PYTHONPATH=.:tests python tests/bench/bench_jump_forward.py [--corpus bfcl] [--every 10] [--vocabulary qwen3] [--key-order any]
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from corpus import corpus, json_lines
from dictation import dictate, ids_of, spelled_vocabulary
from soundness import bfcl
from soundness.corpora import sample

from compiler import compile_toolset
from compiler.syntax import Syntax
from compiler.syntaxes import SYNTAXES
from compiler.vocabulary import Vocabulary
from runtime.text.detokenizer import TokenBytes
from toolspecs.tool import KeyOrder, Tool


def outputs(
    corpus_name: str, vocabulary: Vocabulary, syntax: str, every: int, key_order: KeyOrder
) -> Iterator[tuple[Any, str]]:
    """Linked grammars, and what is written under them: BFCL's expected calls, or the shortest call of a tool."""
    if corpus_name == "mcp":
        for case in sample("mcp", every=every):
            tool = Tool(case.name.partition("/")[2], "", case.schema, key_order=key_order)
            grammar = compile_toolset([tool], tokenizer=vocabulary, syntax=syntax)
            token_bytes = TokenBytes(vocabulary)
            closer = grammar.closer()
            ids = closer.completion_ids(closer.minimum())
            yield grammar, token_bytes.of(ids).decode()
        return
    found = [item for path in sorted(corpus("bfcl").glob("*.gz")) for item in json_lines(path)]
    for item in [item for item in found if item["ground_truth"]][::every]:
        tools = {
            tool["name"]: Tool(tool["name"], "", bfcl.schema_of(tool["parameters"]), key_order=key_order)
            for tool in item["function"]
        }
        calls = [
            (name, next(bfcl.expected_calls(arguments, tools[name].parameters)))
            for expected in item["ground_truth"]
            for name, arguments in expected.items()
        ]
        grammar = compile_toolset(list(tools.values()), tokenizer=vocabulary, syntax=syntax)
        yield grammar, spelled(SYNTAXES[syntax], calls)


def spelled(syntax: Syntax, calls: list[tuple[str, Any]]) -> str:
    """Calls as a model of that syntax writes them."""
    _, after = syntax.headers[0]
    separators = (syntax.item_separator, syntax.key_separator)
    texts = [
        f"{syntax.begin}{syntax.spell_name(name)}{after}"
        f"{json.dumps(arguments, ensure_ascii=False, separators=separators)}{syntax.end}"
        for name, arguments in calls
    ]
    return syntax.opening + (syntax.separator or "").join(texts) + syntax.closing


def main() -> None:
    """Write and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--every", type=int, default=10, help="one item in so many")
    parser.add_argument("--corpus", choices=["bfcl", "mcp"], default="bfcl")
    parser.add_argument("--syntax", choices=sorted(SYNTAXES), default="hermes")
    parser.add_argument("--vocabulary", choices=["qwen3", "mistral-v3"], default="qwen3")
    parser.add_argument("--key-order", choices=["declared", "any"], default="declared")
    options = parser.parse_args()
    vocabulary, jump_forward = spelled_vocabulary(options.vocabulary)
    counts: Counter[str] = Counter()
    start = time.perf_counter()
    for grammar, written in outputs(
        options.corpus, vocabulary, options.syntax, options.every, options.key_order
    ):
        ids = ids_of(written, vocabulary, jump_forward)
        sequence = dictate(grammar, ids, jump_forward)
        output = sequence.output_ids
        text, dictated = (b"".join(vocabulary.tokens[i] for i in some) for some in (output, ids))
        if text != dictated:
            is_admitted = dictate(grammar, ids, None).output_ids == ids
            counts["otherwise than without" if is_admitted else "not admitted"] += 1
            continue
        counts["items"] += 1
        counts["same tokens"] += output == ids
        if output != ids:
            print("OTHER", [vocabulary.tokens[i] for i in output], [vocabulary.tokens[i] for i in ids])
        counts["tokens"] += len(output)
        counts["forced"] += sequence.counters.num_forced
    share = counts["forced"] / max(1, counts["tokens"])
    print(
        f"{options.corpus}, {options.vocabulary}, {options.syntax}, {options.key_order} order: {dict(counts)}, {share:.1%} of the tokens forced,"
        f" {time.perf_counter() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
