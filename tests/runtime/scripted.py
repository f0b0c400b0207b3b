"""A matcher and a closer that know what is to be written."""

from copy import copy

import numpy as np

from compiler.output_parts import TextPart


def row_of(token_ids, width=257):
    """The mask that allows these token ids of a vocabulary."""
    flags = np.zeros(-(-width // 32) * 32, dtype=np.uint8)
    flags[list(token_ids)] = 1
    return np.packbits(flags, bitorder="little").view(np.int32)


class Spells:
    """A matcher that allows exactly one text, then a stop token."""

    def __init__(self, text):
        self.ids = [*text.encode(), 256]
        self.at = 0
        self.last = 256

    def fill_bitmask(self, bitmask, row):
        bitmask[row] = row_of([self.ids[self.at]])

    def accept(self, token_id):
        if token_id != self.ids[self.at]:
            return False
        self.at += 1
        self.last = token_id
        return True

    def fork(self):
        return copy(self)

    def rollback(self, num_tokens):
        self.at -= num_tokens

    def parts(self):
        return () if self.last == 256 else (TextPart(bytes([self.last])),)

    def pending_parts(self):
        return ()

    def is_in_thought(self):
        return False

    def is_in_free_text(self):
        return False

    def is_completed(self):
        return self.at >= len(self.ids) - 1

    def is_terminated(self):
        return self.at == len(self.ids)


class Digits(Spells):
    """A matcher of digits without end, which may stop after any."""

    def __init__(self):
        self.ids = [*b"0123456789", 256]
        self.at = 0
        self.last = 256

    def fill_bitmask(self, bitmask, row):
        bitmask[row] = row_of(self.ids[: 10 if self.at == 0 else 11])

    def accept(self, token_id):
        self.at += 1
        self.last = token_id
        return token_id in self.ids

    def is_completed(self):
        return self.at > 0


class Appends:
    """A closer whose every completion is a fixed text."""

    def __init__(self, text):
        self.ids = list(text.encode())
        self.seen = []

    def minimum(self):
        return len(self.ids)

    def fits(self, remaining):
        return len(self.ids) <= remaining

    def admits(self, token_id, remaining):
        return len(self.ids) <= remaining - 1

    def accepted(self, token_id):
        self.seen.append(token_id)

    def completion_ids(self, remaining):
        assert len(self.ids) <= remaining
        return self.ids
