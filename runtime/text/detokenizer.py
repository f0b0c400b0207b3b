"""From token ids to text, as they come."""

import codecs
from collections.abc import Iterable, Sequence

from compiler.syntax import Syntax
from compiler.vocabulary import Vocabulary
from runtime.text.held import overlap


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
    """Incremental; never ends inside a UTF-8 character. Bytes that are no UTF-8 become U+FFFD."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token_ids: Iterable[int]) -> str:
        """The text that is certain after these tokens."""
        return self._decoder.decode(self._spelling.of(token_ids))

    def finish(self) -> str:
        """What is left of a character that was never completed."""
        return self._decoder.decode(b"", final=True)


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
