"""The results of a study: answers by cell, summaries of cells, and comparisons with unmasked answers."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import NormalDist, mean, stdev
from typing import Any

from runtime.study.answering import StudyAnswer
from runtime.study.lenient_parser import OutputFault


@dataclass(frozen=True, slots=True)
class Cell:
    """The answers of one strategy to one set of questions at one temperature, in order."""

    questions: str
    strategy: str
    temperature: float
    answers: tuple[StudyAnswer, ...]


@dataclass(frozen=True, slots=True)
class StrategySummary:
    """The answers of a cell in numbers. Shares are of `num_questions`.

    `num_refused` questions had no grammar, which counts as a fault of the strategy. `seconds_p50` and
    `seconds_p99` are the times until a question had a valid call, infinite if that many never had one.
    `tokens_computed` is the mean of the tokens that the model computed for a question.
    `forced` is the share of tokens that were not sampled. Per masked step, `rescued` is how often the mask
    forbade the model's most probable token, and `mass_removed` the probability that it removed. `spelled_so`
    is the share of valid outputs that have the tokens that the tokenizer makes of their text.
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
    tokens_computed: float
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
        """For a file; infinite numbers are null."""
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in asdict(self).items()
        }


def summarize(cell: Cell) -> StrategySummary:
    """Sum up a cell."""
    answers = cell.answers
    verdicts = [answer.verdict for answer in answers]
    valid = [answer for answer in answers if answer.verdict.is_valid]
    faults = Counter(str(verdict.fault) for verdict in verdicts if verdict.fault)
    num_tokens, num_forced, num_steps = (
        sum(getattr(answer, name) for answer in answers) for name in ("num_tokens", "num_forced", "num_steps")
    )
    seconds = sorted(a.seconds if a.verdict.is_valid else math.inf for a in answers)
    return StrategySummary(
        cell.questions,
        cell.strategy,
        cell.temperature,
        num_questions=len(answers),
        num_refused=faults[OutputFault.REFUSED],
        json=share([verdict.is_json for verdict in verdicts]),
        valid=share([verdict.is_valid for verdict in verdicts]),
        valid_open=share([verdict.is_valid_open for verdict in verdicts]),
        tool=share([verdict.is_tool for verdict in verdicts]),
        right=share([verdict.is_right for verdict in verdicts]),
        attempts=_ratio(sum(answer.num_attempts for answer in answers), len(answers)),
        tokens_computed=_ratio(sum(answer.num_computed for answer in answers), len(answers)),
        tokens_per_valid=_ratio(num_tokens, len(valid)),
        prompt_tokens_per_valid=_ratio(sum(answer.num_prompt_tokens for answer in answers), len(valid)),
        forced=_part(num_forced, num_forced + num_steps),
        rescued=_part(sum(answer.num_rescued for answer in answers), num_steps),
        mass_removed=_part(sum(answer.mass_removed for answer in answers), num_steps),
        spelled_so=share([answer.is_spelled_so for answer in valid]),
        closed_by_budget=share([answer.is_closed_by_budget for answer in answers]),
        seconds_p50=quantile(seconds, 0.5),
        seconds_p99=quantile(seconds, 0.99),
        faults=dict(faults.most_common()),
    )


def merged(cells: Sequence[Cell]) -> Cell:
    """Several cells of one strategy as one cell, whose temperature is NaN."""
    answers = tuple(answer for cell in cells for answer in cell.answers)
    return Cell(cells[0].questions, cells[0].strategy, math.nan, answers)


def share(flags: Collection[bool]) -> float:
    """The share of flags that are true; 0 if there are none."""
    return sum(flags) / len(flags) if flags else 0.0


