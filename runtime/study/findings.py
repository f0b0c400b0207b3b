"""What a study is set to, and what it has found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from runtime.study.exchange import StudyAnswer
from runtime.study.rows import Cell


@dataclass(frozen=True, slots=True)
class StudySettings:
    """`count` questions of each set; `bfcl` is the folder of BFCL's files, None to leave them out.

    `num_at_once` questions are open at a time. `strategies` None takes all.
    """

    count: int = 30
    temperatures: tuple[float, ...] = (0.0, 0.7, 1.0)
    strategies: tuple[str, ...] | None = None
    bfcl: Path | None = None
    num_at_once: int = 8
    max_tokens: int = 256


@dataclass(slots=True)
class Findings:
    """Cells by set, strategy and temperature; seconds that each grammar took to make; what was left out."""

    settings: StudySettings
    model: str
    num_parameters: int
    can_think: bool
    machine: Mapping[str, str]
    cells: dict[tuple[str, str, float], Cell] = field(default_factory=dict)
    grammar_seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    refusals: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    num_left_out: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    is_whole: bool = False

    def add(self, questions: str, strategy: str, temperature: float, answers: Sequence[StudyAnswer]) -> None:
        """More answers of a cell."""
        key = (questions, strategy, temperature)
        before = self.cells[key].answers if key in self.cells else ()
        self.cells[key] = Cell(*key, (*before, *answers))

    def trim(self, num_cells: int) -> None:
        """Keep, of each set, the questions that all its `num_cells` cells have answered."""
        by_set: dict[str, list[Cell]] = {}
        for cell in self.cells.values():
            by_set.setdefault(cell.questions, []).append(cell)
        self.cells = {
            (cell.questions, cell.strategy, cell.temperature): replace(cell, answers=cell.answers[:count])
            for cells in by_set.values()
            if len(cells) == num_cells and (count := min(len(cell.answers) for cell in cells))
            for cell in cells
        }
