"""`PYTHONPATH=.:tests python -m tiny_model.evaluate MODEL`: what a model gets right, masked and unmasked."""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from runtime.loading import load_model
from runtime.models import find_source
from runtime.study.answering import AskedQuestion, Asker, StudyAnswer
from runtime.study.output_grammars import NoGrammar
from runtime.study.questions import Question, bfcl, everyday, held_out
from runtime.study.strategies import CALLGATE, PROMPT, Strategy
from runtime.study.studied_model import StudiedModel

STRATEGIES = tuple(
    (name, strategy, temperature)
    for name, strategy in (("unmasked", PROMPT), ("masked", CALLGATE))
    for temperature in (0.0, 1.0)
)
MAX_TOKENS = 384
_NUM_AT_ONCE = 64
BFCL = ("simple_python", "multiple", "live_simple", "live_multiple")


@dataclass(frozen=True, slots=True)
class Score:
    """Shares of `num_questions`; `num_left_out` have too long a prompt, or tools without a grammar.

    `valid`: the answer has one call or more and nothing else; each call names one of the tools, and its
    arguments are valid, with objects closed. `tool`: the first call names the right tool. `right`: the only
    call is the right one, with all its arguments.
    """

    strategy: str
    num_questions: int
    num_left_out: int
    valid: float
    tool: float
    right: float
    tokens: float


def score(strategy: str, answers: Sequence[StudyAnswer | None]) -> Score:
    """Count what is valid and right."""
    given = [answer for answer in answers if answer is not None]
    verdicts = [answer.verdict for answer in given]
    total = max(1, len(given))
    return Score(
        strategy,
        len(answers),
        len(answers) - len(given),
        valid=round(sum(verdict.is_valid for verdict in verdicts) / total, 4),
        tool=round(sum(verdict.is_tool for verdict in verdicts) / total, 4),
        right=round(sum(verdict.is_right for verdict in verdicts) / total, 4),
        tokens=round(sum(answer.num_tokens for answer in given) / total, 4),
    )


def answers_to(
    questions: Iterable[Question], strategy: Strategy, temperature: float, subject: StudiedModel, asker: Asker
) -> list[StudyAnswer | None]:
    """The answers in order; None for a question whose tools have no grammar or whose prompt is too long."""
    asked = [
        _asked(number, question, strategy, temperature, subject) for number, question in enumerate(questions)
    ]
    answers = asker.answer(filter(None, asked))
    return [next(answers) if question else None for question in asked]


def _asked(
    number: int, question: Question, strategy: Strategy, temperature: float, subject: StudiedModel
) -> AskedQuestion | None:
    prompt = tuple(subject.prompt(question))
    if len(prompt) + MAX_TOKENS > subject.loaded.context_length:
        return None
    try:
        grammar = strategy.grammar(subject, question)
    except NoGrammar:
        return None
    return AskedQuestion(subject, strategy, question, grammar, prompt, number, temperature, MAX_TOKENS)


def main() -> None:
    """Print a table, and write it as JSON lines."""
    options = _parser().parse_args()
    source = find_source(_model_of_run(options.model), Path(tempfile.gettempdir()), options.adapter)
    subject = StudiedModel(load_model(source.model, device=options.device, adapter=source.adapter))
    asker = Asker(subject, num_at_once=_NUM_AT_ONCE)
    sets = {
        "everyday": list(everyday())[: options.count],
        "unseen domains, 4 tools": list(held_out(options.count)),
    }
    if options.bfcl:
        for category in BFCL:
            sets[f"bfcl {category}"] = list(bfcl(options.bfcl / f"{category}.jsonl.gz"))[: options.count]
    rows = []
    _print("| questions | strategy | n | left out | valid | right tool | all right | tokens |")
    _print("|---|---|--:|--:|--:|--:|--:|--:|")
    for name, questions in sets.items():
        for mode, strategy, temperature in STRATEGIES:
            if (options.greedy and temperature) or (options.masked and mode != "masked"):
                continue
            answers = answers_to(questions, strategy, temperature, subject, asker)
            found = score(f"{mode}, T={temperature:g}", answers)
            rows.append({"questions": name, **asdict(found)})
            shares = " | ".join(f"{100 * share:.1f}%" for share in (found.valid, found.tool, found.right))
            numbers = f"{found.num_questions} | {found.num_left_out}"
            _print(f"| {name} | {found.strategy} | {numbers} | {shares} | {found.tokens:.1f} |")
    if options.out:
        options.out.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def _model_of_run(model: str) -> str:
    """The folder of a training run holds the model below it."""
    return str(path) if (path := Path(model, "model")).is_dir() else model


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tiny_model.evaluate", description=__doc__)
    parser.add_argument("model", help="the folder of a training run, a model's folder or file, or a name")
    parser.add_argument("--count", type=int, default=500, help="questions of each set, at most")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--adapter", help="a LoRA adapter to merge into the model")
    parser.add_argument("--greedy", action="store_true", help="leave temperature 1 out")
    parser.add_argument("--masked", action="store_true", help="leave unmasked answers out")
    parser.add_argument("--out", type=Path, help="a file for the table as JSON lines")
    parser.add_argument("--bfcl", type=Path, help="the folder of BFCL's questions")
    return parser


if __name__ == "__main__":
    main()
