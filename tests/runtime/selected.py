"""Outputs of the toy model that are selected from several."""

import math
from collections import Counter

import toy_model
from sequences import finish

from runtime.decoding.population import population_of
from runtime.decoding.sampling import draw_seed
from runtime.errors import GenerationFailed
from runtime.request import Sampling
from runtime.scheduling.sequence import Sequence
from runtime.scheduling.weights import Weight

NUM_DRAWS = 320
CLOSER = toy_model.GRAMMAR.closer()


def selected_sequence(
    selection, seed, *, max_tokens=40, prompt=b"prompt", deadline=None, grammar=toy_model.GRAMMAR, **sampling
):
    """A sequence of the toy grammar, or another one, whose output is selected."""
    closer_of_all = CLOSER if grammar is toy_model.GRAMMAR else grammar.closer()

    def member(number, max_tokens):
        return Sequence(
            f"s{seed}",
            list(prompt),
            max_tokens,
            Sampling(**{"temperature": 1.0} | sampling),
            seed=draw_seed(seed, number),
            matcher=grammar.matcher(),
            closer=closer_of_all.fork(),
            weight=Weight(len(prompt)),
            **({} if deadline is None else {"deadline": deadline}),
        )

    first = member(0, max_tokens)
    first.population = population_of(first, selection, member)
    return first


def run(engine, sequences):
    """The outputs of sequences that are all there at once, by their first sequence, in order."""
    outputs = {}
    for output in finish(engine, *sequences):
        assert output.is_last
        assert output.error is None
        assert output.sequence.first not in outputs
        assert [token.sampled.token_id for token in output.tokens] == output.sequence.output_ids
        outputs[output.sequence.first] = output
    return {sequence: outputs[sequence] for sequence in sequences}


def poison(engine, where):
    """Let the model of an engine compute NaN for the sequences of which `where` is true."""
    compute = engine.runner.run

    def poisoned(batch):
        logits = compute(batch)
        for row, entry in zip(logits, batch.rows, strict=True):
            if where(entry.sequence):
                row.fill_(math.nan)
        return logits

    engine.runner.run = poisoned


def assert_fails(engine, sequence, where):
    """Assert that a choice ends with one error, and frees all pages, if the model fails for some sequences."""
    poison(engine, where)
    assert [type(output.error) for output in finish(engine, sequence)] == [GenerationFailed]


def text_of(output):
    text = toy_model.text_of(output.sequence.output_ids)
    assert text in toy_model.TEXTS
    return text


HESITANT = 6
"""A seed whose first sequence is given up."""
WHOLE_BUT_GIVEN_UP = 13
"""A seed whose first sequence is given up with its last token."""


def selected(selection, num_draws=NUM_DRAWS, **sampling):
    """What was selected, again and again."""
    engine = toy_model.toy_engine(max_batch=64)
    sequences = [selected_sequence(selection, seed, **sampling) for seed in range(num_draws)]
    num_together = 64 // selection.size if selection.strategy == "particles" else 64
    outputs = []
    for start in range(0, num_draws, num_together):
        outputs += run(engine, sequences[start : start + num_together]).values()
    return outputs


def distribution(outputs):
    """How often each text was written."""
    counts = Counter(map(text_of, outputs))
    return {text: counts[text] / len(outputs) for text in toy_model.TEXTS}
