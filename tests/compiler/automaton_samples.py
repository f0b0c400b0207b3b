"""Texts of an automaton, drawn at random."""

import random

from compiler.regular.dfa import DEAD, Dfa


def sample(dfa: Dfa, rng: random.Random, length: int = 40, ends: float = 0.2) -> str | None:
    """A random text of the language, None if it does not end in time; where it can, it `ends` so often."""
    state, text = 0, ""
    for _ in range(length):
        if state in dfa.accepting and rng.random() < ends:
            return text
        moves = [(i, target) for i, target in enumerate(dfa.table[state]) if target != DEAD]
        if not moves:
            return text
        symbol, state = rng.choice(moves)
        low, high = rng.choice(dfa.alphabet.atoms[symbol])
        text += chr(rng.randint(low, high))
    return text if state in dfa.accepting else None
