"""Sequences, and engines that write them to their end."""

from runtime.request import Sampling
from runtime.scheduling.sequence import Sequence, SequenceStatus

PROMPTS = ["a", "the quick brown fox", "the quick brown dog jumps", "zzz" * 12]
ENDLESS = Sampling(temperature=0, logit_bias={256: -1000.0})
"""With it, a model over bytes writes until its budget ends."""


def make_sequence(prompt="hello", max_tokens=20, *, sequence_id="s", temperature=0.0, **options):
    options = {"sampling": Sampling(temperature=temperature), "seed": 0} | options
    prompt_ids = list(prompt.encode()) if isinstance(prompt, str) else prompt
    return Sequence(sequence_id, prompt_ids, max_tokens, **options)


def finish(engine, *sequences):
    """The outputs of an engine that is run until nothing is left to do; its integrity holds after every step."""
    for sequence in sequences:
        engine.add(sequence)
    outputs = []
    for _ in range(20_000):
        if not engine.has_work:
            break
        outputs += engine.step()
        engine.check_integrity()
    assert not engine.has_work
    assert all(sequence.status is SequenceStatus.FINISHED for sequence in sequences)
    assert engine.pool.num_free == engine.pool.num_usable
    return outputs


def written(engine, sequences):
    """The token ids that an engine writes for each sequence, all of them there at once."""
    finish(engine, *sequences)
    return [sequence.output_ids for sequence in sequences]