def quantile(ordered: Sequence[float], part: float) -> float:
    """The smallest value that at least a `part` of ascending values do not exceed; NaN if there are none."""
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """A masked strategy beside the unmasked one at the same temperature.

    `num_valid` questions had a valid call unmasked. Of these, `same_tool` and `same_call` are the shares
    whose masked call has the same tool, or is the same; `right_unmasked` and `right_masked` the shares of
    right calls. `num_changed` have another call; `num_reordered` had keys in another order than the schema,
    which masks do not allow; `num_reordered_changed` are both. `num_invalid` questions had no valid call
    unmasked. Of these, `rescued_tool` and `rescued_right` are the shares whose masked call has the right
    tool, or is right, as `num_rescued` are.
    """

    questions: str
    strategy: str
    temperature: float
    num_valid: int
    same_tool: float
    same_call: float
    right_unmasked: float
    right_masked: float
    num_invalid: int
    rescued_tool: float
    rescued_right: float
    num_changed: int
    num_reordered: int
    num_reordered_changed: int
    num_rescued: int


def compare(unmasked: Cell, masked: Cell) -> Comparison:
    """Pair the answers by question."""
    pairs = list(zip(unmasked.answers, masked.answers, strict=True))
    valid = [(before.verdict, after.verdict) for before, after in pairs if before.verdict.is_valid]
    changed = [before for before, after in valid if before.calls != after.calls]
    others = [after.verdict for before, after in pairs if not before.verdict.is_valid]
    return Comparison(
        masked.questions,
        masked.strategy,
        masked.temperature,
        num_valid=len(valid),
        same_tool=share([_names(before.calls) == _names(after.calls) for before, after in valid]),
        same_call=share([before.calls == after.calls for before, after in valid]),
        right_unmasked=share([before.is_right for before, _ in valid]),
        right_masked=share([after.is_right for _, after in valid]),
        num_invalid=len(others),
        rescued_tool=share([verdict.is_tool for verdict in others]),
        rescued_right=share([verdict.is_right for verdict in others]),
        num_changed=len(changed),
        num_reordered=sum(before.is_reordered for before, _ in valid),
        num_reordered_changed=sum(before.is_reordered for before in changed),
        num_rescued=sum(verdict.is_right for verdict in others),
    )


@dataclass(frozen=True, slots=True)
class Pairing:
    """A strategy and a rival that were asked the same questions with the same seeds.

    `num_asked` counts each question as often as it was asked. `right` and `right_of_rival` are their shares
    of right calls, `low` and `high` the ends of the 95% interval of the difference. `computed` is the ratio
    of the tokens that they computed, `seconds` that of their median times; infinite if the rival's is 0.
    """

    num_asked: int
    right: float
    right_of_rival: float
    low: float
    high: float
    computed: float
    seconds: float


def pair(cell: Cell, rival: Cell, num_draws: int = 1) -> Pairing:
    """Pair the answers by question and seed; each question has `num_draws` answers, one after the other."""
    pairs = list(zip(cell.answers, rival.answers, strict=True))
    gains = [own.verdict.is_right - other.verdict.is_right for own, other in pairs]
    if num_draws == 1:
        low, high = difference_interval(gains.count(1), gains.count(-1), len(pairs))
    else:
        starts = range(0, len(gains), num_draws)
        low, high = mean_interval([mean(gains[start : start + num_draws]) for start in starts])
    medians = [quantile(sorted(answer.seconds for answer in paired.answers), 0.5) for paired in (cell, rival)]
    computed = [sum(answer.num_computed for answer in paired.answers) for paired in (cell, rival)]
    return Pairing(
        len(pairs),
        right=share([own.verdict.is_right for own, _ in pairs]),
        right_of_rival=share([other.verdict.is_right for _, other in pairs]),
        low=low,
        high=high,
        computed=_ratio(*computed) if computed[1] else math.inf,
        seconds=medians[0] / medians[1] if medians[1] else math.inf,
    )


