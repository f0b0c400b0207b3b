"""What a strategy's answers come to."""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import NormalDist
from typing import Any

from runtime.study.exchange import StudyAnswer


@dataclass(frozen=True, slots=True)
class Cell:
    """The answers of one strategy to one set of questions at one temperature, in order."""

    questions: str
    strategy: str
    temperature: float
    answers: tuple[StudyAnswer, ...]


@dataclass(frozen=True, slots=True)
class StrategySummary:
    """Shares are of `num_questions`; `num_refused` had no grammar, which counts as a fault of the strategy.

    `seconds_p50`, `seconds_p99`: until a question had a valid call, infinite if that many never had one.
    `forced`: the share of tokens that were written without being drawn. `rescued` and `mass_removed`: per
    draw, how often the model's favourite was masked, and which probability. `spelled_so`: the share of valid
    outputs that the tokenizer spells in the tokens they were written in.
    """

    questions: str
    strategy: str
    temperature: float
    num_questions: int
    num_refused: int
    json: float
    valid: float
    valid_open: float
    tool: float
    right: float
    attempts: float
    tokens_per_valid: float
    prompt_tokens_per_valid: float
    forced: float
    rescued: float
    mass_removed: float
    spelled_so: float
    closed_by_budget: float
    seconds_p50: float
    seconds_p99: float
    faults: Mapping[str, int] = field(default_factory=dict)

    @property
    def as_json(self) -> dict[str, Any]:
        """For a file; what is infinite is null."""
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in asdict(self).items()
        }


def summarize(cell: Cell) -> StrategySummary:
    """The sums of a cell."""
    answers = cell.answers
    verdicts = [answer.verdict for answer in answers]
    valid = [answer for answer in answers if answer.verdict.is_valid]
    faults = Counter(str(verdict.fault) for verdict in verdicts if verdict.fault)
    num_tokens, num_steps = (sum(getattr(a, name) for a in answers) for name in ("num_tokens", "num_steps"))
    seconds = sorted(a.seconds if a.verdict.is_valid else math.inf for a in answers)
    return StrategySummary(
        cell.questions,
        cell.strategy,
        cell.temperature,
        num_questions=len(answers),
        num_refused=faults["refused"],
        json=share([verdict.is_json for verdict in verdicts]),
        valid=share([verdict.is_valid for verdict in verdicts]),
        valid_open=share([verdict.is_valid_open for verdict in verdicts]),
        tool=share([verdict.is_tool for verdict in verdicts]),
        right=share([verdict.is_right for verdict in verdicts]),
        attempts=_ratio(sum(answer.num_attempts for answer in answers), len(answers)),
        tokens_per_valid=_ratio(num_tokens, len(valid)),
        prompt_tokens_per_valid=_ratio(sum(answer.num_prompt_tokens for answer in answers), len(valid)),
        forced=_part(sum(answer.num_forced for answer in answers), num_tokens),
        rescued=_part(sum(answer.num_rescued for answer in answers), num_steps),
        mass_removed=_part(sum(answer.mass_removed for answer in answers), num_steps),
        spelled_so=share([answer.is_spelled_so for answer in valid]),
        closed_by_budget=share([answer.is_closed_by_budget for answer in answers]),
        seconds_p50=quantile(seconds, 0.5),
        seconds_p99=quantile(seconds, 0.99),
        faults=dict(faults.most_common()),
    )


def merged(cells: Sequence[Cell]) -> Cell:
    """Several cells of one strategy as one; the temperature is NaN."""
    answers = tuple(answer for cell in cells for answer in cell.answers)
    return Cell(cells[0].questions, cells[0].strategy, math.nan, answers)


def share(flags: Collection[bool]) -> float:
    """Of flags, how many are set; 0 of none."""
    return sum(flags) / len(flags) if flags else 0.0


def quantile(ordered: Sequence[float], part: float) -> float:
    """The smallest value that at least this part of ascending values does not exceed; NaN of none."""
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)] if ordered else math.nan


def interval(part: float, count: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, 1927.
    """
    if not count:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.975)
    middle = (part + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(part * (1 - part) / count + z * z / (4 * count * count))
    return max(0.0, middle - half), min(1.0, middle + half)


def _ratio(total: float, count: int) -> float:
    return total / count if count else math.inf


def _part(some: float, total: float) -> float:
    return some / total if total else 0.0
