"""Conversations as token ids, with a mark on the tokens that the model writes."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.text.conversation_fields import conversation_fields
from tiny_model.conversations import Conversation

_ANSWER = re.compile(r"(?<=<\|im_start\|>assistant\n).*?<\|im_end\|>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    """`ids` [num_tokens]; `is_answer` [num_tokens] marks the tokens of the loss."""

    ids: NDArray[np.int32]
    is_answer: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ids)


def example_of(tokenizer: Any, conversation: Conversation) -> Example:
    """The conversation as the runtime renders it; each answer is tokenized separately from its prompt."""
    turns, functions = conversation_fields(tokenizer, conversation.messages, conversation.tools)
    text: str = tokenizer.apply_chat_template(turns, tools=functions or None, tokenize=False)
    pieces: list[tuple[str, bool]] = []
    end = 0
    for answer in _ANSWER.finditer(text):
        pieces += [(text[end : answer.start()], False), (answer[0], True)]
        end = answer.end()
    encode = tokenizer.backend_tokenizer.encode  # one by one: a batch would start threads in every worker
    encoded: list[list[int]] = [encode(piece, add_special_tokens=False).ids for piece, _ in pieces]
    lengths = [len(ids) for ids in encoded]
    ids = np.fromiter((i for piece in encoded for i in piece), np.int32, sum(lengths))
    return Example(ids, np.repeat([is_answer for _, is_answer in pieces], lengths))
