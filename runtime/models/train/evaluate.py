"""`python -m runtime.models.train.evaluate DIR`: what a trained model gets right, masked and unmasked."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs

from compiler.syntaxes import syntax as syntax_named
from runtime.calls import parse_calls
from runtime.loading import load_model
from runtime.models.train.answering import Answer, Answerer, Strategy
from runtime.models.train.questions import Question, bfcl, held_out

STRATEGIES = tuple(Strategy(masked, temperature) for masked in (False, True) for temperature in (0.0, 1.0))
BFCL = ("simple_python", "multiple", "live_simple", "live_multiple")


@dataclass(frozen=True, slots=True)
class Score:
    """Shares of `num_questions`; `num_left_out` did not fit, or have a tool that cannot be masked.

    `valid`: the answer is one call or more and nothing else, each of a tool that is there, with arguments
    that validate against its schema, objects closed. `tool`: the first call is of the right tool. `right`:
    the only call is the right one, in all its arguments.
    """

    strategy: str
    num_questions: int
    num_left_out: int
    valid: float
    tool: float
    right: float
    tokens: float


def score(
    strategy: str, questions: Sequence[Question], answers: Iterable[Answer | None], syntax: str
) -> Score:
    """Count what is valid and right."""
    counts: Counter[str] = Counter()
    for question, answer in zip(questions, answers, strict=True):
        if answer is None:
            counts["left out"] += 1
            continue
        prose, calls = parse_calls(answer.text, syntax_named(syntax))
        read = [(name, _json_of(arguments)) for name, arguments in calls]
        is_valid = answer.is_whole and not prose and bool(calls) and _are_valid(question, read)
        counts["valid"] += is_valid
        counts["tool"] += bool(calls) and calls[0][0] == question.name
        counts["right"] += is_valid and len(read) == 1 and question.is_right(*read[0])
        counts["tokens"] += answer.num_tokens
    total = max(1, len(questions) - counts["left out"])
    shares = {name: round(counts[name] / total, 4) for name in ("valid", "tool", "right", "tokens")}
    return Score(strategy, len(questions), counts["left out"], **shares)


def closed(schema: Any) -> Any:
    """The schema without undeclared keys, as calls are masked."""
    match schema:
        case {"properties": dict() as properties, **rest}:
            inner = {key: closed(value) for key, value in properties.items()}
            return {"additionalProperties": False, **rest, "properties": inner}
        case {"items": items, **rest}:
            return {**rest, "items": closed(items)}
        case _:
            return schema


_UNREADABLE = object()


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return _UNREADABLE


def _are_valid(question: Question, calls: Sequence[tuple[str, Any]]) -> bool:
    schemas = {tool.name: tool.parameters for tool in question.tools}
    return all(
        name in schemas and arguments is not _UNREADABLE and _is_valid(schemas[name], arguments)
        for name, arguments in calls
    )


def _is_valid(schema: Any, arguments: Any) -> bool:
    validator = jsonschema_rs.validator_for(closed(dict(schema)), validate_formats=True, offline=True)
    return validator.is_valid(arguments)


def main() -> None:
    """Print a table, and write it as JSON lines beside the model."""
    options = _parser().parse_args()
    folder = options.folder / "model" if (options.folder / "model").is_dir() else options.folder
    loaded = load_model(folder, device=options.device)
    answerer = Answerer(loaded)
    sets = {"unseen domains, 4 tools": list(held_out(options.count))}
    if options.bfcl:
        for category in BFCL:
            sets[f"bfcl {category}"] = list(bfcl(options.bfcl / f"{category}.jsonl.gz"))[: options.count]
    rows = []
    _print("| questions | strategy | n | left out | valid | right tool | all right | tokens |")
    _print("|---|---|--:|--:|--:|--:|--:|--:|")
    for name, questions in sets.items():
        for strategy in STRATEGIES:
            answers = answerer.answer(questions, strategy)
            found = score(strategy.name, questions, answers, loaded.syntax)
            rows.append({"questions": name, **asdict(found)})
            shares = " | ".join(f"{100 * share:.1f}%" for share in (found.valid, found.tool, found.right))
            numbers = f"{found.num_questions} | {found.num_left_out}"
            _print(f"| {name} | {found.strategy} | {numbers} | {shares} | {found.tokens:.1f} |")
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (options.folder / "evaluation.jsonl").write_text(lines, "utf-8")


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m runtime.models.train.evaluate", description=__doc__)
    parser.add_argument("folder", type=Path, help="of a training run, or of a model")
    parser.add_argument("--count", type=int, default=500, help="questions of each set, at most")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--bfcl", type=Path, help="the folder of BFCL's questions")
    return parser


if __name__ == "__main__":
    main()
