"""Arguments made up at random for tagged syntaxes, and vocabularies whose tokens cross from tags into JSON."""

import random
from functools import cache

from vocabularies import with_tokens

from compiler.syntax import Syntax
from compiler.vocabulary import Vocabulary

STRING = {"type": "string"}
DISTINCT = {"type": "array", "items": STRING, "uniqueItems": True}
_STRINGS = (
    STRING,
    STRING,
    {**STRING, "maxLength": 9},
    {**STRING, "minLength": 2, "maxLength": 12},
    {**STRING, "pattern": "^[\\[{ a]"},
    {**STRING, "enum": ["a", "[", "[a]", "{{ a }}", '{"a":1', " [1]", "", "null", "1"]},
    {**STRING, "format": "date"},
)
_OTHERS = (
    {"type": "array", "items": STRING},
    {"type": "array"},
    DISTINCT,
    {**DISTINCT, "items": {"enum": ["a", "aa", 1, None]}},
    {"type": "array", "items": {**STRING, "maxLength": 8}},
    {"type": "object"},
    {"type": "object", "additionalProperties": {**STRING, "maxLength": 9}},
    {"type": "object", "properties": {"a": DISTINCT}, "required": ["a"]},
    {"type": "null"},
    {"type": "boolean"},
    {"type": "number"},
)
_GUARDED = (
    DISTINCT,
    {**DISTINCT, "minItems": 2, "items": {"enum": ["a", "aa", 1]}},
    {**DISTINCT, "items": {"type": "array", "items": {"type": "integer"}}},
    {"type": "array", "items": {**STRING, "maxLength": 8}, "minItems": 1},
    {"type": "array", "items": {**STRING, "pattern": "^a(-a)*$", "maxLength": 9}},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"a": {**STRING, "maxLength": 8}}, "required": ["a"]},
    {},
)


def arguments_schema(rng: random.Random) -> dict[str, object]:
    """Parameters that can be strings or JSON, beside parameters that a guard looks at."""
    if rng.random() < 0.2:
        return {"type": "object", "anyOf": [_one_schema(rng), _one_schema(rng)]}
    return _one_schema(rng)


def _one_schema(rng: random.Random) -> dict[str, object]:
    keys = ["p", "q", "tags", "é"][: rng.randint(2, 4)]
    properties = {
        key: _mixed(rng) if rng.random() < 0.6 else rng.choice(_GUARDED)
        for key in rng.sample(keys, len(keys))
    }
    required = [key for key in properties if rng.random() < 0.8]
    return {"type": "object", "properties": properties, "required": required}


def _mixed(rng: random.Random) -> dict[str, object]:
    options = [rng.choice(_STRINGS), *rng.sample(_OTHERS, rng.randint(1, 2))]
    return {"anyOf": rng.sample(options, len(options))}


@cache
def crossing_vocabulary(row: Syntax, *, has_markers: bool = False) -> Vocabulary:
    """All bytes, and tokens that end a value, cross into the next tag's JSON, or open and repeat in it."""
    assert row.tags is not None
    tags, repeated = (
        row.tags,
        ('["a", "a"', '["a","a",', "[1, 1]", '{"a":1,"a":', '["aaaaaaaaaaaaaaa', '{"a": ["a",'),
    )
    openings = ("[", "{", '["a"', '["a", ', "[1,", '{"a": "', "{{ a }}", " [", "[ ", '{"k":1')
    heads = ("", tags.after_key[-1:], tags.after_key, *(f"{tags.begin}{key}{tags.after_key}" for key in "pq"))
    across = (tags.end, row.end, row.end + (row.separator or "") + row.header("f") + tags.begin)
    texts = [
        *(head + text for head in heads for text in (*repeated, *openings)),
        *(tags.end + head + text for head in heads[3:] for text in repeated),
        *(row.end + (row.separator or "") + row.header("f") + head + text for head in heads[3:] for text in repeated),
        *across,
        *('"a"', '", "', '"a": ', '": "', '"]', '"}', "null", "true", "12", "aaaaaaaaaa", "\\u0061"),
    ]  # fmt: skip
    markers = [text for text in row.tag_texts if text.endswith(">")] if has_markers else []
    return with_tokens(*filter(None, dict.fromkeys(texts)), markers=markers)


class Drawing(random.Random):
    """Draws tokens that matter: of several bytes, or structure of JSON, most of the time."""

    def __init__(self, seed: int, vocabulary: Vocabulary) -> None:
        super().__init__(seed)
        structure = {bytes([byte]) for byte in b'[]{}",: a1\n\\'}
        self._preferred = {
            i for i, token in enumerate(vocabulary.tokens) if len(token) > 1 or token in structure
        }
        self._ending = {
            i for i, token in enumerate(vocabulary.tokens) if token.strip()[:1] in (b"<", b"\x01")
        }

    def choice(self, seq):
        """One of the ids; often one that ends a value."""
        ids = list(map(int, seq))
        for wanted, probability in ((self._ending, 0.15), (self._preferred, 0.85)):
            found = [i for i in ids if i in wanted]
            if found and self.random() < probability:
                return super().choice(found)
        return super().choice(ids)
