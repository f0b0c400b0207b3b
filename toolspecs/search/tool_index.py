"""Finds the tools for a request by the words that they have in common (BM25).

The words of a tool are those of its name, split at case and underscores, of its description, and of its
parameters. They are stemmed, and words of a request also stand for their synonyms. A request of several
sentences may want a tool for each, so each sentence counts as much as the whole:

>>> tools = [Tool("sendMail", "Sends a message.", {}), Tool("list_files", "Shows a folder.", {})]
>>> ToolIndex(tools).scores({"Which files are in this directory?": 1.0})
[0.0, 1.0]

Equal tools and requests give equal scores, on every replica.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from typing import Any

import bm25s
import numpy as np
import Stemmer
from numpy.typing import NDArray

from toolspecs.search.synonyms import ROWS
from toolspecs.tool import Tool

Scores = NDArray[np.float32]
"""A number for each tool, in their order."""

logging.getLogger(bm25s.__name__).setLevel(logging.NOTSET)  # it sets DEBUG; the application's level holds

NAME, PARAMETER, DETAIL = 4, 2, 1
"""What a word counts: in a name or description, as a parameter's name, in what is said of a parameter."""

_SATURATION, _LENGTH = 1.2 * NAME, 0.5
"""BM25's k1 (in words that count `NAME` times) and b."""

_SYNONYM, _KIND = 0.2, 0.3
"""What a synonym of a word counts, and a word for what a value looks like."""

_MAX_WORDS, _MAX_LETTERS, _MAX_SENTENCES, _MAX_DEPTH = 600, 40, 16, 5
_MAX_DESCRIPTION, _MAX_DETAIL, _MAX_ENUM = 4_000, 300, 50
_MAX_REQUEST = 8_000
"""Bounds of what is read of a tool and of a request, in words, characters or values."""

_MAX_INDEX_WORDS = 250_000
"""Words that are read of all tools of an index, which takes about a second. A real tool has some 100."""

_OWN_BYTES = 2_000
"""What an index takes that has no words."""

_SCRIPTS = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Thai, Japanese, Chinese and Korean, which put no spaces between words, or endings to them."""

_WORD = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[{_SCRIPTS}]+|[^\W\d_{_SCRIPTS}]+")
_UNSPACED = re.compile(f"[{_SCRIPTS}]")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[\u3002\uff01\uff1f\uff1b])|\n+")
_STOP_WORDS = frozenset(
    """
    a about also am an and are as at be by can could do does for from had has have how i if in into is it
    its let like m me my need of on or our please s should so t that the their them then there these this
    those to want was we were what when where which who will with would you your
    """.split()  # noqa: SIM905 - a list would be one word a line
)
_KINDS = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"https?://|\bwww\.", "url website"),
        (r"\w@[\w-]+\.\w", "email address"),
        (r"\b\d{4}-\d\d?-\d\d?\b|\b\d\d?/\d\d?/\d\d", "date"),
        (
            r"\b(?:january|february|march|april|june|july|august|september|october|november|december)\b",
            "date",
        ),
        (r"\b\d\d?:\d\d\b|\b\d\d? ?[ap]m\b", "time"),
        (r"\[ ?-?\d+(?:\.\d+)? ?,", "list array number"),
        (
            r"\b[a-z]:[/\\]|(?:^|\s)~?/[\w.-]+/|\w\.(?:csv|docx?|html|jpe?g|js|json|md|pdf|png|py|txt|xlsx)\b",
            "file path",
        ),
        (r"[$€£¥] ?\d|\b\d+ ?(?:dollars?|euros?|eur|usd)\b", "amount currency price"),
        (r"\d ?%", "percentage rate"),
        (r"\d ?°|-?\d\.\d{3,} ?, ?-?\d+\.\d{3,}", "latitude longitude coordinates temperature"),
    )
)
"""What values look like, and the words by which tools ask for them."""


class ToolIndex:
    """An index of some tools; threads can share it."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        documents = _stemmed(_words_of_all(tools))
        self._num_tools = len(tools)
        self._ranker: Any = None
        if any(documents):
            self._ranker = bm25s.BM25(k1=_SATURATION, b=_LENGTH)
            self._ranker.index(documents, show_progress=False)

    @property
    def num_bytes(self) -> int:
        """The approximate size of the index in memory."""
        if self._ranker is None:
            return _OWN_BYTES
        arrays = (value for value in self._ranker.scores.values() if isinstance(value, np.ndarray))
        return _OWN_BYTES + sum(array.nbytes for array in arrays) + 150 * len(self._ranker.vocab_dict)

    def scores(self, texts: Mapping[str, float], read: "ReadTexts | None" = None) -> list[float]:
        """How well each tool fits some texts, from 0 to 1, the best; texts count as their weights say.

        `read` are texts that were read before, for other indexes.
        """
        if not texts:
            return [0.0] * self._num_tools
        read = read or ReadTexts()
        scored = {text: [self._bm25(part) for part in read.parts(text)] for text in texts}
        scores: list[float] = fit(texts, scored).tolist()
        return scores

    def _bm25(self, part: "_WeightedWords") -> Scores:
        return sum((weight * self._known(words) for words, weight in part), self._known([]))

    def _known(self, words: Sequence[str]) -> Scores:
        """BM25 of the words that any tool has."""
        known_words = [word for word in words if self._ranker is not None and word in self._ranker.vocab_dict]
        if not known_words:
            return np.zeros(self._num_tools, np.float32)
        scores: Scores = self._ranker.get_scores(known_words)
        return scores


_WeightedWords = Sequence[tuple[Sequence[str], float]]
"""The stems for which a text stands, and what they count: its own, those of what it looks like, synonyms."""


