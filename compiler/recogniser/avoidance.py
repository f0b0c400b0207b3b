"""Avoidance: texts that must not occur in a stream of bytes, watched for byte by byte (Aho and Corasick)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Avoidance:
    """What is remembered of a stream is the longest end of it that one of `texts` begins with."""

    texts: tuple[bytes, ...]

    def step(self, held: bytes, byte: int) -> bytes | None:
        """What is held after one more byte; None if one of the texts is complete."""
        held += bytes([byte])
        if held.endswith(self.texts):
            return None
        starts = (held[at:] for at in range(len(held)))
        return next((start for start in starts if any(text.startswith(start) for text in self.texts)), b"")
