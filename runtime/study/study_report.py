"""The report of a study: tables and sentences as Markdown, which docs/study-tiny.md quotes, and JSON."""

import itertools
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from runtime.study.lenient_parser import OutputFault
from runtime.study.remarks import remarks
from runtime.study.results import (
    Comparison,
    Findings,
    Pairing,
    StrategySummary,
    compare,
    interval,
    merged,
    pair,
    quantile,
    summarize,
)
from runtime.study.strategies import CALLGATE, PROMPT, STRATEGIES

TITLES = {strategy.name: strategy.title for strategy in STRATEGIES}
PLAIN_MASKS = (CALLGATE.name, "drawn", "compact", "any_order", "reasoning", "thinking")
"""Strategies that write one answer under a mask from its start: their calls are compared one by one."""
DRAWING = "retry"
"""What the strategies of Callgate are compared with."""
OTHERS = ("prompt", "example", DRAWING, "complaint", "insert", "xgrammar")
"""Strategies without Callgate."""
COMPARED = ("insert", "xgrammar", *PLAIN_MASKS)
"""Strategies whose calls are compared with the unmasked ones of the same questions."""


class StudyReport:
    """Summaries, comparisons and tables of a study's findings."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self.cells = list(findings.cells.values())
        self.rows = [summarize(cell) for cell in self.cells]
        self.sets = list(dict.fromkeys(cell.questions for cell in self.cells))
        self.strategies = list(dict.fromkeys(cell.strategy for cell in self.cells))
        self._num_draws = findings.settings.num_draws
        self.temperatures = list(dict.fromkeys(cell.temperature for cell in self.cells))
        self.groups: dict[str, list[str]] = {}
        for name in self.sets:
            self.groups.setdefault(name.partition(" ")[0], []).append(name)

    def of(self, questions: str, strategy: str) -> list[StrategySummary]:
        """The summaries of a strategy, one per temperature."""
        return [row for row in self.rows if (row.questions, row.strategy) == (questions, strategy)]

    def pooled(self, questions: str, strategy: str) -> StrategySummary:
        """The summary of all temperatures together."""
        cells = [c for c in self.cells if (c.questions, c.strategy) == (questions, strategy)]
        return summarize(merged(cells))

    def grouped(self, group: str, strategy: str) -> StrategySummary:
        """The summary of all sets in a group, such as BFCL's, at all temperatures together."""
        sets = self.groups[group]
        return summarize(merged([c for c in self.cells if c.questions in sets and c.strategy == strategy]))

    def comparisons(self) -> list[Comparison]:
        """Each masked cell compared with the unmasked one of the same questions and temperature."""
        cells = self._findings.cells
        return [
            compare(cells[questions, PROMPT.name, temperature], cell)
            for (questions, strategy, temperature), cell in cells.items()
            if strategy in COMPARED and (questions, PROMPT.name, temperature) in cells
        ]

    def summary(self) -> str:
        """The tables that fit a terminal."""
        parts = [self._heading(), *map(self._main_table, self.sets), self._faults()]
        return "\n\n".join(part for part in parts if part) + "\n"

    def as_markdown(self) -> str:
        """All tables."""
        parts = [self._beside_drawing(), self._changes(), self._remarks(), self._costs(), self._refusals()]
        return "\n".join([self.summary(), *(f"{part}\n" for part in parts if part)])

    def as_json(self) -> str:
        """All numbers, with the settings and the machine."""
        findings = self._findings
        settings = {k: str(v) if k == "bfcl" and v else v for k, v in asdict(findings.settings).items()}
        content = {
            "model": findings.model,
            "num_parameters": findings.num_parameters,
            "can_think": findings.can_think,
            "machine": dict(findings.machine),
            "settings": settings,
            "seconds": round(findings.seconds, 1),
            "is_whole": findings.is_whole,
            "num_left_out": findings.num_left_out,
            "rows": [row.as_json for row in self.rows],
            "comparisons": [asdict(comparison) for comparison in self.comparisons()],
            "grammar_seconds": [
                {"questions": name, "strategy": strategy, "seconds": seconds}
                for (name, strategy), seconds in findings.grammar_seconds().items()
            ],
            "refusals": [
                {"questions": name, "strategy": strategy, "reasons": reasons}
                for (name, strategy), reasons in findings.refusals().items()
            ],
        }
        return json.dumps(content, indent=1) + "\n"

    def _heading(self) -> str:
        findings = self._findings
        counts = [self._num_independent(row) for row in self.rows]
        threads, torch = findings.machine["threads"], findings.machine["torch"]
        sentences = [
            f"Model `{findings.model}`, {findings.num_parameters / 1e6:.1f} M parameters.",
            f"Answers of at most {findings.settings.max_tokens} tokens.",
            f"Threads of torch {torch}: {threads}; questions at a time: {findings.settings.num_at_once};",
            f"{findings.seconds / 60:.1f} minutes in all.",
        ]
        if len(self.temperatures) > 1:
            temperatures = _slashed(self.temperatures, "{:g}".format)
            sentences.append(
                f"Where a cell has {len(self.temperatures)} numbers: temperature {temperatures}."
            )
        if counts:
            points = _points(interval(0.5, min(counts))[1] - 0.5)
            sentences.append(f"A share of {min(counts)} questions is good to ±{points} points at worst.")
        if not findings.can_think and findings.settings.strategies is None:
            sentences.append(
                "There is no row for free thinking first: this model's template has no thoughts."
            )
        if 0 < findings.num_answers == findings.num_kept:
            sentences.append("**Nothing was asked**: all answers were there already.")
        if not findings.is_whole:
            sentences.append("**It was interrupted**: not all questions were asked.")
        return " ".join(sentences)

    def _main_table(self, questions: str) -> str:
        left_out = self._findings.num_left_out.get(questions, 0)
        extra = f", {left_out} left out for their length" if left_out else ""
        count = self._num_independent(self.of(questions, self.strategies[0])[0])
        times = f", each asked {self._num_draws} times" if self._num_draws > 1 else ""
        lines = (self._main_row(questions, strategy) for strategy in self.strategies)
        return f"**{questions}**, {count} questions{times}{extra}\n\n" + _table(_MAIN, lines)

    def _num_independent(self, row: StrategySummary) -> int:
        """The questions of a row, however often each was asked: draws of one question are alike."""
        return row.num_questions // self._num_draws

    def _main_row(self, questions: str, strategy: str) -> list[str]:
        rows, whole = self.of(questions, strategy), self.pooled(questions, strategy)
        return [
            TITLES[strategy],
            *(_slashed([getattr(row, name) for row in rows], _points) for name in _SHARES),
            _slashed([interval(row.right, self._num_independent(row)) for row in rows], _ends),
            _slashed([row.tokens_per_valid for row in rows], _count),
            _slashed([whole.seconds_p50, whole.seconds_p99], _seconds),
        ]

    def _faults(self) -> str:
        """First faults by strategy, a number for each group of sets, at all temperatures together."""
        rows = {name: [self.grouped(group, name) for group in self.groups] for name in self.strategies}
        faulty = {name: parts for name, parts in rows.items() if any(row.faults for row in parts)}
        if not faulty:
            return ""
        kinds = [
            str(fault)
            for fault in OutputFault
            if any(fault in row.faults for p in faulty.values() for row in p)
        ]
        counts = _slashed([row.num_questions for row in next(iter(rows.values()))], "{:.0f}".format)
        head = [f"first fault: {' / '.join(self.groups)}, of {counts}", *(TITLES[name] for name in faulty)]
        lines = ([kind, *(_fault_counts(parts, kind) for parts in faulty.values())] for kind in kinds)
        return _table(head, lines)

    def _beside_drawing(self) -> str:
        """Each strategy of Callgate beside drawing until valid, above temperature 0: by set, and in all."""
        groups = [[name] for name in self.sets] + ([self.sets] if len(self.sets) > 1 else [])
        rows = [
            [
                "all" if len(sets) > 1 else sets[0],
                TITLES[strategy],
                f"{temperature:g}",
                *_pairing_row(pairing),
            ]
            for sets, strategy, temperature in itertools.product(groups, self.strategies, self.temperatures)
            if (pairing := self._paired(sets, strategy, temperature)) is not None
        ]
        return _table(_PAIRS, rows, num_texts=2) if rows else ""

    def _paired(self, sets: Sequence[str], strategy: str, temperature: float) -> Pairing | None:
        if temperature == 0 or strategy in OTHERS or DRAWING not in self.strategies:
            return None
        cells = self._findings.cells
        masked, drawn = (
            merged([cells[questions, name, temperature] for questions in sets])
            for name in (strategy, DRAWING)
        )
        return pair(masked, drawn, self._num_draws)

    def _changes(self) -> str:
        """Calls that the mask changed: greedy answers, and all sampled answers together."""
        rows = [
            [comparison.questions, TITLES[comparison.strategy], label, *_change_row(comparison)]
            for questions, strategy in itertools.product(self.sets, self.strategies)
            for label, is_greedy in (("0", True), ("> 0", False))
            if (comparison := self._comparison(questions, strategy, is_greedy=is_greedy)) is not None
        ]
        return _table(_CHANGES, rows, num_texts=2) if rows else ""

    def _comparison(self, questions: str, strategy: str, *, is_greedy: bool) -> Comparison | None:
        temperatures = [temperature for temperature in self.temperatures if (temperature == 0) is is_greedy]
        if not temperatures or strategy not in PLAIN_MASKS or PROMPT.name not in self.strategies:
            return None
        cells = self._findings.cells
        unmasked = [cells[questions, PROMPT.name, temperature] for temperature in temperatures]
        return compare(merged(unmasked), merged([cells[questions, strategy, t] for t in temperatures]))

    def _remarks(self) -> str:
        return "\n".join(
            f"- {remark}"
            for group, sets in self.groups.items()
            for remark in remarks(self._findings.cells, sets, group, self._findings.settings.max_tokens)
        )

    def _costs(self) -> str:
        pairs = itertools.product(self.sets, self.strategies)
        return _table(_COSTS, (self._cost_row(*pair) for pair in pairs), num_texts=2)

    def _cost_row(self, questions: str, strategy: str) -> list[str]:
        row = self.pooled(questions, strategy)
        seconds = sorted(self._findings.grammar_seconds().get((questions, strategy), []))
        times = [1e3 * quantile(seconds, part) for part in (0.5, 0.99)] if seconds else []
        return [
            questions,
            TITLES[strategy],
            f"{row.attempts:.2f}",
            _count(row.prompt_tokens_per_valid),
            *(_tenths(part) for part in (row.forced, row.rescued, row.mass_removed)),
            _points(row.spelled_so) if row.valid else "-",
            _points(row.closed_by_budget),
            _slashed([row.valid, row.valid_open], _points),
            _slashed(times, _count),
        ]

    def _refusals(self) -> str:
        return "\n".join(
            f"- {TITLES[strategy]} has no grammar for the tools of {len(reasons)} questions of {questions},"
            f" which count as its faults; the first: {reasons[0].splitlines()[0]}"
            for (questions, strategy), reasons in self._findings.refusals().items()
        )


