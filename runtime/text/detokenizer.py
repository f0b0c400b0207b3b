"""From token ids to text, as they come."""

import codecs
from collections.abc import Iterable, Sequence

from compiler.syntax import Syntax
from compiler.vocabulary import Vocabulary


class Spelling:
    """What each token id looks like to a reader: markers as they are written, stop tokens as nothing."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.stop_ids = frozenset(vocabulary.stop_ids)
        self._tokens = vocabulary.tokens
        self._marker_ids = vocabulary.markers
        self._markers = {i: text.encode() for text, i in vocabulary.markers.items()}

    def __getitem__(self, token_id: int) -> bytes:
        return self._markers.get(token_id) or self._tokens[token_id]

    def of(self, token_ids: Iterable[int]) -> bytes:
        """What several spell, one behind the other."""
        return b"".join(self[token_id] for token_id in token_ids)

    def is_thinking(self, prompt_ids: Sequence[int], syntax: Syntax | None) -> bool:
        """Whether a prompt ends with the beginning of a thought, blanks aside."""
        begin_id = self._marker_ids.get(syntax.thought.begin) if syntax and syntax.thought else None
        if begin_id is None or begin_id not in prompt_ids:
            return False
        num_behind = prompt_ids[::-1].index(begin_id)
        return not self.of(prompt_ids[len(prompt_ids) - num_behind :]).strip()


class Detokenizer:
    """Turns the bytes of tokens into text, which never ends inside a character.

    Bytes that are not UTF-8 become U+FFFD.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, spelled: bytes) -> str:
        """The text that is certain after more bytes."""
        return self._decoder.decode(spelled)

    def finish(self) -> str:
        """What is left of a character that was never completed; another text may begin then."""
        left = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return left


class StopScanner:
    """Cuts text before the first of the stop strings, wherever tokens begin and end."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.is_stopped = False

    def feed(self, text: str) -> str:
        """The text that is certain not to belong to a stop string."""
        if self.is_stopped:
            return ""
        text = self._held + text
        found = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.is_stopped = True
            self._held = ""
            return text[: min(found)]
        at = len(text) - max((overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[at:]
        return text[:at]

    def finish(self) -> str:
        """What was held back, since no stop string came of it."""
        held, self._held = self._held, ""
        return held


def overlap(text: str, pattern: str) -> int:
    """The length of the longest proper prefix of `pattern` that `text` ends with."""
    longest = min(len(text), len(pattern) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(pattern[:n])), 0)
