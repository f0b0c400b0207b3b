"""How far answers are from the model's distribution of valid answers, by how many each is selected from.

OMP_NUM_THREADS=1 PYTHONPATH=.:tests:tests/runtime python tests/bench/bench_selection.py [docs/selection.svg]

The toy model's distribution of its four answers is known. Distances are total variation. With a path, they
are drawn there as a plot.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import toy_model
from selected import NUM_DRAWS, distribution, selected

from runtime.selection import Selection, SelectionStrategy

SIZES = (2, 4, 8, 16)
STRATEGIES: Mapping[SelectionStrategy, str] = {"accept": "#0072b2", "particles": "#d55e00"}
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 480, 260, 48, 40, 16
HIGHEST = 0.8


def main() -> None:
    """Print a table, and draw it."""
    conditional = toy_model.conditional()
    masked = toy_model.distance(toy_model.masked(), conditional)
    print(f"plain mask: {masked:.2f}")
    print(f"{NUM_DRAWS} answers each, selected from: {SIZES}")
    found = {}
    for strategy in STRATEGIES:
        found[strategy] = [masked] + [
            toy_model.distance(distribution(selected(Selection(strategy, size))), conditional)
            for size in SIZES
        ]
        print(strategy, *(f"{distance:.2f}" for distance in found[strategy][1:]))
    for path in sys.argv[1:]:
        Path(path).write_text(plot(found), "utf-8")


def plot(found: Mapping[SelectionStrategy, Sequence[float]]) -> str:
    """A line for each strategy, over the number of draws; 1 is plain masking."""
    sizes = (1, *SIZES)
    step = (WIDTH - LEFT - 110) / (len(sizes) - 1)
    lines = []
    for size, at in zip(sizes, range(len(sizes)), strict=True):
        lines.append(_text(LEFT + at * step, HEIGHT - BOTTOM + 18, str(size), "middle"))
    for tick in (0.0, 0.2, 0.4, 0.6, 0.8):
        lines.append(_text(LEFT - 8, _y(tick) + 4, f"{tick:.1f}", "end"))
        lines.append(f'<path d="M{LEFT} {_y(tick):.0f}H{WIDTH - 110}" stroke="#ccc"/>')
    for (strategy, color), shift in zip(STRATEGIES.items(), (-6, 12), strict=True):
        points = [(LEFT + at * step, _y(distance)) for at, distance in enumerate(found[strategy])]
        path = " ".join(f"{x:.0f},{y:.1f}" for x, y in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        lines += [f'<circle cx="{x:.0f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]
        lines.append(_text(points[-1][0] + 10, points[-1][1] + shift, strategy, "start", color))
    lines.append(_text(LEFT + 2 * step, HEIGHT - 4, "draws", "middle"))
    lines.append(_text(LEFT, TOP - 4, "total variation", "start"))
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
                ' font-family="sans-serif" font-size="12">'
            ),
            '<rect width="100%" height="100%" fill="#fff"/>',
            *lines,
            "</svg>\n",
        ]
    )


def _y(distance: float) -> float:
    return HEIGHT - BOTTOM - distance / HIGHEST * (HEIGHT - BOTTOM - TOP)


def _text(x: float, y: float, text: str, anchor: str, color: str = "#333") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{color}">{text}</text>'


if __name__ == "__main__":
    main()
