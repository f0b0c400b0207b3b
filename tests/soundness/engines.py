"""The engines that the corpora compare: each turns a schema into a recogniser of its texts.

All read single bytes, so that no vocabulary favours one of them.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import xgrammar as xgr

from compiler.errors import CompilerError, UnsupportedSchema
from compiler.prepared_vocabulary import prepare
from compiler.schema import Objects, compile_schema
from compiler.vocabulary import Vocabulary

Accepts = Callable[[str], bool]
Engine = Callable[[Any, Mapping[str, Any]], Accepts]
"""Takes a schema and the documents by URI that it may refer to."""


class Refused(Exception):
    """The engine refuses the schema."""

    def __init__(self, why: str, *, keyword: str = "", pointer: str = "") -> None:
        self.why = why
        self.keyword = keyword
        self.pointer = pointer
        super().__init__(f"{pointer} ({keyword}): {why}")


def callgate(objects: Objects = "schema") -> Engine:
    """Callgate: objects closed as for tools, or as the schema says."""
    vocabulary = Vocabulary.of_bytes()

    def compiled(schema: Any, documents: Mapping[str, Any]) -> Accepts:
        try:
            return compile_schema(schema, documents=documents, tokenizer=vocabulary, objects=objects).accepts
        except UnsupportedSchema as refusal:
            raise Refused(refusal.reason, keyword=refusal.keyword, pointer=refusal.pointer) from None
        except CompilerError as refusal:
            raise Refused(str(refusal)) from None

    return compiled


def xgrammar() -> Engine:
    """The converter of JSON Schemas that comes with xgrammar."""
    vocabulary = prepare(Vocabulary.of_bytes()).tokenizer_info
    # Its cache is off: with it dozens of schemas of jsonschemabench fail an internal check.
    compiler = xgr.GrammarCompiler(vocabulary, max_threads=1, cache_enabled=False)

    def compiled(schema: Any, _: Mapping[str, Any]) -> Accepts:
        try:
            grammar = compiler.compile_json_schema(json.dumps(schema), strict_mode=False)
        except RuntimeError as refusal:
            raise Refused(str(refusal)) from None

        def accepts(text: str) -> bool:
            try:
                matcher = xgr.GrammarMatcher(grammar)
                return bool(matcher.accept_string(text.encode()) and matcher.is_completed())
            except RuntimeError:  # out of memory
                return False

        return accepts

    return compiled


class ByteTokenizer:
    """The byte vocabulary in the form that llguidance expects."""

    eos_token_id = 256
    bos_token_id = None
    tokens = (*(bytes([byte]) for byte in range(256)), b"<eos>")
    special_token_ids = (256,)

    def __call__(self, text: bytes | str) -> list[int]:
        """The bytes of a text."""
        return list(text if isinstance(text, bytes) else text.encode())


def llguidance() -> Engine:
    """The converter of JSON Schemas that comes with llguidance."""
    import llguidance as llg

    tokenizer = llg.LLTokenizer(llg.TokenizerWrapper(ByteTokenizer()))

    def compiled(schema: Any, _: Mapping[str, Any]) -> Accepts:
        try:
            grammar = llg.LLMatcher.grammar_from_json_schema(json.dumps(schema))
        except ValueError as refusal:
            raise Refused(str(refusal)) from None
        fresh = llg.LLMatcher(tokenizer, grammar, log_level=0)
        if fresh.is_error():
            raise Refused(fresh.get_error())

        def accepts(text: str) -> bool:
            matcher = fresh.deep_copy()
            tokens = list(text.encode())
            return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()

        return accepts

    return compiled


ENGINES: Mapping[str, Callable[[], Engine]] = {
    "callgate": callgate,
    "callgate-closed": lambda: callgate("closed"),
    "xgrammar": xgrammar,
    "llguidance": llguidance,
}