_MAIN = (
    "strategy",
    "valid JSON, %",
    "valid against the schema, %",
    "right tool, %",
    "right call, %",
    "95% interval",
    "tokens per valid call",
    "seconds to a valid call, all temperatures, p50 / p99",
)
_PAIRS = (
    "questions",
    "strategy",
    "T",
    "asked",
    "right, drawing until valid, %",
    "right, %",
    "difference, 95% interval, points",
    "tokens computed, of drawing's",
    "median seconds, of drawing's",
)
_CHANGES = (
    "questions",
    "strategy",
    "T",
    "valid unmasked",
    "same tool, %",
    "same call, %",
    "right unmasked, %",
    "right masked, %",
    "keys reordered unmasked, changed of those",
    "invalid unmasked",
    "right tool masked, %",
    "right call masked, %",
)
_COSTS = (
    "questions",
    "strategy",
    "attempts",
    "prompt tokens per valid call",
    "tokens not drawn, %",
    "favourite masked, % of draws",
    "probability masked, %",
    "spelled as the tokenizer does, % of valid",
    "closed by the budget, %",
    "valid, objects closed / open, %",
    "grammar, first time, ms, p50 / p99",
)
_SHARES = ("json", "valid", "tool", "right")


def _pairing_row(pairing: Pairing) -> list[str]:
    return [
        str(pairing.num_asked),
        _tenths(pairing.right_of_rival),
        _tenths(pairing.right),
        f"{100 * pairing.low:+.1f} to {100 * pairing.high:+.1f}",
        _times(pairing.computed),
        _times(pairing.seconds),
    ]


