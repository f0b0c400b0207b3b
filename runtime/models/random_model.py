"""The random model: small and deterministic, with random weights, and built without a download.

It is the hardest case for a mask, since it never chooses a valid token by itself. Its output layer has a bias
towards tokens that end strings, lists and calls, so that its outputs come to an end.
"""

import hashlib
import json
import random
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PhiConfig, PhiForCausalLM, PreTrainedTokenizerFast

from runtime.models.chatml import CHATML

PAD, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CALL_START, CALL_END = "<tool_call>", "</tool_call>"
TOOL_TOKENS = (
    CALL_START,
    CALL_END,
    "<tool_response>",
    "</tool_response>",
    "<tools>",
    "</tools>",
    "<think>",
    "</think>",
)

TEMPLATE = CHATML.replace("tool | tojson", "tool.function.name")
"""Tools by name only: who cannot read needs no definitions, and thousands of tokens are saved."""

_WORDS: list[str] = re.findall(
    r"\w+",
    """
    account add address all amount and are at attach author body branch by calendar call card
    change city close code color comment commit content count country create currency customer date
    day delete description do email end event false file filter find folder for from get has id in
    invoice is issue item key label language line link list location make meeting message milestone
    minute month name new note null number of on open or order owner page path pay payment phone
    please price priority project query read refund remove reply repository result room row
    schedule search send set show size sort start state status street string subject tag task text
    that the this time title to today token tool total true type unit update url user value version
    view want week weather what when where which with word write year you zone
    """,
)
_QUOTES = ('"', '",', '"}', '"]')
_BRACKETS = ("]", "}", "],", "},", "]}", "}}")
_COMMAS = (",",)


@dataclass(frozen=True, slots=True)
class RandomModelSettings:
    """Shape, seed and biases. A bias of 6 makes a token some 400 times as probable as one without."""

    seed: int = 0
    vocabulary_size: int = 3072
    hidden_size: int = 128
    num_layers: int = 3
    num_heads: int = 4
    context_length: int = 32768
    quote_bias: float = 7.5
    bracket_bias: float = 5.5
    comma_bias: float = 4.5
    call_bias: float = 8.0
    stop_bias: float = 8.0
    line_bias: float = 6.0

    @property
    def digest(self) -> str:
        """Names the model of these settings."""
        content = json.dumps([_FORMAT, TEMPLATE, _WORDS, asdict(self)], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


_FORMAT = 3  # raise it when the same settings no longer make the same files


def ensure_random_model(folder: Path, settings: RandomModelSettings | None = None) -> Path:
    """The directory of the model, built in `folder` if it is missing; several processes may do so at once."""
    settings = settings or RandomModelSettings()
    target = Path(folder) / f"random-{settings.digest}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=target.parent))
    try:
        build_random_model(building, settings)
        building.chmod(0o755)
        _move(building, target)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return target


def build_random_model(folder: Path, settings: RandomModelSettings) -> None:
    """Write model and tokenizer in transformers' format."""
    tokenizer = build_tokenizer(settings)
    tokenizer.save_pretrained(folder)
    build_weights(tokenizer, settings).save_pretrained(folder)


def build_tokenizer(settings: RandomModelSettings) -> Any:
    """A byte-level BPE with hermes markers, trained on generated text."""
    return train_tokenizer(
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        _lines(random.Random(settings.seed)),  # noqa: S311 no secret
        settings.vocabulary_size,
        chat_template=TEMPLATE,
        context_length=settings.context_length,
    )


def train_tokenizer(
    pieces: Any, texts: Iterator[str], size: int, *, chat_template: str, context_length: int
) -> Any:
    """A byte-level BPE of `size` entries, hermes markers included; `pieces` splits a text before merging."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pieces
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - 3 - len(TOOL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([PAD, TURN_START, TURN_END])
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in TOOL_TOKENS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=TURN_END,
        chat_template=chat_template,
        model_max_length=context_length,
        clean_up_tokenization_spaces=False,
    )


def build_weights(tokenizer: Any, settings: RandomModelSettings) -> Any:
    """Phi's modules, because their output layer has a bias."""
    width = (len(tokenizer) // 64 + 1) * 64  # wider than the tokenizer, as real models are
    config = PhiConfig(
        vocab_size=width,
        hidden_size=settings.hidden_size,
        intermediate_size=2 * settings.hidden_size,
        num_hidden_layers=settings.num_layers,
        num_attention_heads=settings.num_heads,
        max_position_embeddings=settings.context_length,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )
    model = PhiForCausalLM(config)
    noise = torch.Generator().manual_seed(settings.seed)
    with torch.no_grad():
        for weights in (p for p in model.parameters() if p.dim() > 1):
            weights.copy_(torch.randn(weights.shape, generator=noise) * weights.shape[1] ** -0.5)
        model.lm_head.bias.zero_()
        for token_id, bias in _biases(tokenizer, settings).items():
            model.lm_head.bias[token_id] = bias
            model.lm_head.weight[token_id] = 0  # the bias alone decides, whatever the weights drew
    return model


def _biases(tokenizer: Any, settings: RandomModelSettings) -> dict[int, float]:
    """What ends a string, an item, a number, a call or the output, by token id."""
    added = {CALL_START: settings.call_bias, CALL_END: settings.stop_bias, TURN_END: settings.stop_bias}
    biases = {tokenizer.convert_tokens_to_ids(text): bias for text, bias in added.items()}
    (line_end,) = tokenizer.encode("\n")  # what leads from one call to the next
    biases[line_end] = settings.line_bias
    groups = (
        (_QUOTES, settings.quote_bias),
        (_BRACKETS, settings.bracket_bias),
        (_COMMAS, settings.comma_bias),
    )
    for texts, bias in groups:
        ids = (tokenizer.get_vocab().get(text) for text in texts)
        biases |= {token_id: bias for token_id in ids if token_id is not None}
    return biases


def _lines(source: random.Random) -> Iterator[str]:
    """Sentences and JSON, enough for a few thousand merges."""
    for _ in range(6000):
        yield " ".join(_word(source) for _ in range(source.randint(3, 12))).capitalize() + source.choice(
            ".?!"
        )
        yield json.dumps(_value(source, 3), separators=source.choice([(",", ":"), (", ", ": ")]))


def _value(source: random.Random, depth: int) -> Any:
    kind = source.randrange(6) if depth else source.randrange(4)
    if kind == 4:
        return [_value(source, depth - 1) for _ in range(source.randrange(4))]
    if kind == 5:
        return {_key(source): _value(source, depth - 1) for _ in range(source.randrange(1, 5))}
    plain: tuple[Any, ...] = (
        " ".join(_word(source) for _ in range(source.randint(1, 4))),
        source.randrange(10 ** source.randint(1, 6)),
        round(source.uniform(-1000, 1000), 2),
        source.choice([True, False, None, "2026-03-01", "https://example.com/a", "user@example.com"]),
    )
    return plain[kind]


def _word(source: random.Random) -> str:
    """Mostly from the list, otherwise made of syllables."""
    if source.random() < 0.6:
        return source.choice(_WORDS)
    return "".join(
        source.choice("bcdfghklmnprstvwz") + source.choice("aeiou") for _ in range(source.randint(2, 4))
    )


def _key(source: random.Random) -> str:
    return "_".join(source.choice(_WORDS) for _ in range(source.randint(1, 2)))


def _move(built: Path, target: Path) -> None:
    """Rename the finished directory, unless another process was faster."""
    try:
        built.rename(target)
    except OSError:
        if not target.is_dir():
            raise
