"""From token ids to text, token by token, up to a stop string."""

import codecs
from collections.abc import Iterable, Iterator, Sequence

from compiler.syntax import Syntax
from compiler.vocabulary import Vocabulary


class TokenBytes:
    """The bytes of each token id: markers as they are written, stop tokens as nothing."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.stop_ids = frozenset(vocabulary.stop_ids)
        self._tokens = vocabulary.tokens
        self._marker_ids = vocabulary.markers
        self._markers = {i: text.encode() for text, i in vocabulary.markers.items()}

    def __getitem__(self, token_id: int) -> bytes:
        return self._markers.get(token_id) or self._tokens[token_id]

    def has(self, token_id: int) -> bool:
        """Whether there is such a token."""
        return 0 <= token_id < len(self._tokens)

    def of(self, token_ids: Iterable[int]) -> bytes:
        """The bytes of several tokens, concatenated."""
        return b"".join(self[token_id] for token_id in token_ids)

    def is_thinking(self, prompt_ids: Sequence[int], syntax: Syntax | None) -> bool:
        """Whether a prompt ends with the beginning of a thought, apart from blanks."""
        begin_id = self._marker_ids.get(syntax.thought.begin) if syntax and syntax.thought else None
        if begin_id is None or begin_id not in prompt_ids:
            return False
        num_after = prompt_ids[::-1].index(begin_id)
        return not self.of(prompt_ids[len(prompt_ids) - num_after :]).strip()


class Detokenizer:
    """Decodes the bytes of tokens to text, which never ends inside a character.

        detokenizer.feed("café".encode()[:4])  # "caf": one byte of é is missing
        detokenizer.feed("café".encode()[4:])  # "é"

    Bytes that are not UTF-8 become U+FFFD.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token_bytes: bytes) -> str:
        """The text that these bytes complete."""
        return self._decoder.decode(token_bytes)

    def finish(self) -> str:
        """U+FFFD if the last character was not completed. Another text may begin after that."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest


class StopScanner:
    """Cuts text before the first stop string.

        scanner = StopScanner(["END"])
        scanner.feed("to be E")   # "to be ": the E may begin the stop string
        scanner.feed("ND of it")  # "", and `stop_string` is "END"

    Stop strings may begin and end anywhere in the tokens. One that ends where the text may not stop is text.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self._num_unstopped = 0
        """How many of the held characters came while the text might not stop."""
        self.stop_string: str | None = None

    def feed(self, text: str, *, may_stop: bool = True) -> str:
        """The text that is certainly not part of a stop string; the rest is held back."""
        if self.stop_string is not None:
            return ""
        text = self._held + text
        num_unstopped = self._num_unstopped if may_stop else len(text)
        if stops := list(self._ending_after(num_unstopped, text)):
            at, self.stop_string = min(stops)
            self._held = ""
            return text[:at]
        at = len(text) - max((overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[at:]
        self._num_unstopped = max(0, num_unstopped - at)
        return text[:at]

    def finish(self) -> str:
        """The text that was held back: no stop string can come now."""
        rest, self._held, self._num_unstopped = self._held, "", 0
        return rest

    def _ending_after(self, num_characters: int, text: str) -> Iterator[tuple[int, str]]:
        """The stop strings in a text that end after so many characters, and where each begins."""
        for stop in self._stops:
            at = text.find(stop, max(0, num_characters + 1 - len(stop)))
            if at >= 0:
                yield at, stop


def overlap(text: str, pattern: str) -> int:
    """The length of the longest proper prefix of `pattern` that `text` ends with; 0 of an empty pattern."""
    if not pattern:
        return 0
    at = text.find(pattern[0], max(0, len(text) - len(pattern) + 1))
    while at >= 0 and not pattern.startswith(text[at:]):
        at = text.find(pattern[0], at + 1)
    return len(text) - at if at >= 0 else 0
