"""What tables do not say, counted: kept and changed calls, tokens of the same calls, calls closed in time."""

from collections.abc import Iterator, Mapping, Sequence

from runtime.study.comparison import compare
from runtime.study.exchange import StudyAnswer
from runtime.study.rows import Cell, merged
from runtime.study.strategies import CALLGATE, PROMPT

Cells = Mapping[tuple[str, str, float], Cell]


def remarks(cells: Cells, sets: Sequence[str], name: str, max_tokens: int) -> Iterator[str]:
    """Sentences on some sets of questions together, all temperatures; `name` is what they are called."""
    unmasked, masked = (_together(cells, sets, strategy) for strategy in (PROMPT.name, CALLGATE.name))
    if masked is None:
        return
    if unmasked is not None:
        found = compare(unmasked, masked)
        yield (
            f"{name}: {found.num_valid} calls were valid unmasked; Callgate's are the same"
            f" in {found.num_valid - found.num_changed} cases. {found.num_reordered} had keys in another"
            f" order than the schema's, {found.num_reordered_changed} of which are among the"
            f" {found.num_changed} that changed. Of {found.num_invalid} that were not valid,"
            f" {found.num_rescued} are right under the mask."
        )
        pairs = [
            (one, other)
            for one, other in zip(unmasked.answers, masked.answers, strict=True)
            if one.verdict.is_valid and other.verdict.is_valid
        ]
        if pairs:
            yield (
                f"{name}: where both are valid, a call takes {_mean([one.num_tokens for one, _ in pairs])}"
                f" tokens unmasked and {_mean([other.num_tokens for _, other in pairs])} under Callgate,"
                f" {_mean([other.num_tokens - other.num_forced for _, other in pairs])} of them drawn."
            )
    closed = [answer for answer in masked.answers if answer.is_closed_by_budget]
    yield (
        f"{name}: of Callgate's {len(masked.answers)} calls, {len(closed)} were closed at the limit of"
        f" {max_tokens} tokens; {_num_right(closed)} of those are right."
    )


def _together(cells: Cells, sets: Sequence[str], strategy: str) -> Cell | None:
    found = [cell for (questions, name, _), cell in cells.items() if questions in sets and name == strategy]
    return merged(found) if found else None


def _num_right(answers: Sequence[StudyAnswer]) -> int:
    return sum(answer.verdict.is_right for answer in answers)


def _mean(counts: Sequence[int]) -> str:
    return f"{sum(counts) / len(counts):.1f}"
