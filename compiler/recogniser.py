"""The recogniser: reads a text along a grammar and knows the shortest way to complete it."""

from compiler.network import Network
from compiler.reading import Reading, read


class Recogniser:
    """Reads one text as bytes of UTF-8, which may end inside a character."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    @classmethod
    def of(cls, network: Network) -> "Recogniser":
        """A recogniser at the start."""
        return cls(read(network))

    @property
    def is_complete(self) -> bool:
        """Whether the text may end here."""
        return self._reading.is_complete

    @property
    def longest(self) -> float:
        """At least the bytes of `completion`; per byte read it grows by `Shortest.growth` at most."""
        return self._reading.longest

    def fork(self) -> "Recogniser":
        """Another one at the same place."""
        return Recogniser(self._reading)

    def advance(self, text: bytes) -> bool:
        """Read on; False, and no change, if the text does not fit."""
        reading = self._reading.advance(text)
        if reading is not None:
            self._reading = reading
        return reading is not None

    def completion(self) -> bytes:
        """The shortest text that completes this one, the rest of a character included."""
        return self._reading.completion()
