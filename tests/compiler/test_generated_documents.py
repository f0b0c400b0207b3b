"""Schemas made up at random, spread over several documents: they mean the same as in one."""

import json
import random

import pytest
from fuzz.schemas import SchemaMaker
from random_decoding import RandomDecoder
from soundness.documents import spread
from soundness.judges import Judges
from soundness.mutations import mutations
from soundness.schemas import DIALECTS
from vocabularies import BYTES

from compiler.compiled_format import CompiledFormat
from compiler.errors import UnsupportedSchema
from compiler.schema import compile_schema
from toolspecs.json_value import Limits
from toolspecs.schemas.bundle import Bundler
from toolspecs.schemas.schema_check import check_document, check_documents

DECODER = RandomDecoder(BYTES)
ONLY_SPREAD = "leads to a place where no keyword holds schemas, but "
"""The one reason to refuse a spread schema alone: others in its document have identifiers."""


def compiled_or_refused(schema, documents) -> CompiledFormat | UnsupportedSchema:
    try:
        return compile_schema(schema, documents=documents, tokenizer=BYTES)
    except UnsupportedSchema as refusal:
        return refusal


def texts(compiled: CompiledFormat, rng: random.Random) -> list[str]:
    """Texts that a mask lets through, and some that differ a little."""
    drawn = [DECODER.decode(compiled.matcher(), rng, max_tokens=40, bias=bias) for bias in (0.05, 0.3, 0.6)]
    written = [text.decode() for text in drawn if text is not None]
    return [
        *written,
        *(json.dumps(value) for text in written for value in mutations(json.loads(text), rng, 6)),
    ]


def verdict(judges: Judges, text: str) -> bool | None:
    """Whether a text is valid, None if Python's `jsonschema` fails: in draft 4 it does not find all anchors."""
    try:
        return judges.faults(text.encode()) == []
    except AttributeError:
        return None


def check(draft: int, seed: int) -> None:
    rng = random.Random(seed)
    schema = SchemaMaker(rng, draft, hostility=rng.choice((0, 0.2)), has_names=False).document(
        rng.choice((1, 1, 2))
    )
    spreading = spread(schema, draft, rng)
    if check_document(spreading.whole, Limits()):
        return
    check_documents(spreading.documents, limits=Limits())
    bundle, _ = Bundler(spreading.documents).bundle(spreading.schema)
    whole = compiled_or_refused(spreading.whole, {})
    found = compiled_or_refused(spreading.schema, bundle)
    if isinstance(found, UnsupportedSchema):
        assert isinstance(whole, UnsupportedSchema) or found.reason.startswith(ONLY_SPREAD), found
        assert "there is no such schema" not in found.reason
        return
    of_whole, of_spread = Judges(spreading.whole), Judges(spreading.schema, spreading.documents)
    compiled = [found] if isinstance(whole, UnsupportedSchema) else [found, whole]
    for text in texts(found, rng) + texts(compiled[-1], rng):
        accepted = {one.accepts(text) for one in compiled}
        valid = {verdict(of_whole, text), verdict(of_spread, text)} - {None}
        assert len(accepted) == 1, text
        assert len(valid) <= 1, text
        assert accepted == {False} or False not in valid, text


MANY = [
    pytest.param(draft, 5000, marks=[pytest.mark.corpus, pytest.mark.timeout(7200)]) for draft in DIALECTS
]
"""How many schemas a full run has of each draft, others each time."""


@pytest.mark.parametrize(("draft", "count"), [(4, 10), (6, 10), (7, 30), (2019, 10), (2020, 30), *MANY])
def test_a_schema_means_the_same_in_several_documents(draft, count):
    first = random.randrange(10**9) if count == 5000 else 0
    for seed in range(first, first + count):
        check(draft, seed)
