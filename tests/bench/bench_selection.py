"""How far answers are from the model's distribution of valid answers, by how many each is selected from.

OMP_NUM_THREADS=1 PYTHONPATH=.:tests:tests/runtime python tests/bench/bench_selection.py

The toy model's distribution of its four answers is known. Distances are total variation.
"""

from typing import get_args

import toy_model
from selected import NUM_DRAWS, distribution, selected

from runtime.selection import Selection, SelectionStrategy

SIZES = (2, 4, 8, 16)


def main() -> None:
    """Print a table."""
    conditional = toy_model.conditional()
    print(f"plain mask: {toy_model.distance(toy_model.masked(), conditional):.2f}")
    print(f"{NUM_DRAWS} answers each, selected from: {SIZES}")
    for strategy in get_args(SelectionStrategy):
        distances = [
            toy_model.distance(distribution(selected(Selection(strategy, size))), conditional)
            for size in SIZES
        ]
        print(strategy, *(f"{distance:.2f}" for distance in distances))


if __name__ == "__main__":
    main()
