"""The vocabulary of a model: what its tokenizer, its configuration and its generation settings say together.

A gateway reads it from the files of a model, and the plugin inside an engine from the loaded model. Both must
find the same vocabulary, or the grammars of one would not be those of the other.
"""

from collections.abc import Iterator
from typing import Any

from compiler.vocabulary import Vocabulary


def model_vocabulary(tokenizer: Any, config: Any, generation_config: Any = None) -> Vocabulary:
    """The vocabulary for logits of the width that the configuration says; all are objects of transformers.

    Every end-of-sequence token of the configurations is a stop token.

    Raises:
        ValueError: neither they nor the tokenizer name a stop token.
    """
    stop_ids = list(dict.fromkeys(_stop_ids(generation_config, config)))
    return Vocabulary.from_tokenizer(tokenizer, width=config.get_text_config().vocab_size, stop_ids=stop_ids)


def _stop_ids(*owners: Any) -> Iterator[int]:
    for owner in owners:
        ids = getattr(owner, "eos_token_id", None)
        if isinstance(ids, int):
            yield ids
        else:
            yield from ids or ()