def difference_interval(won: int, lost: int, count: int) -> tuple[float, float]:
    """The 95% interval of the difference of two shares over `count` pairs, of which `won` and `lost` differ.

    Wald's interval with half a pair added to each of the four kinds: A. Agresti and Y. Min, Simple improved
    confidence intervals for comparing matched proportions, 2005.
    """
    total, more, fewer = count + 2, won + 0.5, lost + 0.5
    middle = (more - fewer) / total
    half = NormalDist().inv_cdf(0.975) * math.sqrt(more + fewer - total * middle * middle) / total
    return middle - half, middle + half


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95% interval of the mean of independent values: Wald's.

    Draws of one question are not independent, their means are: a question counts as one value.
    """
    if len(values) <= 1:
        return -1.0, 1.0
    half = NormalDist().inv_cdf(0.975) * stdev(values) / math.sqrt(len(values))
    return mean(values) - half, mean(values) + half


def _names(calls: Sequence[tuple[str, str]]) -> list[str]:
    return [name for name, _ in calls]


@dataclass(frozen=True, slots=True)
class StudySettings:
    """How much to ask: `count` questions of each set; BFCL's if `bfcl` is the folder of its files.

    Each question is asked `num_draws` times, with other seeds. `num_at_once` questions are asked at a time.
    `sets` and `strategies` None stand for all.
    """

    count: int = 30
    num_draws: int = 1
    temperatures: tuple[float, ...] = (0.0, 0.7, 1.0)
    strategies: tuple[str, ...] | None = None
    sets: tuple[str, ...] | None = None
    bfcl: Path | None = None
    num_at_once: int = 8
    max_tokens: int = 256


@dataclass(slots=True)
class Findings:
    """What a study has found: cells by set, strategy and temperature, and how it came about.

    `num_left_out` questions of each set have prompts that are too long. `num_kept` answers are of runs before
    this one. `is_whole` is False if the study was interrupted.
    """

    settings: StudySettings
    model: str
    num_parameters: int
    can_think: bool
    machine: Mapping[str, str]
    cells: dict[tuple[str, str, float], Cell] = field(default_factory=dict)
    num_left_out: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    num_kept: int = 0
    is_whole: bool = False

    @property
    def num_answers(self) -> int:
        """The answers of all cells."""
        return sum(len(cell.answers) for cell in self.cells.values())

    def num_answered(self, questions: str, strategy: str, temperature: float) -> int:
        """The questions that a cell has answers to: its first ones."""
        cell = self.cells.get((questions, strategy, temperature))
        return len(cell.answers) if cell else 0

    def grammar_seconds(self) -> dict[tuple[str, str], list[float]]:
        """By set and strategy, how long it took to make each grammar. All temperatures share it."""
        seconds: dict[tuple[str, str], list[float]] = {}
        for questions, strategy, answer in self._first_answers():
            if answer.grammar_seconds is not None:
                seconds.setdefault((questions, strategy), []).append(answer.grammar_seconds)
        return seconds

    def refusals(self) -> dict[tuple[str, str], list[str]]:
        """By set and strategy, why questions have no grammar."""
        refusals: dict[tuple[str, str], list[str]] = {}
        for questions, strategy, answer in self._first_answers():
            if answer.verdict.fault is OutputFault.REFUSED:
                refusals.setdefault((questions, strategy), []).append(answer.verdict.reason)
        return refusals

    def _first_answers(self) -> Iterator[tuple[str, str, StudyAnswer]]:
        """One answer to each question, with its set and strategy."""
        for (questions, strategy, temperature), cell in self.cells.items():
            if temperature == self.settings.temperatures[0]:
                for answer in cell.answers:
                    yield questions, strategy, answer

    def add(self, questions: str, strategy: str, temperature: float, answer: StudyAnswer) -> None:
        """Add an answer to a cell."""
        key = (questions, strategy, temperature)
        before = self.cells[key].answers if key in self.cells else ()
        self.cells[key] = Cell(*key, (*before, answer))

    def trim(self, num_cells: int) -> None:
        """Keep only the questions of each set that all its `num_cells` cells have answered, in all draws."""
        num_draws = self.settings.num_draws
        by_set: dict[str, list[Cell]] = {}
        for cell in self.cells.values():
            by_set.setdefault(cell.questions, []).append(cell)
        self.cells = {
            (cell.questions, cell.strategy, cell.temperature): replace(cell, answers=cell.answers[:count])
            for cells in by_set.values()
            if len(cells) == num_cells
            and (count := min(len(cell.answers) for cell in cells) // num_draws * num_draws)
            for cell in cells
        }
