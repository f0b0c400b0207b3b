"""Remarks on the findings of a study: what its tables do not count, in sentences."""

from collections.abc import Iterator, Mapping, Sequence

from runtime.study.answering import StudyAnswer
from runtime.study.results import Cell, compare, merged
from runtime.study.strategies import CALLGATE, PROMPT

Cells = Mapping[tuple[str, str, float], Cell]


def remarks(cells: Cells, sets: Sequence[str], name: str, max_tokens: int) -> Iterator[str]:
    """Sentences about some sets of questions, named `name`, at all temperatures together.

    They count what the tables do not: changed calls, tokens of the same calls, calls that the budget closed.
    """
    unmasked, masked = (_together(cells, sets, strategy) for strategy in (PROMPT.name, CALLGATE.name))
    if masked is None:
        return
    if unmasked is not None:
        yield f"{name}: {_on_changes(unmasked, masked)}"
        yield from (f"{name}: {remark}" for remark in _on_lengths(unmasked, masked))
    closed = [answer for answer in masked.answers if answer.is_closed_by_budget]
    yield (
        f"{name}: of the plain mask's {len(masked.answers)} calls, {len(closed)} were closed at the limit of"
        f" {max_tokens} tokens; {_num_right(closed)} of those are right."
    )


def _on_changes(unmasked: Cell, masked: Cell) -> str:
    """How many calls the mask changed, and how many it put right."""
    comparison = compare(unmasked, masked)
    return (
        f"{comparison.num_valid} calls were valid unmasked; the plain mask's are the same"
        f" in {comparison.num_valid - comparison.num_changed} cases."
        f" {comparison.num_reordered} had keys in another order than the schema's,"
        f" {comparison.num_reordered_changed} of which are among the"
        f" {comparison.num_changed} that changed. Of {comparison.num_invalid} that were not valid,"
        f" {comparison.num_rescued} are right under the mask."
    )


def _on_lengths(unmasked: Cell, masked: Cell) -> Iterator[str]:
    """How long calls are that are valid with and without the mask, if there are any."""
    pairs = [
        (without, under)
        for without, under in zip(unmasked.answers, masked.answers, strict=True)
        if without.verdict.is_valid and under.verdict.is_valid
    ]
    if pairs:
        num_unmasked = _mean([without.num_tokens for without, _ in pairs])
        num_masked = _mean([under.num_tokens for _, under in pairs])
        num_drawn = _mean([under.num_tokens - under.num_forced for _, under in pairs])
        yield (
            f"where both are valid, a call takes {num_unmasked} tokens unmasked"
            f" and {num_masked} under the plain mask, {num_drawn} of them drawn."
        )


def _together(cells: Cells, sets: Sequence[str], strategy: str) -> Cell | None:
    cells_of_strategy = [
        cell for (questions, name, _), cell in cells.items() if questions in sets and name == strategy
    ]
    return merged(cells_of_strategy) if cells_of_strategy else None


def _num_right(answers: Sequence[StudyAnswer]) -> int:
    return sum(answer.verdict.is_right for answer in answers)


def _mean(counts: Sequence[int]) -> str:
    return f"{sum(counts) / len(counts):.1f}"
