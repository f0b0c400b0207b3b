"""Readers of what strangers and stores hold, on made-up and altered input: a value or an error of ours, nothing else."""

import json
import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import Vocabulary
from compiler.cache.grammar_store import sign, verify
from compiler.cache_entry import CacheEntry
from compiler.errors import CorruptUnit
from compiler.prepared_vocabulary import prepare
from compiler.syntaxes import find_syntax
from runtime.engines.request_mark import InvalidRequestMark, read_request_mark
from toolspecs import Tool
from toolspecs.errors import ToolspecsError
from toolspecs.imports.documents import parse_document
from toolspecs.imports.openapi import import_openapi, unreachable
from toolspecs.json_value import Limits
from toolspecs.revisions.submission import UncheckedToolset, read_toolset

SECRET = b"a secret of sixteen bytes"
KEYS = st.sampled_from(
    [
        "name",
        "description",
        "parameters",
        "inputSchema",
        "input_schema",
        "type",
        "function",
        "strict",
        "callgate",
        "key_order",
        "custom",
        "format",
        "properties",
        "required",
        "$ref",
        "$defs",
        "items",
        "enum",
        "const",
        "cache_control",
        "documents",
        "title",
        "annotations",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | KEYS
    | st.sampled_from(["object", "string", "custom", "any", "#/$defs/a"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)  # fmt: skip
OPENAPI = st.fixed_dictionaries(
    {"openapi": st.sampled_from(["3.0.3", "3.1.0", "2.0", 3])},
    optional={
        "paths": st.dictionaries(
            st.sampled_from(["/a", "/a/{b}", "", "x"]),
            st.dictionaries(st.sampled_from(["get", "post", "parameters", "$ref"]), VALUES, max_size=3)
            | VALUES,
            max_size=3,
        )
        | VALUES,
        "components": VALUES,
        "servers": VALUES,
    },
)


@settings(max_examples=300)
@given(VALUES | st.lists(VALUES, max_size=3), VALUES)
def test_tools_are_read_or_refused(documents, more):
    with suppress(ToolspecsError):
        submission = read_toolset(UncheckedToolset("t", documents, more), Limits())
        submission.checked()


@settings(max_examples=200)
@given(OPENAPI)
def test_openapi_documents_are_read_or_refused(document):
    with suppress(ToolspecsError):
        import_openapi("file:///a", json.dumps(document), unreachable)


@settings(max_examples=300)
@given(st.text(max_size=60) | st.text("{}[]&*!|>:-# \n\tab", max_size=80) | VALUES.map(json.dumps))
def test_texts_of_documents_are_read_or_refused(text):
    with suppress(ToolspecsError):
        parse_document(text, "a document")


@pytest.fixture(scope="module")
def entry():
    """A vocabulary, and a stored entry of it without its signature."""
    prepared = prepare(Vocabulary.of_bytes())
    tool = Tool("pay", "", {"type": "object", "properties": {"to": {"type": "string", "maxLength": 9}}})
    return prepared, CacheEntry.of_tool(tool, find_syntax("hermes"), prepared).to_bytes()


def altered(content, seed):
    """Some bytes changed, cut out or put in."""
    rng, content = random.Random(seed), bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(content) + 1)
        match rng.randrange(4):
            case 0:
                del content[at : at + rng.randint(1, 30)]
            case 1:
                content[at:at] = rng.randbytes(rng.randint(1, 5))
            case 2:
                content[at : at + 1] = rng.choice([b'"', b"[", b"]", b"\n", b"9", b"-", b"\x00"])
            case 3:
                del content[at:]
    return bytes(content)


def test_altered_entries_are_a_miss(entry):
    """Even where the signature were right: an entry is read whole, or it is corrupt."""
    prepared, content = entry
    for seed in range(600):
        changed = altered(content, seed)
        try:
            CacheEntry.from_bytes(changed, prepared, "tool")
        except CorruptUnit:
            continue


def test_no_altered_entry_has_a_signature(entry):
    _, content = entry
    signed = sign(content, "a key", SECRET)
    assert verify(signed, "a key", SECRET) == content
    for seed in range(600):
        if (changed := altered(signed, seed)) != signed:
            with pytest.raises(CorruptUnit):
                verify(changed, "a key", SECRET)


@settings(max_examples=300)
@given(st.text(max_size=200) | st.text('# calgte:{}",0123456789abcdef\n=.', max_size=200))
def test_marks_are_read_or_invalid(text):
    with suppress(InvalidRequestMark):
        assert read_request_mark(text, SECRET) is None