def _change_row(comparison: Comparison) -> list[str]:
    shares = (comparison.same_tool, comparison.same_call, comparison.right_unmasked, comparison.right_masked)
    return [
        str(comparison.num_valid),
        *(_points(part) if comparison.num_valid else "-" for part in shares),
        f"{comparison.num_reordered}, {comparison.num_reordered_changed}",
        str(comparison.num_invalid),
        *(
            _points(part) if comparison.num_invalid else "-"
            for part in (comparison.rescued_tool, comparison.rescued_right)
        ),
    ]


def _fault_counts(rows: Sequence[StrategySummary], kind: str) -> str:
    counts = [row.faults.get(kind, 0) for row in rows]
    return _slashed(counts, "{:.0f}".format) if any(counts) else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, num_texts: int = 1) -> str:
    """A table in Markdown; all columns but the first `num_texts` are aligned to the right."""
    first, *others = (f"| {' | '.join(cells)} |" for cells in (head, *rows))
    return "\n".join([first, "|" + "---|" * num_texts + "--:|" * (len(head) - num_texts), *others])


def _slashed(values: Iterable[Any], format_value: Callable[[Any], str]) -> str:
    return " / ".join(map(format_value, values))


def _ends(bounds: tuple[float, float]) -> str:
    return " to ".join(map(_points, bounds))


def _points(part: float) -> str:
    """A share in per cent; only 1 is shown as 100, and only 0 as 0."""
    percent = 100 * part
    if 0 < part < 1:
        percent = min(max(round(percent), 1), 99)
    return f"{percent:.0f}"


def _tenths(part: float) -> str:
    return f"{100 * part:.1f}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if math.isfinite(ratio) else "-"


def _count(number: float) -> str:
    return f"{number:.0f}" if math.isfinite(number) else "-"


def _seconds(number: float) -> str:
    return f"{number:.2f}" if math.isfinite(number) else "never"