class ReadTexts:
    """The words of what is searched for; each text is read once, for all indexes. Not thread-safe."""

    def __init__(self) -> None:
        self._stemmer = Stemmer.Stemmer("english")
        self._parts: dict[str, Sequence[_WeightedWords]] = {}

    def parts(self, text: str) -> Sequence[_WeightedWords]:
        """The words of each of the text's `parts_of`."""
        if text not in self._parts:
            self._parts[text] = [self._words(part) for part in parts_of(text)]
        return self._parts[text]

    def _words(self, text: str) -> _WeightedWords:
        stems = _stem(self._stemmer, _words(text))
        kinds = [word for pattern, words in _KINDS if pattern.search(text) for word in words.split()]
        looks = set(_stem(self._stemmer, kinds)) - set(stems)
        also = {synonym for word in stems for synonym in _synonyms().get(word, ())} - looks - set(stems)
        return (stems, 1.0), (sorted(looks), _KIND), (sorted(also), _SYNONYM)


def fit(texts: Mapping[str, float], scores: Mapping[str, Sequence[Scores]]) -> Scores:
    """How well each tool fits some texts, from 0 to 1 (best); each text has a weight.

    There must be at least one text. `scores` are how well each tool fits each of the `parts_of` a text. The
    whole text counts as much as the sentence that fits the tool best.
    """
    total = [np.float32(weight) * _fit(scores[text]) for text, weight in texts.items()]
    return scaled(np.sum(total, axis=0))


def _fit(scores: Sequence[Scores]) -> Scores:
    whole, *parts = map(scaled, scores)
    return scaled(whole + np.max(parts, axis=0)) if parts else whole


def parts_of(text: str) -> list[str]:
    """The text, without its middle if it is long, and then its sentences, if it has several."""
    if len(text) > _MAX_REQUEST:
        text = f"{text[: _MAX_REQUEST // 2]}\n{text[-_MAX_REQUEST // 2 :]}"
    sentences = [sentence for sentence in _SENTENCE.split(text) if sentence.strip()][:_MAX_SENTENCES]
    return [text, *sentences] if len(sentences) > 1 else [text]


def scaled(scores: Scores) -> Scores:
    """The scores, scaled so that the best is 1."""
    best = scores.max(initial=0)
    return scores / best if best > 0 else scores


def described(tool: Tool) -> str:
    """A text that describes a tool: the words of its name, and its description."""
    return f"{' '.join(_WORD.findall(tool.name))}. {tool.description[:_MAX_DESCRIPTION]}"


def _words(text: str) -> Iterator[str]:
    """The words of a text, in lower case; pairs of characters where a script puts no spaces."""
    for match in _WORD.finditer(text):
        word = match[0]
        if _UNSPACED.match(word):
            yield from (word[i : i + 2] for i in range(max(1, len(word) - 1)))
        elif (lower := word[:_MAX_LETTERS].lower()) not in _STOP_WORDS:
            yield lower


def _stem(stemmer: Any, words: Iterable[str]) -> list[str]:
    stems: list[str] = stemmer.stemWords(list(words))
    return stems


def _stemmed(documents: Sequence[Sequence[str]]) -> list[list[str]]:
    """The stems of the words of some documents; each word is stemmed once."""
    words = list(dict.fromkeys(chain.from_iterable(documents)))
    stems = dict(zip(words, _stem(Stemmer.Stemmer("english"), words), strict=True))
    return [[stems[word] for word in document] for document in documents]


@cache
def _synonyms() -> Mapping[str, frozenset[str]]:
    """The stems that each stem also stands for."""
    stemmer = Stemmer.Stemmer("english")
    synonyms: dict[str, set[str]] = {}
    for row in ROWS.split("\n"):
        stems = _stem(stemmer, row.split())
        for stem in stems:
            synonyms.setdefault(stem, set()).update(stems)
    return {stem: frozenset(others - {stem}) for stem, others in synonyms.items()}


def _words_of_all(tools: Sequence[Tool]) -> list[list[str]]:
    """The words of each tool; if they are too many for an index, fewer of each."""
    documents: list[list[str]] = []
    num_left = NAME * _MAX_INDEX_WORDS
    for tool in tools:
        documents.append(_weighted_words(tool, _MAX_WORDS))
        num_left -= len(documents[-1])
        if num_left < 0:
            return [_weighted_words(tool, _MAX_INDEX_WORDS // len(tools)) for tool in tools]
    return documents


def _weighted_words(tool: Tool, most: int) -> list[str]:
    """At most `most` words of a tool, repeated by their weight; those of the name come first."""
    text = f"{tool.name} {tool.description[:_MAX_DESCRIPTION]}"
    words = [word for word in islice(_words(text), most) for _ in range(NAME)]
    for name, schema in _parameters(tool.parameters):
        words += [word for word in _words(name[:_MAX_DETAIL]) for _ in range(PARAMETER)]
        words += [word for text in _details(schema) for word in _words(text) for _ in range(DETAIL)]
        if len(words) > NAME * most:
            break
    return words[: NAME * most]


def _parameters(schema: Any, depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The properties of a schema, and those below them, with their schemas."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return
    properties = schema.get("properties")
    for name, below in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(below, Mapping):
            yield str(name), below
            yield from _parameters(below, depth + 1)
            yield from _parameters(below.get("items"), depth + 1)


def _details(schema: Mapping[str, Any]) -> Iterator[str]:
    """The words that a schema has about its values: its description, and the values that it lists."""
    yield str(schema.get("description") or "")[:_MAX_DETAIL]
    listed = schema.get("enum")
    for value in listed[:_MAX_ENUM] if isinstance(listed, list) else ():
        yield str(value)[:_MAX_LETTERS]
