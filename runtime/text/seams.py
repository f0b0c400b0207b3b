"""Seams: where a text that spells a marker token is cut, so that it stays text.

A tokenizer finds the spelling of an added token anywhere in a prompt, in what a user wrote too. So before a
chat template sees such a text, a character that stands in no text goes behind the spelling's first one; the
rendered prompt is tokenized from seam to seam, and no piece spells the marker.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_CHARACTERS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
"""Noncharacters: Unicode keeps them free of meaning for uses inside a program."""
_ANCHOR = "\n"


class Seams:
    """The seams of one prompt."""

    def __init__(self, tokenizer: Any, texts: Iterable[str]) -> None:
        """Choose a character that none of `texts` holds.

        Raises:
            ValueError: they hold all that could be one.
        """
        self._tokenizer = tokenizer
        used = set().union(*texts)
        free = [char for char in _CHARACTERS if char not in used]
        if not free:
            raise ValueError("the messages hold every noncharacter of Unicode")
        self._seam = free[0]
        self._split = re.compile(f"{self._seam}|\\\\u{ord(self._seam):04x}")
        spellings = sorted(_markers(tokenizer), key=len, reverse=True)
        self._markers = re.compile("|".join(map(re.escape, spellings))) if spellings else None

    def sewn(self, value: Any) -> Any:
        """The same value with a seam in every marker that a text in it spells."""
        match value:
            case str():
                return self._markers.sub(self._cut, value) if self._markers else value
            case Mapping():
                return {self.sewn(key): self.sewn(inner) for key, inner in value.items()}
            case list() | tuple():
                return [self.sewn(inner) for inner in value]
            case _:
                return value

    def encode(self, prompt: str) -> list[int]:
        """The token ids of a rendered prompt, seams left out."""
        first, *others = self._split.split(prompt)
        ids = self._ids(first)
        for piece in others:
            ids += self._continued(piece)
        return ids

    def _cut(self, found: re.Match[str]) -> str:
        return found[0][0] + self._seam + found[0][1:]

    def _continued(self, piece: str) -> list[int]:
        """The ids of a piece that does not begin a text: some tokenizers put a blank before a beginning."""
        anchor, anchored = self._ids(_ANCHOR), self._ids(_ANCHOR + piece)
        return anchored[len(anchor) :] if anchored[: len(anchor)] == anchor else self._ids(piece)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids


def texts_in(values: Sequence[Any]) -> Iterable[str]:
    """Every text inside JSON values, keys too."""
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            pending += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            pending += value


def _markers(tokenizer: Any) -> set[str]:
    """How markers are spelled; runs of blanks, which some vocabularies add as tokens, are text."""
    added = {str(token) for token in tokenizer.added_tokens_decoder.values()}
    return {text for text in added if len(text) > 1 and text.strip()}
